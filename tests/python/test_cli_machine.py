"""`oxyfuel doctor`, `oxyfuel cache` and `oxyfuel bench`."""

import json
import os
import time

import pytest
from typer.testing import CliRunner

from oxyfuel.cli import bench, bench_compile, doctor
from oxyfuel.cli.app import app


def invoke(*words):
    return CliRunner().invoke(app, list(words), prog_name="oxyfuel")


def rows_of(*words):
    result = invoke("bench", "--json", "--seconds", "0.01", "--threads", "1", *words)
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]


# doctor ---------------------------------------------------------------------------------------------------------------


def test_doctor_measures_and_tries_the_compiler():
    result = invoke("doctor", "--json")
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout.splitlines()[-1])
    assert facts["self_test"] == "right"
    assert facts["affinity_cpus"] == len(os.sched_getaffinity(0))
    assert facts["peaks"]["one_thread"]["gflops"] > 1
    assert facts["peaks"]["one_thread"]["gbytes"]["memory"] > 0.1
    assert facts["l1_data_bytes"] >= 8 << 10
    names = [name for name, _ in doctor.describe(facts)]
    assert names[:4] == ["oxyfuel", "processor", "caches", "threads"]


def test_doctor_tells_when_compiled_code_is_wrong(monkeypatch):
    monkeypatch.setattr(doctor, "self_test", lambda: "AssertionError: differs")
    monkeypatch.setattr(doctor, "peaks", lambda threads: {"peaks": IDEAL["peaks"]})
    assert invoke("doctor", "--json").exit_code == 1


PEAK = {"gflops": 100.0, "gbytes": {"memory": 10.0}}
IDEAL = {
    "thread_limit": 4,
    "torch_threads": 4,
    "cpu_quota": 0.0,
    "affinity_cpus": 4,
    "load": 0.1,
    "vector_bits": 512,
    "huge_pages": "madvise",
    "governor": "performance",
    "cache_is_on": True,
    "features": "avx2+fma",
    "peaks": {"one_thread": {"threads": 1, **PEAK}, "all_threads": {"threads": 4, **PEAK, "gflops": 390.0}},
}


def test_nothing_to_advise():
    assert doctor.advice(IDEAL) == []


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"torch_threads": 2}, "torch.set_num_threads(4)"),
        ({"torch_threads": 8}, "get in each other's way"),
        ({"cpu_quota": 1.5, "thread_limit": 1, "torch_threads": 1}, "may use 1.5 of 4 CPUs"),
        (
            {"peaks": {**IDEAL["peaks"], "all_threads": {"threads": 4, **PEAK, "gflops": 200.0}}},
            "2.0 x the peak of one",
        ),
        ({"vector_bits": 128}, "no AVX2"),
        ({"huge_pages": "never"}, "transparent_hugepage"),
        ({"governor": "powersave"}, "cpupower"),
        ({"cache_is_on": False}, "OXYFUEL_CACHE"),
        ({"features": "avx2+avx512bf16"}, "torch.bfloat16"),
    ],
)
def test_advice_names_the_remedy(change, told):
    (found,) = doctor.advice({**IDEAL, **change})
    assert told in found


# cache ----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("OXYFUEL_CACHE_DIR", str(tmp_path))
    for number in range(4):
        path = tmp_path / f"{number}.kernel"
        path.write_bytes(bytes(1000))
        os.utime(path, (path.stat().st_atime, path.stat().st_mtime - 86400 * (3 - number)))
    return tmp_path


def test_cache_size(folder):
    data = json.loads(invoke("cache", "--json").stdout)
    assert (data["folder"], data["files"], data["bytes"], data["is_on"]) == (str(folder), 4, 4000, True)
    assert data["max_bytes"] > 0
    assert "4 kernels, 0.0 MB, at most" in invoke("cache").stdout.replace("\n", " ")


def test_cache_prune_by_size_and_age(folder):
    assert json.loads(invoke("cache", "prune", "--max-size", "3k", "--json").stdout)["removed_files"] == 1
    assert not (folder / "0.kernel").exists()  # the oldest
    assert json.loads(invoke("cache", "prune", "--max-age", "1.5d", "--json").stdout)["removed_files"] == 1
    assert sorted(path.name for path in folder.iterdir()) == ["2.kernel", "3.kernel"]


def test_cache_clear(folder):
    assert "removed 4 kernels" in invoke("cache", "clear").stdout
    assert list(folder.iterdir()) == []


# The exception reaches the shell as exit code 2 through `main`.
@pytest.mark.parametrize("words", [["prune"], ["prune", "--max-size", "3x"], ["prune", "--max-age", "soon"]])
def test_cache_usage_errors(folder, words):
    result = invoke("cache", *words)
    assert result.exception.code.value == 2
    assert len(list(folder.iterdir())) == 4


# bench ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["tails", "resnet, batch 1: 1x1 at 7"])
def test_bench_gemm(name):
    (row,) = rows_of("--gemm", "--only", name)
    assert row["name"] == name
    assert row["error"] < 1e-3
    assert all(row[key] > 0 for key in ("oxyfuel", "library", "packed", "peak", "share"))
    assert row["ratio"] == pytest.approx(row["oxyfuel"] / max(row["library"], row["packed"]))


def test_bench_gemm_covers_what_models_have():
    from oxyfuel.cli.bench_gemm import CASES, Convolution, Product

    products = [case for case in CASES if isinstance(case, Product)]
    assert {1, 2, 4, 8, 16, 32, 64} <= {case.rows for case in products}
    assert any(case.rows % 2 and case.columns % 2 for case in products)
    assert {case.batch for case in CASES if isinstance(case, Convolution)} == {1, 8}
    assert len({case.name for case in CASES}) == len(CASES)


def test_flops_and_sizes_of_a_strided_convolution():
    from oxyfuel.cli.bench_gemm import Convolution

    case = Convolution("first", 1, 3, 224, 64, 7, 2)
    layer, x = case.make()
    result = layer(x)
    assert result.shape == (1, 64, case.result_size, case.result_size)
    assert case.flops == 2 * result.numel() * 3 * 49


def test_bench_overhead():
    (row,) = rows_of("--overhead", "--only", "1 inputs, 1 outputs")
    assert row["allowed_us"] == pytest.approx(5.45)
    assert row["whole_us"] > row["pytorch_us"] > 0
    assert row["ours_us"] == pytest.approx(row["whole_us"] - row["pytorch_us"])


@pytest.mark.slow
def test_bench_roofline():
    (row,) = rows_of("--roofline", "--only", "softmax")
    assert row["bound"] in ("copy", "maths")
    assert 0 < row["share"] < 2
    assert row["megabytes"] > 0


def test_bench_of_nothing():
    result = invoke("bench", "--gemm", "--only", "nonsense")
    assert result.exception.code.value == 2


def test_check_fails_when_a_goal_is_missed(monkeypatch):
    part = bench.Part("T", (("a", "a", "{}"),), 1, "none", lambda settings, tell: iter([{"a": "x", "met": False}]))
    monkeypatch.setattr("oxyfuel.cli.bench_overhead.PART", part)
    assert invoke("bench", "--overhead").exit_code == 0
    assert invoke("bench", "--overhead", "--check").exit_code == 1


@pytest.mark.slow
def test_deep_models_compile_in_linear_time():
    """Our own stages, in processor time, which other processes do not take: a layer of 400 costs what one of 100 does."""

    def layer_seconds(depth):
        return bench_compile.compile_once(*bench_compile.mlp(depth), clock=time.process_time)["ours"] / depth

    layer_seconds(2)
    assert layer_seconds(400) < 1.5 * layer_seconds(100)


def test_stages_add_up():
    stages = bench_compile.compile_once(*bench_compile.mlp(5))
    parts = ("dynamo", "aot", "import", "graph_passes", "lowering", "code_generation", "program")
    assert sum(stages[part] for part in parts) == pytest.approx(stages["total"])
    assert all(stages[part] >= 0 for part in parts)
    assert stages["code_generation"] > 0

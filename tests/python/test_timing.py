"""Times of single steps: `oxyfuel.timing`, ranges in torch.profiler, and `oxyfuel profile`."""

import inspect
import json
import os
import subprocess
import sys
import textwrap

import pytest
import torch
import torch.nn.functional as F

from oxyfuel import _C, roofline, timing


def function(x, w):
    y = torch.tanh(x @ w)  # the product's line
    return torch.softmax(torch.linalg.svdvals(y), dim=-1)


PRODUCT_LINE = inspect.getsourcelines(function)[1] + 1
PLACE = f"test_timing.py:{PRODUCT_LINE} in function"


@pytest.fixture
def compiled():
    torch.compiler.reset()
    compiled = torch.compile(function, backend="oxyfuel", fullgraph=True)
    arguments = torch.randn(64, 128), torch.randn(128, 64)
    torch.testing.assert_close(compiled(*arguments), function(*arguments))
    return lambda: compiled(*arguments)


def test_recording_adds_up_runs(compiled):
    with timing.record() as recording:
        for _ in range(3):
            compiled()
    compiled()  # not recorded
    steps = {step.name: step for step in recording.steps() if step.kind in ("kernel", "extern")}
    product = steps["matmul_tanh"]
    assert product.location == PLACE
    assert product.runs == 3
    assert product.flops >= 3 * 2 * 64 * 64 * 128
    assert product.bytes == 3 * 4 * (64 * 128 + 128 * 64 + 64 * 64)
    assert product.working_set == product.bytes / 3
    assert 0 < product.end - product.begin <= product.seconds * 1e9
    svd = next(step for step in steps.values() if step.kind == "extern")
    assert svd.name.startswith("aten._linalg_svd")
    assert svd.location == f"test_timing.py:{PRODUCT_LINE + 1} in function"
    assert svd.begin >= product.end


def test_a_second_recording_starts_at_zero(compiled):
    for runs in (2, 5):
        with timing.record() as recording:
            for _ in range(runs):
                compiled()
        assert {step.runs for step in recording.steps() if step.kind == "kernel"} == {runs}


def test_recordings_do_not_nest():
    with timing.record(), pytest.raises(RuntimeError, match="being recorded already"), timing.record():
        pass


def test_nothing_is_recorded_otherwise(compiled):
    with timing.record() as recording:
        pass
    compiled()
    assert recording.steps() == []


def test_flops_and_runs_of_a_time_loop():
    """A loop's kernels run once a step, and its operations are counted once a step too."""
    torch.compiler.reset()
    lstm = torch.nn.LSTM(16, 32).eval()
    compiled = torch.compile(lstm, backend="oxyfuel")
    x = torch.randn(7, 2, 16)
    with torch.no_grad():
        compiled(x)
        with timing.record() as recording:
            compiled(x)
    kernels = [step for step in recording.steps() if step.kind == "kernel"]
    assert max(step.runs for step in kernels) == 7
    assert {step.runs for step in kernels} <= {1, 7}
    assert sum(step.flops for step in kernels) >= 2 * 7 * 2 * 4 * 32 * (16 + 32)


@pytest.mark.parametrize("shapes", [False, True])
def test_kernels_have_ranges_in_the_chrome_trace(compiled, shapes, tmp_path):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=shapes) as profiler:
        compiled()
        compiled()
    path = tmp_path / "trace.json"
    profiler.export_chrome_trace(str(path))
    events = json.loads(path.read_text())["traceEvents"]
    name = f"oxyfuel::matmul_tanh (test_timing.py:{PRODUCT_LINE})"
    ranges = [event for event in events if event.get("name") == name]
    assert len(ranges) == 2
    assert all(event["dur"] > 0 for event in ranges)
    assert any(event.get("name") == "aten::_linalg_svd" for event in events)
    assert name in {row.key for row in profiler.key_averages()}


def test_no_ranges_without_a_profiler(compiled, monkeypatch):
    made = []

    class Range:
        def __init__(self, name):
            made.append(name)

        def __enter__(self):
            pass

        def __exit__(self, *_):
            pass

    original = torch._C._profiler._RecordFunctionFast
    _C.attach_profiler(torch.autograd.profiler.__dict__, Range)
    try:
        torch.compiler.reset()
        fresh = torch.compile(lambda x: torch.exp(x) + 1, backend="oxyfuel")
        fresh(torch.randn(8))
        assert made == []
        monkeypatch.setattr(torch.autograd.profiler, "_is_profiler_enabled", True)
        fresh(torch.randn(8))
        fresh(torch.randn(8))
        assert [name.split(" ")[0] for name in made] == ["oxyfuel::exp_add"]
    finally:
        _C.attach_profiler(torch.autograd.profiler.__dict__, original)


def test_a_range_that_fails_does_not_stop_the_program(monkeypatch, capsys):
    class Range:
        def __init__(self, name):
            raise ValueError("no ranges today")

    original = torch._C._profiler._RecordFunctionFast
    _C.attach_profiler(torch.autograd.profiler.__dict__, Range)
    monkeypatch.setattr(torch.autograd.profiler, "_is_profiler_enabled", True)
    unraisable = []
    monkeypatch.setattr(sys, "unraisablehook", lambda problem: unraisable.append(str(problem.exc_value)))
    try:
        torch.compiler.reset()
        x = torch.randn(8)
        torch.testing.assert_close(torch.compile(F.gelu, backend="oxyfuel")(x), F.gelu(x))
    finally:
        _C.attach_profiler(torch.autograd.profiler.__dict__, original)
    assert unraisable
    assert set(unraisable) == {"no ranges today"}


# The command ----------------------------------------------------------------------------------------------------------

SCRIPT = """
import sys
import torch
import torch.nn.functional as F

def layer(x, w):
    return F.gelu(F.linear(x, w))

compiled = torch.compile(layer, backend="oxyfuel")
for _ in range(4):
    compiled(torch.randn(32, 64), torch.ones(16, 64))
print("arguments:", sys.argv[1:], __name__)
if "--fail" in sys.argv:
    raise ValueError("the user's own")
if "--leave" in sys.argv:
    sys.exit(7)
"""


def run_profile(tmp_path, *words):
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(SCRIPT))
    before = [word for word in words if word in ("--json",) or word.startswith("--trace=")]
    after = [word for word in words if word not in before]
    return subprocess.run(
        [sys.executable, "-m", "oxyfuel.cli", "profile", *before, str(script), *after],
        capture_output=True,
        text=True,
        env=os.environ,
        check=False,
    )


def test_profile_as_data(tmp_path):
    trace = tmp_path / "trace.json"
    result = run_profile(tmp_path, "--json", f"--trace={trace}", "--top", "x")
    assert result.returncode == 0, result.stderr
    printed, line = result.stdout.splitlines()
    assert printed == "arguments: ['--top', 'x'] __main__"
    data = json.loads(line)
    assert data["failed"] is False
    kernel = next(row for row in data["kernels"] if row["name"] == "matmul_gelu")
    assert kernel["runs"] == 4
    assert kernel["location"] == "script.py:7 in layer"
    assert 0 < kernel["roofline"] < 1.5  # a bound, give or take the clock
    assert kernel["bound"] in ("compute", "L2", "L3", "memory")
    assert abs(sum(row["share"] for row in data["kernels"]) - 1) < 1e-6
    names = {event.get("name") for event in json.loads(trace.read_text())["traceEvents"]}
    assert "oxyfuel::matmul_gelu (script.py:7)" in names


def test_profile_as_a_table(tmp_path):
    result = run_profile(tmp_path)
    assert result.returncode == 0, result.stderr
    row = next(line for line in result.stdout.splitlines() if line.startswith("matmul_gelu"))
    assert "script.py:7 in layer" in row
    assert "%" in row


@pytest.mark.parametrize(("word", "told"), [("--fail", "ValueError: the user's own"), ("--leave", "")])
def test_a_failing_script_has_its_own_exit_code_and_traceback(tmp_path, word, told):
    result = run_profile(tmp_path, word)
    assert result.returncode == 3
    assert told in result.stderr
    assert "runpy" not in result.stderr
    assert "matmul_gelu" in result.stdout  # what ran before is shown all the same


def test_profile_of_no_file():
    result = subprocess.run(
        [sys.executable, "-m", "oxyfuel.cli", "profile", "/nonsense.py"], capture_output=True, text=True, check=False
    )
    assert result.returncode == 2
    assert "/nonsense.py" in result.stderr


# Peaks ----------------------------------------------------------------------------------------------------------------


def test_the_roof_is_measured():
    roof = roofline.measure(1)
    assert roof.flops > 1e9
    assert [name for name, _, _ in roof.bandwidths][-1] == "memory"
    assert all(speed > 1e8 for _, _, speed in roof.bandwidths)


def test_bounds():
    roof = roofline.Roof(1, 100e9, (("L2", 1e6, 50e9), ("memory", float("inf"), 10e9)))
    assert roof.bound(1e9, 1e6) == (0.01, "compute")
    assert roof.bound(1e6, 1e6) == (1e6 / 50e9, "L2")
    assert roof.bound(1e6, 2e6) == (2e6 / 10e9, "memory")
    assert roof.memory_bandwidth == 10e9

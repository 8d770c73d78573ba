"""torch.compile(backend="oxyfuel"): options, modes, reports, fallbacks, caches."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
import warnings

import pytest
import torch
from torch import nn

import oxyfuel
from oxyfuel import backend as backend_module
from oxyfuel.options import MODES, make_settings
from support import check, run_both, same


def pointwise(x: torch.Tensor) -> torch.Tensor:
    return torch.tanh(x) * 2 + 1


@pytest.mark.parametrize("mode", [mode for mode in MODES if mode != "default"])
def test_each_mode_compiles(mode):
    check(pointwise, torch.randn(5, 3), mode=mode)


def test_unknown_options_name_their_neighbours():
    with pytest.raises(ValueError, match=r"unknown option\n  found  'verfy'\n  or     'verify'"):
        make_settings({"verfy": True})
    with pytest.raises(ValueError, match="unknown mode"):
        make_settings(None, "max-autotun")
    with pytest.raises(TypeError, match="'verify' has the wrong type"):
        make_settings({"verify": 1})


def test_unknown_options_reach_the_user():
    with pytest.raises(Exception, match="unknown option"):
        torch.compile(pointwise, backend="oxyfuel", options={"verfy": True})(torch.randn(3))


def test_variables_set_options(monkeypatch):
    monkeypatch.setenv("OXYFUEL_SKIP", "fuse, canonicalise")
    monkeypatch.setenv("OXYFUEL_VERIFY", "1")
    settings = make_settings()
    assert settings.skip == ("fuse", "canonicalise")
    assert settings.verify is True
    assert make_settings({"verify": False}).verify is False


def test_verified_compile():
    check(
        nn.Sequential(nn.Linear(7, 5), nn.GELU(), nn.LayerNorm(5)).eval(), torch.randn(3, 7), options={"verify": True}
    )


def test_the_backend_needs_no_import_of_ours():
    code = "import torch; print(torch.compile(lambda x: x + 1, backend='oxyfuel')(torch.zeros(2)).tolist())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[1.0, 1.0]", done.stderr


def test_inductor_code_generators_are_not_imported():
    """They would take longer than all of ours."""
    code = (
        "import sys, torch; print(torch.compile(lambda x: x + 1, backend='oxyfuel')(torch.zeros(2)).tolist(), "
        "'torch._inductor.lowering' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[1.0, 1.0] False", done.stderr


def test_dynamo_optimize():
    f = torch._dynamo.optimize("oxyfuel")(pointwise)
    x = torch.randn(4)
    same(f(x), pointwise(x))


def test_equal_options_compile_once():
    with oxyfuel.reports.collect() as explanation:
        for options in ({"verify": True}, {"verify": True}):
            torch.compile(pointwise, backend="oxyfuel", options=options)(torch.ones(3))
    assert len(explanation.graphs) == 1


def test_graph_breaks():
    def f(x):
        y = x * 2
        torch._dynamo.graph_break()
        return y.sum() + 1

    found, wanted, explanation = run_both(f, torch.randn(4, 5))
    same(found, wanted)
    assert len(explanation.graphs) == 2


def test_dtypes_recompile():
    f = torch.compile(lambda x: x * 2 + 1, backend="oxyfuel")
    for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.complex64):
        x = torch.arange(5).to(dtype)
        same(f(x), x * 2 + 1)


def test_an_operator_can_be_sent_to_pytorch():
    explanation = check(
        lambda x: torch.tanh(x) + 1, torch.randn(3, 4), native=False, options={"extern": ["aten.tanh.default"]}
    )
    assert [target for target, _, _ in explanation.graphs[0].declined] == ["aten.tanh.default"]


def test_a_group_without_a_lowering_is_one_extern_step(monkeypatch):
    native = backend_module._C.compile

    def decline_exp(graph, settings):
        made = re.search(r"= exp\(.*, (\d+)\)$", str(graph), re.MULTILINE)
        if made is None:
            return native(graph, settings)
        return None, {"reason": "exp has no lowering", "operations": [int(made[1])]}

    monkeypatch.setattr(backend_module._C, "compile", decline_exp)
    explanation = check(lambda x: torch.softmax(torch.tanh(x), 1) + 1, torch.randn(4, 5), native=False)
    graph = explanation.graphs[0]
    assert [(target, reason) for target, reason, _ in graph.declined] == [
        ("aten._softmax.default", "exp has no lowering")
    ]
    assert [kernel["fused"] for kernel in graph.kernels] == [["tanh"], ["add"]]


def test_padding_becomes_that_of_the_convolution():
    class Padded(nn.Module):
        def __init__(self):
            super().__init__()
            self.depthwise = nn.Conv2d(8, 8, 3, stride=2, groups=8)
            self.convolution = nn.Conv2d(8, 16, 3, padding=1)

        def forward(self, x):
            return self.convolution(nn.functional.pad(self.depthwise(nn.functional.pad(x, (0, 1, 0, 1))), (2, 0, 0, 1)))

    explanation = check(Padded().requires_grad_(False), torch.randn(2, 8, 14, 13), atol=1e-5, rtol=1e-4)
    assert all("pad" not in kernel["fused"] for kernel in explanation.graphs[0].kernels)


def test_other_devices_run_in_pytorch():
    found, wanted, explanation = run_both(lambda x: x * 2, torch.empty(3, device="meta"))
    assert found[0].device == wanted[0].device
    assert "not on the CPU" in explanation.graphs[0].fallback


def test_a_bug_of_ours_warns_once_and_runs_in_pytorch(monkeypatch):
    monkeypatch.setenv("OXYFUEL_STRICT", "0")

    def broken(*_, **__):
        raise oxyfuel.InternalError("a register was lost")

    monkeypatch.setattr(backend_module, "compile_native", broken)
    backend_module._warned().clear()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for f in (pointwise, torch.sin):
            x = torch.randn(5)
            same(torch.compile(lambda x, f=f: f(x) + 1, backend="oxyfuel", options={"cache": False})(x), f(x) + 1)
    ours = [str(warning.message) for warning in caught if "oxyfuel" in str(warning.message)]
    assert len(ours) == 1
    assert "a register was lost" in ours[0]
    assert "OXYFUEL_STRICT=1" in ours[0]


def test_a_bug_of_ours_raises_in_strict_mode(monkeypatch):
    def broken(*_, **__):
        raise oxyfuel.InternalError("a register was lost")

    monkeypatch.setattr(backend_module, "compile_native", broken)
    with pytest.raises(Exception, match="a register was lost"):
        torch.compile(pointwise, backend="oxyfuel", options={"cache": False})(torch.randn(3))


def test_errors_of_the_program():
    def f(x, i):
        return x[i] + 1

    compiled = torch.compile(f, backend="oxyfuel")
    assert compiled(torch.arange(4.0), torch.tensor([3])).item() == 4
    with pytest.raises(IndexError):
        compiled(torch.arange(4.0), torch.tensor([4]))
    divide = torch.compile(lambda a, b: a // b, backend="oxyfuel")
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        divide(torch.tensor([3]), torch.tensor([0]))
    assert divide(torch.tensor([7]), torch.tensor([2])).item() == 3


def test_nothing_needs_a_compiler(tmp_path):
    code = """
        import torch
        f = torch.compile(lambda x: (x @ x).relu().sum(0), backend="oxyfuel", options={"cache": False})
        x = torch.randn(9, 9)
        torch.testing.assert_close(f(x), (x @ x).relu().sum(0))
        print("right")
    """
    env = {**os.environ, "CC": "/nowhere", "CXX": "/nowhere", "PATH": "/nowhere"}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        env=env,
        cwd=tmp_path,
        check=False,
    )
    assert done.stdout.strip() == "right", done.stderr


def test_modules_of_the_package_load_when_they_are_named():
    code = "import oxyfuel; print(oxyfuel.cache.__name__, oxyfuel.timing.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "oxyfuel.cache oxyfuel.timing", done.stderr


def test_numbers_that_were_taken_into_a_graph_are_part_of_its_key():
    """AOTAutograd takes the value of `s` into the graph that it keeps."""

    def fill(x, s):
        return x * s, torch.full((2,), s), x.clamp(-s, s)

    for value in (0.5, 0.7, 1.0, 0.7):
        torch.compiler.reset()
        compiled = torch.compile(fill, backend="oxyfuel", dynamic=True)
        same(compiled(torch.full((2,), 3.0), value), fill(torch.full((2,), 3.0), value))
    torch.compiler.reset()
    compiled = torch.compile(fill, backend="oxyfuel")
    for value in (0.5, 0.7, 1.0, 0.7, 2.0):
        same(compiled(torch.full((2,), 3.0), value), fill(torch.full((2,), 3.0), value))


CACHED = """
import torch, oxyfuel
from torch._dynamo.utils import counters
from oxyfuel import backend, reports

compiles = []
native = backend.compile_native
def counted(*a, **k):
    compiles.append(1)
    return native(*a, **k)
backend.compile_native = counted

torch.manual_seed(0)
m = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh(), torch.nn.Linear(8, 4))
x = torch.randn(3, 8)
{options}
c = torch.compile(m, backend="oxyfuel", options=options)
c(x).sum().backward()
with torch.no_grad():
    torch.testing.assert_close(c(x), m(x))
print("compiles", len(compiles))
"""


def test_a_second_process_takes_everything_from_the_cache(tmp_path):
    env = {
        **os.environ,
        "OXYFUEL_VERIFY": "0",
        "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "torch"),
        "OXYFUEL_CACHE_DIR": str(tmp_path / "ours"),
    }

    def run(options: str) -> str:
        code = CACHED.replace("{options}", f"options = {options}")
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    assert run("None") == "compiles 3"  # forward, backward, inference
    assert run("None") == "compiles 0"
    assert run("{'verify': True}") == "compiles 3"  # options are part of the key
    assert (tmp_path / "ours").stat().st_mode & 0o777 == 0o700

"""Kernels under their names, with their lines, in perf and gdb."""

import itertools
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import torch, time

def layer(x, w):
    return torch.tanh(x @ w)

torch.set_num_threads(1)
compiled = torch.compile(layer, backend="oxyfuel", fullgraph=True, options={})
x, w = torch.randn(256, 512), torch.randn(512, 256)
compiled(x, w)
end = time.monotonic() + float({seconds})
while time.monotonic() < end:
    compiled(x, w)
import os; print("process", os.getpid())
"""
NAME = "oxyfuel::matmul_tanh"
PLACE = "model.py:5"


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "model.py"

    def write(seconds, options="{}"):
        path.write_text(SCRIPT.replace("{seconds}", str(seconds)).replace("options={}", f"options={options}"))
        return [sys.executable, str(path)]

    return write


def run(command, **environment):
    return subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **environment}, timeout=300, check=False
    )


@pytest.mark.parametrize("how", ["variable", "option"])
def test_perf_map(script, how):
    command = script(0, '{"perf_map": True}' if how == "option" else "{}")
    result = run(command, **({"OXYFUEL_PERF_MAP": "1"} if how == "variable" else {}))
    assert result.returncode == 0, result.stderr
    path = f"/tmp/perf-{result.stdout.split()[-1]}.map"
    try:
        lines = [line.split(" ", 2) for line in Path(path).read_text().splitlines()]
    finally:
        os.unlink(path)
    names = {name for _, _, name in lines}
    assert f"{NAME} [{PLACE}]" in names
    spans = sorted((int(start, 16), int(start, 16) + int(size, 16)) for start, size, _ in lines)
    assert all(size > 0 for size in (end - start for start, end in spans))
    assert all(this[1] <= following[0] for this, following in itertools.pairwise(spans))


def test_no_perf_map_unless_wanted(script):
    result = run(script(0), OXYFUEL_PERF_MAP="0")
    assert result.returncode == 0, result.stderr
    assert not os.path.exists(f"/tmp/perf-{result.stdout.split()[-1]}.map")


def test_perf_report(script, tmp_path):
    if shutil.which("perf") is None:
        pytest.skip("perf is not installed")
    data = str(tmp_path / "perf.data")
    result = run(["perf", "record", "-q", "-e", "cpu-clock", "-o", data, "--", *script(1.5)], OXYFUEL_PERF_MAP="1")
    if "process" not in result.stdout:
        pytest.skip(f"perf cannot record here: {result.stderr.strip().splitlines()[0]}")
    process = result.stdout.split()[-1]
    try:
        report = run(["perf", "report", "--stdio", "-i", data, "--sort", "symbol"])
    finally:
        os.unlink(f"/tmp/perf-{process}.map")
    line = next(line for line in report.stdout.splitlines() if NAME in line)
    assert PLACE in line
    assert float(line.split("%")[0]) > 0.5  # most of the time is start and compile


def test_gdb_backtrace(script):
    if shutil.which("gdb") is None:
        pytest.skip("gdb is not installed")
    commands = ["set breakpoint pending on", "set debuginfod enabled off", f"break {NAME}", "run"]
    # Deeper than the entry: the frame has been set up by then, and unwinding has to know it.
    commands += ["stepi 60", "backtrace 6", "info symbol $pc"]
    words = [word for command in commands for word in ("-ex", command)]
    result = run(["gdb", "-q", "-nx", "-batch", *words, "--args", *script(0)])
    text = result.stdout
    if "ptrace" in result.stderr and NAME not in text:
        pytest.skip(f"gdb cannot run a program here: {result.stderr.strip().splitlines()[0]}")
    frames = [line for line in text.splitlines() if line.startswith("#")]
    assert frames, text + result.stderr
    assert NAME in frames[0]
    assert f"at {PLACE}" in frames[0]
    # The caller is found: it is the runtime's, in our module.
    assert "??" not in frames[1] or "_C.cpython" in frames[1], "\n".join(frames)
    assert any(NAME in line for line in text.splitlines() if "in section .text" in line)

"""Each file of examples/ runs as a program and says what it is there to say."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from conftest import ROOT

EXAMPLES = {
    "quick_start": ["the same as eager"],
    "explain": ["graph 0 (inference)", "matmul_add_gelu fuses ['matmul', 'add', 'gelu']", "wrote page.html"],
    "verify": ["operators in 2 graphs: all as in eager"],
    "dynamic_batch": ["1 graph for 4 batch sizes"],
    "training": ["step 0: loss", "step 300: loss"],
    "custom_operator": [
        "examples.running_median.default runs in PyTorch: it has no rule",
        "kernels around it: tanh_mul, ",
    ],
}


def test_every_example_is_listed():
    assert {path.stem for path in (ROOT / "examples").glob("*.py")} == set(EXAMPLES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_example(name, tmp_path):
    command = [sys.executable, ROOT / "examples" / f"{name}.py", *(["page.html"] if name == "explain" else [])]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=dict(os.environ), check=False)
    assert done.returncode == 0, done.stderr
    for line in EXAMPLES[name]:
        assert line in done.stdout


def test_commands_take_the_examples(tmp_path):
    def oxyfuel(*arguments: str) -> str:
        command = [sys.executable, "-m", "oxyfuel.cli", *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout

    assert "graph 0 (inference)" in oxyfuel("explain", str(ROOT / "examples/explain.py"))
    oxyfuel("explain", str(ROOT / "examples/explain.py"), "--html", "page.html")
    assert (tmp_path / "page.html").read_text().startswith("<!doctype html>")
    data = json.loads(oxyfuel("explain", str(ROOT / "examples/explain.py"), "--json"), parse_constant=pytest.fail)
    assert data["graphs"][0]["kernels"][-1]["fused"] == ["matmul", "add", "add"]
    assert data["graphs"][0]["kernels"][-1]["roofline_share"] > 0
    assert "all as in eager" in oxyfuel("verify", str(ROOT / "examples/verify.py"))

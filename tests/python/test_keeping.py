"""Compiled models that outlive their process: caches in one file, compiled functions in a file."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

COMMON = """
import pathlib, sys, time
import torch
from torch import nn
import oxyfuel
from oxyfuel import backend

folder = pathlib.Path(sys.argv[1])
compiles = []
native = backend.compile_native

def counted(*values, **keywords):
    compiles.append(1)
    return native(*values, **keywords)

backend.compile_native = counted


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 16), nn.Linear(16, 4)

    def forward(self, x):
        return torch.softmax(self.b(torch.tanh(self.a(x))), -1)


def function(x):
    return torch.linalg.qr(torch.tanh(x) * 2)[1] + 1


torch.manual_seed(0)
model, x = Model(), torch.randn(3, 8)
"""

SAVE_CACHES = """
compiled = oxyfuel.compile(model)
compiled(x).sum().backward()
with torch.no_grad():
    compiled(x)
artifacts, _ = torch.compiler.save_cache_artifacts()
(folder / "caches").write_bytes(artifacts)
print("compiles", len(compiles))
"""

LOAD_CACHES = """
torch.compiler.load_cache_artifacts((folder / "caches").read_bytes())
compiled = oxyfuel.compile(model)
y = compiled(x)
torch.testing.assert_close(y, model(x))
y.square().sum().backward()
gradient = model.a.weight.grad.clone()
model.zero_grad()
model(x).square().sum().backward()
torch.testing.assert_close(gradient, model.a.weight.grad)
with torch.no_grad():
    torch.testing.assert_close(compiled(x), model(x))
print("compiles", len(compiles))
"""

SAVE_FUNCTIONS = """
oxyfuel.compile(function, fullgraph=True).aot_compile(((x,), {})).save_compiled_function(folder / "function")
training = torch.compile(Model.forward, fullgraph=True, backend="oxyfuel")
training.aot_compile(((model, x), {})).save_compiled_function(folder / "training")
print("compiles", len(compiles))
"""

LOAD_FUNCTIONS = """
def load(name):
    start = time.perf_counter()
    with open(folder / name, "rb") as file:
        loaded = torch.compiler.load_compiled_function(file)
    return loaded, time.perf_counter() - start

torch._dynamo.config.disable = True  # nothing may be traced
load("function")  # imports what loading needs
loaded, seconds = load("function")
torch.testing.assert_close(loaded(x), function(x))
try:
    loaded(torch.randn(5, 8))
    print("no error")
except RuntimeError as error:
    print("refused", "size mismatch" in str(error))
trained, _ = load("training")
torch.testing.assert_close(trained(model, x), model(x))
trained(model, x).square().sum().backward()
gradient = model.a.weight.grad.clone()
model.zero_grad()
model(x).square().sum().backward()
torch.testing.assert_close(gradient, model.a.weight.grad)
with torch.no_grad():
    model.a.weight.add_(1)
torch.testing.assert_close(trained(model, x), model(x))
print("compiles", len(compiles))
print("milliseconds", seconds * 1e3)
"""


def run(code: str, folder: Path, caches: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", COMMON + code, str(folder)],
        capture_output=True,
        text=True,
        env={
            **os.environ,
            "TORCHINDUCTOR_CACHE_DIR": str(folder / caches / "torch"),
            "OXYFUEL_CACHE_DIR": str(folder / caches / "ours"),
        },
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_caches_in_one_file(tmp_path):
    assert run(SAVE_CACHES, tmp_path, "here") == "compiles 3\n"  # forward, backward, inference
    assert run(LOAD_CACHES, tmp_path, "elsewhere") == "compiles 0\n"


def test_compiled_functions_in_a_file(tmp_path):
    assert run(SAVE_FUNCTIONS, tmp_path, "here") == "compiles 3\n"  # function, forward, backward
    refused, compiles, milliseconds = run(LOAD_FUNCTIONS, tmp_path, "elsewhere").splitlines()
    assert refused == "refused True"
    assert compiles == "compiles 0"
    # About 5 ms on a free machine; a compile takes a second.
    assert float(milliseconds.split()[1]) < 300
    print(milliseconds)

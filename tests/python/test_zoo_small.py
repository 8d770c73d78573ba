"""Small models through every layer: right against float64, nothing left to PyTorch, and the interpreters of both IRs agree.

The interpreters run what the compiled program was made from: the graph as it was imported, and the kernels before code
generation. The text of both IRs is read back after each pass on the way.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

from oxyfuel import _C, backend
from oxyfuel.output_code import CompiledGraph
from oxyfuel.reports import collect
from zoo import MODELS

pytestmark = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])

RUNS = 6  # with other arguments, so that errors are many enough to compare


def make(name: str, dtype: torch.dtype) -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    torch.manual_seed(11)
    model, arguments = MODELS[name]()
    return model.eval().to(dtype), tuple(x.to(dtype) if x.is_floating_point() else x for x in arguments)


def in_double(model: torch.nn.Module, arguments: tuple[torch.Tensor, ...]) -> torch.Tensor:
    wide = tuple(x.double() if x.is_floating_point() else x for x in arguments)
    result: torch.Tensor = copy.deepcopy(model).double()(*wide)
    return result


def assert_as_good(found: torch.Tensor, wanted: torch.Tensor, exact: torch.Tensor) -> None:
    """Errors against a float64 run are at most 1.5 times (root mean square) and 3 times (largest) those of eager."""
    ours, eagers = (x.double() - exact for x in (found, wanted))
    # Where eager happens to round to the very result, half a unit in the last place is granted.
    half = exact.abs() * torch.finfo(found.dtype).eps / 2
    assert ours.square().mean().sqrt() <= 1.5 * torch.maximum(eagers.square().mean(), half.square().mean()).sqrt()
    assert ours.abs().max() <= 3 * torch.maximum(eagers.abs().max(), half.max())


@pytest.mark.parametrize("name", sorted(MODELS))
@torch.no_grad()
def test_right(name, dtype):
    model, first = make(name, dtype)
    runs = [first] + [
        tuple(torch.randn_like(x) if x.is_floating_point() else x for x in first) for _ in range(RUNS - 1)
    ]
    exact = torch.cat([in_double(model, copy.deepcopy(arguments)) for arguments in runs])
    wanted = torch.cat([model(*copy.deepcopy(arguments)) for arguments in runs])
    with collect() as explanation:
        compiled = torch.compile(model, backend="oxyfuel", fullgraph=True)
        found = torch.cat([compiled(*copy.deepcopy(arguments)) for arguments in runs])
    assert_as_good(found, wanted, exact)
    assert len(explanation.graphs) == 1
    assert explanation.graphs[0].native_share == 1, str(explanation)


class Recorder:
    """Stands in for the compiler's module while one model compiles: keeps the text of its graph."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.settings: Any = None

    def __getattr__(self, name: str) -> Any:
        return getattr(_C, name)

    def compile(self, graph: Any, settings: Any) -> Any:
        self.texts.append(str(graph))
        self.settings = settings
        return _C.compile(graph, settings)


def memory_of(x: torch.Tensor) -> bytes:
    """The bytes from the first element to the last, as they lie."""
    span = 1 + sum((extent - 1) * stride for extent, stride in zip(x.shape, x.stride()))
    flat = x.detach().as_strided((span if x.numel() else 0,), (1,), x.storage_offset())
    return flat.contiguous().view(torch.uint8).numpy().tobytes()


def read(data: bytes, like: torch.Tensor) -> torch.Tensor:
    return torch.frombuffer(bytearray(data), dtype=like.dtype).reshape(like.shape)


@pytest.mark.parametrize("name", sorted(MODELS))
@torch.no_grad()
def test_interpreters_agree(name, dtype, monkeypatch):
    model, arguments = make(name, dtype)
    recorder = Recorder()
    calls: list[list[torch.Tensor]] = []
    run = CompiledGraph.__call__

    def record(graph: CompiledGraph, inputs: list[torch.Tensor]) -> Any:
        tensors = [*inputs, *graph.constants]
        calls.append([tensors[position].clone() for position in graph.positions])
        return run(graph, inputs)

    monkeypatch.setattr(backend, "_C", recorder)
    monkeypatch.setattr(CompiledGraph, "__call__", record)
    options = {"round_trip": True, "verify": True, "cache": False}
    compiled = torch.compile(model, backend="oxyfuel", fullgraph=True, options=options)
    found = compiled(*copy.deepcopy(arguments))
    (text,), (inputs,) = recorder.texts, calls
    (by_graph, *_) = _C.interpret_graph(text, [memory_of(x.contiguous()) for x in inputs])
    (by_loops, *_) = _C.interpret_kernels(text, [memory_of(x) for x in inputs], recorder.settings)

    exact = in_double(model, copy.deepcopy(arguments))
    wanted = model(*copy.deepcopy(arguments))
    # The interpreters add one after the other, the graph's also rounds the result of each operator.
    bound = 8 * torch.maximum((wanted - exact).abs().max(), exact.abs().max() * torch.finfo(dtype).eps / 2)
    assert (found - exact).abs().max() <= bound
    assert (read(by_loops, found) - exact).abs().max() <= bound
    assert (read(by_graph, found) - exact).abs().max() <= bound

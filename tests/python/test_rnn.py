"""nn.LSTM, nn.GRU and nn.RNN against eager in float64: loops over time, compiled without PyTorch's help."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils import rnn as packing

from oxyfuel import reports

KINDS = {"lstm": nn.LSTM, "gru": nn.GRU, "tanh": nn.RNN, "relu": nn.RNN}


@pytest.fixture
def published() -> Iterator[list[reports.GraphReport]]:
    """Reports of the graphs that the test compiles."""
    with reports.collect() as explanation:
        yield explanation.graphs


def make(kind: str, *sizes: int, **options: Any) -> nn.Module:
    if kind in ("tanh", "relu"):
        options["nonlinearity"] = kind
    return KINDS[kind](*sizes, **options).eval()


def flat(result: Any) -> list[torch.Tensor]:
    if isinstance(result, torch.Tensor):
        return [result]
    return [tensor for part in result for tensor in flat(part)]


def states(module: nn.Module, batch: int, dtype: torch.dtype) -> Any:
    layers = module.num_layers * (2 if module.bidirectional else 1)
    h = torch.randn(layers, batch, module.proj_size or module.hidden_size, dtype=dtype)
    if not isinstance(module, nn.LSTM):
        return h
    return h, torch.randn(layers, batch, module.hidden_size, dtype=dtype)


def to(value: Any, dtype: torch.dtype) -> Any:
    return value.to(dtype) if isinstance(value, torch.Tensor) else tuple(to(part, dtype) for part in value)


def strides(x: torch.Tensor) -> list[int]:
    """Of the axes that are stepped along."""
    return [stride for stride, size in zip(x.stride(), x.shape) if size != 1]


def check(module: nn.Module, arguments: tuple[Any, ...], steps: int) -> None:
    """A step's error grows by what the next ones add to it: units in the last place of 1 for each step and layer."""
    with torch.no_grad():
        found = flat(torch.compile(module, backend="oxyfuel", fullgraph=True)(*arguments))
        plain = flat(module(*arguments))
        exact = flat(module.double()(*to(arguments, torch.float64)))
    module.to(plain[0].dtype)
    assert len(found) == len(plain)
    unit = torch.finfo(plain[0].dtype).eps
    for got, eager, want in zip(found, plain, exact):
        assert (got.dtype, got.shape, strides(got)) == (eager.dtype, eager.shape, strides(eager))
        error = (got - want).abs().max().item()
        allowed = 4 * (eager - want).abs().max().item() + 8 * unit * (steps + module.num_layers)
        assert error <= allowed, f"{error} where eager has {(eager - want).abs().max().item()}"


def is_native(found: list[reports.GraphReport]) -> bool:
    return all(not report.declined and not report.fallback for report in found)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_layers(
    published: list[reports.GraphReport], kind: str, bidirectional: bool, layers: int, batch_first: bool, bias: bool
) -> None:
    module = make(kind, 5, 7, num_layers=layers, bidirectional=bidirectional, batch_first=batch_first, bias=bias)
    check(module, (torch.randn(3, 4, 5),), 4)
    assert published
    assert is_native(published)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("steps", [1, 2, 33])
@pytest.mark.parametrize("hidden", [1, 16, 65])
def test_sizes_and_states(published: list[reports.GraphReport], kind: str, steps: int, hidden: int) -> None:
    module = make(kind, 9, hidden, num_layers=2, bidirectional=True)
    check(module, (torch.randn(steps, 2, 9), states(module, 2, torch.float32)), steps)
    assert published
    assert is_native(published)


@pytest.mark.parametrize("kind", KINDS)
def test_one_sequence_without_batch(published: list[reports.GraphReport], kind: str) -> None:
    check(make(kind, 5, 7), (torch.randn(6, 5),), 6)
    assert published
    assert is_native(published)


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_projection(published: list[reports.GraphReport], bidirectional: bool, bias: bool) -> None:
    module = make("lstm", 5, 8, num_layers=2, proj_size=3, bidirectional=bidirectional, bias=bias)
    check(module, (torch.randn(6, 2, 5), states(module, 2, torch.float32)), 6)
    assert published
    assert is_native(published)


@pytest.mark.parametrize("kind", KINDS)
def test_double(kind: str) -> None:
    module = make(kind, 5, 7).double()
    check(module, (torch.randn(6, 2, 5, dtype=torch.float64),), 6)


@pytest.mark.parametrize("kind", KINDS)
def test_sizes_that_vary(published: list[reports.GraphReport], kind: str) -> None:
    module = make(kind, 5, 7, batch_first=True)
    compiled = torch.compile(module, backend="oxyfuel", fullgraph=True, dynamic=True)
    with torch.no_grad():
        for batch, steps in ((2, 3), (5, 9), (3, 2), (5, 9)):
            x = torch.randn(batch, steps, 5)
            for got, want in zip(flat(compiled(x)), flat(module(x))):
                torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5)
    assert is_native(published)
    assert len(published) == 1


def test_weights_that_change() -> None:
    module, x = make("lstm", 5, 7), torch.randn(6, 2, 5)
    compiled = torch.compile(module, backend="oxyfuel", fullgraph=True)
    with torch.no_grad():
        for _ in range(3):
            torch.testing.assert_close(compiled(x)[0], module(x)[0], rtol=1e-5, atol=1e-5)
            module.weight_hh_l0.mul_(1.5)


def test_tagger(published: list[reports.GraphReport]) -> None:
    class Tagger(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(100, 24)
            self.lstm = nn.LSTM(24, 32, 2, batch_first=True)
            self.out = nn.Linear(32, 10)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.out(self.lstm(self.embed(x))[0])

    module, x = Tagger().eval(), torch.randint(0, 100, (4, 32))
    with torch.no_grad():
        got = torch.compile(module, backend="oxyfuel", fullgraph=True)(x)
        torch.testing.assert_close(got, module(x), rtol=1e-5, atol=1e-5)
    assert published
    assert is_native(published)


def test_length_is_not_unrolled(published: list[reports.GraphReport]) -> None:
    module = make("gru", 4, 4)
    with torch.no_grad():
        for steps in (2, 200):
            torch.compile(module, backend="oxyfuel", fullgraph=True, dynamic=False)(torch.randn(steps, 1, 4))
    short, long = (len(report.kernels) for report in published)
    assert short == long


@pytest.mark.parametrize("kind", KINDS)
def test_exported(published: list[reports.GraphReport], kind: str) -> None:
    module, x = make(kind, 4, 5, num_layers=2, batch_first=True), torch.randn(3, 7, 4)
    exported = torch.export.export(module, (x,)).module()
    with torch.no_grad():
        for got, want in zip(flat(torch.compile(exported, backend="oxyfuel")(x)), flat(module(x))):
            torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5)
    assert is_native(published)
    assert len(published) == 1
    assert len(published[0].kernels) < 20


def test_packed_sequences_run_in_pytorch() -> None:
    module = make("lstm", 5, 7)
    packed = packing.pack_padded_sequence(torch.randn(6, 3, 5), [6, 4, 1])
    with torch.no_grad():
        got, want = torch.compile(module, backend="oxyfuel")(packed), module(packed)
    torch.testing.assert_close(got[0].data, want[0].data, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients(kind: str) -> None:
    module = make(kind, 5, 7, num_layers=2, bidirectional=True).train()
    x = torch.randn(4, 3, 5)
    gradients = []
    for run in (module, torch.compile(module, backend="oxyfuel")):
        module.zero_grad()
        run(x)[0].square().sum().backward()
        gradients.append([parameter.grad.clone() for parameter in module.parameters()])
    for want, got in zip(*gradients):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)

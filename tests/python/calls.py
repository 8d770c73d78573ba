"""ATen calls, each compiled alone and compared with eager in float64.

Float32 may be four times as far from the exact result as eager is, plus 16 units in the last place of the largest element;
half types are rounded once, so they may miss the exact result by one unit in their last place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from oxyfuel.reports import collect

Maker = Callable[..., torch.Tensor]


@dataclass
class Case:
    """A call: `arguments(x)` makes its arguments, where `x(*shape)` is a random tensor of the type under test."""

    op: Any
    arguments: Callable[[Maker], tuple[Any, ...]]
    label: str = ""
    dtypes: tuple[torch.dtype, ...] = (torch.float32, torch.bfloat16)

    def __str__(self) -> str:
        return str(self.op).removeprefix("aten.") + (f"-{self.label}" if self.label else "")


def integers(low: int, high: int, *shape: int) -> torch.Tensor:
    return torch.randint(low, high, shape)


def probabilities(x: Maker, *shape: int) -> torch.Tensor:
    return x(*shape).sigmoid()


def exact(value: Any) -> Any:
    """The same argument with float64 in place of narrower floating types."""
    if isinstance(value, torch.Tensor) and value.is_floating_point():
        return value.double()
    if isinstance(value, torch.dtype) and value.is_floating_point:
        return torch.float64
    return value


def make(case: Case, dtype: torch.dtype) -> tuple[tuple[Any, ...], dict[str, Any]]:
    found = case.arguments(lambda *shape: torch.randn(shape).to(dtype))
    return found if isinstance(found[-1], dict) else (found, {})


def as_tuple(results: Any) -> tuple[torch.Tensor | None, ...]:
    return tuple(results) if isinstance(results, (tuple, list)) else (results,)


def check(found: torch.Tensor, wanted: torch.Tensor, eager: torch.Tensor | None, dtype: torch.dtype) -> None:
    """`wanted` is exact, `eager` what PyTorch itself gives in this type."""
    assert found.shape == wanted.shape
    if not found.is_floating_point():
        assert torch.equal(found, wanted)
        return
    error = (found.double() - wanted).abs()
    largest = wanted.abs().max().clamp_min(1e-30) if wanted.numel() else wanted.new_ones(())
    bound = 16 * torch.finfo(torch.float32).eps * largest
    if eager is not None and found.dtype == torch.float32:
        bound = bound + 4 * (eager.double() - wanted).abs()
    if found.dtype in (torch.bfloat16, torch.float16):
        bound = bound + torch.finfo(found.dtype).eps * wanted.abs()
    wrong = ~(error <= bound) & ~(found.double().isnan() & wanted.isnan())
    assert not wrong.any(), f"{found[wrong][:5]} is not {wanted[wrong][:5]}"


def run(case: Case, dtype: torch.dtype) -> None:
    """Compiles the call and compares its results; nothing of it may run in PyTorch."""
    args, kwargs = make(case, dtype)
    compiled = torch.compile(lambda *a: case.op(*a, **kwargs), backend="oxyfuel", fullgraph=True)
    with collect() as explanation:
        found = as_tuple(compiled(*args))
    assert all(graph.native_share == 1 for graph in explanation.graphs), str(explanation)
    compare(case, dtype, args, kwargs, found)


def compare(case: Case, dtype: torch.dtype, args: Any, kwargs: Any, found: tuple[torch.Tensor | None, ...]) -> None:
    wanted = as_tuple(case.op(*map(exact, args), **{k: exact(v) for k, v in kwargs.items()}))
    try:
        eager = as_tuple(case.op(*args, **kwargs))
    except RuntimeError:  # eager lacks some of the half kernels
        eager = (None,) * len(wanted)
    assert len(found) == len(wanted)
    for f, w, e in zip(found, wanted, eager):
        if w is not None:
            assert f is not None
            check(f, w, e, dtype)

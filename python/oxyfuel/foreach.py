"""Operators on lists of tensors (`torch._foreach_add`), taken apart into a call for each, as in eager on CPUs."""

from collections.abc import Callable
from typing import Any

import torch

aten = torch.ops.aten

NAMES = """
abs acos asin atan ceil cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p log2 neg reciprocal round rsqrt sigmoid
sign sin sinh sqrt tan tanh trunc
add sub mul div clamp_max clamp_min lerp pow max
"""
LIMITS = {"maximum": ("clamp_min", "maximum"), "minimum": ("clamp_max", "minimum")}
"""What a limit is by numbers, and by tensors."""


def _each(function: Callable[..., Any]) -> Callable[..., list[Any]]:
    """`function` on the elements of all lists side by side; what is no list goes into each call."""

    def run(*arguments: Any, **keywords: Any) -> list[Any]:
        count = next(len(argument) for argument in arguments if isinstance(argument, (list, tuple)))
        columns = [a if isinstance(a, (list, tuple)) else [a] * count for a in arguments]
        return [function(*row, **keywords) for row in zip(*columns, strict=True)]

    return run


def _norm(x: torch.Tensor, order: float = 2, dtype: torch.dtype | None = None) -> torch.Tensor:
    return torch.linalg.vector_norm(x, order, dtype=dtype)


def _by_value(function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    return lambda x, a, b, value=1: function(x, a, b, value=value)


def table() -> dict[Any, Callable[..., Any]]:
    """Operator to decomposition."""
    found: dict[Any, Callable[..., Any]] = {}
    functions = {name: (getattr(torch, name),) * 2 for name in NAMES.split()}
    functions |= {name: tuple(getattr(torch, f) for f in pair) for name, pair in LIMITS.items()}
    for name, (by_number, by_tensor) in functions.items():
        packet = getattr(aten, f"_foreach_{name}")
        for overload in packet.overloads():
            if not overload.endswith("out"):
                found[getattr(packet, overload)] = _each(by_tensor if overload == "List" else by_number)
    for name in ("addcdiv", "addcmul"):
        # A tensor of numbers, as the third overload takes, is nothing that these functions take.
        packet = getattr(aten, f"_foreach_{name}")
        found |= dict.fromkeys((packet.Scalar, packet.ScalarList), _each(_by_value(getattr(torch, name))))
    return found | {
        aten._foreach_norm.Scalar: _each(_norm),
        aten._foreach_copy.default: _each(lambda x, source, non_blocking=False: aten.copy(x, source)),
        aten._foreach_zero.default: _each(torch.zeros_like),
    }

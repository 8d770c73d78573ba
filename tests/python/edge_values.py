"""Values at the edges of element types, and eager's result for them, bit for bit where eager is exact."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch

from opinfo.entries import entries

FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool)

ULPS = 4
"""Of mathematical functions in float32 and float64, in epsilons; half types are rounded once."""


def edges(dtype: torch.dtype) -> torch.Tensor:
    """NaN, infinities, zeros, denormals, halves and what overflows; of integers the bounds, and widths for shifts."""
    if dtype == torch.bool:
        return torch.tensor([False, True])
    if not dtype.is_floating_point:
        info = torch.iinfo(dtype)
        wanted = {0, 1, 2, 3, 5, 7, 8, info.bits - 1, info.bits, info.bits + 1, info.max, info.max - 1, info.max // 2}
        wanted |= {-value for value in wanted} | {info.min, info.min + 1}
        return torch.tensor(sorted(value for value in wanted if info.min <= value <= info.max), dtype=dtype)
    info = torch.finfo(dtype)
    tiny = info.smallest_normal
    positive = [
        0.0,
        tiny * info.eps,
        tiny / 2,
        tiny,
        info.eps,
        0.1,
        0.5,
        1 - info.eps,
        1.0,
        1 + info.eps,
        1.5,
        2.0,
        2.5,
    ]
    positive += [3.0, 3.1415926535, 10.5, 87.0, 89.5, 105.0, 171.0, 709.0, 746.0, 4097.0, 65504.0, 2.0**24 + 1, 2.0**31]
    positive += [1e10, 2.0**63, 1e30, info.max, float("inf")]
    values = [float("nan")] + [sign * value for value in positive for sign in (1.0, -1.0)]
    return torch.tensor(values, dtype=torch.float64).to(dtype)


def pairs(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Every edge beside every edge, contiguous."""
    a, b = torch.meshgrid(edges(dtype), edges(dtype), indexing="ij")
    return a.flatten().clone(), b.flatten().clone()


def of_class(name: str, dtype: torch.dtype) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Entries of PyTorch's table of a class: UnaryUfuncInfo, BinaryUfuncInfo or ReductionOpInfo, with what else they take."""
    for entry, op in entries().items():
        if type(op).__name__ == name and dtype in op.supported_dtypes("cpu"):
            keywords = op.sample_kwargs("cpu", dtype, edges(dtype))[0] if name == "UnaryUfuncInfo" else {}
            if entry.endswith("_rounding"):  # div.floor_rounding, div.trunc_rounding
                keywords = {"rounding_mode": entry.removeprefix("div.").removesuffix("_rounding")}
            yield entry, functools.partial(op.op, **keywords)


def difference(
    found: torch.Tensor,
    accepted: tuple[torch.Tensor, ...],
    operands: tuple[torch.Tensor, ...],
    *,
    reference: torch.Tensor | None,
    cancels: bool,
    terms: int,
) -> str:
    """Says where the result differs from all of the accepted ones; empty when it does not. Zeros have their sign,
    infinities and NaN their place.

    `reference` is the result in float64 of a function that eager rounds more than once: finite results may be some units in
    the last place from eager's or from the exact one; of the operands, when the function `cancels` (subtracts near ones).
    Each of the `terms` of a reduction may be rounded once more.
    """
    wanted = accepted[0]
    if found.dtype != wanted.dtype or found.shape != wanted.shape:
        return f"{found.dtype}{list(found.shape)} is not {wanted.dtype}{list(wanted.shape)}"
    found, *accepted, reference = map(as_real, (found, *accepted, reference))
    same = torch.zeros_like(found, dtype=torch.bool)
    for one in accepted:
        same |= is_same(found, one)
        if reference is not None and found.is_floating_point():
            scale = torch.stack([operand.double().abs() for operand in operands]).amax(0) if cancels else reference
            own = torch.maximum(scale.double().abs(), one.double().abs().nan_to_num(posinf=0.0))
            same |= is_near(found, one, own, terms) | is_near(found, reference, scale, terms)
    if bool(same.all()):
        return ""
    lines = []
    for place in torch.nonzero(~same)[:4].tolist():
        at = tuple(place)
        shown = [o[at[: o.ndim]].tolist() if o.shape == wanted.shape else "…" for o in operands]
        lines.append(f"{shown} gives {found[at].item()!r}, not {accepted[0][at].item()!r}")
    return f"{int((~same).sum())} of {same.numel()}: " + "; ".join(lines)


def as_real(x: Any) -> Any:
    return torch.view_as_real(x) if isinstance(x, torch.Tensor) and x.is_complex() else x


def is_same(found: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    if not wanted.is_floating_point():
        return found == wanted
    return ((found == wanted) & (found.signbit() == wanted.signbit())) | (found.isnan() & wanted.isnan())


def is_near(found: torch.Tensor, wanted: torch.Tensor, scale: torch.Tensor, terms: int) -> torch.Tensor:
    """Finite, not zero, and a few units in the last place of `scale` apart; half types are rounded at the end alone."""
    info, (f, w) = torch.finfo(found.dtype), (found.double(), wanted.double())
    is_half = found.dtype not in (torch.float32, torch.float64)
    ulps = 1 if is_half else max(ULPS, terms)
    bound = ulps * info.eps * scale.double().abs() + ulps * info.smallest_normal * info.eps
    return f.isfinite() & w.isfinite() & (w != 0) & ((f - w).abs() <= bound)


def spread(x: torch.Tensor) -> torch.Tensor:
    """The same elements with gaps between them, so that eager's scalar loops run instead of its vector loops."""
    return torch.stack((x, x), dim=-1)[..., 0]

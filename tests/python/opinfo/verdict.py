"""Whether a compiled result is eager's.

Types, shapes, layouts and strides are equal, and integers, booleans, NaN and infinities. Finite numbers pass when they are a
few units in the last place from eager's, or no farther from the exact result than eager's own error and the rounding of a
reduction of that length allow. The exact result is eager's in the next wider type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree

ULPS = 4
"""How far the vector mathematics of two libraries may be apart in float32 and float64, in epsilons."""

EAGER_ERRORS = 4
"""How many times eager's largest error a result may be off."""

WIDER = {
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float32: torch.float64,
    torch.complex64: torch.complex128,
}
ACCUMULATION = {torch.float16: torch.float32, torch.bfloat16: torch.float32}


class MismatchError(Exception):
    """Says what is different."""


def widened(value: Any) -> Any:
    """The same argument in the widest type."""
    if isinstance(value, torch.Tensor) and value.dtype in WIDER:
        return value.to(WIDER[value.dtype])
    if isinstance(value, torch.dtype):
        return WIDER.get(value, value)
    return value


def compare(
    found: Any,
    wanted: Any,
    *,
    exact: Callable[[], Any],
    terms: int,
    is_undefined: bool = False,
    chosen_from: torch.Tensor | None = None,
) -> None:
    """Raises MismatchError unless both trees are the same.

    `exact()` gives the result computed in wider types, `terms` the length of the longest reduction there can be. With
    `chosen_from`, integer results are places in that tensor, and other places of equal elements will do.
    """
    f_leaves, f_tree = pytree.tree_flatten(found)
    w_leaves, w_tree = pytree.tree_flatten(wanted)
    if f_tree != w_tree:
        raise MismatchError(f"structure {f_tree} is not {w_tree}")
    references: list[Any] | None = None
    for i, (f, w) in enumerate(zip(f_leaves, w_leaves)):
        if not isinstance(w, torch.Tensor):
            compare_numbers(f, w)
            continue
        compare_kinds(f, w)
        if is_undefined:
            continue
        f, w = plain(f), plain(w)
        wrong = differing(f, w)
        if not bool(wrong.any()):
            continue
        if chosen_from is not None and w.dtype == torch.int64 and same_choice(chosen_from, f, w):
            continue
        if references is None:
            references = reference_leaves(exact, len(w_leaves))
        judge(f, w, plain(references[i]) if references[i] is not None else None, wrong, terms)


def compare_numbers(found: Any, wanted: Any) -> None:
    same = found == wanted or (found != found and wanted != wanted)
    if type(found) is not type(wanted) or not same:
        is_rounded = isinstance(wanted, (float, complex)) and isinstance(found, type(wanted))
        if is_rounded and abs(found - wanted) <= ULPS * torch.finfo(torch.float32).eps * abs(wanted):
            return
        raise MismatchError(f"{found!r} is not {wanted!r}")


def compare_kinds(found: Any, wanted: torch.Tensor) -> None:
    if not isinstance(found, torch.Tensor):
        raise MismatchError(f"{type(found).__name__} is not a tensor")
    if found.dtype != wanted.dtype:
        raise MismatchError(f"type {found.dtype} is not {wanted.dtype}")
    if found.shape != wanted.shape:
        raise MismatchError(f"shape {list(found.shape)} is not {list(wanted.shape)}")
    if found.layout != wanted.layout:
        raise MismatchError(f"layout {found.layout} is not {wanted.layout}")
    if wanted.layout == torch.strided and wanted.numel() and significant_strides(found) != significant_strides(wanted):
        raise MismatchError(f"strides {found.stride()} are not {wanted.stride()}")


def significant_strides(tensor: torch.Tensor) -> list[int]:
    """Without those of axes of length one, which no address depends on and PyTorch's own fake tensors differ in."""
    return [stride for size, stride in zip(tensor.shape, tensor.stride()) if size != 1]


def plain(tensor: torch.Tensor) -> torch.Tensor:
    tensor = tensor.detach()
    if tensor.is_nested:
        tensor = torch.cat([part.flatten() for part in tensor.unbind()])
    elif tensor.layout != torch.strided:
        tensor = tensor.to_dense()
    if tensor.is_quantized:
        tensor = tensor.int_repr()
    tensor = tensor.resolve_conj().resolve_neg()
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


def differing(found: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """Where two plain tensors differ by more than rounding."""
    if not wanted.is_floating_point():
        return found != wanted
    info = torch.finfo(wanted.dtype)
    f, w = found.double(), wanted.double()
    ulps = 1 if wanted.dtype in ACCUMULATION else ULPS
    near = (f - w).abs() <= ulps * info.eps * w.abs() + ulps * info.smallest_normal * info.eps
    return ~(near | (f == w) | (f.isnan() & w.isnan()))


def same_choice(source: torch.Tensor, found: torch.Tensor, wanted: torch.Tensor) -> bool:
    """Both hold places along some axis of equal elements, and none twice."""
    for axis in range(source.ndim):
        f, w = (x if x.ndim == source.ndim else x.unsqueeze(axis) for x in (found, wanted))
        fits = all(f.shape[i] == source.shape[i] for i in range(source.ndim) if i != axis)
        if not fits or bool(((f < 0) | (f >= source.shape[axis]) | (w >= source.shape[axis])).any()):
            continue
        is_distinct = bool((f.sort(dim=axis).values.diff(dim=axis) > 0).all())
        if is_distinct and not bool(differing(source.gather(axis, f), source.gather(axis, w)).any()):
            return True
    return False


def reference_leaves(exact: Callable[[], Any], count: int) -> list[Any]:
    try:
        leaves = pytree.tree_leaves(exact())
    except Exception:  # eager has no kernel for these arguments in the wider type
        return [None] * count
    leaves = [leaf if isinstance(leaf, torch.Tensor) else None for leaf in leaves]
    return leaves if len(leaves) == count else [None] * count


def judge(
    found: torch.Tensor, wanted: torch.Tensor, reference: torch.Tensor | None, wrong: torch.Tensor, terms: int
) -> None:
    """Passes what is as near to the exact result as the type and the length of reductions allow."""
    if wanted.is_floating_point():
        if reference is None or reference.shape != wanted.shape:
            reference = wanted
        f, w, r = found.double(), wanted.double(), reference.double()
        finite = r.isfinite() & w.isfinite()
        own = torch.finfo(ACCUMULATION.get(wanted.dtype, wanted.dtype)).eps
        scale = r[finite].abs().max().item() if bool(finite.any()) else 0.0
        eager_error = (w - r)[finite].abs().max().item() if bool(finite.any()) else 0.0
        bound = EAGER_ERRORS * eager_error + terms * own * scale + torch.finfo(wanted.dtype).eps * r.abs()
        wrong = wrong & ~(finite & ((f - r).abs() <= bound))
    if bool(wrong.any()):
        count = int(wrong.sum())
        place = tuple(torch.nonzero(wrong)[0].tolist()) if wrong.ndim else ()
        exactly = f", exactly {reference[place].item()!r}" if reference is not None and reference is not wanted else ""
        raise MismatchError(
            f"{count} of {wrong.numel()} elements, first at {list(place)}: {found[place].item()!r} is not "
            f"{wanted[place].item()!r}{exactly}"
        )

"""How far a result may be from the exact one.

The exact result is computed in float64. Ours may be four times as far from it as eager's worst element is (sums in another
order, other polynomials for functions), plus 16 units in the last place of the largest element for what eager happens to hit;
half types are rounded once more. Float64 has no better reference than itself; there eager's error is taken to be that of the
same in float32, scaled to the smaller unit. Whatever is not a floating-point number is equal, and an element that equals
eager's is right: NaN, infinities, overflow.
"""

import dataclasses

import torch

FREE_ULPS = 16
EAGER_ERRORS = 4


@dataclasses.dataclass
class Difference:
    """The worst element of a wrong result."""

    error: float
    """Distance from the exact value; infinite where one of them is NaN."""
    allowed: float
    eager_error: float
    """The largest one of eager."""
    index: tuple[int, ...]
    found: str
    wanted: str

    def __str__(self) -> str:
        place = ", ".join(map(str, self.index))
        return (
            f"element [{place}] is {self.found}, not {self.wanted}: off by {self.error:.2g} "
            f"where {self.allowed:.2g} is allowed (eager's largest error is {self.eager_error:.2g})"
        )


def opmath_epsilon(dtype: torch.dtype) -> float:
    return torch.finfo(dtype if dtype == torch.float64 else torch.float32).eps


def difference(
    found: torch.Tensor, exact: torch.Tensor, eager: torch.Tensor, single: torch.Tensor | None = None
) -> Difference | None:
    """Where `found` is wrong, None where it is not. `exact` is eager's result in float64, `eager` that in the type of `found`;
    `single`, in float32, is needed where the type of `found` is float64."""
    if found.shape != eager.shape or found.dtype != eager.dtype:
        kinds = [f"{value.dtype} of shape {tuple(value.shape)}" for value in (found, eager)]
        return Difference(float("inf"), 0.0, 0.0, (), kinds[0], kinds[1])
    if found.is_complex():
        found, eager = torch.view_as_real(found.resolve_conj()), torch.view_as_real(eager.resolve_conj())
        exact = torch.view_as_real(exact.to(torch.complex128).resolve_conj())
        single = None if single is None else torch.view_as_real(single.resolve_conj())
    if found.numel() == 0:
        return None
    wanted = exact.double() if found.is_floating_point() else eager.double()
    error = (found.double() - wanted).abs()
    own = (eager.double() - wanted).abs()
    if found.dtype == torch.float64 and single is not None:
        own = (single.double() - wanted).abs() * (opmath_epsilon(torch.float64) / opmath_epsilon(torch.float32))
    right = (found == eager) | (found.isnan() & eager.isnan())
    error = error.masked_fill(error.isnan(), float("inf")).masked_fill(right, 0.0)
    eager_error = float(own[own.isfinite()].max()) if own.isfinite().any() else 0.0
    allowed = torch.zeros_like(error)
    if found.is_floating_point():
        finite = wanted[wanted.isfinite()].abs()
        largest = float(finite.max()) if finite.numel() else 0.0
        allowed += FREE_ULPS * opmath_epsilon(found.dtype) * largest + EAGER_ERRORS * eager_error
        if found.dtype in (torch.float16, torch.bfloat16):
            allowed += torch.finfo(found.dtype).eps * wanted.abs().nan_to_num()
    excess = torch.where(error > allowed, error - allowed, 0.0)
    if not bool((excess > 0).any()):
        return None
    place = int(excess.flatten().argmax())
    at = tuple(int(i) for i in torch.unravel_index(torch.tensor(place), excess.shape))
    return Difference(
        error=float(error[at]),
        allowed=float(allowed[at]),
        eager_error=eager_error,
        index=at,
        found=f"{found[at].item():.9g}",
        wanted=f"{wanted[at].item():.9g}",
    )


def in_double(value: object) -> object:
    """The same argument of an operator with float64 in place of narrower floating types."""
    return _in(torch.float64, torch.complex128, value)


def in_single(value: object) -> object:
    """The same with float32 in place of all floating types."""
    return _in(torch.float32, torch.complex64, value)


def _in(real: torch.dtype, complex_: torch.dtype, value: object) -> object:
    kind = value.dtype if isinstance(value, torch.Tensor) else value
    if not isinstance(kind, torch.dtype) or not (kind.is_floating_point or kind.is_complex):
        return value
    wanted = complex_ if kind.is_complex else real
    return value.to(wanted) if isinstance(value, torch.Tensor) else wanted

"""Operators that run in PyTorch as steps of a compiled program.

An ExternCall is a call with its tensors and symbolic integers left open. It can be pickled where its target can be found by
name, so programs with extern steps are cached like others.
"""

import dataclasses
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree


@dataclasses.dataclass(frozen=True)
class TensorSlot:
    """The place of tensor `index` in a call."""

    index: int
    is_contiguous: bool = False
    """The tensor is row-major in eager, and some of PyTorch's kernels count on that."""


@dataclasses.dataclass(frozen=True)
class IntegerSlot:
    """The place of integer `index` in a call."""

    index: int
    is_boolean: bool = False


@dataclasses.dataclass
class ExternCall:
    """One call in PyTorch: `(*arguments, **keywords)` hold slots where the program's values go."""

    target: Any
    """A callable, or the qualified name of an operator: "aten.rand.default"."""
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]
    results: list[int]
    """Which leaves of the call's result the program gets as tensors."""
    operand_ranks: list[int]
    result_ranks: list[int]
    result_orders: list[list[int]]
    """Axes of each result, outermost first: how those lie in memory whose sizes are not known beforehand."""
    integer_count: int
    binds: list[tuple[int, Any]]
    """Symbols of the program that the result gives, each with its path in the result."""
    name: str
    location: str

    @property
    def is_picklable(self) -> bool:
        return isinstance(self.target, str)

    def resolve(self) -> Callable[..., Any]:
        return find_operator(self.target) if isinstance(self.target, str) else self.target

    def bind(self) -> Callable[[list[Any], list[int]], Any]:
        """What the program calls: `(tensors, integers)` to result tensors, with `binds` also to the symbols' values."""
        target = self.resolve()
        leaves, tree = pytree.tree_flatten((self.arguments, self.keywords), is_leaf=_is_slot)
        tensors = [(i, leaf.index, leaf.is_contiguous) for i, leaf in enumerate(leaves) if isinstance(leaf, TensorSlot)]
        integers = [(i, leaf) for i, leaf in enumerate(leaves) if isinstance(leaf, IntegerSlot)]
        results, binds = self.results, self.binds

        def call(operands: list[Any], numbers: list[int]) -> Any:
            filled = list(leaves)
            for i, index, is_contiguous in tensors:
                filled[i] = operands[index].contiguous() if is_contiguous else operands[index]
            for i, slot in integers:
                filled[i] = bool(numbers[slot.index]) if slot.is_boolean else numbers[slot.index]
            arguments, keywords = pytree.tree_unflatten(filled, tree)
            with torch.no_grad():
                outcome = target(*arguments, **keywords)
            found = pytree.tree_leaves(outcome, is_leaf=lambda x: x is None)
            made = [_plain(found[i]) for i in results]
            if not binds:
                return made
            return made, [int(pytree.key_get(outcome, path)) for _, path in binds]

        return call

    def specification(self) -> tuple[Any, ...]:
        """As _C.Executable wants it."""
        symbols = [symbol for symbol, _ in self.binds]
        return self.bind(), self.operand_ranks, self.result_ranks, self.result_orders, self.integer_count, symbols


def _is_slot(leaf: Any) -> bool:
    return isinstance(leaf, (TensorSlot, IntegerSlot))


def _plain(tensor: Any) -> Any:
    """A tensor whose memory holds its values as they are."""
    if isinstance(tensor, torch.Tensor):
        return tensor.detach().resolve_conj().resolve_neg()
    return tensor


def find_operator(name: str) -> Callable[..., Any]:
    """The operator of a qualified name: "aten.add.Tensor", or "python:assert_holds" for one of this file."""
    if name.startswith("python:"):
        return BUILTINS[name.removeprefix("python:")]
    found: Any = operator.attrgetter(name)(torch.ops)
    return found


def assert_holds(condition: bool, message: str) -> None:
    """A condition on sizes or data that the program relies on."""
    if not condition:
        raise RuntimeError(message)


BUILTINS: dict[str, Callable[..., Any]] = {"assert_holds": assert_holds}

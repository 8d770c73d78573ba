"""PyTorch's table of modules: forward and gradients, in training and in evaluation, beside eager.

An entry is a module in a mode, such as "nn.Linear.train". What is compared: results, and which of them need gradients;
gradients of parameters and arguments; buffers afterwards.
"""

from __future__ import annotations

import functools
import itertools
import warnings
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.nn.utils.rnn import PackedSequence
from torch.testing._internal.common_modules import module_db
from torch.utils import _pytree as pytree

from opinfo.entries import DTYPES, seed_all
from opinfo.trial import SEED, Outcome, brief, decide, fresh, longest_reduction, tensors
from opinfo.verdict import compare, widened
from oxyfuel.reports import Collected, collect

MODES = ("train", "eval", "inference")
"""With gradients in either mode of the module, and in evaluation without them."""

Given = tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any]]
"""A module, and what it is called with."""


@functools.cache
def entries() -> dict[str, tuple[Any, str]]:
    """(ModuleInfo, mode) by name."""
    return {
        f"{info.name}.{mode}": (info, mode)
        for info in module_db
        for mode in MODES
        if mode != "eval" or info.train_and_eval_differ
    }


def tasks() -> list[tuple[str, str]]:
    return [(name, "float32") for name in entries()]


def samples(entry: str, dtype: str, count: int | None = None) -> Iterator[Given]:
    """The first `count` samples of an entry, or all; the same ones in every process."""
    info, mode = entries()[entry]
    seed_all(zlib.crc32(f"{entry} {dtype}".encode()))
    is_training, needs_gradients = mode == "train", mode != "inference"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = info.module_inputs_func(
            info, device="cpu", dtype=DTYPES[dtype], requires_grad=needs_gradients, training=is_training
        )
        for sample in itertools.islice(made, count):
            arguments = sample.constructor_input
            module = info.module_cls(*arguments.args, **arguments.kwargs).to(DTYPES[dtype]).train(is_training)
            given = sample.forward_input
            yield module, *pytree.tree_map(as_leaf, ((), {}) if given is None else (given.args, given.kwargs))


def as_leaf(value: Any) -> Any:
    """Copies of tensors that were computed cannot be made."""
    return value.detach().requires_grad_(value.requires_grad) if isinstance(value, torch.Tensor) else value


def unpacked(tree: Any) -> Any:
    """With packed sequences, which are leaves to PyTorch, as tuples."""
    return pytree.tree_map(lambda leaf: tuple(leaf) if isinstance(leaf, PackedSequence) else leaf, tree)


def run(given: Given, needs_gradients: bool, compiled: Callable[[torch.nn.Module], Callable[..., Any]]) -> Any:
    """All that a step leaves, by name."""
    module, arguments, keywords = fresh(given)
    call = compiled(module)
    called_with = tensors(unpacked((arguments, keywords)))
    seed_all(SEED)
    with torch.set_grad_enabled(needs_gradients):
        result = unpacked(call(*arguments, **keywords))
    results = [tensor for tensor in tensors(result) if tensor.requires_grad]
    if results:
        generator = torch.Generator().manual_seed(SEED)
        torch.autograd.backward(results, [torch.randn(r.shape, generator=generator).to(r.dtype) for r in results])
    return {
        "result": result,
        "needs gradients": [tensor.requires_grad for tensor in tensors(result)],
        "gradients of parameters": {name: parameter.grad for name, parameter in module.named_parameters()},
        "gradients of arguments": [tensor.grad for tensor in called_with],
        "arguments": called_with,
        "buffers": dict(module.named_buffers()),
    }


def judge_sample(entry: str, given: Given) -> Outcome:
    needs_gradients = entries()[entry][1] != "inference"
    try:
        wanted = run(given, needs_gradients, lambda module: module)
    except Exception as error:
        return Outcome("excused", f"eager: {brief(error)}")
    module, *called_with = given
    terms = longest_reduction(unpacked(called_with), wanted)

    def exact() -> Any:
        wide = (fresh(module).double(), *pytree.tree_map(in_double, tuple(called_with)))
        return run(wide, needs_gradients, lambda module: module)

    def judge(found: Any) -> None:
        compare(found, wanted, exact=exact, terms=terms)

    def attempt(backend: str, fullgraph: bool) -> tuple[Any, Collected]:
        torch.compiler.reset()
        with collect() as explanation:
            compiled = functools.partial(torch.compile, backend=backend, fullgraph=fullgraph)
            return run(given, needs_gradients, compiled), explanation

    return decide(attempt, judge)


def in_double(value: Any) -> Any:
    if isinstance(value, PackedSequence):
        return PackedSequence(in_double(value.data), *value[1:])
    wide = widened(value)
    return wide.detach().requires_grad_(value.requires_grad) if wide is not value else value

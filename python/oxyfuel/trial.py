"""Running a user's function several times as if once: its arguments, the buffers of its module and the random state are as
before each time."""

import contextlib
import copy
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils import _pytree as pytree


def eager_of(function: Callable[..., Any]) -> Callable[..., Any]:
    """What has been compiled, where `function` is what came of that."""
    if not isinstance(function, torch.nn.Module):
        return getattr(function, "_torchdynamo_orig_callable", function)
    module = getattr(function, "_orig_mod", function)  # torch.compile's wrapper
    module = getattr(type(module), "_oxyfuel_original", module)  # a twin of oxyfuel.compile's
    if getattr(module, "_compiled_call_impl", None) is None:
        return module

    # Compiled in place, or by its class: the same without the compiled call. The frame is ours, as Dynamo skips PyTorch's.
    def call(*arguments: Any, **keywords: Any) -> Any:
        return module._call_impl(*arguments, **keywords)

    return call


class Trial:
    """A function, without what has been compiled of it, with its arguments. What it changes besides those and its module's
    buffers stays changed."""

    def __init__(self, function: Callable[..., Any], arguments: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        self.function = eager_of(function)
        self.given = (arguments, keywords)
        owner = function if isinstance(function, torch.nn.Module) else getattr(function, "__self__", None)
        self.module = owner if isinstance(owner, torch.nn.Module) else None

    def run(self, function: Callable[..., Any], *, backward: bool = False) -> tuple[Any, Any, list[Any]]:
        """Results of `function` on copies of the arguments, these copies afterwards, and with `backward` the gradients of the
        sum of all results with respect to them and to the module's parameters."""
        arguments, keywords = _copies(self.given)
        with self.kept_state():
            results = function(*arguments, **keywords)
            gradients = self.gradients(results, (arguments, keywords)) if backward else []
        return results, (arguments, keywords), gradients

    @contextlib.contextmanager
    def kept_state(self) -> Iterator[None]:
        buffers = list(self.module.buffers()) if self.module is not None else []
        saved = [buffer.detach().clone() for buffer in buffers]
        with torch.random.fork_rng(devices=[]):
            try:
                yield
            finally:
                with torch.no_grad():
                    for buffer, value in zip(buffers, saved):
                        if not torch.equal(buffer, value):
                            buffer.copy_(value)

    def gradients(self, results: Any, copies: Any) -> list[Any]:
        outputs = [leaf for leaf in pytree.tree_leaves(results) if _has_gradient(leaf)]
        leaves = [leaf for leaf in pytree.tree_leaves(copies) if _is_leaf(leaf)]
        if self.module is not None:
            leaves += [parameter for parameter in self.module.parameters() if parameter.requires_grad]
        if not outputs or not leaves:
            return []
        # Not ones: sums of a normalisation's results have gradients that are nothing but rounding.
        generator = torch.Generator().manual_seed(0)
        seeds = [torch.randn(output.shape, generator=generator).to(output.dtype) for output in outputs]
        return list(torch.autograd.grad(outputs, leaves, seeds, allow_unused=True))


def _is_leaf(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad and value.is_leaf


def _has_gradient(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad and value.grad_fn is not None


def _copies(given: Any) -> Any:
    """Copies that share memory among themselves as the originals do. Modules among the arguments are not copied."""

    def cut(leaf: Any) -> Any:
        if _has_gradient(leaf):
            return leaf.detach().requires_grad_()  # deepcopy refuses what has a history
        return leaf

    modules = {id(leaf): leaf for leaf in pytree.tree_leaves(given) if isinstance(leaf, torch.nn.Module)}
    return copy.deepcopy(pytree.tree_map(cut, given), modules)

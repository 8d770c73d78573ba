"""What we change in the autograd functions that AOTAutograd makes around our graphs, which has no interface for it.

Backward graphs of ours never write to what forward saved for them, so that they may run again (`retain_graph=True`). They
cannot be differentiated; the error says what can.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._functorch._aot_autograd import runtime_wrappers

NO_DOUBLE_BACKWARD = (
    "oxyfuel: a gradient of a gradient (double backward) through a compiled graph\n"
    "  found  a backward pass through gradients that create_graph=True made differentiable\n"
    "  so     nothing was computed: a compiled graph has one backward pass\n"
    '  or     torch.compile(..., backend="eager") for this function: PyTorch runs it, any number of times backward\n'
    "  or     torch.func.grad inside of the compiled function"
)


@contextlib.contextmanager
def functions_of_ours() -> Iterator[None]:
    """Functions that AOTAutograd makes meanwhile keep what they saved, and refuse a double backward in our words. Under
    Dynamo's lock."""
    factory = runtime_wrappers._AOTDispatchAutogradFunctionFactory
    build = factory.build

    def build_ours(self: Any) -> Any:
        # PyTorch's option donated_buffer is looked at again when backward runs, and would have to be set for the whole process.
        self.spec.fw_metadata.bw_donated_idxs = []
        function = build(self)
        function._double_backward = staticmethod(_refusing(function._double_backward))
        return function

    factory.build = build_ours
    try:
        yield
    finally:
        factory.build = build


def _refusing(double_backward: Callable[..., Any]) -> Callable[..., Any]:
    """PyTorch's way to run a backward pass that shall be differentiable. Its error comes too late to be worded."""

    def run(*arguments: Any) -> Any:
        gradients = double_backward(*arguments)
        functions = {g.grad_fn for g in gradients if isinstance(g, torch.Tensor) and g.grad_fn is not None}
        for function in functions:
            function.register_prehook(_refuse)
        return gradients

    return run


def _refuse(gradients: Any) -> None:
    raise RuntimeError(NO_DOUBLE_BACKWARD)

"""`oxyfuel.explain(model)(*args)`: what became of a model."""

from collections.abc import Callable
from typing import Any

import torch

from oxyfuel.backend import backend
from oxyfuel.reports import Explanation, collect


def explain(model: Callable[..., Any], **options: Any) -> Callable[..., Explanation]:
    """Compiles `model` afresh when it is called, and gives what was compiled: kernels, what they fuse, what runs in PyTorch
    and why.

    >>> print(oxyfuel.explain(model)(x))
    """

    def run(*arguments: Any, **keywords: Any) -> Explanation:
        torch.compiler.reset()
        compiled = torch.compile(model, backend=backend, options=options or None)
        with collect() as explanation:
            compiled(*arguments, **keywords)
        return explanation

    return run

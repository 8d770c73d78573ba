"""What the end-to-end tests share: compile, run beside eager, compare."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree

from oxyfuel.reports import Collected, collect


def same(found: Any, wanted: Any, *, strides: bool = True, **tolerance: Any) -> None:
    """Both trees hold equal tensors, of equal types and strides, and equal numbers."""
    found, wanted = pytree.tree_flatten(found), pytree.tree_flatten(wanted)
    assert found[1] == wanted[1]
    for f, w in zip(found[0], wanted[0]):
        if not isinstance(w, torch.Tensor):
            assert f == w
            assert type(f) is type(w)
            continue
        torch.testing.assert_close(f, w, equal_nan=True, **tolerance)
        assert f.requires_grad == w.requires_grad
        assert not strides or f.numel() == 0 or f.stride() == w.stride()


def run_both(
    function: Callable[..., Any], *arguments: Any, options: dict[str, Any] | None = None, **keywords: Any
) -> tuple[Any, Any, Collected]:
    """Results and arguments afterwards, compiled and in eager; and what was compiled."""
    ours, eagers = copy.deepcopy(arguments), copy.deepcopy(arguments)
    model = copy.deepcopy(function) if isinstance(function, torch.nn.Module) else function
    compiled = torch.compile(model, backend="oxyfuel", options=options, **keywords)
    with collect() as explanation:
        found = compiled(*ours)
    return (found, ours), (function(*eagers), eagers), explanation


def check(function: Callable[..., Any], *arguments: Any, native: bool = True, **keywords: Any) -> Collected:
    """Compiled gives what eager gives and leaves arguments as eager does; with `native`, PyTorch runs none of it."""
    tolerance = {key: keywords.pop(key) for key in ("atol", "rtol") if key in keywords}
    strides = keywords.pop("strides", True)
    found, wanted, explanation = run_both(function, *arguments, **{"fullgraph": True, **keywords})
    same(found, wanted, strides=strides, **tolerance)
    assert explanation.graphs
    if native:
        assert all(graph.native_share == 1 for graph in explanation.graphs), str(explanation)
    return explanation

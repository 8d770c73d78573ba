"""PyTorch's own table of operators: the first samples of each, compiled and in eager."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

SAMPLES = 2

UNDEFINED = ("empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided")
"""Their results hold anything."""

OPERATORS = [
    pytest.param(op, id=op.name + (f"-{op.variant_test_name}" if op.variant_test_name else ""))
    for op in op_db
    if torch.float32 in op.supported_dtypes("cpu")
]


def fresh(arguments: Any) -> Any:
    return pytree.tree_map(lambda x: x.clone() if isinstance(x, torch.Tensor) else x, arguments)


def compare(found: Any, wanted: Any, is_undefined: bool) -> None:
    for f, w in zip(pytree.tree_leaves(found), pytree.tree_leaves(wanted), strict=True):
        if not isinstance(w, torch.Tensor) or is_undefined:
            continue
        if w.layout != torch.strided:
            f, w = f.to_dense(), w.to_dense()
        # A product of a few dozen terms may cancel: the bound is that of the terms, not of the sum.
        scale = w.abs().max().item() if w.numel() and (w.is_floating_point() or w.is_complex()) else 0.0
        tolerance = {"rtol": 1e-5, "atol": 2e-5 * max(1.0, scale)} if scale == scale and scale < 1e30 else {}
        torch.testing.assert_close(f, w, equal_nan=True, **tolerance)
        assert f.numel() == 0 or f.stride() == w.stride()


@pytest.mark.parametrize("op", OPERATORS)
def test_operator(op):
    for i, sample in enumerate(op.sample_inputs("cpu", torch.float32)):
        if i == SAMPLES:
            break
        arguments, keywords = (sample.input, *sample.args), sample.kwargs
        try:
            torch.manual_seed(1)
            wanted = op.op(*fresh(arguments), **fresh(keywords))
        except Exception:
            continue  # the samples of some operators are for other devices
        torch.compiler.reset()
        compiled = torch.compile(lambda *a, **k: op.op(*a, **k), backend="oxyfuel")
        torch.manual_seed(1)
        compare(compiled(*fresh(arguments), **fresh(keywords)), wanted, op.name in UNDEFINED)

"""Which operators AOTAutograd takes apart before the importer sees them.

PyTorch's decompositions apply to what has no rule of ours (src/ops), so that high-level operators stay whole where we compile
them whole. Random operators are never taken apart: their numbers have to be eager's.
"""

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch._decomp import core_aten_decompositions, decomposition_table

from oxyfuel import foreach
from oxyfuel.importer import rules

KEPT = frozenset(
    {
        "aten.bernoulli.default",
        "aten.native_dropout.default",
        "aten.rrelu_with_noise_functional.default",
        # Their decompositions write to views or to operands; the functional forms come first.
        "aten.index_put_.default",
        "aten.copy_.default",
        # Taken apart they would be asked for their data.
        "aten._local_scalar_dense.default",
        "aten.item.default",
        "aten._assert_async.msg",
    }
)


@functools.cache
def table() -> dict[Any, Callable[..., Any]]:
    """Operator to decomposition."""
    chosen: dict[Any, Callable[..., Any]] = foreach.table()
    for source in (decomposition_table, core_aten_decompositions()):
        for target, decomposition in source.items():
            if not isinstance(target, torch._ops.OpOverload):
                continue
            name = str(target)
            is_random = torch.Tag.nondeterministic_seeded in target.tags
            if name not in rules() and name not in KEPT and not is_random:
                chosen[target] = decomposition
    return chosen

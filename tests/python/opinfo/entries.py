"""Entries of PyTorch's table, their element types and samples."""

from __future__ import annotations

import functools
import itertools
import random
import warnings
import zlib
from collections.abc import Iterator
from typing import Any

import numpy
import torch
from torch.testing._internal.common_methods_invocations import op_db

DTYPES = {
    "float32": torch.float32,
    "float64": torch.float64,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "int64": torch.int64,
    "int32": torch.int32,
    "uint8": torch.uint8,
    "bool": torch.bool,
    "complex64": torch.complex64,
}

UNDEFINED = frozenset({"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"})
"""Entries whose results hold anything."""

CHOOSING = frozenset({"argsort", "kthvalue", "median", "mode", "nanmedian", "sort", "topk"})
"""Entries that give places of elements: which one of equal elements is not said."""


@functools.cache
def entries() -> dict[str, Any]:
    """OpInfos by name: "add", or "norm.nuc" where an operator has several."""
    named = {op.name + (f".{op.variant_test_name}" if op.variant_test_name else ""): op for op in op_db}
    assert len(named) == len(op_db)
    return named


def tasks() -> list[tuple[str, str]]:
    """Every (entry, element type) that PyTorch says the CPU supports."""
    return [
        (name, dtype_name)
        for dtype_name, dtype in DTYPES.items()
        for name, op in entries().items()
        if dtype in op.supported_dtypes("cpu")
    ]


def seed_all(seed: int) -> None:
    torch.manual_seed(seed)
    random.seed(seed)
    numpy.random.seed(seed)


def samples(entry: str, dtype: str, count: int | None = None, *, requires_grad: bool = False) -> Iterator[Any]:
    """The first `count` samples of an entry, or all; the same ones in every process."""
    seed_all(zlib.crc32(f"{entry} {dtype}".encode()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = entries()[entry].sample_inputs("cpu", DTYPES[dtype], requires_grad=requires_grad)
        yield from itertools.islice(made, count)

"""Pooling, sums of windows, padding, resampling and sampling by a grid, and their gradients."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from calls import Case, Maker, run

aten = torch.ops.aten


def max_pool(
    shape: tuple[int, ...], kernel: int, stride: int, padding: int, dilation: int = 1, ceil: bool = False
) -> Callable[[Maker], tuple[Any, ...]]:
    def arguments(x: Maker) -> tuple[Any, ...]:
        n = len(shape) - 2
        lists = [[v] * n for v in (kernel, stride, padding, dilation)]
        forward = aten.max_pool2d_with_indices if n == 2 else aten.max_pool3d_with_indices
        # Different values, so that every type picks the same element.
        data = torch.randperm(math.prod(shape)).reshape(shape).div(16).to(x(1).dtype)
        out, places = forward(data, *lists, ceil)
        return (x(*out.shape), data, *lists, ceil, places)

    return arguments


def average_pool(
    shape: tuple[int, ...],
    kernel: int,
    stride: int,
    padding: int,
    ceil: bool,
    include: bool,
    divisor: int | None = None,
) -> Callable[[Maker], tuple[Any, ...]]:
    def arguments(x: Maker) -> tuple[Any, ...]:
        n = len(shape) - 2
        lists = [[v] * n for v in (kernel, stride, padding)]
        forward = aten.avg_pool2d if n == 2 else aten.avg_pool3d
        out = forward(torch.zeros(shape), *lists, ceil, include, divisor)
        return (x(*out.shape), x(*shape), *lists, ceil, include, divisor)

    return arguments


def resize(op: Any, size: list[int], source: list[int], *rest: Any) -> Case:
    label = "x".join(map(str, size)) + "".join(f"-{r}" for r in rest)
    return Case(op.default, lambda x: (x(2, 3, *source), size, *rest), label)


def resize_backward(op: Any, size: list[int], source: list[int], *rest: Any) -> Case:
    label = "x".join(map(str, size)) + "".join(f"-{r}" for r in rest)
    return Case(op.default, lambda x: (x(2, 3, *size), size, [2, 3, *source], *rest), label)


def pad_backward(op: Any, padding: list[int], shape: list[int]) -> Case:
    def arguments(x: Maker) -> tuple[Any, ...]:
        out = list(shape)
        for i in range(0, len(padding), 2):
            out[-1 - i // 2] += padding[i] + padding[i + 1]
        return (x(*out), x(*shape), padding)

    return Case(op.default, arguments)


def grid(*shape: int) -> Callable[[Maker], torch.Tensor]:
    return lambda x: x(*shape) * 0.7


CASES = [
    Case(aten.max_pool2d_with_indices_backward.default, max_pool((2, 3, 9, 8), 3, 2, 1)),
    Case(aten.max_pool2d_with_indices_backward.default, max_pool((2, 3, 9, 8), 2, 2, 1, 2, True), "dilated"),
    Case(aten.max_pool3d_with_indices_backward.default, max_pool((1, 2, 5, 6, 7), 2, 2, 0)),
    Case(aten.avg_pool2d_backward.default, average_pool((2, 3, 9, 8), 3, 2, 1, False, True)),
    Case(aten.avg_pool2d_backward.default, average_pool((2, 3, 9, 8), 3, 2, 1, True, False), "ceil"),
    Case(aten.avg_pool2d_backward.default, average_pool((2, 3, 9, 8), 2, 2, 0, False, True, 3), "divisor"),
    Case(aten.avg_pool3d_backward.default, average_pool((1, 2, 5, 6, 7), 2, 2, 1, False, False)),
    Case(aten.avg_pool2d.default, lambda x: (x(2, 3, 9, 8), [3, 3], [2, 2], [1, 1], True, False)),
    Case(aten._adaptive_avg_pool2d.default, lambda x: (x(2, 3, 7, 8), [3, 4])),
    Case(aten._adaptive_avg_pool2d_backward.default, lambda x: (x(2, 3, 3, 4), x(2, 3, 7, 8))),
    Case(aten._adaptive_avg_pool3d_backward.default, lambda x: (x(2, 3, 3, 4, 2), x(2, 3, 7, 8, 4))),
    Case(aten.adaptive_max_pool2d.default, lambda x: (x(2, 3, 7, 8), [3, 4]), dtypes=(torch.float32,)),
    Case(
        aten.adaptive_max_pool2d_backward.default,
        lambda x: (x(2, 3, 3, 4), d := x(2, 3, 7, 8), aten.adaptive_max_pool2d(d, [3, 4])[1]),
    ),
    Case(aten.unfold_backward.default, lambda x: (x(3, 4, 5, 2), [3, 9, 5], 1, 2, 2), "apart"),
    Case(aten.unfold_backward.default, lambda x: (x(3, 7, 5, 3), [3, 9, 5], 1, 3, 1), "overlap"),
    Case(aten.unfold_backward.default, lambda x: (x(3, 5, 3, 3), [3, 5, 8], 2, 3, 2), "last"),
    Case(aten.im2col.default, lambda x: (x(2, 3, 7, 8), [3, 2], [1, 2], [1, 0], [2, 1])),
    Case(aten.im2col.default, lambda x: (x(3, 7, 8), [3, 2], [1, 1], [0, 0], [1, 1]), "one"),
    Case(aten.col2im.default, lambda x: (x(2, 18, 24), [7, 8], [3, 2], [1, 2], [1, 0], [2, 1])),
    Case(aten.col2im.default, lambda x: (x(12, 42), [7, 8], [2, 2], [1, 1], [0, 0], [1, 1]), "one"),
    Case(
        aten.max_unpool2d.default,
        lambda x: (*aten.max_pool2d_with_indices(x(2, 3, 6, 8), [2, 2], [2, 2]), [6, 8]),
    ),
    *(
        Case(
            op,
            lambda x, m=mode, p=padding, a=align: (x(2, 3, 5, 6), grid(2, 4, 7, 2)(x) * 1.5, m, p, a),
            f"{mode}{padding}{align}",
            (torch.float32,),
        )
        for op in (aten.grid_sampler_2d.default,)
        for mode in (0, 1, 2)
        for padding in (0, 1, 2)
        for align in (False, True)
    ),
    *(
        Case(
            aten.grid_sampler_2d_backward.default,
            lambda x, m=mode, p=padding, a=align: (
                x(2, 3, 4, 7),
                x(2, 3, 5, 6),
                grid(2, 4, 7, 2)(x) * 1.5,
                m,
                p,
                a,
                [True, True],
            ),
            f"{mode}{padding}{align}",
            (torch.float32,),
        )
        for mode in (0, 1)
        for padding in (0, 1, 2)
        for align in (False, True)
    ),
    *(
        Case(
            aten.grid_sampler_3d.default,
            lambda x, m=mode, p=padding: (x(2, 3, 4, 5, 6), grid(2, 3, 4, 2, 3)(x), m, p, False),
            f"{mode}{padding}",
            (torch.float32,),
        )
        for mode in (0, 1)
        for padding in (0, 1)
    ),
    pad_backward(aten.reflection_pad1d_backward, [2, 1], [2, 3, 5]),
    pad_backward(aten.reflection_pad2d_backward, [2, 1, 1, 3], [2, 3, 5, 6]),
    pad_backward(aten.reflection_pad3d_backward, [1, 2, 2, 1, 1, 0], [1, 2, 3, 4, 5]),
    pad_backward(aten.replication_pad1d_backward, [2, 1], [2, 3, 5]),
    pad_backward(aten.replication_pad2d_backward, [2, 1, 1, 7], [2, 3, 5, 6]),
    pad_backward(aten.replication_pad3d_backward, [1, 2, 2, 1, 1, 0], [1, 2, 3, 4, 5]),
    resize(aten.upsample_nearest1d, [7], [4]),
    resize(aten.upsample_nearest2d, [8, 6], [4, 3]),
    resize(aten.upsample_nearest3d, [5, 4, 6], [3, 4, 2]),
    resize(aten.upsample_linear1d, [7], [4], False),
    resize(aten.upsample_bilinear2d, [7, 9], [4, 5], False),
    resize(aten.upsample_bilinear2d, [7, 9], [4, 5], True),
    resize(aten.upsample_bilinear2d, [8, 10], [4, 5], False, 2.0, 2.0),
    resize(aten.upsample_bilinear2d, [3, 2], [8, 7], False),
    resize(aten.upsample_trilinear3d, [5, 4, 6], [3, 4, 2], False),
    resize(aten.upsample_bicubic2d, [7, 9], [4, 5], False),
    resize(aten.upsample_bicubic2d, [7, 9], [4, 5], True),
    resize(aten._upsample_nearest_exact2d, [7, 5], [4, 3]),
    resize(aten._upsample_bilinear2d_aa, [3, 4], [8, 7], False),
    resize(aten._upsample_bicubic2d_aa, [3, 4], [8, 7], False),
    resize_backward(aten.upsample_nearest1d_backward, [7], [4]),
    resize_backward(aten.upsample_nearest2d_backward, [8, 6], [4, 3]),
    resize_backward(aten.upsample_nearest2d_backward, [7, 5], [4, 3]),
    resize_backward(aten.upsample_nearest3d_backward, [5, 4, 6], [3, 4, 2]),
    resize_backward(aten.upsample_linear1d_backward, [7], [4], False),
    resize_backward(aten.upsample_bilinear2d_backward, [7, 9], [4, 5], False),
    resize_backward(aten.upsample_bilinear2d_backward, [7, 9], [4, 5], True),
    resize_backward(aten.upsample_trilinear3d_backward, [5, 4, 6], [3, 4, 2], False),
    resize_backward(aten.upsample_bicubic2d_backward, [7, 9], [4, 5], False),
    resize_backward(aten._upsample_nearest_exact2d_backward, [7, 5], [4, 3]),
    resize_backward(aten._upsample_bilinear2d_aa_backward, [3, 4], [8, 7], False),
    Case(aten.select_backward.default, lambda x: (x(3, 5), [3, 4, 5], 1, -2)),
    Case(aten.slice_backward.default, lambda x: (x(3, 2, 5), [3, 7, 5], 1, 1, -2, 2)),
    Case(aten.diagonal_backward.default, lambda x: (x(3, 3), [3, 5, 4], 1, 1, 2)),
]


@pytest.mark.parametrize(("case", "dtype"), [(c, d) for c in CASES for d in c.dtypes], ids=str)
def test_call(case: Case, dtype: torch.dtype) -> None:
    run(case, dtype)

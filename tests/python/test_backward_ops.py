"""Gradients, losses, pooling and resampling: each ATen call, compiled alone, against eager in float64.

Float32 may be four times as far from the exact result as eager is, plus 16 units in the last place of the largest element;
half types are rounded once, so they may miss the exact result by one unit in their last place.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch

aten = torch.ops.aten
Maker = Callable[..., torch.Tensor]


@dataclass
class Case:
    """A call: `arguments(x)` makes its arguments, where `x(*shape)` is a random tensor of the type under test."""

    op: Any
    arguments: Callable[[Maker], tuple[Any, ...]]
    label: str = ""
    dtypes: tuple[torch.dtype, ...] = (torch.float32, torch.bfloat16)
    skip: tuple[int, ...] = field(default=())  # results that are not compared

    def __str__(self) -> str:
        return str(self.op).removeprefix("aten.") + (f"-{self.label}" if self.label else "")


def integers(low: int, high: int, *shape: int) -> torch.Tensor:
    return torch.randint(low, high, shape)


def signs(x: Maker, *shape: int) -> torch.Tensor:
    return torch.where(x(*shape) > 0, 1.0, -1.0).to(x(1).dtype)


def probabilities(x: Maker, *shape: int) -> torch.Tensor:
    return x(*shape).sigmoid()


def statistics(x: torch.Tensor, axes: list[int], eps: float = 1e-5) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and reciprocal deviation as normalisations save them: op-math precision, axes kept."""
    wide = x if x.dtype == torch.float64 else x.float()
    variance = wide.var(axes, unbiased=False, keepdim=True)
    return wide.mean(axes, keepdim=True), (variance + eps).rsqrt()


def layer_norm(mask: list[bool]) -> Callable[[Maker], tuple[Any, ...]]:
    def arguments(x: Maker) -> tuple[Any, ...]:
        data = x(4, 3, 17)
        return (x(4, 3, 17), data, [17], *statistics(data, [2]), x(17), x(17), mask)

    return arguments


def layer_norm_plain(x: Maker) -> tuple[Any, ...]:
    data = x(4, 3, 5)
    return (x(4, 3, 5), data, [3, 5], *statistics(data, [1, 2]), None, None, [True, False, False])


def group_norm(x: Maker) -> tuple[Any, ...]:
    data = x(2, 6, 5)
    mean, rstd = statistics(data.reshape(2, 3, 10), [2])
    dtype = data.dtype
    mean, rstd = mean.reshape(2, 3).to(dtype), rstd.reshape(2, 3).to(dtype)
    return (x(2, 6, 5), data, mean, rstd, x(6), 2, 6, 5, 3, [True, True, True])


def batch_norm(training: bool) -> Callable[[Maker], tuple[Any, ...]]:
    def arguments(x: Maker) -> tuple[Any, ...]:
        data = x(3, 4, 5, 2)
        wide = torch.float64 if data.dtype == torch.float64 else torch.float32
        running = x(4).to(wide), x(4).to(wide).exp()
        mean, rstd = (s.reshape(4) for s in statistics(data, [0, 2, 3]))
        return (x(3, 4, 5, 2), data, x(4).to(wide), *running, mean, rstd, training, 1e-5, [True, True, True])

    return arguments


def softmax(op: Callable[..., torch.Tensor], axis: int) -> Callable[[Maker], tuple[Any, ...]]:
    def arguments(x: Maker) -> tuple[Any, ...]:
        data = x(5, 7)
        return (x(5, 7), op(data, axis), axis, data.dtype)

    return arguments


def attention(
    heads: int, key_heads: int, causal: bool, mask: tuple[int, ...] = (), queries: int = 6, keys: int = 6
) -> Callable[[Maker], tuple[Any, ...]]:
    def arguments(x: Maker) -> tuple[Any, ...]:
        q, k, v = x(2, heads, queries, 8), x(2, key_heads, keys, 8), x(2, key_heads, keys, 8)
        bias = x(*mask) if mask else None
        forward = aten._scaled_dot_product_flash_attention_for_cpu
        repeats = heads // key_heads
        wide = [t.double() for t in (q, k.repeat_interleave(repeats, 1), v.repeat_interleave(repeats, 1))]
        out, lse = forward(*wide, 0.0, causal, attn_mask=None if bias is None else bias.double())
        lse = lse.to(torch.float64 if q.dtype == torch.float64 else torch.float32)
        return (x(2, heads, queries, 8), q, k, v, out.to(q.dtype), lse, 0.0, causal), {"attn_mask": bias}

    return arguments


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


def convolution(
    x_shape: tuple[int, ...], w_shape: tuple[int, ...], transposed: bool = False, groups: int = 1, **geometry: int
) -> Callable[[Maker], tuple[Any, ...]]:
    def arguments(x: Maker) -> tuple[Any, ...]:
        n = len(x_shape) - 2
        stride, padding, dilation, extra = (
            [geometry.get(name, default)] * n
            for name, default in (("stride", 1), ("padding", 0), ("dilation", 1), ("output_padding", 0))
        )
        data, weight = x(*x_shape), x(*w_shape)
        out = aten.convolution(data, weight, None, stride, padding, dilation, transposed, extra, groups)
        channels = out.shape[1]
        tail = (stride, padding, dilation, transposed, extra, groups, [True, True, True])
        return (x(*out.shape), data, weight, [channels], *tail)

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


def weight_norm(x: Maker) -> tuple[Any, ...]:
    v = x(4, 3, 2)
    norm = v.double().square().sum([1, 2], keepdim=True).sqrt().to(v.dtype)
    return (x(4, 3, 2), v, x(4, 1, 1), norm, 0)


def log_sigmoid(x: Maker) -> tuple[Any, ...]:
    data = x(37)
    return (x(37), data, (-data.abs()).exp())


def nll(mean_weight: bool, reduction: int, shape: tuple[int, ...] = (5, 7)) -> Callable[[Maker], tuple[Any, ...]]:
    def arguments(x: Maker) -> tuple[Any, ...]:
        places = (shape[0], *shape[2:])
        target = integers(0, shape[1], *places)
        target.view(-1)[1] = 3
        weight = x(shape[1]).abs() if mean_weight else None
        return (x(*shape), target, weight, reduction, 3)

    return arguments


def nll_backward(
    mean_weight: bool, reduction: int, shape: tuple[int, ...] = (5, 7)
) -> Callable[[Maker], tuple[Any, ...]]:
    def arguments(x: Maker) -> tuple[Any, ...]:
        data, target, weight, _, ignored = nll(mean_weight, reduction, shape)(x)
        g = x(*target.shape) if reduction == 0 else x(1)[0]
        total = torch.tensor(4.5, dtype=data.dtype)
        return (g, data, target, weight, reduction, ignored, total)

    return arguments


def grid(*shape: int) -> Callable[[Maker], torch.Tensor]:
    return lambda x: x(*shape) * 0.7


ACTIVATIONS: list[tuple[Any, tuple[Any, ...]]] = [
    (aten.gelu_backward.default, ()),
    (aten.silu_backward.default, ()),
    (aten.mish_backward.default, ()),
    (aten.hardswish_backward.default, ()),
    (aten.hardsigmoid_backward.default, ()),
    (aten.threshold_backward.default, (0.25,)),
    (aten.hardtanh_backward.default, (-0.5, 0.75)),
    (aten.leaky_relu_backward.default, (0.125, False)),
    (aten.softplus_backward.default, (2.0, 1.0)),
    (aten.softshrink_backward.default, (0.5,)),
    (aten.hardshrink_backward.default, (0.5,)),
]

CASES = [
    *(Case(op, lambda x, r=rest: (x(5, 9), x(5, 9) * 2, *r), str(i)) for i, (op, rest) in enumerate(ACTIVATIONS)),
    Case(aten.gelu_backward.default, lambda x: ((x(45), x(45) * 2), {"approximate": "tanh"}), "tanh"),
    Case(aten.elu_backward.default, lambda x: (x(45), 1.5, 0.75, 0.5, False, x(45))),
    Case(aten.elu_backward.default, lambda x: (x(45), 1.5, 0.75, 0.5, True, x(45)), "result"),
    Case(aten.tanh_backward.default, lambda x: (x(45), x(45).tanh())),
    Case(aten.sigmoid_backward.default, lambda x: (x(45), x(45).sigmoid())),
    Case(aten.logit_backward.default, lambda x: (x(45), probabilities(x, 45), 0.25)),
    Case(aten.log_sigmoid_backward.default, log_sigmoid),
    Case(aten.glu_backward.default, lambda x: (x(4, 3, 5), x(4, 6, 5), 1)),
    Case(aten._prelu_kernel_backward.default, lambda x: (x(4, 3, 5), x(4, 3, 5), x(1, 3, 1).expand(4, 3, 5))),
    Case(aten.native_dropout_backward.default, lambda x: (x(4, 9), x(4, 9) > 0, 2.0)),
    Case(aten.rrelu_with_noise_backward.default, lambda x: (x(45), x(45), x(45), 0.1, 0.3, True, False), "training"),
    Case(aten.rrelu_with_noise_backward.default, lambda x: (x(45), x(45), x(45), 0.125, 0.375, False, False)),
    Case(aten.native_layer_norm_backward.default, layer_norm([True, True, True])),
    Case(aten.native_layer_norm_backward.default, layer_norm([False, True, False]), "weight"),
    Case(aten.native_layer_norm_backward.default, layer_norm_plain, "plain"),
    Case(aten.native_group_norm_backward.default, group_norm),
    Case(aten.native_batch_norm_backward.default, batch_norm(True), "training"),
    Case(aten.native_batch_norm_backward.default, batch_norm(False), "inference"),
    Case(aten._weight_norm_interface.default, lambda x: (x(4, 3, 2), x(4, 1, 1), 0)),
    Case(aten._weight_norm_interface.default, lambda x: (x(4, 3), x(1, 3), 1), "last"),
    Case(aten._weight_norm_interface_backward.default, weight_norm),
    Case(aten._softmax_backward_data.default, softmax(torch.softmax, 1)),
    Case(aten._softmax_backward_data.default, softmax(torch.softmax, 0), "first"),
    Case(aten._log_softmax_backward_data.default, softmax(torch.log_softmax, 1)),
    Case(aten._scaled_dot_product_flash_attention_for_cpu_backward.default, attention(2, 2, False)),
    Case(aten._scaled_dot_product_flash_attention_for_cpu_backward.default, attention(2, 2, True), "causal"),
    Case(aten._scaled_dot_product_flash_attention_for_cpu_backward.default, attention(4, 2, True), "grouped"),
    Case(
        aten._scaled_dot_product_flash_attention_for_cpu_backward.default,
        attention(2, 2, False, (2, 1, 5, 6), queries=5),
        "mask",
    ),
    *(Case(aten.nll_loss_forward.default, nll(w, r), f"{w}{r}") for w in (False, True) for r in (0, 1, 2)),
    *(Case(aten.nll_loss_backward.default, nll_backward(w, r), f"{w}{r}") for w in (False, True) for r in (0, 1, 2)),
    Case(aten.nll_loss2d_forward.default, nll(True, 1, (2, 5, 3, 4))),
    Case(aten.nll_loss2d_backward.default, nll_backward(True, 1, (2, 5, 3, 4))),
    *(
        Case(op, lambda x, r=reduction, a=rest: (x(6, 5), x(6, 5), r, *a), f"{reduction}")
        for op, rest in (
            (aten.mse_loss.default, ()),
            (aten.smooth_l1_loss.default, (0.75,)),
            (aten.huber_loss.default, (0.75,)),
        )
        for reduction in (0, 1, 2)
    ),
    *(
        Case(
            op, lambda x, r=reduction, a=rest: (x(6, 5) if r == 0 else x(1)[0], x(6, 5), x(6, 5), r, *a), f"{reduction}"
        )
        for op, rest in (
            (aten.mse_loss_backward.default, ()),
            (aten.smooth_l1_loss_backward.default, (0.75,)),
            (aten.huber_loss_backward.default, (0.75,)),
        )
        for reduction in (0, 1, 2)
    ),
    Case(aten.smooth_l1_loss.default, lambda x: (x(9), x(9), 1, 0.0), "beta0"),
    Case(aten.soft_margin_loss.default, lambda x: (x(6, 5), signs(x, 6, 5), 1)),
    Case(aten.soft_margin_loss_backward.default, lambda x: (x(1)[0], x(6, 5), signs(x, 6, 5), 1)),
    Case(aten.binary_cross_entropy.default, lambda x: (probabilities(x, 6, 5), probabilities(x, 6, 5), None, 1)),
    Case(
        aten.binary_cross_entropy.default, lambda x: (probabilities(x, 6, 5), probabilities(x, 6, 5), x(5), 0), "weight"
    ),
    Case(
        aten.binary_cross_entropy_backward.default,
        lambda x: (x(1)[0], probabilities(x, 6, 5), probabilities(x, 6, 5), x(5), 1),
    ),
    Case(
        aten.binary_cross_entropy_with_logits.default,
        lambda x: (x(6, 5), probabilities(x, 6, 5), x(5).abs(), x(5).abs(), 1),
    ),
    Case(aten.multi_margin_loss.default, lambda x: (x(6, 5), integers(0, 5, 6), 1, 1.0, None, 1)),
    Case(aten.multi_margin_loss.default, lambda x: (x(6, 5), integers(0, 5, 6), 2, 0.5, x(5).abs(), 0), "square"),
    Case(aten.multi_margin_loss.default, lambda x: (x(5), integers(0, 5), 1, 1.0, None, 1), "one"),
    Case(
        aten.multi_margin_loss_backward.default,
        lambda x: (x(1)[0], x(6, 5), integers(0, 5, 6), 2, 0.5, x(5).abs(), 1),
    ),
    Case(
        aten.multi_margin_loss_backward.default, lambda x: (x(6), x(6, 5), integers(0, 5, 6), 1, 0.5, None, 0), "none"
    ),
    *(
        Case(aten.convolution_backward.default, convolution(*case, **geometry), str(i))
        for i, (*case, geometry) in enumerate(
            [
                ((2, 4, 9), (6, 4, 3), {"padding": 1}),
                ((2, 4, 7, 9), (6, 4, 3, 3), {"stride": 2, "padding": 1}),
                ((2, 4, 8, 8), (6, 2, 3, 3), {"groups": 2, "dilation": 2, "padding": 2}),
                ((2, 4, 8, 8), (4, 1, 3, 3), {"groups": 4, "padding": 1}),
                ((1, 2, 5, 6, 7), (3, 2, 2, 2, 2), {"stride": 2}),
                ((2, 4, 5, 5), (4, 3, 3, 3), {"transposed": True, "stride": 2, "padding": 1, "output_padding": 1}),
                ((2, 4, 5, 5), (4, 3, 3, 3), {"transposed": True, "groups": 2, "dilation": 2}),
            ]
        )
    ),
    Case(aten.embedding_dense_backward.default, lambda x: (x(3, 4, 5), integers(0, 7, 3, 4), 7, -1, False)),
    Case(aten.embedding_dense_backward.default, lambda x: (x(3, 4, 5), integers(0, 7, 3, 4), 7, 2, False), "padding"),
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


def exact(value: Any) -> Any:
    """The same argument with float64 in place of narrower floating types."""
    if isinstance(value, torch.Tensor) and value.is_floating_point():
        return value.double()
    if isinstance(value, torch.dtype) and value.is_floating_point:
        return torch.float64
    return value


def make(case: Case, dtype: torch.dtype) -> tuple[tuple[Any, ...], dict[str, Any]]:
    found = case.arguments(lambda *shape: torch.randn(shape).to(dtype))
    return found if isinstance(found[-1], dict) else (found, {})


def as_tuple(results: Any) -> tuple[torch.Tensor | None, ...]:
    return tuple(results) if isinstance(results, (tuple, list)) else (results,)


def check(found: torch.Tensor, wanted: torch.Tensor, eager: torch.Tensor | None, dtype: torch.dtype) -> None:
    """`wanted` is exact, `eager` what PyTorch itself gives in this type."""
    assert found.shape == wanted.shape
    if not found.is_floating_point():
        assert torch.equal(found, wanted)
        return
    error = (found.double() - wanted).abs()
    largest = wanted.abs().max().clamp_min(1e-30) if wanted.numel() else wanted.new_ones(())
    bound = 16 * torch.finfo(torch.float32).eps * largest
    if eager is not None and found.dtype == torch.float32:
        bound = bound + 4 * (eager.double() - wanted).abs()
    if found.dtype in (torch.bfloat16, torch.float16):
        bound = bound + torch.finfo(found.dtype).eps * wanted.abs()
    wrong = ~(error <= bound) & ~(found.double().isnan() & wanted.isnan())
    assert not wrong.any(), f"{found[wrong][:5]} is not {wanted[wrong][:5]}"


@pytest.mark.parametrize(("case", "dtype"), [(c, d) for c in CASES for d in c.dtypes], ids=str)
def test_call(case: Case, dtype: torch.dtype) -> None:
    args, kwargs = make(case, dtype)
    compiled = torch.compile(lambda *a: case.op(*a, **kwargs), backend="oxyfuel", fullgraph=True)
    found = as_tuple(compiled(*args))
    compare(case, dtype, args, kwargs, found)


def compare(case: Case, dtype: torch.dtype, args: Any, kwargs: Any, found: tuple[torch.Tensor | None, ...]) -> None:
    wanted = as_tuple(case.op(*map(exact, args), **{k: exact(v) for k, v in kwargs.items()}))
    try:
        eager = as_tuple(case.op(*args, **kwargs))
    except RuntimeError:  # eager lacks some of the half kernels
        eager = (None,) * len(wanted)
    assert len(found) == len(wanted)
    for i, (f, w, e) in enumerate(zip(found, wanted, eager)):
        if i not in case.skip and w is not None:
            assert f is not None
            check(f, w, e, dtype)

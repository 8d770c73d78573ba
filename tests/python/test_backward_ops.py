"""Gradients of normalisations, activations, attention and convolutions; losses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from calls import Case, Maker, integers, probabilities, run

aten = torch.ops.aten


def signs(x: Maker, *shape: int) -> torch.Tensor:
    return torch.where(x(*shape) > 0, 1.0, -1.0).to(x(1).dtype)


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
]


@pytest.mark.parametrize(("case", "dtype"), [(c, d) for c in CASES for d in c.dtypes], ids=str)
def test_call(case: Case, dtype: torch.dtype) -> None:
    run(case, dtype)


def test_probabilities_are_checked() -> None:
    compiled = torch.compile(lambda x, y: aten.binary_cross_entropy.default(x, y), backend="oxyfuel", fullgraph=True)
    y = torch.rand(40)
    compiled(torch.rand(40), y)
    for bad in (1.5, -0.25, float("nan")):
        x = torch.rand(40)
        x[33] = bad
        with pytest.raises(RuntimeError):
            compiled(x, y)


def test_classes_are_checked() -> None:
    compiled = torch.compile(
        lambda x, t: aten.nll_loss_forward.default(x, t, None, 1, -100), backend="oxyfuel", fullgraph=True
    )
    x, target = torch.randn(6, 5), integers(0, 5, 6)
    compiled(x, target)
    target[4] = 5
    with pytest.raises(IndexError):
        compiled(x, target)
    target[4] = -100
    compiled(x, target)


def test_sizes_may_vary() -> None:
    """One program for all sizes of the axes that PyTorch marks dynamic."""

    def model(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        y = torch.nn.functional.layer_norm(x, x.shape[-1:], w)
        return torch.nn.functional.smooth_l1_loss(torch.nn.functional.gelu(y).log_softmax(-1), y.detach())

    compiled = torch.compile(model, backend="oxyfuel", fullgraph=True, dynamic=True)
    for rows, columns in ((4, 9), (7, 16), (1, 33)):
        x = torch.randn(rows, columns, requires_grad=True)
        w = torch.randn(columns, requires_grad=True)
        found = torch.autograd.grad(compiled(x, w), (x, w))
        for f, e in zip(found, torch.autograd.grad(model(x, w), (x, w))):
            torch.testing.assert_close(f, e)

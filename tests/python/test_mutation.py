"""Arguments that the program writes to, results that share memory with them."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from oxyfuel.reports import collect
from support import check, same


def swap(x, y):
    kept = x.clone()
    x.copy_(y)
    y.copy_(kept)


def shift(x):
    x[1:] = x[:-1].clone()
    return x * 2


def chain(x):
    x.mul_(2)
    y = x + 1
    x.sub_(y)
    return y, x.sum()


def update_rows(cache, rows):
    cache[2:4] = rows
    return cache.sum(0)


def update_at(cache, position, row):
    cache.index_copy_(0, position, row)
    return cache[position] * 2


def put(x, rows, columns, values):
    x.index_put_((rows, columns), values)
    x.index_put_((rows,), values[0], accumulate=True)
    x[columns > 1] = -1
    return x.sum()


def through_views(x):
    rows = x.view(2, 2, 3)[1]
    rows[0].add_(1)
    x.t()[2].mul_(rows[0, 0])
    return rows, x[1:]


def replaced(x, y):
    x.copy_(y[:1])
    x.relu_().clamp_(max=0.5)
    torch.add(x, 1, out=y)
    return x


CASES = {
    "add_": (lambda x: x.add_(1), lambda: (torch.randn(3, 4),)),
    "view": (lambda x: x.view(-1)[2:5].fill_(7), lambda: (torch.randn(3, 4),)),
    "transposed": (lambda x: x.t().mul_(2).sum(0), lambda: (torch.randn(3, 4),)),
    "swap": (swap, lambda: (torch.randn(5), torch.randn(5))),
    "shift": (shift, lambda: (torch.randn(6, 2),)),
    "chain": (chain, lambda: (torch.randn(7),)),
    "rows": (update_rows, lambda: (torch.randn(6, 3), torch.randn(2, 3))),
    "index": (update_at, lambda: (torch.randn(6, 3), torch.tensor([4]), torch.randn(1, 3))),
    "strided": (lambda x: x.mul_(3).sum(), lambda: (torch.randn(4, 6)[:, ::2],)),
    "dtype": (lambda x, y: x.copy_(y), lambda: (torch.zeros(3, dtype=torch.int64), torch.randn(3) * 9)),
    "zero_": (lambda x: x.zero_() + 1, lambda: (torch.randn(3),)),
    "put": (
        put,
        lambda: (torch.randn(5, 4), torch.tensor([1, 1, 3, 0, 4]), torch.tensor([0, 2, 3, 3, 1]), torch.randn(5)),
    ),
    "through views": (through_views, lambda: (torch.randn(4, 3),)),
    "replaced": (replaced, lambda: (torch.randn(3, 4), torch.randn(3, 4))),
    "scatter_": (
        lambda x, i: (x.scatter_(1, i, 2.0), x.scatter_add_(1, i, x * 1).square_()),
        lambda: (torch.randn(3, 4), torch.tensor([[0, 1], [3, 3], [2, 0]])),
    ),
    "where": (lambda x: x.masked_fill_(x > 0, -1), lambda: (torch.randn(9),)),
}


@pytest.mark.parametrize("name", sorted(CASES))
def test_mutation(name):
    function, make = CASES[name]
    check(function, *make())


def test_arguments_that_overlap():
    def f(a, b):
        a.add_(1)
        return b * 2

    base, other = torch.arange(6.0), torch.arange(6.0)
    found = torch.compile(f, backend="oxyfuel")(base[:4], base[2:])
    wanted = f(other[:4], other[2:])
    same((found, base), (wanted, other))


def test_results_are_apart_where_eager_has_them_apart():
    def f(x):
        y = x * 1
        return y, y.clone(), x.clone(), x + 0

    x = torch.randn(4)
    found = torch.compile(f, backend="oxyfuel")(x)
    pointers = {x.data_ptr(), *(t.data_ptr() for t in found)}
    assert len(pointers) == 5
    same(found, f(x))


def test_results_share_memory_where_eager_has_them_share():
    x = torch.randn(3, 4)
    a, b = torch.compile(lambda x: (x.t(), x[1:]), backend="oxyfuel")(x)
    assert a.data_ptr() == x.data_ptr()
    b.fill_(5)
    assert x[1, 0] == 5


def test_buffers_of_a_module():
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", torch.zeros(()))

        def forward(self, x):
            self.seen += x.numel()
            return x * self.seen

    module, other = Counter(), Counter()
    compiled = torch.compile(module, backend="oxyfuel")
    with collect() as explanation, torch.no_grad():
        for _ in range(3):
            x = torch.randn(4)
            same(compiled(x), other(x))
    same(module.seen, other.seen)
    assert len(explanation.graphs) == 1


def test_version_counters_move():
    x = torch.randn(3)
    torch.compile(lambda x: x.add_(1), backend="oxyfuel")(x)
    assert x._version > 0


LAST, FIRST = torch.channels_last, torch.contiguous_format


def batch_norm(x):
    return F.batch_norm(x, torch.zeros(6), torch.ones(6), training=True)


FORMATS = {
    "pointwise": lambda x: x.sin() * 2 + x,
    "plain and last": lambda x: (x + x.contiguous(), x.contiguous() + x),
    "convolution": lambda x: F.conv2d(x, torch.ones(4, 6, 3, 3), padding=1),
    "batch_norm": batch_norm,
    "pool": lambda x: (F.max_pool2d(x, 2), F.avg_pool2d(x, 2), F.adaptive_avg_pool2d(x, 2)),
    "resize": lambda x: F.interpolate(x, scale_factor=2, mode="nearest"),
    "cat": lambda x: (torch.cat([x, x]), torch.stack([x, x])),
    "pad": lambda x: F.pad(x, (1, 1)),
    "formats": lambda x: (x.contiguous(), x.clone(), x.clone(memory_format=FIRST), x.to(memory_format=LAST)),
    "types": lambda x: (x.to(torch.bfloat16), x.double(), x > 0),
    "like": lambda x: (torch.zeros_like(x), torch.ones_like(x, memory_format=FIRST), x.new_ones(x.shape)),
    "reductions": lambda x: (x.sum(1), x.amax((2, 3), keepdim=True), x.softmax(1), x.cumsum(2)),
    "views": lambda x: (x.permute(0, 2, 3, 1), x[:, 1:3], x.flatten(2), x.reshape(2, -1), x.transpose(1, 3) + 1),
    "dropout in evaluation": lambda x: F.dropout(x, 0.5, training=False),
    "in place": lambda x: (x.mul_(2), x.relu()),
}


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_memory_formats(name):
    """Strides of results are eager's, from images whose channels lie together."""
    function = FORMATS[name]
    x = torch.randn(2, 6, 4, 4).to(memory_format=LAST)
    check(function, x, atol=1e-5, rtol=1e-5)


def test_strides_of_permuted_and_expanded_arguments():
    def f(x, y, z):
        return x + 1, x * y, (x + z).sum(0), x.clone(), torch.where(y > 0, x, z)

    check(
        f, torch.randn(3, 4, 5).permute(2, 0, 1), torch.randn(5, 1, 4).expand(5, 3, 4), torch.randn(4, 5).t()[:, None]
    )


def test_gradients_have_the_strides_of_parameters():
    model = nn.Sequential(nn.Conv2d(6, 4, 3), nn.BatchNorm2d(4), nn.ReLU()).to(memory_format=LAST)
    ours = copy.deepcopy(model)
    x = torch.randn(2, 6, 5, 5).to(memory_format=LAST)
    compiled = torch.compile(ours, backend="oxyfuel", fullgraph=True)
    for _ in range(2):
        a, b = x.clone().requires_grad_(), x.clone().requires_grad_()
        found, wanted = compiled(a), model(b)
        same(found, wanted, atol=1e-5, rtol=1e-4)
        found.square().sum().backward()
        wanted.square().sum().backward()
        same(a.grad, b.grad, atol=1e-4, rtol=1e-4)
        gradients = [[p.grad for p in m.parameters()] for m in (ours, model)]
        same(*gradients, atol=1e-4, rtol=1e-4)
        same(dict(ours.named_buffers()), dict(model.named_buffers()), atol=1e-5, rtol=1e-4)


def views_first(x):
    y = x * 2
    return y[0], y.t(), y, x, x[1:]


def views_last(x):
    y = x.sin()
    return y.reshape(2, 6), y, y.view(-1)[::2], y.clone(), y[:, 1:]


def views_of_copies(x):
    y, z = x * 1, x.clone()
    return y, y.t(), z.t(), z, y.unsqueeze(1)


def views_of_externs(x):
    y = torch.fft.ifftshift(torch.randperm(12).view(3, 4) * 0 + x)
    z = torch.bernoulli(y.sigmoid())
    return z, z[1:], z.view(4, 3)


@pytest.mark.parametrize("function", [views_first, views_last, views_of_copies, views_of_externs])
def test_results_that_alias_each_other(function):
    """A write to one is seen in those, and only those, that share its memory in eager."""
    for i in range(5):
        x = torch.randn(3, 4)
        other = x.clone()
        torch.manual_seed(i)
        found = torch.compile(function, backend="oxyfuel", fullgraph=True)(x)
        torch.manual_seed(i)
        wanted = function(other)
        same(found, wanted, atol=1e-6, rtol=1e-6)
        for results in (found, wanted):
            results[i % len(results)].mul_(3)
        same((found, x), (wanted, other), atol=1e-6, rtol=1e-6)


@torch.library.custom_op("oxyfuel_test::turned", mutates_args=())
def turned(x: torch.Tensor) -> torch.Tensor:
    return x.t().contiguous().t()


@turned.register_fake
def _(x):
    return torch.empty_like(x)  # another layout than the operator's


def test_views_of_a_result_whose_layout_is_not_the_one_that_was_told():
    def views(x):
        y = turned(x)
        return y, y.view(-1), y[1:]

    x = torch.arange(12.0).view(3, 4)
    whole, flat, rest = torch.compile(views, backend="oxyfuel", fullgraph=True)(x)
    assert torch.equal(whole, x)
    assert torch.equal(flat, x.view(-1))
    assert torch.equal(rest, x[1:])
    alone = torch.compile(turned, backend="oxyfuel", fullgraph=True)(x)
    assert torch.equal(alone, x)
    assert alone.stride() == turned(x).stride()


def test_writing_to_an_argument_that_needs_gradients():
    def f(x, y):
        z = x * y
        z.mul_(y)
        z[1:].add_(x[1:].exp())
        return z

    arguments = [torch.randn(3, 4, requires_grad=True) for _ in range(2)]
    others = copy.deepcopy(arguments)
    found, wanted = torch.compile(f, backend="oxyfuel", fullgraph=True)(*arguments), f(*others)
    same(found, wanted)
    found.square().sum().backward()
    wanted.square().sum().backward()
    same([x.grad for x in arguments], [x.grad for x in others], atol=1e-5, rtol=1e-5)
    with torch.no_grad():  # a leaf that is written in place
        same(torch.compile(lambda x: x.mul_(2), backend="oxyfuel")(arguments[0]), others[0].mul_(2))
    same(arguments, others)

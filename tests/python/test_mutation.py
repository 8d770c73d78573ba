"""Arguments that the program writes to, results that share memory with them."""

from __future__ import annotations

import pytest
import torch
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

"""Under a seed, a program gets eager's random numbers in eager's order, and leaves the generator as eager does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from support import same

CLOSE = {"atol": 1e-5, "rtol": 1e-5}


def mixed(x):
    """Fused operators around several draws."""
    a = F.dropout(x.sin(), 0.3) + torch.rand_like(x)
    b = torch.randn(4, 1) * a.cos()
    return a.sum(0), b, torch.randint(0, 9, (3,)), F.dropout(b, 0.5)


def in_branches(x):
    y = F.dropout(x, 0.5)
    z = torch.rand_like(y) if x.shape[0] > 3 else y
    return torch.cat([y, z, torch.rand(1, 6)])


def written(x):
    y = x.clone()
    y[1:].uniform_()
    y[:1].normal_(2, 3)
    return y.exp(), torch.empty(5).exponential_(), torch.empty(4).bernoulli_(0.3)


PROGRAMS: dict[str, Callable[[torch.Tensor], Any]] = {
    "mixed": mixed,
    "in_branches": in_branches,
    "written": written,
    "dropout": lambda x: F.dropout(x, 0.3),
    "dropout_": lambda x: F.dropout(x * 1, 0.3, inplace=True),
    "native_dropout": lambda x: torch.native_dropout(x, 0.4, True),
    "alpha_dropout": lambda x: F.alpha_dropout(x, 0.4, True),
    "feature_dropout": lambda x: F.dropout2d(x[None, :, :, None], 0.4),
    "bernoulli": lambda x: torch.bernoulli(x.sigmoid()) + torch.bernoulli(x.detach(), 0.7),
    "rrelu": lambda x: F.rrelu(x, 0.1, 0.4, training=True),
    "multinomial": lambda x: x.gather(1, torch.multinomial(x.softmax(-1), 3)),
    "gumbel": lambda x: F.gumbel_softmax(x, hard=True),
    "permutation": lambda x: x[torch.randperm(4)],
    "normal": lambda x: torch.normal(x, x.abs()),
    "distributions": lambda x: (torch.poisson(x.abs()), torch.empty(3).cauchy_(), torch.empty(3).log_normal_()),
    "attention": lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None], dropout_p=0.3),
}


def run(call: Callable[[torch.Tensor], Any], x: torch.Tensor) -> Any:
    """Results, gradients and the generator's state afterwards, of two calls under one seed."""
    torch.manual_seed(7)
    left = []
    for _ in range(2):
        y = x.clone().requires_grad_()
        result = call(y)
        results = result if isinstance(result, tuple) else (result,)
        sum(r.sum() for r in results if r.requires_grad or r.is_floating_point()).backward()
        left.append(([r.detach() for r in results], y.grad))
    return left, torch.get_rng_state()


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_numbers_and_order(name):
    program = PROGRAMS[name]
    x = torch.randn(4, 6)
    compiled = torch.compile(program, backend="oxyfuel", fullgraph=True)
    (found, state), (wanted, eagers_state) = run(compiled, x), run(program, x)
    same(found, wanted, **CLOSE)
    assert torch.equal(state, eagers_state)


def test_modules_in_training():
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.2, batch_first=True)
    model = nn.Sequential(layer, nn.RReLU(), nn.Dropout1d(0.3)).train()
    x = torch.randn(2, 5, 8)
    compiled = torch.compile(model, backend="oxyfuel", fullgraph=True)
    (found, state), (wanted, eagers_state) = run(compiled, x), run(model, x)
    same(found, wanted, **CLOSE)
    assert torch.equal(state, eagers_state)


def test_inference():
    x = torch.randn(4, 6)
    with torch.no_grad():
        torch.manual_seed(7)
        found = torch.compile(mixed, backend="oxyfuel", fullgraph=True)(x)
        torch.manual_seed(7)
        same(found, mixed(x), **CLOSE)

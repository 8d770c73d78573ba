"""`torch.compile(optimizer.step)`: ten steps follow eager's, in a set of fused kernels."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from oxyfuel.reports import collect
from support import same

SHAPES = ((7, 5), (7,), (3, 2, 2), (40, 33), (1,))

OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd": lambda p, **k: torch.optim.SGD(p, lr=0.1, **k),
    "momentum": lambda p, **k: torch.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.1, weight_decay=0.01, **k),
    "nesterov": lambda p, **k: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, maximize=True, **k),
    "adam": lambda p, **k: torch.optim.Adam(p, lr=0.01, weight_decay=0.01, **k),
    "amsgrad": lambda p, **k: torch.optim.Adam(p, lr=0.01, amsgrad=True, maximize=True, **k),
    "adamw": lambda p, **k: torch.optim.AdamW(p, lr=0.01, **k),
}
VARIANTS = {"loop": {"foreach": False}, "foreach": {"foreach": True}, "fused": {"fused": True}}


def parameters() -> list[nn.Parameter]:
    return [nn.Parameter(torch.randn(shape)) for shape in SHAPES]


def state(optimizer: torch.optim.Optimizer) -> list[dict[str, Any]]:
    return [optimizer.state[p] for group in optimizer.param_groups for p in group["params"]]


@pytest.mark.parametrize("variant", sorted(VARIANTS))
@pytest.mark.parametrize("name", sorted(OPTIMIZERS))
def test_steps_follow_eagers(name, variant):
    model = parameters()
    ours = copy.deepcopy(model)
    optimizer, other = (OPTIMIZERS[name](p, **VARIANTS[variant]) for p in (ours, model))
    step = torch.compile(optimizer.step, backend="oxyfuel")
    with collect() as explanation:
        for _ in range(10):
            for a, b in zip(ours, model):
                b.grad = torch.randn_like(b)
                a.grad = b.grad.clone()
            step()
            other.step()
    same(ours, model, atol=1e-6, rtol=1e-5)
    same(state(optimizer), state(other), atol=1e-6, rtol=1e-5)
    if variant == "fused":
        return  # Dynamo leaves these to PyTorch's own fused kernels
    # The first step makes the state.
    assert 1 <= len(explanation.graphs) <= 2, str(explanation)
    assert all(graph.native_share == 1 for graph in explanation.graphs), str(explanation)


def test_a_learning_rate_that_changes():
    model = parameters()
    ours = copy.deepcopy(model)
    optimizer, other = (torch.optim.AdamW(p, lr=torch.tensor(0.1)) for p in (ours, model))
    schedules = [torch.optim.lr_scheduler.ExponentialLR(o, 0.5) for o in (optimizer, other)]

    def step():
        optimizer.step()
        schedules[0].step()

    compiled = torch.compile(step, backend="oxyfuel")
    with collect() as explanation:
        for _ in range(5):
            for a, b in zip(ours, model):
                b.grad = torch.randn_like(b)
                a.grad = b.grad.clone()
            compiled()
            other.step()
            schedules[1].step()
    # The graph computes 1 - beta2 ** step, 0.001 at first, in float32: steps of 0.1 are off by 3e-5 of that.
    same(ours, model, atol=3e-6, rtol=1e-5)
    assert 1 <= len(explanation.graphs) <= 4, str(explanation)

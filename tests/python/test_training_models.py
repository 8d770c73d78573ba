"""Ten optimizer steps of small models follow eager's losses, in float32 and under bfloat16 autocast."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from zoo import MODELS

STEPS = 10
NAMES = ("bert", "gpt2", "llama_prefill", "lstm", "resnet", "vit")
TOLERANCES = {torch.float32: 1e-4, torch.bfloat16: 2e-2}


def fresh_batch(arguments: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    return tuple(torch.randn_like(x) if x.is_floating_point() else torch.randint(0, 50, x.shape) for x in arguments)


def losses(model: nn.Module, call: Callable[..., Any], arguments: Any, dtype: torch.dtype) -> list[float]:
    """Of each step; dropout draws under a seed."""
    torch.manual_seed(5)
    # Not Adam: its first steps follow the signs of gradients, of those that are rounding errors, too.
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9)
    found = []
    for _ in range(STEPS):
        batch = fresh_batch(arguments)
        with torch.autocast("cpu", dtype, enabled=dtype != torch.float32):
            result = call(*batch)
        result = result.float().flatten(1)
        loss = F.mse_loss(result, torch.linspace(-1, 1, result.shape[1]).expand_as(result))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


@pytest.mark.parametrize(
    ("name", "dtype"),
    [(name, torch.float32) for name in NAMES] + [(name, torch.bfloat16) for name in ("gpt2", "resnet")],
    ids=str,
)
def test_losses_follow_eagers(name, dtype):
    model, arguments = MODELS[name]()
    model.train()
    ours = copy.deepcopy(model)
    wanted = losses(model, model, arguments, dtype)
    found = losses(ours, torch.compile(ours, backend="oxyfuel"), arguments, dtype)
    assert found == pytest.approx(wanted, rel=TOLERANCES[dtype])
    assert len(set(wanted)) == STEPS

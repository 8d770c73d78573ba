"""Forward, backward and optimizer steps against eager."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from support import same


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.out = nn.LayerNorm(16), nn.Linear(16, 16)
        self.qkv = nn.Linear(16, 48)

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).reshape(*x.shape[:2], 3, 2, 8).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.out(y.transpose(1, 2).reshape(x.shape))


MODELS = {
    "mlp": (lambda: nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4)), (5, 8)),
    "norm": (lambda: nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.SiLU(), nn.Linear(8, 3)), (5, 8)),
    "batch_norm": (lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()), (2, 3, 8, 8)),
    "attention": (Block, (2, 6, 16)),
    "pool": (lambda: nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.MaxPool2d(2), nn.Flatten()), (2, 3, 8, 8)),
}


@pytest.mark.parametrize("name", sorted(MODELS))
def test_gradients(name):
    make, shape = MODELS[name]
    model = make()
    ours = copy.deepcopy(model)
    x = torch.randn(shape)
    a, b = x.clone().requires_grad_(), x.clone().requires_grad_()
    compiled = torch.compile(ours, backend="oxyfuel", fullgraph=True)
    (compiled(a) ** 2).sum().backward()
    (model(b) ** 2).sum().backward()
    close = {"atol": 1e-4, "rtol": 1e-4}
    same(a.grad, b.grad, **close)
    same({n: p.grad for n, p in ours.named_parameters()}, {n: p.grad for n, p in model.named_parameters()}, **close)
    same(dict(ours.named_buffers()), dict(model.named_buffers()), **close)


@pytest.mark.parametrize("make", [torch.optim.SGD, torch.optim.AdamW], ids=["sgd", "adamw"])
@pytest.mark.parametrize("fused", [False, True])
def test_steps_change_what_inference_sees(make, fused):
    """The inference graph prepares weights; optimizers, fused ones too, make it prepare them again."""
    model = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 8))
    ours = copy.deepcopy(model)
    compiled = torch.compile(ours, backend="oxyfuel")
    optimizers = [make(m.parameters(), lr=0.1, fused=fused) for m in (ours, model)]
    for _ in range(3):
        x = torch.randn(32, 64)
        for call, optimizer in zip((compiled, model), optimizers):
            optimizer.zero_grad()
            call(x).square().mean().backward()
            optimizer.step()
        with torch.no_grad():
            same(compiled(x), model(x), atol=1e-4, rtol=1e-4)


def test_weights_that_change_behind_version_counters():
    import oxyfuel

    model = nn.Linear(64, 64)
    compiled = torch.compile(model, backend="oxyfuel")
    x = torch.randn(32, 64)
    with torch.no_grad():
        for change in (
            lambda: model.weight.add_(1),
            lambda: setattr(model, "weight", nn.Parameter(torch.randn(64, 64))),
            lambda: setattr(model.weight, "data", torch.randn(64, 64)),
            lambda: model.load_state_dict({k: torch.randn_like(v) for k, v in model.state_dict().items()}),
            lambda: model.load_state_dict({k: torch.randn_like(v) for k, v in model.state_dict().items()}, assign=True),
            lambda: model.weight.data.mul_(3),
        ):
            compiled(x)
            change()
            same(compiled(x), model(x), atol=1e-4, rtol=1e-4)
        model.weight.data.numpy()[5, 7] = 4
        oxyfuel.invalidate()
        same(compiled(x), model(x), atol=1e-4, rtol=1e-4)


def test_a_step_inside_of_the_compiled_function():
    model = nn.Linear(4, 4)
    ours = copy.deepcopy(model)

    def step(m, optimizer, x):
        optimizer.zero_grad()
        loss = m(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    compiled = torch.compile(step, backend="oxyfuel")
    a, b = torch.optim.SGD(ours.parameters(), lr=0.1), torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        x = torch.randn(3, 4)
        same(compiled(ours, a, x), step(model, b, x))
    same(dict(ours.named_parameters()), dict(model.named_parameters()))


def test_custom_autograd_function():
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            (x,) = ctx.saved_tensors
            return gradient * 3 + x * 0

    a, b = torch.randn(4).requires_grad_(), None
    b = a.detach().clone().requires_grad_()
    torch.compile(lambda x: Double.apply(x).sin(), backend="oxyfuel")(a).sum().backward()
    Double.apply(b).sin().sum().backward()
    same(a.grad, b.grad)


def test_dropout_has_eagers_numbers():
    def f(x):
        return F.dropout(x, 0.4) * 2 + torch.rand_like(x)

    x = torch.randn(50, requires_grad=True)
    compiled = torch.compile(f, backend="oxyfuel")
    torch.manual_seed(3)
    found = compiled(x)
    torch.manual_seed(3)
    same(found.detach(), f(x).detach())

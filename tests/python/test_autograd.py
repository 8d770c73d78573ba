"""What programs do around backward passes: checkpoints, hooks, several passes, clipping, mixed precision, torch.func."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

from oxyfuel.reports import collect
from support import same

CLOSE = {"atol": 1e-5, "rtol": 1e-4}


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4))


def compile(function: Any, **keywords: Any) -> Any:
    return torch.compile(function, backend="oxyfuel", **keywords)


def gradients(model: nn.Module) -> dict[str, Any]:
    return {name: parameter.grad for name, parameter in model.named_parameters()}


def train_both(
    model: nn.Module, step: Callable[[Any, nn.Module, torch.Tensor], Any], steps: int = 2, **keywords: Any
) -> None:
    """`step(call, model, x)`, compiled and in eager, gives the same and leaves the same gradients and parameters."""
    ours = copy.deepcopy(model)
    compiled = compile(ours, **keywords)
    for number in range(steps):
        x = torch.randn(5, 8)
        torch.manual_seed(number)
        found = step(compiled, ours, x)
        torch.manual_seed(number)
        wanted = step(model, model, x)
        same(found, wanted, **CLOSE)
        same(gradients(ours), gradients(model), **CLOSE)
        same(dict(ours.named_parameters()), dict(model.named_parameters()), **CLOSE)


def backward(call: Any, model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    model.zero_grad()
    result: torch.Tensor = call(x)
    result.square().sum().backward()
    return result


# Checkpoints ----------------------------------------------------------------------------------------------------------


class Checkpointed(nn.Module):
    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.first, self.second = network(), nn.Linear(4, 4)
        self.dropout = dropout

    def block(self, x: torch.Tensor) -> torch.Tensor:
        return F.dropout(self.first(x), self.dropout) * 2

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(checkpoint(self.block, x, use_reentrant=False)).sin()


def test_checkpoint_inside():
    train_both(Checkpointed(), backward, fullgraph=True)


def test_checkpoint_repeats_its_random_numbers():
    train_both(Checkpointed(0.4), backward)


def test_checkpoint_outside():
    train_both(
        network(),
        lambda call, model, x: backward(lambda x: checkpoint(call, x, use_reentrant=False), model, x),
    )


# Hooks ----------------------------------------------------------------------------------------------------------------


def test_hooks_of_modules_and_tensors():
    model = network()
    ours = copy.deepcopy(model)
    seen: dict[str, list[Any]] = {"found": [], "wanted": []}
    for module, name in ((ours, "found"), (model, "wanted")):
        log = seen[name]
        module[0].register_forward_pre_hook(lambda _, arguments: (arguments[0] * 2,))
        module[1].register_forward_hook(lambda _, arguments, result: result + arguments[0])
        module[3].register_full_backward_hook(lambda _, ingoing, outgoing: (ingoing[0] * 3,))
        module[3].weight.register_hook(lambda gradient: gradient * 5)
        module[0].bias.register_post_accumulate_grad_hook(lambda p, log=log: log.append(p.grad.clone()))
    compiled = compile(ours)
    x = torch.randn(5, 8)
    same(backward(compiled, ours, x), backward(model, model, x), **CLOSE)
    same(gradients(ours), gradients(model), **CLOSE)
    assert len(seen["wanted"]) == 1
    same(seen["found"], seen["wanted"], **CLOSE)


def test_a_hook_on_a_tensor_inside():
    def f(x, y):
        z = x.sin() * y
        z.register_hook(lambda gradient: gradient * 2 + 1)
        return z.exp()

    arguments = [torch.randn(4, requires_grad=True) for _ in range(2)]
    others = copy.deepcopy(arguments)
    compile(f)(*arguments).sum().backward()
    f(*others).sum().backward()
    same([x.grad for x in arguments], [x.grad for x in others], **CLOSE)


def test_hooks_on_saved_tensors():
    packed = []

    def pack(x):
        packed.append(x.shape)
        return x.double()

    def step(call, model, x):
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x.float()):
            return backward(call, model, x)

    train_both(network(), step, steps=1)
    assert packed


# Several passes -------------------------------------------------------------------------------------------------------


def test_gradients_accumulate():
    def step(call, model, x):
        model.zero_grad()
        for part in (x, x * 2, x[:3]):
            call(part).square().mean().backward()

    train_both(network(), step)


def test_two_passes_through_one_graph():
    def step(call, model, x):
        model.zero_grad()
        y = call(x).sin()
        y.sum().backward(retain_graph=True)
        first = {name: gradient.clone() for name, gradient in gradients(model).items()}
        y.square().sum().backward()
        return first

    train_both(network(), step)


def test_gradients_that_are_kept_differentiable():
    def step(call, model, x):
        x = x.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(call(x).sum(), x, create_graph=True)
        return gradient.detach()

    train_both(network(), step)


def test_double_backward_names_what_can():
    x = torch.randn(5, 8, requires_grad=True)

    def penalty(call: Any) -> torch.Tensor:
        (gradient,) = torch.autograd.grad(call(x).sum(), x, create_graph=True)
        return gradient.square().sum()

    model = network()
    with pytest.raises(RuntimeError, match=r'(?s)oxyfuel: .*double backward.*backend="eager"'):
        penalty(compile(model)).backward()
    wanted = penalty(model)
    same(penalty(torch.compile(model, backend="eager")), wanted, **CLOSE)
    inside = compile(lambda x: torch.func.grad(lambda x: model(x).sum())(x).square().sum())
    same(inside(x), wanted, **CLOSE)
    inside(x).backward()
    found, x.grad = x.grad, None
    wanted.backward()
    same(found, x.grad, **CLOSE)


# Steps ----------------------------------------------------------------------------------------------------------------


def test_clipping():
    def step(call, model, x):
        backward(call, model, x)
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        torch.nn.utils.clip_grad_value_(model.parameters(), 0.01)
        return norm

    train_both(network(), step)


def test_clipping_compiled():
    def clip(parameters):
        norm = torch.nn.utils.clip_grad_norm_(parameters, 0.1)
        torch.nn.utils.clip_grad_value_(parameters, 0.01)
        return norm

    model = network()
    backward(model, model, torch.randn(5, 8))
    ours = copy.deepcopy(model)
    for a, b in zip(ours.parameters(), model.parameters()):
        a.grad = b.grad.clone()
    with collect() as explanation:
        found = compile(clip)(list(ours.parameters()))
    same(found, clip(list(model.parameters())), **CLOSE)
    same(gradients(ours), gradients(model), **CLOSE)
    assert explanation.graphs
    assert all(graph.native_share == 1 for graph in explanation.graphs), str(explanation)


# Mixed precision ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_and_scaled_losses(dtype):
    model = network()
    ours = copy.deepcopy(model)
    compiled = compile(ours, fullgraph=True)
    losses: list[list[float]] = []
    for call, module in ((compiled, ours), (model, model)):
        torch.manual_seed(1)
        scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
        losses.append([])
        for _ in range(4):
            optimizer.zero_grad()
            with torch.amp.autocast("cpu", dtype=dtype):
                y = call(torch.randn(5, 8))
                assert y.dtype == dtype
                loss = y.float().square().mean()
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            losses[-1].append(loss.item())
    assert losses[0] == pytest.approx(losses[1], rel=2e-2)


def test_autocast_inside():
    def f(x, w):
        with torch.amp.autocast("cpu", dtype=torch.bfloat16):
            y = x @ w
            with torch.amp.autocast("cpu", enabled=False):
                z = y.float() @ w
        return y, z

    x, w = torch.randn(3, 8), torch.randn(8, 8)
    found, wanted = compile(f, fullgraph=True)(x, w), f(x, w)
    assert [t.dtype for t in found] == [torch.bfloat16, torch.float32]
    same(found, wanted, atol=5e-2, rtol=2e-2)


# torch.func -----------------------------------------------------------------------------------------------------------


def energy(x: torch.Tensor) -> torch.Tensor:
    return (x.sin() * x).sum() + x.square().mean().exp()


INSIDE = {
    "grad": lambda x: torch.func.grad(energy)(x),
    "grad_and_value": lambda x: torch.func.grad_and_value(energy)(x),
    "grad_of_grad": lambda x: torch.func.grad(lambda y: torch.func.grad(energy)(y).square().sum())(x),
    "vmap": lambda x: torch.func.vmap(lambda r: r.softmax(0) @ r)(x),
    "vmap_of_grad": lambda x: torch.func.vmap(torch.func.grad(energy))(x),
    "vjp": lambda x: torch.func.vjp(torch.tanh, x)[1](x),
    "jvp": lambda x: torch.func.jvp(torch.tanh, (x,), (x,)),
    "jacrev": lambda x: torch.func.jacrev(lambda y: y.sin().sum(0))(x),
    "jacfwd": lambda x: torch.func.jacfwd(lambda y: y.sin().sum(0))(x),
    "hessian": lambda x: torch.func.hessian(energy)(x[0]),
}


@pytest.mark.parametrize("name", sorted(INSIDE))
def test_function_transforms_inside(name):
    x = torch.randn(4, 5)
    same(compile(INSIDE[name], fullgraph=True)(x), INSIDE[name](x), **CLOSE)


@pytest.mark.parametrize("transform", [torch.func.grad, torch.func.vmap, torch.func.jacrev], ids=lambda t: t.__name__)
def test_function_transforms_outside(transform):
    x = torch.randn(4, 5)
    same(transform(compile(energy))(x), transform(energy)(x), **CLOSE)


def test_gradients_of_each_sample():
    model = network()

    def loss(parameters, x):
        return torch.func.functional_call(model, parameters, (x[None],)).square().sum()

    def of_samples(parameters, x):
        return torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(parameters, x)

    parameters = {name: parameter.detach() for name, parameter in model.named_parameters()}
    x = torch.randn(5, 8)
    same(compile(of_samples, fullgraph=True)(parameters, x), of_samples(parameters, x), **CLOSE)

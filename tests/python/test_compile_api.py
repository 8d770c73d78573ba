"""oxyfuel.compile: whatever can be called, and what it gives behaves as before."""

from __future__ import annotations

import copy
import functools
import io
import pickle
import warnings

import pytest
import torch
import torch.distributed as dist
from torch import nn

import oxyfuel
from oxyfuel.reports import Collected, collect
from support import same


def run(call, *arguments) -> tuple[object, Collected]:
    with collect() as explanation:
        result = call(*arguments)
    return result, explanation


def native(call, *arguments):
    """The result of a call that has to compile, all of it to our code."""
    result, explanation = run(call, *arguments)
    assert explanation.graphs, "nothing was compiled"
    assert all(graph.native_share == 1 for graph in explanation.graphs), str(explanation)
    return result


def double_sine(x: torch.Tensor) -> torch.Tensor:
    """Twice the sine."""
    return torch.sin(x) * 2


@oxyfuel.compile
def decorated(x: torch.Tensor) -> torch.Tensor:
    """Twice the cosine."""
    return torch.cos(x) * 2


@oxyfuel.compile(dynamic=False, verify=True)
def decorated_with_options(x: torch.Tensor) -> torch.Tensor:
    return torch.tanh(x) * 2


class Methods:
    scale = 3.0

    @oxyfuel.compile
    def plain(self, x):
        return torch.sin(x) * self.scale

    @oxyfuel.compile(fullgraph=True)
    def with_arguments(self, x, *, shift=0.0):
        return torch.sin(x) * self.scale + shift

    @oxyfuel.compile
    @staticmethod
    def static(x):
        return torch.sin(x) - 1

    @staticmethod
    @oxyfuel.compile
    def static_inside(x):
        return torch.sin(x) - 2

    @oxyfuel.compile
    @classmethod
    def of_class(cls, x):
        return torch.sin(x) * cls.scale

    @classmethod
    @oxyfuel.compile
    def of_class_inside(cls, x):
        return torch.sin(x) + cls.scale


class Block(nn.Module):
    def __init__(self, width: int = 6) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.norm = nn.BatchNorm1d(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.linear(x)).relu()


@oxyfuel.compile
class CompiledBlock(Block):
    """A block whose class is decorated."""


class BlockBelow(CompiledBlock):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) * 2


@oxyfuel.compile(fullgraph=True, verify=True)
class CompiledStack(nn.Sequential):
    pass


# Functions and methods ------------------------------------------------------------------------------------------------


def test_a_function():
    x = torch.randn(5)
    f = oxyfuel.compile(double_sine)
    same(native(f, x), double_sine(x))
    assert (f.__name__, f.__doc__) == ("double_sine", "Twice the sine.")


def test_decorated_functions():
    x = torch.randn(5)
    same(native(decorated, x), torch.cos(x) * 2)
    same(native(decorated_with_options, x), torch.tanh(x) * 2)
    assert decorated.__doc__ == "Twice the cosine."
    assert pickle.loads(pickle.dumps(decorated)) is decorated


def test_functions_of_pytorch_and_partial_ones():
    x = torch.randn(5)
    same(native(oxyfuel.compile(torch.nn.functional.gelu), x), torch.nn.functional.gelu(x))
    same(native(oxyfuel.compile(torch.sin), x), torch.sin(x))
    same(native(oxyfuel.compile(functools.partial(torch.add, other=2)), x), x + 2)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("plain", lambda x: torch.sin(x) * 3),
        ("with_arguments", lambda x: torch.sin(x) * 3),
        ("static", lambda x: torch.sin(x) - 1),
        ("static_inside", lambda x: torch.sin(x) - 2),
        ("of_class", lambda x: torch.sin(x) * 3),
        ("of_class_inside", lambda x: torch.sin(x) + 3),
    ],
)
def test_decorated_methods(name, wanted):
    x = torch.randn(5)
    same(native(getattr(Methods(), name), x), wanted(x))
    if "static" in name or "class" in name:
        same(getattr(Methods, name)(x), wanted(x))


def test_methods_see_their_own_object():
    small, large = Methods(), Methods()
    large.scale = 30.0
    x = torch.randn(5)
    same(small.plain(x), torch.sin(x) * 3)
    same(large.plain(x), torch.sin(x) * 30)
    same(large.with_arguments(x, shift=1.0), torch.sin(x) * 30 + 1)


def test_a_bound_method():
    x, block = torch.randn(4, 6), Block().eval()
    same(native(oxyfuel.compile(block.forward), x), block(x))
    linear = nn.Linear(6, 3)
    same(native(oxyfuel.compile(linear.forward), x), linear(x))


def test_an_object_that_can_be_called():
    class Scale:
        def __call__(self, x):
            return torch.sin(x) * 4

    x = torch.randn(5)
    same(native(oxyfuel.compile(Scale()), x), torch.sin(x) * 4)
    same(native(oxyfuel.compile(Scale)(), x), torch.sin(x) * 4)


# Modules --------------------------------------------------------------------------------------------------------------


OUTERMOST = [
    nn.Linear(6, 3),
    nn.Sequential(nn.Linear(6, 6), nn.GELU(), nn.LayerNorm(6)),
    nn.Sequential(nn.Sequential(nn.Linear(6, 6)), nn.Softmax(-1)),
    Block(),
    torch.fx.symbolic_trace(Block()),
]


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("module", OUTERMOST, ids=lambda module: type(module).__name__)
def test_outermost_modules_compile(module, in_place):
    x, wanted = torch.randn(4, 6), copy.deepcopy(module)
    compiled = oxyfuel.compile(copy.deepcopy(module), in_place=in_place, fullgraph=True)
    same(native(compiled, x), wanted(x))
    result, explanation = run(compiled, x)
    same(result, wanted(x))
    assert not explanation.graphs
    with torch.no_grad():
        same(native(compiled.eval(), x), wanted.eval()(x))


def test_the_module_itself_stays_eager():
    module = Block()
    twin = oxyfuel.compile(module)
    assert twin is not module
    assert not run(module, torch.randn(4, 6))[1].graphs
    assert oxyfuel.compile(module, in_place=True) is module
    native(module, torch.randn(4, 6))
    assert type(module) is Block


def test_twins_share_all_but_the_call():
    module = Block()
    twin = oxyfuel.compile(module)
    assert isinstance(twin, Block)
    assert type(twin).__name__ == "Block"
    assert repr(twin) == repr(module)
    assert list(twin.state_dict()) == list(module.state_dict())
    assert [name for name, _ in twin.named_modules()] == [name for name, _ in module.named_modules()]
    assert twin.linear.weight is module.linear.weight
    twin.eval()
    assert not module.training
    assert not module.norm.training
    twin.label = "kept"
    assert module.label == "kept"
    twin.load_state_dict(Block().state_dict())
    x = torch.randn(4, 6)
    same(twin(x), module(x))
    module.linear.weight = nn.Parameter(torch.zeros(6, 6))
    same(twin(x), module(x))
    twin.double()
    same(twin(x.double()), module(x.double()))


def test_train_and_eval():
    x, twin, wanted = torch.randn(4, 6), oxyfuel.compile(Block()), Block()
    wanted.load_state_dict(twin.state_dict())
    for mode in (True, False, True):
        twin.train(mode), wanted.train(mode)
        same(twin(x), wanted(x))
        same(twin.state_dict()["norm.running_mean"], wanted.state_dict()["norm.running_mean"])


def test_training_steps():
    def train(model):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.ones(4, 6).cumsum(0)).square().mean().backward()
            optimizer.step()
        return model.state_dict()

    module = Block()
    same(train(oxyfuel.compile(copy.deepcopy(module))), train(module))


def test_hooks_that_come_and_go():
    twin, x, seen = oxyfuel.compile(Block()), torch.randn(4, 6), []
    before = twin(x)
    on_twin = twin.register_forward_hook(lambda module, arguments, result: result * 2)
    same(twin(x), before * 2)
    inside = twin.linear.register_forward_hook(lambda *_: seen.append(1))
    same(twin(x), before * 2)
    assert seen == [1]
    first = twin.register_forward_pre_hook(lambda module, arguments: (arguments[0] * 0,))
    same(twin(x), oxyfuel.compile(twin.forward)(x * 0) * 2)
    for handle in (on_twin, inside, first):
        handle.remove()
    seen.clear()
    same(twin(x), before)
    assert seen == []


def test_hooks_of_gradients():
    twin, seen = oxyfuel.compile(Block(), in_place=True), []
    twin(torch.randn(4, 6)).sum().backward()
    twin.register_full_backward_hook(lambda *_: seen.append("module"))
    twin.linear.weight.register_hook(lambda gradient: seen.append("weight"))
    twin(torch.randn(4, 6)).sum().backward()
    assert sorted(seen) == ["module", "weight"]


def test_hooks_on_all_modules():
    twin, x, seen = oxyfuel.compile(Block()), torch.randn(4, 6), []
    twin(x)
    handle = nn.modules.module.register_module_forward_hook(lambda module, *_: seen.append(type(module).__name__))
    try:
        twin(x)
    finally:
        handle.remove()
    assert seen == ["Linear", "BatchNorm1d", "Block"]


def copies(module):
    """Copies by pickle, by torch.save and by deepcopy."""
    yield pickle.loads(pickle.dumps(module))
    buffer = io.BytesIO()
    torch.save(module, buffer)
    buffer.seek(0)
    yield torch.load(buffer, weights_only=False)
    yield copy.deepcopy(module)


@pytest.mark.parametrize("has_run", [False, True])
def test_copies_of_twins_and_of_compiled_classes_compile(has_run):
    x = torch.randn(4, 6)
    for module in (oxyfuel.compile(Block()), CompiledBlock()):
        module.eval()
        if has_run:
            module(x)
        for other in copies(module):
            torch.compiler.reset()
            same(native(other, x), module(x))
            other.linear.weight.data.zero_()
            assert module.linear.weight.abs().sum() > 0


def test_copies_of_what_was_compiled_in_place_are_eager():
    module = oxyfuel.compile(Block().eval(), in_place=True)
    x = torch.randn(4, 6)
    wanted = module(x)
    for other in copies(module):
        result, explanation = run(other, x)
        same(result, wanted)
        assert not explanation.graphs


def test_a_copy_that_a_class_makes_itself():
    class OwnCopy(Block):
        def __deepcopy__(self, memo):
            made = type(self)().eval()
            made.load_state_dict(self.state_dict())
            return made

    twin = oxyfuel.compile(OwnCopy().eval())
    other = copy.deepcopy(twin)
    x = torch.randn(4, 6)
    same(other(x), twin(x))
    other.linear.weight.data.zero_()
    assert not torch.equal(other(x), twin(x))


def test_a_twin_inside_of_a_module():
    outer = nn.Sequential(oxyfuel.compile(Block()), nn.Linear(6, 2)).eval()
    assert next(iter(outer.state_dict())) == "0.linear.weight"
    x = torch.randn(4, 6)
    same(native(outer, x), oxyfuel.compile(copy.deepcopy(outer), fullgraph=True)(x))
    outer[0].register_forward_hook(lambda module, arguments, result: result * 2)
    same(oxyfuel.compile(outer, fullgraph=True)(x), outer[1](outer[0](x)))


def test_a_twin_of_a_twin_has_its_own_options():
    twin = oxyfuel.compile(Block().eval())
    again = oxyfuel.compile(twin, extern=["aten.relu.default"])
    _, explanation = run(again, torch.randn(4, 6))
    assert [target for target, _, _ in explanation.graphs[0].declined] == ["aten.relu.default"]
    assert type(again).__mro__[1] is Block


# Classes --------------------------------------------------------------------------------------------------------------


def test_a_decorated_class():
    assert CompiledBlock.__doc__ == "A block whose class is decorated."
    module, wanted = CompiledBlock(), Block()
    assert isinstance(module, Block)
    assert type(module) is CompiledBlock
    wanted.load_state_dict(module.state_dict())
    x = torch.randn(4, 6)
    same(native(module, x), wanted(x))
    same(native(module.eval(), x), wanted.eval()(x))
    assert list(module.state_dict()) == list(wanted.state_dict())


def test_a_subclass_of_a_decorated_class():
    module = BlockBelow().eval()
    x = torch.randn(4, 6)
    same(native(module, x), Block.forward(module, x) * 2)
    assert not run(module, x)[1].graphs


def test_a_decorated_subclass_of_a_container():
    stack = CompiledStack(nn.Linear(6, 6), nn.ReLU())
    x = torch.randn(4, 6)
    same(native(stack, x), stack[1](stack[0](x)))


def test_instances_of_one_structure_share_a_compile():
    x = torch.randn(4, 6)
    first, second = CompiledBlock().eval(), CompiledBlock().eval()
    native(first, x)
    result, explanation = run(second, x)
    same(result, Block.forward(second, x))
    assert not explanation.graphs


def test_many_modules_have_each_their_own_limit():
    x = torch.randn(2, 6)
    for width in range(2, 14):
        native(oxyfuel.compile(nn.Linear(6, width)), x)


# Distributed ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def one_process_group(tmp_path):
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/group", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("module", [nn.Linear(6, 3), nn.Sequential(nn.Linear(6, 6), nn.ReLU()), Block()])
def test_ddp(one_process_group, module, in_place):
    x = torch.randn(4, 6)
    wanted, ours = copy.deepcopy(module), copy.deepcopy(module)
    compiled = oxyfuel.compile(nn.parallel.DistributedDataParallel(ours), in_place=in_place)
    found = native(compiled, x)
    same(found, wanted(x))
    assert not run(ours, x)[1].graphs  # it is compiled within the wrapper only
    found.sum().backward()
    wanted(x).sum().backward()
    for (name, a), b in zip(compiled.named_parameters(), wanted.parameters()):
        assert name.startswith("module.")
        same(a.grad, b.grad)


# Refusals -------------------------------------------------------------------------------------------------------------


def test_unknown_options_name_the_near_ones_at_once():
    with pytest.raises(ValueError, match=r"unknown option\n  found  'verfy'\n  or     'verify'"):
        oxyfuel.compile(double_sine, verfy=True)
    with pytest.raises(ValueError, match=r"found  'full_graph'\n  or     'fullgraph'"):
        oxyfuel.compile(full_graph=True)
    with pytest.raises(ValueError, match=r"found  'options'\n  or     its entries as keywords, such as verify=True"):
        oxyfuel.compile(double_sine, options={"verify": True})
    with pytest.raises(ValueError, match="unknown mode"):
        oxyfuel.compile(double_sine, mode="max-autotun")
    with pytest.raises(TypeError, match="'verify' has the wrong type"):
        oxyfuel.compile(double_sine, verify="yes")


def test_what_cannot_be_compiled():
    with pytest.raises(TypeError, match="nothing that can be compiled\n  found  5 of int"):
        oxyfuel.compile(5)
    with pytest.raises(TypeError, match="in_place is for modules"):
        oxyfuel.compile(double_sine, in_place=True)
    with pytest.raises(TypeError, match=r"lazy module.*\n.*\n  or     call it once"):
        oxyfuel.compile(nn.LazyLinear(3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        scripted = torch.jit.script(nn.Linear(2, 2))
    with pytest.raises(TypeError, match="TorchScript"):
        oxyfuel.compile(scripted)


def test_lazy_modules_in_place():
    module = oxyfuel.compile(nn.LazyLinear(3), in_place=True)
    x = torch.randn(4, 6)
    same(module(x), nn.functional.linear(x, module.weight, module.bias))
    native(module, x.double().float()[:2])


def test_modes_and_options_together():
    _, explanation = run(oxyfuel.compile(double_sine, mode="max-autotune", extern=["aten.sin.default"]), torch.ones(3))
    assert len(explanation.graphs[0].declined) == 1

"""`oxyfuel.compile`: torch.compile with our backend, for whatever can be called.

What it gives behaves as what it was given. A function stays a function. A module gets a twin: an object of a subclass that
shares the module's dictionary, so that parameters, keys of the state, hooks and attributes are the same ones, while the
module itself stays eager. PyTorch's own wrapper is of another class and renames the keys, and its in-place form compiles
nothing when the outermost frame is PyTorch's, as for nn.Sequential. Here the outermost frame is ours, with a code object for
each structure of modules: equal blocks share what was compiled, and unequal ones do not count towards each other's limit of
recompiles.
"""

import copy
import dataclasses
import weakref
from collections.abc import Callable
from types import CodeType
from typing import Any, TypeVar, overload

import torch
from torch import nn
from torch.nn.modules import module as module_globals
from torch.nn.parallel import DistributedDataParallel
from torch.utils.hooks import RemovableHandle

from oxyfuel.backend import backend
from oxyfuel.options import make_settings

T = TypeVar("T")

KEYWORDS = ("fullgraph", "dynamic", "in_place", "recompile_limit", "mode")
CALL = "_compiled_call_impl"
"""The attribute by which nn.Module finds what to run instead of its eager call. It is left out when a module is copied."""
HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")


@overload
def compile(
    model: T,
    /,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    mode: str | None = None,
    recompile_limit: int | None = None,
    in_place: bool = False,
    **options: Any,
) -> T: ...
@overload
def compile(
    model: None = None,
    /,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    mode: str | None = None,
    recompile_limit: int | None = None,
    in_place: bool = False,
    **options: Any,
) -> Callable[[T], T]: ...
def compile(
    model: Any = None,
    /,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    mode: str | None = None,
    recompile_limit: int | None = None,
    in_place: bool = False,
    **options: Any,
) -> Any:
    """Compiles a function, a method, a module or a class of modules; without `model`, a decorator that does.

    Nothing is compiled before the first call. `fullgraph`, `dynamic` and `recompile_limit` are those of torch.compile; `mode`
    and `options` are in docs/options.md. ValueError for an option that does not exist, TypeError for a value of the wrong type
    and for what cannot be compiled.

    A module gives a twin that shares everything with it and is compiled, or with `in_place` the module itself. A class is
    changed: its instances, and those of its subclasses, are compiled.
    """
    settings = {**options, **({} if mode is None else {"mode": mode})}
    make_settings(settings, others=KEYWORDS)
    arguments = Arguments(fullgraph, dynamic, recompile_limit, settings)
    if model is None:
        return lambda model: compile_any(model, arguments, in_place)
    return compile_any(model, arguments, in_place)


@dataclasses.dataclass(frozen=True)
class Arguments:
    """What one `compile` goes by."""

    fullgraph: bool
    dynamic: bool | None
    recompile_limit: int | None
    options: dict[str, Any]

    def wrap(self, function: Any) -> Any:
        return torch.compile(
            function,
            backend=backend,
            fullgraph=self.fullgraph,
            dynamic=self.dynamic,
            options=self.options or None,
            recompile_limit=self.recompile_limit,
        )


def compile_any(model: Any, arguments: Arguments, in_place: bool = False) -> Any:
    if isinstance(model, (staticmethod, classmethod)):
        return type(model)(arguments.wrap(model.__func__))
    if isinstance(model, nn.Module):
        return compile_module(model, arguments, in_place)
    if in_place:
        raise TypeError(f"oxyfuel: in_place is for modules\n  found  {_describe(model)}\n  or     leave it out")
    if isinstance(model, type) and issubclass(model, nn.Module):
        setattr(model, CALL, InstanceCalls(arguments))
        return model
    if not callable(model):
        raise TypeError(
            f"oxyfuel: nothing that can be compiled\n  found  {_describe(model)}\n"
            "  or     a function, a method, an nn.Module, or a class of modules"
        )
    return arguments.wrap(model)


def compile_module(module: nn.Module, arguments: Arguments, in_place: bool) -> nn.Module:
    if isinstance(module, torch.jit.ScriptModule):
        raise TypeError(
            f"oxyfuel: TorchScript modules cannot be compiled\n  found  {_describe(module)}\n  or     the module in Python"
        )
    module = getattr(module, "_orig_mod", module)  # what torch.compile gives
    module = getattr(type(module), "_oxyfuel_original", module)  # a twin's
    if in_place:
        setattr(module, CALL, call_of(module, arguments))
        return module
    if isinstance(module, nn.modules.lazy.LazyModuleMixin) and module.has_uninitialized_params():
        raise TypeError(
            f"oxyfuel: a lazy module has no parameters yet, and becomes another class with its first call\n"
            f"  found  {_describe(module)}\n  or     call it once, or compile with in_place=True"
        )
    return make_twin(module, arguments)


def _describe(value: Any) -> str:
    return (
        f"the class {value.__qualname__}" if isinstance(value, type) else f"{value!r:.60} of {type(value).__qualname__}"
    )


# Modules --------------------------------------------------------------------------------------------------------------


class ModuleCall:
    """What runs when a module is called that is compiled."""

    def __init__(self, module: nn.Module, arguments: Arguments) -> None:
        self.module = module
        self.arguments = arguments
        self.compiled: Any = None
        self.hooks: tuple[Any, ...] = ()
        self.handles = -1

    def __call__(self, *values: Any, **keywords: Any) -> Any:
        if torch.compiler.is_compiling():  # within another compiled call
            return self.module._call_impl(*values, **keywords)
        if RemovableHandle.next_id != self.handles:
            self.look_for_hooks()
        return self.compiled(*values, **keywords)

    def look_for_hooks(self) -> None:
        """Dynamo does not guard against hooks that are registered where there were none, as these guards cost several
        microseconds a layer. Any hook that is registered anywhere takes a number, so a look at the last number tells when to
        look at the modules, and a module with other hooks gets another frame."""
        self.handles = RemovableHandle.next_id
        hooks = hooks_of(self.module)
        if self.compiled is None or hooks != self.hooks:
            self.hooks = hooks
            self.compiled = self.arguments.wrap(outer_frame(self.module, hooks))

    def __reduce__(self) -> Any:
        """A module is copied and pickled as it was without us; in a class that pickles its dictionary, we are None."""
        return type(None), ()


class DistributedCall:
    """The same for DistributedDataParallel. Its own frames run eagerly, so the module in it is compiled, for the call only."""

    def __init__(self, module: DistributedDataParallel, arguments: Arguments) -> None:
        self.module = module
        self.inner = ModuleCall(module.module, arguments)

    def __call__(self, *values: Any, **keywords: Any) -> Any:
        inside = self.module.module
        before = inside.__dict__.get(CALL)
        setattr(inside, CALL, self.inner)
        try:
            return self.module._call_impl(*values, **keywords)
        finally:
            setattr(inside, CALL, before)

    __reduce__ = ModuleCall.__reduce__


def call_of(module: nn.Module, arguments: Arguments) -> ModuleCall | DistributedCall:
    is_distributed = isinstance(module, DistributedDataParallel)
    return DistributedCall(module, arguments) if is_distributed else ModuleCall(module, arguments)


def hooks_of(module: nn.Module) -> tuple[Any, ...]:
    """Numbers of all hooks that run when the module is called, by where they are."""
    found: list[Any] = [tuple(getattr(module_globals, "_global" + name)) for name in HOOKS]
    for position, part in enumerate(module.modules()):
        numbers = [tuple(getattr(part, name)) for name in HOOKS]
        if any(numbers):
            found.append((position, *numbers))
    return tuple(found)


_codes: weakref.WeakValueDictionary[Any, CodeType] = weakref.WeakValueDictionary()
"""Code objects of outer frames. Dynamo keeps what it compiled with the code object."""


def outer_frame(module: nn.Module, hooks: tuple[Any, ...]) -> Callable[..., Any]:
    """A function that calls the module, named after its class. Modules of one structure get one code object."""
    call = module._call_impl

    def call_module(*values: Any, **keywords: Any) -> Any:
        return call(*values, **keywords)

    name = type(module).__name__
    own = call_module.__code__.replace(co_name=name, co_qualname=name)
    call_module.__code__ = _codes.setdefault((structure_of(module), hooks), own)
    return call_module


def structure_of(module: nn.Module) -> tuple[Any, ...]:
    tensors = [*module.named_parameters(), *module.named_buffers()]
    return (
        tuple(type(part) for part in module.modules()),
        tuple((name, None if nn.parameter.is_lazy(t) else (t.dtype, tuple(t.shape))) for name, t in tensors),
    )


class InstanceCalls:
    """The CALL of a compiled class: each instance gets a call of its own, with its first call. A copy of an
    instance has none and gets one in its turn."""

    def __init__(self, arguments: Arguments) -> None:
        self.arguments = arguments

    def __get__(self, module: nn.Module | None, owner: type) -> Any:
        if module is None:
            return None
        return module.__dict__.setdefault(CALL, call_of(module, self.arguments))


class TwinCall:
    """The CALL of a twin's class. Other objects of that class, as constructors of copies make, are eager."""

    def __init__(self, call: Any) -> None:
        self.call = call
        self.twin: Callable[[], nn.Module | None] = lambda: None

    def __get__(self, module: nn.Module | None, owner: type) -> Any:
        return self.call if module is not None and self.twin() is module else None

    def __set__(self, module: nn.Module, call: Any) -> None:
        self.call = call


def make_twin(module: nn.Module, arguments: Arguments) -> nn.Module:
    def reduce(self: nn.Module, protocol: Any = None) -> Any:
        return make_twin, (module, arguments)

    def deepcopy(self: nn.Module, memo: dict[int, Any]) -> nn.Module:
        return make_twin(copy.deepcopy(module, memo), arguments)

    original = type(module)
    call = TwinCall(call_of(module, arguments))
    names = {
        "__module__": original.__module__,
        "__qualname__": original.__qualname__,
        "__doc__": original.__doc__,
        "__reduce_ex__": reduce,
        "__deepcopy__": deepcopy,
        CALL: call,
        "_oxyfuel_original": module,
    }
    twin: nn.Module = object.__new__(type(original.__name__, (original,), names))
    object.__setattr__(twin, "__dict__", module.__dict__)
    call.twin = weakref.ref(twin)
    return twin

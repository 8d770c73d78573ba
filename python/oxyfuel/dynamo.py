"""What we listen to in TorchDynamo, which has no interface for it: whose compile is running, and why it compiles again."""

import contextlib
import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from torch._dynamo import config, convert_frame
from torch._inductor import codecache

from oxyfuel import recompilation
from oxyfuel.options import make_settings

OUTER_FRAME = str(Path(__file__).with_name("api.py"))
"""Where oxyfuel.compile calls modules: no place in the user's program."""


WRAPPED = ("_torchdynamo_orig_backend", "compiler_fn", "__wrapped__", "func")
"""Attributes under which PyTorch's wrappers keep a backend."""


def is_backend(compiler: Any, wanted: Callable[..., Any]) -> bool:
    """Whether a backend as Dynamo holds it is the wanted one, below its wrappers."""
    return any(layer is wanted for layer in _layers(compiler))


def _layers(compiler: Any) -> list[Any]:
    layers = [compiler]
    while len(layers) < 16:
        inner = (getattr(layers[-1], name, None) for name in WRAPPED)
        found = next(filter(callable, inner), None)
        if found is None:
            break
        layers.append(found)
    return layers


def _is_strict(compiler: Any) -> bool:
    """Whether the options that torch.compile was given, or the variable, say so."""
    given: dict[str, Any] = {}
    for layer in _layers(compiler):
        if isinstance(getattr(layer, "kwargs", None), dict):
            given = layer.kwargs
    strict: bool = make_settings(given.get("options"), given.get("mode")).strict
    return strict


@contextlib.contextmanager
def without_code_generators() -> Iterator[None]:
    """The key of AOTAutograd's cache registers Inductor's code generators first, for the identifiers of passes that users
    gave them. They say nothing about our programs, and take over a second to import. Under Dynamo's lock."""
    register = codecache.init_backend_registration
    codecache.init_backend_registration = lambda: None
    try:
        yield
    finally:
        codecache.init_backend_registration = register


def watch_recompiles(ours: Callable[..., Any]) -> None:
    """Records the recompiles of our backend, and reaching the limit. Dynamo asks for the reasons of a recompile just before it
    looks at the limit, in one thread under its lock."""
    find_reasons = convert_frame.get_and_maybe_log_recompilation_reasons
    exceeds = convert_frame.exceeds_recompile_limit
    if hasattr(find_reasons, "_oxyfuel"):
        return
    recorded: list[tuple[recompilation.RecompiledFunction, Any]] = []

    @functools.wraps(find_reasons)
    def find(entries: Any, frame: Any, compiler: Any, *rest: Any, **keywords: Any) -> Any:
        recorded.clear()
        reasons = find_reasons(entries, frame, compiler, *rest, **keywords)
        if is_backend(compiler, ours):
            code = frame.f_code
            file = "" if code.co_filename == OUTER_FRAME else code.co_filename
            reason = reasons[0] if reasons else "the compiled code is no longer valid"
            recorded.append((recompilation.record(code.co_name, file, code.co_firstlineno, reason), compiler))
        return reasons

    @functools.wraps(exceeds)
    def look(cache_size: Any, compile_id: Any) -> tuple[bool, str]:
        is_exceeded, kind = exceeds(cache_size, compile_id)
        if is_exceeded and recorded:
            function, compiler = recorded.pop()
            recompilation.reach_limit(function, getattr(config, kind), _is_strict(compiler))
        return is_exceeded, kind

    find._oxyfuel = True  # type: ignore[attr-defined]
    convert_frame.get_and_maybe_log_recompilation_reasons = find
    convert_frame.exceeds_recompile_limit = look

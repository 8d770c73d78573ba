"""A deep-learning compiler behind PyTorch: ``torch.compile(model, backend="oxyfuel")``."""

from typing import Any

from oxyfuel._requirements import check_platform, check_torch

__version__ = "0.1.0"

check_platform()
check_torch()

# From here on names load what they need when they are first asked for: importing the package is cheap.
_HOMES = {
    "CompileError": "oxyfuel._C",
    "InternalError": "oxyfuel._C",
    "UnsupportedError": "oxyfuel._C",
    "compile": "oxyfuel.api",
    "explain": "oxyfuel.explanation",
    "invalidate": "oxyfuel.weights",
    "recompiles": "oxyfuel.recompilation",
    "verify": "oxyfuel.verification",
}
_MODULES = frozenset({"cache", "timing"})

__all__ = [
    "CompileError",
    "InternalError",
    "UnsupportedError",
    "__version__",
    "compile",
    "explain",
    "invalidate",
    "recompiles",
    "verify",
]


def __getattr__(name: str) -> Any:
    import importlib

    if name in _MODULES:
        return importlib.import_module(f"oxyfuel.{name}")
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'oxyfuel' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value

"""Refuses, in plain words, the machines and versions that Oxyfuel does not support.

Runs when ``oxyfuel`` is imported, before the compiled module is loaded, and imports nothing but the standard library.
"""

import importlib.metadata
import platform
import sys

PYTHON_AT_LEAST = (3, 11)
TORCH_SERIES = "2.13"
SYSTEM = "Linux"
MACHINE = "x86_64"


class RequirementError(ImportError):
    """This Python, system or PyTorch is not one that Oxyfuel supports."""


def check_platform(
    python: tuple[int, int] = sys.version_info[:2],
    system: str = platform.system(),
    machine: str = platform.machine(),
) -> None:
    """Raises RequirementError unless this is Linux on x86-64 with a recent enough Python."""
    if (system, machine) != (SYSTEM, MACHINE):
        raise RequirementError(
            f"oxyfuel runs on {SYSTEM} {MACHINE} only\n"
            f"  found  {system} {machine}\n"
            f'  or     leave backend="oxyfuel" out on this machine'
        )
    if python < PYTHON_AT_LEAST:
        wanted = ".".join(map(str, PYTHON_AT_LEAST))
        raise RequirementError(
            f"oxyfuel needs Python {wanted} or newer\n"
            f"  found  Python {python[0]}.{python[1]}\n"
            f"  or     make an environment with python{wanted} -m venv"
        )


def installed_torch() -> str | None:
    """The version of the installed PyTorch, without importing it."""
    try:
        return importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return None


def check_torch(version: str | None = None) -> None:
    """Raises RequirementError unless PyTorch (of `version`, else the installed one) is of the supported series."""
    found = version if version is not None else installed_torch()
    if found is None:
        raise RequirementError(
            f"oxyfuel needs PyTorch {TORCH_SERIES}\n  found  no PyTorch\n  or     pip install torch=={TORCH_SERIES}.0"
        )
    if found.split("+")[0].split(".")[:2] != TORCH_SERIES.split("."):
        raise RequirementError(
            f"oxyfuel needs PyTorch {TORCH_SERIES}, whose internal interfaces it is written for\n"
            f"  found  PyTorch {found}\n"
            f"  or     pip install torch=={TORCH_SERIES}.0"
        )

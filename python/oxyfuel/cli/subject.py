"""What `oxyfuel explain`, `verify` and `reduce` are told to look at: a model of `oxyfuel run`, or a Python file."""

import dataclasses
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from oxyfuel.cli.console import CommandError, ExitCode

Name = Annotated[
    str,
    typer.Argument(
        metavar="FILE|MODEL",
        help="A Python file with `forward`, a function or a module, and `inputs()`, a list of its arguments; "
        "or a model of `oxyfuel run`.",
        show_default=False,
    ),
]


@dataclasses.dataclass
class Subject:
    """A function, its arguments, and what it is compiled with."""

    function: Callable[..., Any]
    arguments: list[Any]
    compile_options: dict[str, Any]


def load(name: str) -> Subject:
    """Runs the file, or makes the model."""
    path = Path(name)
    if path.suffix == ".py":
        return _from_file(path)
    from oxyfuel.models import MODELS

    if name not in MODELS:
        raise CommandError(
            ExitCode.USAGE,
            f"no file and no model of that name\n  found  {name}\n  or     a .py file, {', '.join(MODELS)}",
        )
    model, inputs = MODELS[name][1]()
    return Subject(model.requires_grad_(False), list(inputs), {})


def check_file(path: Path) -> None:
    if not path.is_file():
        raise CommandError(ExitCode.MISSING, f"no such file\n  found  {path}")


def _from_file(path: Path) -> Subject:
    from oxyfuel.reproduction import load_program

    check_file(path)
    sys.path.insert(0, str(path.parent.resolve()))
    try:
        program = load_program(path)
        function, inputs = program.forward, program.inputs()
    except AttributeError as error:
        raise CommandError(
            ExitCode.SCRIPT, f"{path} lacks a name: {error}\n  or     define forward(...) and inputs() in it"
        ) from error
    return Subject(function, list(inputs), dict(getattr(program, "compile_options", {})))

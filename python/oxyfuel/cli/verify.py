"""`oxyfuel verify`: compares a model with eager, operator by operator."""

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from oxyfuel.cli import subject
from oxyfuel.cli.console import ExitCode, Json, print_json, progress


def verify(
    name: subject.Name,
    program: Annotated[Path, typer.Option(help="Where a program that repeats a mismatch is written.")] = Path(
        "oxyfuel_mismatch.py"
    ),
    as_json: Json = False,
) -> None:
    """Compare a model with eager and name the first operator that differs."""
    from oxyfuel.verification import verify as verify_function

    with progress(name) as show:
        show("loading")
        found = subject.load(name)
        show("comparing")
        verification = verify_function(
            found.function, *found.arguments, compile_options=found.compile_options, program=program
        )
    if as_json:
        print_json(dataclasses.asdict(verification))
    else:
        print(verification)
    if not verification.matches:
        raise typer.Exit(ExitCode.WRONG.value)

"""`oxyfuel reduce`: shrinks a program that differs from eager."""

from pathlib import Path
from typing import Annotated

import typer

from oxyfuel.cli import subject
from oxyfuel.cli.console import CommandError, ExitCode, progress


def reduce(
    program: Annotated[Path, typer.Argument(help="As `oxyfuel verify` writes it.", show_default=False)],
    target: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Where to write what is left; by default beside it, with `_reduced`."),
    ] = None,
) -> None:
    """Shrink a program that differs from eager, as long as it does."""
    from oxyfuel.reduction import reduce_program

    subject.check_file(program)
    with progress(program.name) as show:
        mismatch = reduce_program(program, target or program.with_stem(program.stem + "_reduced"), show)
    if mismatch is None:
        raise CommandError(ExitCode.WRONG, f"nothing in {program} differs from eager")
    print(mismatch)

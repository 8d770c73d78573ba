"""The commands of `oxyfuel`, in the order in which `--help` lists them.

A command is a function in a file of its own, named after it. These files import PyTorch only inside of functions, so that
`--help` and shell completion are quick.
"""

import sys
from typing import Annotated

import typer

import oxyfuel
from oxyfuel.cli import bench, cache, doctor, explain, profile, reduce, run, verify
from oxyfuel.cli.console import CommandError, ExitCode, errors

app = typer.Typer(
    name="oxyfuel",
    help="A deep-learning compiler behind PyTorch.",
    epilog="Exit codes: " + ", ".join(f"{code.value} {code.meaning}" for code in ExitCode) + ".",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.command()(run.run)
app.command()(explain.explain)
app.command()(verify.verify)
app.command()(reduce.reduce)
# What follows the script is the script's.
app.command(context_settings={"allow_interspersed_args": False})(profile.profile)
app.command()(bench.bench)
app.command()(doctor.doctor)
app.add_typer(cache.app, name="cache")


def show_version(wanted: bool) -> None:
    if wanted:
        print(f"oxyfuel {oxyfuel.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Runs what the command line says, and leaves the process with one of the exit codes."""
    try:
        app(prog_name="oxyfuel")
    except CommandError as error:
        errors.print(str(error), style="red", markup=False, highlight=False)
        sys.exit(error.code.value)

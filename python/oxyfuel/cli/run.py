"""`oxyfuel run`: compiles real models, compares them with eager PyTorch and prints a table.

Each model runs in a process of its own (run_model.py), so that its peak memory is its own.
"""

import enum
import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer

from oxyfuel.cli.console import CommandError, ExitCode, Json, output, print_json, print_table, progress


class Model(enum.StrEnum):
    """Names of oxyfuel.models.MODELS, which imports PyTorch."""

    BERT = "bert"
    RESNET50 = "resnet50"


COLUMNS = (
    ("model", "name", "{}"),
    ("right", "right", "{}"),
    ("largest error", "error", "{:.1e}"),
    ("eager's", "eager_error", "{:.1e}"),
    ("compile s", "compile_seconds", "{:.1f}"),
    ("eager ms", "eager_ms", "{:.1f}"),
    ("oxyfuel ms", "compiled_ms", "{:.1f}"),
    ("speed-up", "speed_up", "{:.2f} x"),
    ("native ops", "native_operators", "{:.0%}"),
    ("native FLOPs", "native_flops", "{:.0%}"),
    ("peak MB", "peak_megabytes", "{:.0f}"),
)


def run(
    models: Annotated[list[Model] | None, typer.Argument(help="Which; all by default.", show_default=False)] = None,
    threads: Annotated[int, typer.Option(min=0, help="Of PyTorch and compiled code; 0: all CPUs.")] = 0,
    seconds: Annotated[float, typer.Option(min=0, help="To time each model for, eager and compiled.")] = 3.0,
    as_json: Json = False,
) -> None:
    """Compile real models, compare them with eager PyTorch and print a table."""
    if importlib.util.find_spec("transformers") is None:
        raise CommandError(
            ExitCode.MISSING, "oxyfuel run needs the models of transformers\n  or     pip install 'oxyfuel[models]'"
        )
    names = models or list(Model)
    rows = []
    for number, name in enumerate(names):
        with progress(f"[{number + 1}/{len(names)}] {name}") as show:
            rows.append(run_child(name, threads, seconds, show))
        if as_json:
            print_json(rows[-1])
    if not as_json:
        print_table(
            [title for title, _, _ in COLUMNS],
            [[text.format(row[key]) if key in row else "-" for _, key, text in COLUMNS] for row in rows],
        )
        output.print(
            "\nright: against a float64 run, errors at most 3 x (largest) and 1.5 x (root mean square) of eager's own",
            highlight=False,
        )
    if any(row["right"] != "yes" for row in rows):
        raise typer.Exit(ExitCode.WRONG.value)


def run_child(name: str, threads: int, seconds: float, show: Callable[[str], None]) -> dict[str, Any]:
    """Runs one model in a process of its own, which tells what it does line by line and ends with a line of JSON."""
    command = [sys.executable, "-m", "oxyfuel.cli.run_model", name, str(threads), str(seconds)]
    result: dict[str, Any] = {"name": name, "right": "failed"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        for line in child.stdout:
            if line.startswith("{"):
                result = json.loads(line)
            else:
                show(line.strip())
    return result

"""`oxyfuel bench`: what compiled code reaches on this machine, beside what the machine can do and what others do on it.

Each part is a file of its own: bench_gemm.py, bench_roofline.py, bench_overhead.py, bench_compile.py. A part yields rows as it
measures them; a row says whether it reaches its goal.
"""

import dataclasses
import time
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import typer

from oxyfuel.cli.console import CommandError, ExitCode, Json, output, print_json, print_table, progress

Row = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Settings:
    """What every part goes by."""

    threads: int
    seconds: float
    """For each timing."""
    only: str
    """Part of the names of rows to measure; empty: all."""

    def wants(self, name: str) -> bool:
        return self.only in name


@dataclasses.dataclass(frozen=True)
class Part:
    """One table."""

    title: str
    columns: tuple[tuple[str, str, str], ...]
    """(heading, key in the row, format); texts come first."""
    texts: int
    goal: str
    """What `met` in a row means."""
    rows: Callable[[Settings, Callable[[str], None]], Iterator[Row]]


def bench(
    gemm: Annotated[
        bool, typer.Option("--gemm", help="Matrix products and convolutions beside MKL and oneDNN.")
    ] = False,
    roofline: Annotated[
        bool, typer.Option("--roofline", help="Memory-bound groups beside copying and their maths.")
    ] = False,
    overhead: Annotated[bool, typer.Option("--overhead", help="What a call costs beside its kernels.")] = False,
    compiling: Annotated[bool, typer.Option("--compile", help="Where the time of compiling goes, by stage.")] = False,
    threads: Annotated[int, typer.Option(min=0, help="Of PyTorch and compiled code; 0: all CPUs.")] = 0,
    seconds: Annotated[float, typer.Option(min=0.001, help="For each timing.")] = 0.3,
    only: Annotated[str, typer.Option(help="Rows whose name contains this text.")] = "",
    check: Annotated[bool, typer.Option("--check", help="Exit with 1 when a row misses its goal.")] = False,
    as_json: Json = False,
) -> None:
    """Measure compiled code on this machine; all four tables when none is named."""
    import os

    import torch

    from oxyfuel.cli import bench_compile, bench_gemm, bench_overhead, bench_roofline

    parts = {
        "gemm": (gemm, bench_gemm.PART),
        "roofline": (roofline, bench_roofline.PART),
        "overhead": (overhead, bench_overhead.PART),
        "compile": (compiling, bench_compile.PART),
    }
    is_any = any(wanted for wanted, _ in parts.values())
    settings = Settings(threads or len(os.sched_getaffinity(0)), seconds, only)
    torch.set_num_threads(settings.threads)
    has_missed, count = False, 0
    for name, (wanted, part) in parts.items():
        if is_any and not wanted:
            continue
        rows = measure(name, part, settings, as_json)
        count += len(rows)
        has_missed = has_missed or not all(row["met"] for row in rows)
        if not as_json and rows:
            show(part, rows, settings)
    if not count:
        raise CommandError(ExitCode.USAGE, f"no row's name contains {only!r}")
    if check and has_missed:
        raise typer.Exit(ExitCode.WRONG.value)


def measure(name: str, part: Part, settings: Settings, as_json: bool) -> list[Row]:
    rows = []
    with progress(f"bench --{name}") as tell:
        for row in part.rows(settings, tell):
            rows.append(row)
            if as_json:
                print_json({"bench": name, "threads": settings.threads, **row})
    return rows


def show(part: Part, rows: list[Row], settings: Settings) -> None:
    cells = [
        [("-" if row.get(key) is None else text.format(row[key])) for _, key, text in part.columns]
        + ["yes" if row["met"] else "no"]
        for row in rows
    ]
    title = f"{part.title} ({settings.threads} threads)"
    print_table([heading for heading, _, _ in part.columns] + ["goal"], cells, title=title, left=part.texts)
    output.print(f"goal: {part.goal}\n", highlight=False, markup=False)


def best_seconds(run: Callable[[], Any], seconds: float) -> float:
    """The shortest of the runs that fit into `seconds`, at least five; one before them is not counted."""
    run()
    best, end, runs = float("inf"), time.perf_counter() + seconds, 0
    while runs < 5 or time.perf_counter() < end:
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
        runs += 1
    return best


def alternate(runs: dict[str, Callable[[], Any]], seconds: float, rounds: int = 4) -> dict[str, float]:
    """The best time of each, taken in turns, so that what else the machine does meets all of them."""
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(rounds):
        for name, run in runs.items():
            best[name] = min(best[name], best_seconds(run, seconds / rounds))
    return best

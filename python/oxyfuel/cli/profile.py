"""`oxyfuel profile`: where the time of a script goes, kernel by kernel."""

import dataclasses
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from oxyfuel.cli.console import ExitCode, Json, errors, output, print_json, print_table, progress
from oxyfuel.cli.script import run_script

if TYPE_CHECKING:
    from oxyfuel.roofline import Roof
    from oxyfuel.timing import StepTime


@dataclasses.dataclass
class Row:
    """The steps of one name and place, over all calls."""

    name: str
    kind: str
    location: str
    runs: int = 0
    seconds: float = 0.0
    share: float = 0.0
    flops: float = 0.0
    bytes: float = 0.0
    bound: str = ""
    """What sets the least time: `compute`, a cache or `memory`; empty when operations and bytes are not known."""
    bound_seconds: float = 0.0

    @property
    def roofline(self) -> float | None:
        """Share of the bound that is reached; None when it is not known."""
        return self.bound_seconds / self.seconds if self.bound and self.seconds else None


def profile(
    script: Annotated[str, typer.Argument(help="A Python program that compiles with backend='oxyfuel'.")],
    arguments: Annotated[list[str] | None, typer.Argument(help="Its own arguments.", show_default=False)] = None,
    top: Annotated[int, typer.Option(min=1, help="How many rows to show.")] = 30,
    trace: Annotated[str, typer.Option(help="File to write a Chrome trace of the whole run to.")] = "",
    as_json: Json = False,
) -> None:
    """Run a script and print a table by kernel: time, share, roofline, where in the model.

    Options come before the script; what follows it is the script's.
    """
    import torch

    from oxyfuel import roofline, timing

    # Measured before the script fills caches and memory.
    with progress("profile") as show:
        show("measuring the peaks of this machine")
        roof = roofline.measure(torch.get_num_threads())
    with timing.record() as recording:
        is_right = run_traced(script, arguments or [], trace) if trace else run_script(script, arguments or [])
    rows = summarise(recording.steps(), roof)
    if as_json:
        print_json({"script": script, "failed": not is_right, "threads": roof.threads, "kernels": to_json(rows)})
    else:
        show_table(rows[:top], len(rows))
    if not is_right:
        raise typer.Exit(ExitCode.SCRIPT.value)


def run_traced(script: str, arguments: list[str], file: str) -> bool:
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as torch_profile

    with torch_profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
        is_right = run_script(script, arguments)
    profiler.export_chrome_trace(file)
    return is_right


def summarise(steps: Iterable["StepTime"], roof: "Roof") -> list[Row]:
    """A row for each name and place, by falling time."""
    rows: dict[tuple[str, str, str], Row] = {}
    for step in steps:
        row = rows.setdefault((step.kind, step.name, step.location), Row(step.name, step.kind, step.location))
        row.runs += step.runs
        row.seconds += step.seconds
        row.flops += step.flops
        row.bytes += step.bytes
        if step.flops or step.bytes:
            least, row.bound = roof.bound(step.flops / step.runs, step.working_set)
            row.bound_seconds += least * step.runs
    total = sum(row.seconds for row in rows.values())
    for row in rows.values():
        row.share = row.seconds / total if total else 0.0
    return sorted(rows.values(), key=lambda row: -row.seconds)


def to_json(rows: list[Row]) -> list[dict[str, Any]]:
    return [{**dataclasses.asdict(row), "roofline": row.roofline} for row in rows]


def show_table(rows: list[Row], count: int) -> None:
    if not rows:
        errors.print("nothing that oxyfuel compiled was run")
        return
    table = []
    for row in rows:
        share = row.roofline
        table.append(
            [
                row.name if row.kind != "extern" else f"{row.name} (PyTorch)",
                row.location,
                str(row.runs),
                f"{row.seconds * 1e3:.2f}",
                f"{row.share:.1%}",
                f"{row.flops / row.seconds * 1e-9:.1f}" if row.flops and row.seconds else "-",
                f"{row.bytes / row.seconds * 1e-9:.1f}" if row.bytes and row.seconds else "-",
                row.bound or "-",
                "-" if share is None else f"{share:.0%}",
            ]
        )
    print_table(("kernel", "where", "runs", "ms", "share", "GF/s", "GB/s", "bound", "roofline"), table, left=2)
    if count > len(rows):
        output.print(f"and {count - len(rows)} more: --top {count}", highlight=False)

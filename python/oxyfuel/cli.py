"""The command `oxyfuel`: `oxyfuel run` compiles BERT-base and ResNet-50 and compares them with eager PyTorch.

Each model runs in a process of its own, so that its peak memory is its own.
"""

import argparse
import contextlib
import json
import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

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


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="oxyfuel", description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="compile real models, compare with eager and print a table")
    run.add_argument("models", nargs="*", default=[], metavar="MODEL", help="bert, resnet50; all by default")
    run.add_argument("--threads", type=int, default=0, help="threads of PyTorch and of the compiled code")
    run.add_argument("--seconds", type=float, default=3.0, help="how long to time each model, eager and compiled")
    run.add_argument("--json", action="store_true", help="print one line of JSON a model instead of the table")
    run.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    return run_here(given) if given.here else run_all(given)


# The parent -----------------------------------------------------------------------------------------------------------


def run_all(given: argparse.Namespace) -> int:
    names = given.models or ["bert", "resnet50"]
    rows = []
    for number, name in enumerate(names):
        with progress(f"[{number + 1}/{len(names)}] {name}") as show:
            rows.append(run_child(name, given, show))
        if given.json:
            print(json.dumps(rows[-1]), flush=True)
    if not given.json:
        print_table(rows)
    return 0 if all(row.get("right") == "yes" for row in rows) else 1


def run_child(name: str, given: argparse.Namespace, show: Callable[[str], None]) -> dict[str, Any]:
    """Runs one model in a process of its own, which tells what it does line by line and ends with a line of JSON."""
    command = [sys.executable, "-m", "oxyfuel.cli", "run", name, "--here", "--seconds", str(given.seconds)]
    command += ["--threads", str(given.threads)]
    result: dict[str, Any] = {"name": name, "right": "failed"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        for line in child.stdout:
            if line.startswith("{"):
                result = json.loads(line)
            else:
                show(line.strip())
    return result


@contextlib.contextmanager
def progress(title: str) -> Iterator[Callable[[str], None]]:
    """A line that says what goes on and for how long; on a terminal it is rewritten in place."""
    start, stage, done = time.monotonic(), "starting", threading.Event()
    is_terminal = sys.stderr.isatty()

    def draw() -> None:
        text = f"{title}: {stage} ({time.monotonic() - start:.0f} s)"
        print(f"\r\033[K{text}" if is_terminal else text, end="" if is_terminal else "\n", file=sys.stderr, flush=True)

    def show(text: str) -> None:
        nonlocal stage
        stage = text
        draw()

    def tick() -> None:
        while not done.wait(0.5):
            draw()

    clock = threading.Thread(target=tick, daemon=True)
    if is_terminal:
        clock.start()
    draw()
    try:
        yield show
    finally:
        done.set()
        if is_terminal:
            clock.join()
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def print_table(rows: list[dict[str, Any]]) -> None:
    table = [[title for title, _, _ in COLUMNS]]
    for row in rows:
        table.append([text.format(row[key]) if key in row else "-" for _, key, text in COLUMNS])
    widths = [max(len(line[i]) for line in table) for i in range(len(COLUMNS))]
    for number, line in enumerate(table):
        cells = [
            cell.ljust(width) if i == 0 else cell.rjust(width) for i, (cell, width) in enumerate(zip(line, widths))
        ]
        print("  ".join(cells))
        if number == 0:
            print("  ".join("-" * width for width in widths))
    print("\nright: against a float64 run, errors at most 3 x (largest) and 1.5 x (root mean square) of eager's own")


# The child ------------------------------------------------------------------------------------------------------------


def run_here(given: argparse.Namespace) -> int:
    """Measures one model in this process."""
    import torch

    from oxyfuel.models import MODELS
    from oxyfuel.reports import collect

    torch.set_num_threads(given.threads or len(os.sched_getaffinity(0)))
    (name,) = given.models
    if name not in MODELS:
        print(f"no model is called {name!r}; there are: {', '.join(MODELS)}", file=sys.stderr)
        return 1
    title, make = MODELS[name]
    tell("making the model")
    torch.manual_seed(0)
    model, inputs = make()
    with torch.no_grad():
        tell("running it in eager PyTorch")
        expected = model(*inputs)
        flops = count_flops(model, inputs)
        tell("compiling")
        compiled = torch.compile(model, backend="oxyfuel", fullgraph=True)
        start = time.monotonic()
        with collect() as explanation:
            found = compiled(*inputs)
        compile_seconds = time.monotonic() - start
        tell("timing eager PyTorch")
        eager_ms = median_ms(lambda: model(*inputs), given.seconds)
        tell("timing compiled code")
        compiled_ms = median_ms(lambda: compiled(*inputs), given.seconds)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        tell("checking against float64")
        errors = compare(model, inputs, found, expected)
    operators = sum(graph.operators for graph in explanation.graphs)
    native = sum(graph.native_share * graph.operators for graph in explanation.graphs)
    native_flops = sum(graph.contraction_flops for graph in explanation.graphs if not graph.fallback)
    row = {
        "name": title,
        **errors,
        "compile_seconds": compile_seconds,
        "eager_ms": eager_ms,
        "compiled_ms": compiled_ms,
        "speed_up": eager_ms / compiled_ms,
        "native_operators": native / max(operators, 1),
        "native_flops": min(native_flops / max(flops, 1), 1.0),
        "peak_megabytes": peak,
    }
    print(json.dumps(row), flush=True)
    return 0


def tell(stage: str) -> None:
    print(stage, flush=True)


def count_flops(model: Any, inputs: tuple[Any, ...]) -> float:
    """Of matrix products, convolutions and attention, as PyTorch counts them."""
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        model(*inputs)
    return float(counter.get_total_flops())


def median_ms(run: Callable[[], Any], seconds: float) -> float:
    run()
    times: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 3:
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return sorted(times)[len(times) // 2] * 1e3


def compare(model: Any, inputs: tuple[Any, ...], found: Any, expected: Any) -> dict[str, Any]:
    """Errors of compiled and eager results against a run in float64."""
    exact = model.double()(*(x.double() if x.is_floating_point() else x for x in inputs))
    ours, eagers = (found.double() - exact).abs(), (expected.double() - exact).abs()
    tiny = 1e-7 * exact.abs().max().item() + 1e-12
    largest, eagers_largest = ours.max().item(), eagers.max().item()
    square, eagers_square = ours.square().mean().sqrt().item(), eagers.square().mean().sqrt().item()
    right = square <= 1.5 * eagers_square + tiny and largest <= 3 * eagers_largest + 10 * tiny
    return {"right": "yes" if right else "NO", "error": largest, "eager_error": eagers_largest}


if __name__ == "__main__":
    sys.exit(main())

"""What a call of a compiled graph costs over what TorchDynamo and AOTAutograd take.

The whole call is timed, and the same call with a stand-in for the program that hands out results made before.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch

from oxyfuel import timing
from oxyfuel.cli.bench import Part, Row, Settings, alternate

COUNTS = ((1, 1), (4, 1), (16, 1), (64, 1), (2, 4), (2, 16), (32, 32))
LOOPS = 20
"""Calls in one timing: the clock's own cost does not count, and other processes leave some timings alone."""


def rows(settings: Settings, tell: Callable[[str], None]) -> Iterator[Row]:
    for inputs, outputs in COUNTS:
        name = f"{inputs} inputs, {outputs} outputs"
        if settings.wants(name):
            tell(name)
            yield measure(name, inputs, outputs, settings)


def measure(name: str, inputs: int, outputs: int, settings: Settings) -> Row:
    def function(*values: torch.Tensor) -> list[torch.Tensor]:
        total = sum(values[1:], values[0])
        return [total + float(number) for number in range(outputs)]

    arguments = [torch.randn(4) for _ in range(inputs)]
    torch.compiler.reset()
    compiled = torch.compile(function, backend="oxyfuel", fullgraph=True)
    with torch.no_grad():
        results = compiled(*arguments)
        graph = timing.live_graphs()[-1]
        execute = graph.executable

        def stand_in(given: list[Any]) -> list[torch.Tensor]:
            given.clear()
            return list(results)

        def calls(executable: Any) -> Callable[[], None]:
            def run() -> None:
                graph.executable = executable
                for _ in range(LOOPS):
                    compiled(*arguments)

            return run

        try:
            times = alternate({"whole": calls(execute), "stand_in": calls(stand_in)}, settings.seconds)
        finally:
            graph.executable = execute
    whole, without = times["whole"] / LOOPS * 1e6, times["stand_in"] / LOOPS * 1e6
    allowed = 5 + 0.1 * inputs + 0.35 * outputs
    return {
        "name": name,
        "whole_us": whole,
        "pytorch_us": without,
        "ours_us": whole - without,
        "allowed_us": allowed,
        "met": whole - without <= allowed,
    }


PART = Part(
    title="A call of a graph on four elements",
    columns=(
        ("graph", "name", "{}"),
        ("whole µs", "whole_us", "{:.1f}"),
        ("PyTorch's", "pytorch_us", "{:.1f}"),
        ("ours", "ours_us", "{:.1f}"),
        ("allowed", "allowed_us", "{:.1f}"),
    ),
    texts=1,
    goal="at most 5 µs + 0.1 µs an input + 0.35 µs an output over what TorchDynamo and AOTAutograd take",
    rows=rows,
)

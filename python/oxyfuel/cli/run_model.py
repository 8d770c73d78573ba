"""The child of `oxyfuel run`: `python -m oxyfuel.cli.run_model NAME THREADS SECONDS` measures one model in this process.

Prints what it does, a line a stage, and then one line of JSON.
"""

import json
import os
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

import torch

from oxyfuel.models import MODELS
from oxyfuel.reports import collect


def measure(name: str, threads: int, seconds: float) -> dict[str, Any]:
    torch.set_num_threads(threads or len(os.sched_getaffinity(0)))
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
        eager_ms = median_ms(lambda: model(*inputs), seconds)
        tell("timing compiled code")
        compiled_ms = median_ms(lambda: compiled(*inputs), seconds)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        tell("checking against float64")
        errors = compare(model, inputs, found, expected)
    operators = sum(graph.operators for graph in explanation.graphs)
    native = sum(graph.native_share * graph.operators for graph in explanation.graphs)
    native_flops = sum(graph.contraction_flops for graph in explanation.graphs if not graph.fallback)
    return {
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
    return judge(found, expected, model.double()(*(x.double() if x.is_floating_point() else x for x in inputs)))


def judge(found: torch.Tensor, expected: torch.Tensor, exact: torch.Tensor) -> dict[str, Any]:
    """Errors of compiled and eager results against exact ones, and whether ours are as good as eager's."""
    ours, eagers = (found.double() - exact).abs(), (expected.double() - exact).abs()
    tiny = 1e-7 * exact.abs().max().item() + 1e-12
    largest, eagers_largest = ours.max().item(), eagers.max().item()
    square, eagers_square = ours.square().mean().sqrt().item(), eagers.square().mean().sqrt().item()
    right = square <= 1.5 * eagers_square + tiny and largest <= 3 * eagers_largest + 10 * tiny
    return {"right": "yes" if right else "NO", "error": largest, "eager_error": eagers_largest}


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))))

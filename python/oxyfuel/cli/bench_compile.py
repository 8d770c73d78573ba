"""Where the time of a cold compile goes, beside that of the back end `aot_eager`, which only traces.

Everything is compiled in this process, without caches, after a small program that loads what PyTorch loads once.
"""

import importlib.util
import time
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch

from oxyfuel import backend
from oxyfuel.cli.bench import Part, Row, Settings
from oxyfuel.reports import collect

WIDTH = 64
DEPTHS = (100, 400, 1000)
FROM_MODELS = 1.3
"""Allowed: this many times what `aot_eager` takes."""
GROWTH = 1.5
"""Allowed: this many times the milliseconds a layer of the shallowest one."""


def mlp(depth: int) -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    layers: list[torch.nn.Module] = []
    for _ in range(depth):
        layers += [torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers).eval(), (torch.randn(8, WIDTH),)


def rows(settings: Settings, tell: Callable[[str], None]) -> Iterator[Row]:
    cases: dict[str, tuple[Callable[[], Any], int]] = {}
    for depth in DEPTHS:
        cases[f"MLP, {depth} layers"] = (lambda depth=depth: mlp(depth), depth)  # type: ignore[misc]
    if importlib.util.find_spec("transformers") is not None:
        from oxyfuel.models import MODELS

        for title, make in MODELS.values():
            cases[title] = (make, 0)
    compile_once(torch.nn.ReLU(), (torch.randn(3),))
    first_per_layer = 0.0
    for name, (make, depth) in cases.items():
        if not settings.wants(name):
            continue
        tell(name)
        row = measure(name, make)
        if depth:
            row["layer_ms"] = row["ours"] / depth * 1e3
            first_per_layer = first_per_layer or row["layer_ms"]
            row["met"] = row["met"] and row["layer_ms"] <= GROWTH * first_per_layer
        yield row


def measure(name: str, make: Callable[[], Any]) -> Row:
    model, inputs = make()
    stages = compile_once(model, inputs)
    torch.compiler.reset()
    with torch.no_grad():
        start = time.perf_counter()
        torch.compile(model, backend="aot_eager", fullgraph=True)(*inputs)
        tracing = time.perf_counter() - start
    return {
        "name": name,
        **stages,
        "aot_eager": tracing,
        "ratio": stages["total"] / tracing,
        "met": stages["total"] <= FROM_MODELS * tracing,
    }


def compile_once(
    model: torch.nn.Module, inputs: tuple[torch.Tensor, ...], clock: Callable[[], float] = time.perf_counter
) -> dict[str, float]:
    """Seconds of one compile and first call by `clock`: `total`, and its parts."""
    spent = {"backend": 0.0, "graphs": 0.0}

    def timed(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any, **keywords: Any) -> Any:
            start = clock()
            try:
                return function(*arguments, **keywords)
            finally:
                spent[name] += clock() - start

        return run

    def entry(module: Any, examples: Any) -> Any:
        return timed("backend", backend.backend)(module, examples, options={"cache": False})

    torch.compiler.reset()
    with torch.no_grad(), mock.patch.object(backend, "compile_graph", timed("graphs", backend.compile_graph)):
        compiled = torch.compile(model, backend=entry, fullgraph=True)
        start = clock()
        with collect() as explanation:
            compiled(*inputs)
        total = clock() - start
    native = dict.fromkeys(("graph passes", "lowering", "code generation", "program"), 0.0)
    for graph in explanation.graphs:
        for stage, seconds in graph.seconds:
            native[stage] = native.get(stage, 0.0) + seconds
    return {
        "total": total,
        "dynamo": total - spent["backend"],
        "aot": spent["backend"] - spent["graphs"],
        "import": spent["graphs"] - sum(native.values()),
        **{stage.replace(" ", "_"): seconds for stage, seconds in native.items()},
        "ours": spent["graphs"],
    }


PART = Part(
    title="A cold compile and the first call, seconds",
    columns=(
        ("model", "name", "{}"),
        ("total", "total", "{:.2f}"),
        ("TorchDynamo", "dynamo", "{:.2f}"),
        ("AOTAutograd", "aot", "{:.2f}"),
        ("import", "import", "{:.2f}"),
        ("graph passes", "graph_passes", "{:.2f}"),
        ("lowering", "lowering", "{:.2f}"),
        ("code", "code_generation", "{:.2f}"),
        ("program", "program", "{:.2f}"),
        ("ours, ms a layer", "layer_ms", "{:.2f}"),
        ("aot_eager", "aot_eager", "{:.2f}"),
        ("ratio", "ratio", "{:.2f}"),
    ),
    texts=1,
    goal=f"at most {FROM_MODELS} x aot_eager; a layer of a deep MLP takes at most {GROWTH} x that of a shallow one",
    rows=rows,
)

"""`oxyfuel.explain(function, *arguments)`: what became of a model, and how fast each part of it is.

The model is compiled afresh with its stages written to a folder, the same that the option `dump` writes; then it is called a
few times more with a clock at every step of its plans.
"""

import dataclasses
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from oxyfuel import graph_breaks, roofline, timing
from oxyfuel.backend import backend
from oxyfuel.graph_breaks import Break
from oxyfuel.reports import GraphReport, collect
from oxyfuel.roofline import Roof
from oxyfuel.trial import Trial

TIMED_CALLS = 5
TORCH_COMPILE_KEYWORDS = ("dynamic", "fullgraph", "mode")


@dataclasses.dataclass
class Kernel:
    """One step of a plan that runs our code. Work and time are of one call of its graph."""

    name: str
    fused: list[str]
    """Operators of Graph IR, in order."""
    locations: list[str]
    """Places in the user's program: "model.py:12 in forward"."""
    schedule: str
    flops: float
    bytes: float
    """Read and written."""
    step: int
    number: int
    """Of its code: equal kernels share one."""
    loops: str = ""
    """Loop IR."""
    assembly: str = ""
    seconds: float | None = None
    """Mean; None when the graph was not called, as a backward graph is not without gradients."""
    least_seconds: float = 0.0
    """What the roofline allows."""
    bound: str = ""
    """What sets that: `compute`, a cache or `memory`."""

    @property
    def roofline_share(self) -> float | None:
        """1 is as fast as the machine can be."""
        return self.least_seconds / self.seconds if self.seconds else None


@dataclasses.dataclass
class Extern:
    """An operator that runs in PyTorch."""

    operator: str
    reason: str
    location: str


@dataclasses.dataclass
class Remark:
    """What a pass did not do, and why."""

    pass_name: str
    where: str
    text: str


@dataclasses.dataclass
class Buffer:
    """A piece of memory of a plan."""

    kind: str
    """`arena`, `output`, `prepared weight`, `extern result`, `dynamic` or `constant`."""
    name: str
    """The step that writes it first."""
    dtype: str
    bytes: int
    offset: int
    """In the arena; -1 outside of it."""
    first_step: int
    last_step: int
    """Inclusive."""


@dataclasses.dataclass
class Step:
    """One step of a plan."""

    kind: str
    """`kernel`, `extern`, `copy`, `sizes`; `loop`, `branch`, `while`, whose time is that of the steps in them."""
    name: str
    location: str
    runs: int
    """In all timed calls."""
    seconds: float | None
    """Of one call of the graph, all runs together."""


@dataclasses.dataclass
class Graph:
    """One graph that was compiled."""

    kind: str
    """`inference`, `forward` or `backward`."""
    operators: int
    native_share: float
    fallback: str
    """Why all of it runs in PyTorch; empty when it does not."""
    kernels: list[Kernel]
    externs: list[Extern]
    remarks: list[Remark]
    steps: list[Step]
    buffers: list[Buffer]
    arena_bytes: int
    stages: dict[str, str]
    """Graph IR by the pass that left it, beginning with `imported`."""
    compile_seconds: list[tuple[str, float]]
    calls: int = 0
    """In one call of the function."""

    @property
    def before(self) -> str:
        """Graph IR as it was imported."""
        return self.stages.get("imported", "")

    @property
    def after(self) -> str:
        """Graph IR as it was made into a plan."""
        return next(reversed(self.stages.values()), "")

    @property
    def seconds(self) -> float | None:
        """Of one call: the sum over its steps."""
        times = [step.seconds for step in self.steps if step.seconds is not None and step.kind not in timing.CONTROL]
        return sum(times) if times else None


@dataclasses.dataclass
class Explanation:
    """What became of one call. `str()` is for reading, the fields are data, `html()` is a page."""

    title: str
    graphs: list[Graph]
    breaks: list[Break]
    roofline: Roof

    @property
    def kernels(self) -> list[Kernel]:
        return [kernel for graph in self.graphs for kernel in graph.kernels]

    @property
    def externs(self) -> list[Extern]:
        return [extern for graph in self.graphs for extern in graph.externs]

    @property
    def remarks(self) -> list[Remark]:
        return [remark for graph in self.graphs for remark in graph.remarks]

    def __str__(self) -> str:
        from oxyfuel.explanation_text import text

        return text(self)

    def html(self) -> str:
        """One page that needs nothing beside it: graphs before and after, loops beside assembly, times, memory."""
        from oxyfuel.explanation_page import page

        return page(self)


def explain(
    function: Callable[..., Any],
    /,
    *arguments: Any,
    compile_options: Mapping[str, Any] | None = None,
    **keywords: Any,
) -> Explanation:
    """What Oxyfuel makes of `function(*arguments, **keywords)`.

    >>> explanation = oxyfuel.explain(model, x)
    >>> print(explanation)
    >>> explanation.kernels[0].fused
    ['matmul', 'add', 'gelu']

    `compile_options`: `dynamic`, `fullgraph` and `mode` of torch.compile, and our own options, whether or not the function is
    a compiled one. It is called a few times, on copies of its arguments, and its backward pass with it if its results have one.
    """
    options = dict(compile_options or {})
    settings = {name: options.pop(name) for name in TORCH_COMPILE_KEYWORDS if name in options}
    name = getattr(function, "__name__", type(function).__name__)
    trial = Trial(function, arguments, keywords)
    torch.compiler.reset()
    with tempfile.TemporaryDirectory(prefix="oxyfuel-explain-") as folder:
        options = {"dump": folder, **options}
        compiled = torch.compile(trial.function, backend=backend, options=options, **settings)
        with collect() as collected, graph_breaks.collect() as breaks:
            trial.run(compiled, backward=True)
        with timing.record():
            for _ in range(TIMED_CALLS):
                trial.run(compiled, backward=True)
        roof = roofline.measure(torch.get_num_threads())
        graphs = [_graph(program, roof) for program in collected.programs]
    torch.compiler.reset()
    return Explanation(name, graphs, breaks, roof)


def _graph(program: Any, roof: Roof) -> Graph:
    report: GraphReport = program.report
    executable = getattr(program, "executable", None)
    times = executable.step_times() if executable is not None else []
    calls = times[0][3] if times else 0  # the first step lies in no loop
    steps = [
        Step(kind, name, location, runs, nanoseconds * 1e-9 / calls if calls else None)
        for kind, name, location, runs, nanoseconds, _, _ in times
    ]
    arena_bytes, buffers = executable.memory_map() if executable is not None else (0, [])
    return Graph(
        kind=report.kind,
        operators=report.operators,
        native_share=report.native_share,
        fallback=report.fallback,
        kernels=[_kernel(found, report, steps, calls, roof) for found in report.kernels],
        externs=[Extern(*found) for found in report.declined],
        remarks=[Remark(*found) for found in report.remarks],
        steps=steps,
        buffers=[Buffer(*found) for found in buffers],
        arena_bytes=arena_bytes,
        stages=_stages(report.dump),
        compile_seconds=report.seconds,
        calls=round(calls / TIMED_CALLS),
    )


def _kernel(found: dict[str, Any], report: GraphReport, steps: list[Step], calls: int, roof: Roof) -> Kernel:
    number, step = found["kernel"], steps[found["step"]] if steps else None
    runs = step.runs / calls if step is not None and step.runs else 1.0
    least, bound = roof.bound(found["flops"] / runs, found["bytes"] / runs)
    return Kernel(
        name=found["name"],
        fused=found["fused"],
        locations=found["locations"],
        schedule=found["schedule"],
        flops=found["flops"],
        bytes=found["bytes"],
        step=found["step"],
        number=number,
        loops=_read(report.dump, f"kernel_{number}.oxir"),
        assembly=_read(report.dump, f"kernel_{number}.s"),
        seconds=step.seconds if step is not None else None,
        least_seconds=least * runs,
        bound=bound,
    )


def _read(folder: str, name: str) -> str:
    path = Path(folder, name)
    return path.read_text() if folder and path.is_file() else ""


def _stages(folder: str) -> dict[str, str]:
    """Files like 03-fuse.oxir, in order; the bodies of time loops, which are lowered later, are left out."""
    stages: dict[str, str] = {}
    for path in sorted(Path(folder).glob("[0-9][0-9]-*.oxir")) if folder else []:
        text = path.read_text()
        if text.startswith("graph @main("):
            name = path.stem[3:]
            stages[name if name not in stages else f"{name} again"] = text
    return stages

"""How long the steps of compiled programs take in a running process.

>>> with oxyfuel.timing.record() as recording:
...     model(x)
>>> for step in recording.steps():
...     print(step.name, step.location, step.seconds)

A step is a kernel, or an operator that PyTorch runs. Recording costs about 50 ns a step, and nothing when it is off. What binds
weights, once, is no step.
"""

import contextlib
import dataclasses
import threading
import weakref
from collections.abc import Iterator
from typing import Any

from oxyfuel import _C

CONTROL = ("loop", "branch", "while")
"""Kinds of steps whose time is that of the steps in them."""


@dataclasses.dataclass
class StepTime:
    """What one step of one compiled graph took over all recorded calls."""

    graph: int
    """Position of its graph among those recorded."""
    kind: str
    """`kernel`, `extern` (PyTorch runs it), `copy`, `sizes`."""
    name: str
    location: str
    """`model.py:41 in forward`, the first place in the user's program; may be empty."""
    runs: int
    seconds: float
    flops: float
    """Floating-point operations of all runs, as the compiler counts them; 0 where it does not."""
    bytes: float
    """Of the operands and results of all runs."""
    working_set: float
    """Bytes of one run."""
    begin: int
    end: int
    """Of the latest run, in nanoseconds of a clock that never goes back."""


@dataclasses.dataclass
class Recording:
    """The compiled graphs that lived while it was on."""

    graphs: list[Any] = dataclasses.field(default_factory=list)

    def steps(self) -> list[StepTime]:
        """Every step that ran, in the order of programs and plans."""
        found = []
        for number, graph in enumerate(self.graphs):
            found += _steps_of(number, graph)
        return found


def _steps_of(number: int, graph: Any) -> list[StepTime]:
    times = graph.executable.step_times()
    if not times:
        return []
    calls = times[0][3]  # the first step lies in no loop
    kernels = {kernel["step"]: kernel for kernel in graph.report.kernels}
    found = []
    for index, (kind, name, location, runs, nanoseconds, begin, end) in enumerate(times):
        if kind in CONTROL or not runs:
            continue
        kernel = kernels.get(index, {})
        total_bytes = kernel.get("bytes", 0.0) * calls
        found.append(
            StepTime(
                graph=number,
                kind=kind,
                name=name,
                location=location,
                runs=runs,
                seconds=nanoseconds * 1e-9,
                flops=kernel.get("flops", 0.0) * calls,
                bytes=total_bytes,
                working_set=total_bytes / runs,
                begin=begin,
                end=end,
            )
        )
    return found


_lock = threading.Lock()
_live: list[weakref.ref[Any]] = []
_recordings: list[Recording] = []


def watch(graph: Any) -> None:
    """Makes a loaded graph known: it has an `executable` and a `report`."""
    with _lock:
        _live[:] = [reference for reference in _live if reference() is not None]
        _live.append(weakref.ref(graph))
        for recording in _recordings:
            recording.graphs.append(graph)


def live_graphs() -> list[Any]:
    """The compiled graphs of this process, oldest first."""
    with _lock:
        return [graph for reference in _live if (graph := reference()) is not None]


@contextlib.contextmanager
def record() -> Iterator[Recording]:
    """Adds up the time of each step of all compiled graphs meanwhile. One at a time: RuntimeError inside of another."""
    recording = Recording(live_graphs())
    with _lock:
        if _recordings:
            raise RuntimeError("oxyfuel: steps are being recorded already")
        _recordings.append(recording)
    for graph in recording.graphs:
        graph.executable.forget_step_times()
    _C.record_steps(True)
    try:
        yield recording
    finally:
        _C.record_steps(False)
        with _lock:
            _recordings.remove(recording)

"""What each compile was like: told to whoever collects, such as `oxyfuel.explain` and `oxyfuel run`."""

import contextlib
import dataclasses
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any


@dataclasses.dataclass
class GraphReport:
    """One compiled graph. Kept with the program in caches."""

    kind: str
    """`inference`, `forward` or `backward`."""
    operators: int = 0
    """Of the FX graph that compute something."""
    declined: list[tuple[str, str, str]] = dataclasses.field(default_factory=list)
    """Operators that run in PyTorch: (operator, why, where)."""
    kernels: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    """One a step that runs a kernel: KernelInfo of src/driver/compile.h."""
    remarks: list[tuple[str, str, str]] = dataclasses.field(default_factory=list)
    """Why a pass declined, or what it decided: (pass, where, what)."""
    seconds: list[tuple[str, float]] = dataclasses.field(default_factory=list)
    contraction_flops: float = 0.0
    kernels_generated: int = 0
    kernels_cached: int = 0
    fallback: str = ""
    """Why the whole graph runs in PyTorch; empty when it does not."""
    dump: str = ""
    """The folder that has its stages; empty when they were not asked for."""

    @property
    def native_share(self) -> float:
        """Share of the operators that run as our own code."""
        if self.fallback or not self.operators:
            return 0.0 if self.fallback else 1.0
        return 1.0 - len(self.declined) / self.operators

    def lines(self) -> Iterator[str]:
        """What runs in PyTorch, and why, in words."""
        if self.fallback:
            yield f"runs in PyTorch: {self.fallback}"
        for (target, reason), count in Counter((t, r) for t, r, _ in self.declined).items():
            where = next(w for t, r, w in self.declined if (t, r) == (target, reason))
            yield f"{target} runs in PyTorch ({count}x, first at {where or 'unknown'}): {reason}"


@dataclasses.dataclass
class Collected:
    """The graphs that were compiled, or taken from a cache, while somebody collected."""

    graphs: list[GraphReport] = dataclasses.field(default_factory=list)
    programs: list[Any] = dataclasses.field(default_factory=list)
    """The CompiledGraph or EagerGraph of each."""

    def __str__(self) -> str:
        lines: list[str] = []
        for number, graph in enumerate(self.graphs):
            lines.append(
                f"graph {number} ({graph.kind}): {graph.operators} operators, {len(graph.kernels)} kernels, "
                f"{graph.native_share:.0%} native"
            )
            lines += [f"  {line}" for line in graph.lines()]
            lines += [f"  kernel {kernel['name']}: {', '.join(kernel['fused'])}" for kernel in graph.kernels]
        return "\n".join(lines) or "nothing was compiled"


_listeners: list[Collected] = []
_lock = threading.Lock()


def publish(report: GraphReport, program: Any) -> None:
    """Tells whoever collects."""
    with _lock:
        for listener in _listeners:
            listener.graphs.append(report)
            listener.programs.append(program)


@contextlib.contextmanager
def collect() -> Iterator[Collected]:
    """The reports of all graphs that are compiled, or taken from a cache, meanwhile."""
    collected = Collected()
    with _lock:
        _listeners.append(collected)
    try:
        yield collected
    finally:
        with _lock:
            # Not `remove`: equal ones are not the same one.
            _listeners[:] = [listener for listener in _listeners if listener is not collected]

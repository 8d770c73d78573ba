"""What each compile was like: read by `oxyfuel.explain` and `oxyfuel run`."""

import contextlib
import dataclasses
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any


@dataclasses.dataclass
class GraphReport:
    """One compiled graph."""

    kind: str
    """`inference`, `forward` or `backward`."""
    operators: int = 0
    """Of the FX graph that compute something."""
    declined: list[tuple[str, str, str]] = dataclasses.field(default_factory=list)
    """Operators that run in PyTorch: (operator, why, where)."""
    kernels: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    remarks: list[tuple[str, str, str]] = dataclasses.field(default_factory=list)
    seconds: list[tuple[str, float]] = dataclasses.field(default_factory=list)
    contraction_flops: float = 0.0
    kernels_generated: int = 0
    kernels_cached: int = 0
    fallback: str = ""
    """Why the whole graph runs in PyTorch; empty when it does not."""

    @property
    def native_share(self) -> float:
        """Share of the operators that run as our own code."""
        if self.fallback or not self.operators:
            return 0.0 if self.fallback else 1.0
        return 1.0 - len(self.declined) / self.operators


@dataclasses.dataclass
class Explanation:
    """The graphs that one run compiled."""

    graphs: list[GraphReport] = dataclasses.field(default_factory=list)

    def __str__(self) -> str:
        lines: list[str] = []
        for number, graph in enumerate(self.graphs):
            lines.append(
                f"graph {number} ({graph.kind}): {graph.operators} operators, {len(graph.kernels)} kernels, "
                f"{graph.native_share:.0%} native"
            )
            if graph.fallback:
                lines.append(f"  runs in PyTorch: {graph.fallback}")
            for (target, reason), count in Counter((t, r) for t, r, _ in graph.declined).items():
                where = next(w for t, r, w in graph.declined if (t, r) == (target, reason))
                lines.append(f"  {target} runs in PyTorch ({count}x, first at {where or 'unknown'}): {reason}")
            for kernel in graph.kernels:
                places = ", ".join(kernel["locations"][:3])
                lines.append(
                    f"  kernel {kernel['name']}: {', '.join(kernel['fused'])}" + (f"  at {places}" if places else "")
                )
            lines += [f"  {where}: {text} ({pass_name})" for pass_name, where, text in graph.remarks]
            if graph.seconds:
                lines.append("  " + ", ".join(f"{stage} {time * 1e3:.0f} ms" for stage, time in graph.seconds))
        return "\n".join(lines) or "nothing was compiled"


_listeners: list[Explanation] = []
_lock = threading.Lock()


def publish(report: GraphReport) -> None:
    """Tells whoever collects."""
    with _lock:
        for listener in _listeners:
            listener.graphs.append(report)


@contextlib.contextmanager
def collect() -> Iterator[Explanation]:
    """The reports of all graphs that are compiled, or taken from the cache, meanwhile."""
    explanation = Explanation()
    with _lock:
        _listeners.append(explanation)
    try:
        yield explanation
    finally:
        with _lock:
            _listeners.remove(explanation)

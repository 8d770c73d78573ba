"""An explanation as text."""

from collections import Counter
from collections.abc import Iterator

from oxyfuel.explanation import Explanation, Graph, Kernel
from oxyfuel.roofline import Roof

LARGEST_BUFFERS = 5


def seconds(time: float | None) -> str:
    """ "12.3 us"; a dash when it was not measured."""
    if time is None:
        return "-"
    for unit, scale in (("s", 1.0), ("ms", 1e-3)):
        if time >= scale:
            return f"{time / scale:.3g} {unit}"
    return f"{time * 1e6:.3g} µs"


def amount(number: float, unit: str) -> str:
    """ "1.5 MB", "0 FLOP"."""
    for prefix, scale in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= scale:
            return f"{number / scale:.3g} {prefix}{unit}"
    return f"{number:.3g} {unit}"


def count(number: int, noun: str) -> str:
    """ "1 kernel", "2 kernels"."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def share(part: float | None) -> str:
    return "-" if part is None else f"{part:.0%}"


def machine(roof: Roof) -> str:
    speeds = ", ".join(f"{name} {amount(speed, 'B')}/s" for name, _, speed in roof.bandwidths)
    return f"{amount(roof.flops, 'FLOP')}/s on {roof.threads} threads; reads {speeds}"


def text(explanation: Explanation) -> str:
    lines: list[str] = []
    for number, graph in enumerate(explanation.graphs):
        lines += graph_lines(number, graph)
    for found in explanation.breaks:
        lines += [f"graph break at {found.location or 'an unknown place'}: {found.line}", *indented(found.reason)]
    if not explanation.graphs:
        lines.append("nothing was compiled")
    lines.append(f"roofline: {machine(explanation.roofline)}")
    return "\n".join(lines)


def graph_lines(number: int, graph: Graph) -> Iterator[str]:
    counts = (
        f"{count(graph.operators, 'operator')}, {count(len(graph.kernels), 'kernel')}, {graph.native_share:.0%} native"
    )
    yield f"graph {number} ({graph.kind}): {counts}, {seconds(graph.seconds)} a call"
    if graph.fallback:
        yield f"  runs in PyTorch: {graph.fallback}"
    externs = Counter((extern.operator, extern.reason) for extern in graph.externs)
    for (operator, reason), times in externs.items():
        first = next(e.location for e in graph.externs if (e.operator, e.reason) == (operator, reason))
        yield f"  {operator} runs in PyTorch ({times}x, first at {first or 'an unknown place'}): {reason}"
    for kernel in graph.kernels:
        yield from kernel_lines(kernel)
    for (pass_name, remark, where), number in Counter((r.pass_name, r.text, r.where) for r in graph.remarks).items():
        often = f" ({number}x)" if number > 1 else ""
        yield f"  {pass_name}: {where + ': ' if where else ''}{remark}{often}"
    if graph.arena_bytes:
        yield f"  arena: {amount(graph.arena_bytes, 'B')}"
    largest = sorted((b for b in graph.buffers if b.kind == "arena"), key=lambda b: -b.bytes)
    for buffer in largest[:LARGEST_BUFFERS]:
        size = f"{amount(buffer.bytes, 'B')} at {buffer.offset}"
        yield f"    {buffer.name}: {size}, steps {buffer.first_step} to {buffer.last_step}"
    if len(largest) > LARGEST_BUFFERS:
        yield f"    and {len(largest) - LARGEST_BUFFERS} smaller buffers"
    if graph.compile_seconds:
        yield "  compiled: " + ", ".join(f"{stage} {seconds(time)}" for stage, time in graph.compile_seconds)


def kernel_lines(kernel: Kernel) -> Iterator[str]:
    work = f"{amount(kernel.flops, 'FLOP')}, {amount(kernel.bytes, 'B')}"
    speed = f"{seconds(kernel.seconds)}, {share(kernel.roofline_share)} of the roofline ({kernel.bound})"
    yield f"  kernel {kernel.name}: {', '.join(kernel.fused)}; {work}, {speed}"
    if kernel.locations:
        more = f" and {len(kernel.locations) - 3} more" if len(kernel.locations) > 3 else ""
        yield f"    at {', '.join(kernel.locations[:3])}{more}"
    if kernel.schedule:
        yield f"    schedule: {kernel.schedule}"


def indented(reason: str) -> list[str]:
    return [f"  {line}" for line in reason.strip().splitlines()]

"""An explanation as one HTML page that needs nothing beside it: no scripts, no fonts, no network."""

import dataclasses
import html
import re
from collections import Counter
from collections.abc import Iterator, Sequence

from oxyfuel.explanation import Explanation, Graph, Kernel
from oxyfuel.explanation_text import amount, machine, seconds, share

COLORS = ("#3b6fd4", "#d9822b", "#3f9c6b", "#b5489a", "#8a6fd1", "#c9463d", "#2f9bb3", "#8c8f2a", "#a2663a", "#5b7285")
SHARES_SHOWN = 9
"""Kernels that have a colour of their own in the bar of times; the others share the last one."""

STYLE = """
:root { --ink: #1d2733; --soft: #5d6b7a; --line: #dde3ea; --paper: #ffffff; --panel: #f6f8fa; --code: #1f2a37; }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1500px; padding: 28px 32px 80px; background: var(--paper); color: var(--ink);
       font: 15px/1.5 system-ui, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; }
h1 { font-size: 26px; margin: 0 0 4px; } h2 { font-size: 20px; margin: 40px 0 10px; }
h3 { font-size: 16px; margin: 24px 0 8px; }
.soft { color: var(--soft); } .right { text-align: right; white-space: nowrap; }
.cards { display: flex; flex-wrap: wrap; gap: 12px; margin: 18px 0 8px; }
.card { background: var(--panel); border: 1px solid var(--line); border-radius: 8px; padding: 10px 16px; min-width: 120px; }
.card b { display: block; font-size: 20px; } .card span { color: var(--soft); font-size: 13px; }
table { border-collapse: collapse; width: 100%; }
th { text-align: left; font-weight: 600; color: var(--soft); font-size: 13px; }
th, td { padding: 5px 14px 5px 0; border-bottom: 1px solid var(--line); vertical-align: top; } th.right { text-align: right; }
code, pre { font: 12.5px/1.45 ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; }
pre { background: var(--panel); border: 1px solid var(--line); border-radius: 6px; padding: 10px 12px; margin: 0;
      overflow: auto; max-height: 620px; color: var(--code); }
.pair { display: grid; grid-template-columns: 1fr 1fr; gap: 14px; align-items: start; } .pair > div { min-width: 0; }
.pair h4 { margin: 8px 0 6px; font-size: 13px; color: var(--soft); font-weight: 600; }
@media (max-width: 900px) { .pair { grid-template-columns: 1fr; } }
.bar { display: flex; height: 30px; border-radius: 6px; overflow: hidden; margin: 10px 0; background: var(--line); }
.bar a { display: block; min-width: 1px; }
.name { display: flex; align-items: baseline; gap: 7px; } .name a, .bar a { color: #1d5fbf; }
.bar .torch { background: repeating-linear-gradient(45deg, #aab4bf 0 6px, #c9d1da 6px 12px); }
.swatch { flex: none; display: inline-block; width: 11px; height: 11px; border-radius: 3px; }
.meter { display: inline-block; width: 70px; height: 8px; background: var(--line); border-radius: 4px; overflow: hidden;
         margin-right: 8px; vertical-align: 1px; }
.meter i { display: block; height: 100%; background: #3f9c6b; }
details { border: 1px solid var(--line); border-radius: 8px; margin: 8px 0; padding: 0 14px; }
details[open] { padding-bottom: 14px; } summary { cursor: pointer; padding: 9px 0; } .code { scroll-margin-top: 70px; }
.k { color: #8431a8; } .v { color: #1d5fbf; } .s { color: #2d7a4c; }
svg text { font: 12px system-ui, sans-serif; fill: var(--soft); }
"""


def page(explanation: Explanation) -> str:
    title = f"oxyfuel: {explanation.title}"
    return "\n".join(
        [
            "<!doctype html>",
            f'<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>',
            '<meta name="viewport" content="width=device-width">',
            f"<style>{STYLE}</style></head><body>",
            f"<h1>{escape(explanation.title)}</h1>",
            f'<div class="soft">Measured: {escape(machine(explanation.roofline))}.</div>',
            *cards(explanation),
            *breaks(explanation),
            *(line for number, graph in enumerate(explanation.graphs) for line in graph_section(number, graph)),
            "</body></html>\n",
        ]
    )


def escape(text: str) -> str:
    return html.escape(text, quote=True)


def cards(explanation: Explanation) -> Iterator[str]:
    graphs = explanation.graphs
    times = [graph.seconds * graph.calls for graph in graphs if graph.seconds is not None]
    operators = sum(graph.operators for graph in graphs)
    native = sum(graph.operators * graph.native_share for graph in graphs)
    facts = [
        (str(len(graphs)), "graphs" if len(graphs) != 1 else "graph"),
        (str(len(explanation.kernels)), "kernels"),
        (str(operators), "operators"),
        (share(native / operators if operators else None), "native"),
        (seconds(sum(times)) if times else "-", "a call, all steps"),
        (amount(sum(kernel.flops for kernel in explanation.kernels), "FLOP"), "all kernels"),
        (amount(max((graph.arena_bytes for graph in graphs), default=0), "B"), "largest arena"),
    ]
    yield '<div class="cards">'
    yield from (f'<div class="card"><b>{escape(value)}</b><span>{escape(name)}</span></div>' for value, name in facts)
    yield "</div>"


def breaks(explanation: Explanation) -> Iterator[str]:
    if not explanation.breaks:
        return
    yield "<h2>Graph breaks</h2>"
    rows = [
        (f"<code>{escape(found.location)}</code>", f"<code>{escape(found.line)}</code>", lines(found.reason))
        for found in explanation.breaks
    ]
    yield from table(("where", "line", "reason"), rows)


def lines(text: str) -> str:
    return "<br>".join(escape(line) for line in text.strip().splitlines())


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> Iterator[str]:
    """Cells are HTML."""
    css = [' class="right"' if i in right else "" for i in range(len(columns))]
    yield "<table><tr>" + "".join(f"<th{c}>{escape(name)}</th>" for c, name in zip(css, columns)) + "</tr>"
    for row in rows:
        yield "<tr>" + "".join(f"<td{c}>{cell}</td>" for c, cell in zip(css, row)) + "</tr>"
    yield "</table>"


def graph_section(number: int, graph: Graph) -> Iterator[str]:
    yield f"<h2>Graph {number}: {escape(graph.kind)}</h2>"
    if graph.fallback:
        yield f"<p>All of it runs in PyTorch: {escape(graph.fallback)}</p>"
        return
    compiled = ", ".join(f"{escape(stage)} {seconds(time)}" for stage, time in graph.compile_seconds)
    yield f'<div class="soft">{seconds(graph.seconds)} a call. Compiled in: {compiled}.</div>'
    yield from times(number, graph)
    yield from left_undone(graph)
    yield from memory(graph)
    yield "<h3>Code</h3>"
    for code in sorted({kernel.number for kernel in graph.kernels}):
        yield from kernel_code(number, [kernel for kernel in graph.kernels if kernel.number == code])
    yield "<h3>Graph before and after</h3>"
    yield from stages(graph)


def by_code(graph: Graph) -> list[Kernel]:
    """A kernel for each piece of code, with the work and time of all steps that run it; those that take longest first."""
    sums: dict[int, Kernel] = {}
    for kernel in graph.kernels:
        known = sums.setdefault(
            kernel.number, dataclasses.replace(kernel, flops=0, bytes=0, seconds=None, least_seconds=0)
        )
        known.flops += kernel.flops
        known.bytes += kernel.bytes
        known.least_seconds += kernel.least_seconds
        if kernel.seconds is not None:
            known.seconds = (known.seconds or 0.0) + kernel.seconds
    return sorted(sums.values(), key=lambda kernel: -(kernel.seconds or 0.0))


def times(number: int, graph: Graph) -> Iterator[str]:
    """The bar of time shares, and all kernels."""
    total = graph.seconds
    ranked = by_code(graph)
    steps = Counter(kernel.number for kernel in graph.kernels)
    yield "<h3>Time</h3>"
    if total:
        yield from time_bar(number, graph, ranked, total)
    rows = []
    for rank, kernel in enumerate(ranked):
        name = f'<a href="#code-{number}-{kernel.number}">{escape(kernel.name)}</a>'
        rows.append(
            (
                f'<span class="name"><span class="swatch" style="background:{color(rank)}"></span>{name}</span>',
                escape(", ".join(kernel.fused)),
                f"<code>{escape(', '.join(kernel.locations[:2]))}</code>",
                str(steps[kernel.number]),
                seconds(kernel.seconds),
                share(fraction(kernel.seconds, total)),
                f'<span title="bound by {escape(kernel.bound)}">{meter(kernel.roofline_share)}</span>',
                amount(kernel.flops, "FLOP"),
                amount(kernel.bytes, "B"),
            )
        )
    for step in graph.steps:
        if step.kind == "extern":
            name = f"{escape(step.name)} <span class=soft>in PyTorch</span>"
            part = share(fraction(step.seconds, total))
            rows.append(
                (name, "", f"<code>{escape(step.location)}</code>", "1", seconds(step.seconds), part, "", "", "")
            )
    columns = ("kernel", "fused", "where, first", "steps", "time", "share", "of the roofline", "work", "memory")
    yield from table(columns, rows, right=range(3, 9))


def time_bar(number: int, graph: Graph, ranked: list[Kernel], total: float) -> Iterator[str]:
    yield '<div class="bar">'
    for rank, kernel in enumerate(ranked):
        part = (kernel.seconds or 0.0) / total
        label = escape(f"{kernel.name}: {seconds(kernel.seconds)}, {share(part)}")
        style = f"width:{100 * part:.2f}%;background:{color(rank)}"
        yield f'<a href="#code-{number}-{kernel.number}" title="{label}" style="{style}"></a>'
    for step in graph.steps:
        if step.kind == "extern" and step.seconds:
            label = escape(f"{step.name}, in PyTorch: {seconds(step.seconds)}, {share(step.seconds / total)}")
            yield f'<a class="torch" title="{label}" style="width:{100 * step.seconds / total:.2f}%"></a>'
    yield "</div>"


def fraction(part: float | None, total: float | None) -> float | None:
    return part / total if part is not None and total else None


def color(rank: int) -> str:
    return COLORS[min(rank, SHARES_SHOWN)]


def meter(part: float | None) -> str:
    if part is None:
        return "-"
    return f'<span class="meter"><i style="width:{100 * min(part, 1):.0f}%"></i></span>{share(part)}'


def left_undone(graph: Graph) -> Iterator[str]:
    if graph.remarks:
        yield "<h3>Not fused, not done</h3>"
        often = Counter((remark.pass_name, remark.where, remark.text) for remark in graph.remarks)
        rows = [
            (escape(pass_name), f"<code>{escape(where)}</code>", escape(text), str(times) if times > 1 else "")
            for (pass_name, where, text), times in often.items()
        ]
        yield from table(("pass", "operator", "why", "times"), rows, right=[3])
    if graph.externs:
        yield "<h3>In PyTorch</h3>"
        declined = [
            (f"<code>{escape(e.operator)}</code>", f"<code>{escape(e.location)}</code>", escape(e.reason))
            for e in graph.externs
        ]
        yield from table(("operator", "where", "why"), declined)


def memory(graph: Graph) -> Iterator[str]:
    """The arena: addresses upwards, steps to the right."""
    arena = [buffer for buffer in graph.buffers if buffer.kind == "arena" and buffer.bytes]
    others = [buffer for buffer in graph.buffers if buffer.kind != "arena" and buffer.bytes]
    yield "<h3>Memory</h3>"
    kept = sum(buffer.bytes for buffer in others if buffer.kind == "prepared weight")
    results = sum(buffer.bytes for buffer in others if buffer.kind == "output")
    text = f"Arena {amount(graph.arena_bytes, 'B')} for {len(arena)} buffers of {amount(sum(b.bytes for b in arena), 'B')}; "
    text += f"prepared weights {amount(kept, 'B')}, results {amount(results, 'B')}."
    yield f'<div class="soft">{escape(text)}</div>'
    if not arena:
        return
    width, height, left, bottom = 1200.0, 260.0, 70.0, 22.0
    steps = max(max(buffer.last_step for buffer in arena) + 1, len(graph.steps))
    across, up = (width - left) / steps, (height - bottom) / graph.arena_bytes
    yield f'<svg viewBox="0 0 {width:.0f} {height + 4:.0f}" width="100%" role="img" aria-label="arena over steps">'
    for number, buffer in enumerate(sorted(arena, key=lambda b: (b.first_step, b.offset))):
        x, w = left + buffer.first_step * across, (buffer.last_step - buffer.first_step + 1) * across
        y, h = height - bottom - (buffer.offset + buffer.bytes) * up, buffer.bytes * up
        label = f"{buffer.name}: {buffer.dtype}, {amount(buffer.bytes, 'B')} at {buffer.offset}, "
        label += f"steps {buffer.first_step} to {buffer.last_step}"
        shape = f'x="{x:.1f}" y="{y:.1f}" width="{max(w - 1, 1):.1f}" height="{max(h, 1):.1f}"'
        fill = f'fill="{COLORS[number % len(COLORS)]}" fill-opacity=".75"'
        yield f'<rect {shape} rx="2" {fill}><title>{escape(label)}</title></rect>'
    yield f'<line x1="{left}" y1="{height - bottom}" x2="{width}" y2="{height - bottom}" stroke="#9aa7b5"/>'
    yield f'<line x1="{left}" y1="0" x2="{left}" y2="{height - bottom}" stroke="#9aa7b5"/>'
    yield f'<text x="{left - 6}" y="12" text-anchor="end">{amount(graph.arena_bytes, "B")}</text>'
    yield f'<text x="{left - 6}" y="{height - bottom}" text-anchor="end">0</text>'
    yield f'<text x="{left}" y="{height - 4}">step 0</text>'
    yield f'<text x="{width}" y="{height - 4}" text-anchor="end">step {steps - 1}</text></svg>'


def kernel_code(number: int, kernels: list[Kernel]) -> Iterator[str]:
    """Loops beside assembly, once for all steps that run them."""
    first = kernels[0]
    runs = f", {len(kernels)} steps" if len(kernels) > 1 else ""
    summary = (
        f"<b>kernel_{first.number}</b> {escape(first.name)}<span class=soft>{runs} · {escape(first.schedule)}</span>"
    )
    yield f"<details><summary>{summary}</summary>"
    yield f'<div class="pair code" id="code-{number}-{first.number}">'  # inside, so that a link to it opens the details
    yield f"<div><h4>Loop IR</h4><pre>{colored(first.loops)}</pre></div>"
    yield f"<div><h4>Assembly, without directives</h4><pre>{assembly(first.assembly)}</pre></div></div></details>"


def stages(graph: Graph) -> Iterator[str]:
    yield '<details open><summary>As it came from PyTorch, and as it was compiled</summary><div class="pair">'
    yield f"<div><h4>Before the passes</h4><pre>{colored(graph.before)}</pre></div>"
    yield f"<div><h4>After them: a group is a kernel</h4><pre>{colored(graph.after)}</pre></div></div></details>"
    for name, text in list(graph.stages.items())[1:-1]:
        yield f"<details><summary>after {escape(name)}</summary><pre>{colored(text)}</pre></details>"


WORDS = (
    "graph|kernel|task|for|in|out|inout|step|vector|unroll|let|index|if|else|local|scratch|check|contract|return|mutate"
)
TOKENS = re.compile(rf"(?P<s>&quot;.*?&quot;)|(?P<v>[%@][\w.]+)|(?P<k>\b(?:{WORDS})\b)")


def colored(text: str) -> str:
    """IR text with its words, names and strings marked."""
    return TOKENS.sub(lambda found: f'<span class="{found.lastgroup}">{found.group()}</span>', escape(text))


def assembly(text: str) -> str:
    """Instructions and the labels that they jump to."""
    kept = [line for line in text.splitlines() if not re.match(r"\s*(\.(?!LBB)|#|$)", line)]
    return re.sub(r"(?m)^(\s+)([a-z]\w*)", r'\1<span class="k">\2</span>', escape("\n".join(kept)))

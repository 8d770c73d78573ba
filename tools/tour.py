"""The blocks of docs/tour.md, made by the tools that the page is about.

A block of the page follows a line `<!-- made: NAME -->`. The program after `<!-- program -->` is written by hand, and run.
Code is made for x86-64-v3 whatever machine this is; times and the machine's own numbers do not occur.
"""

import re
import tempfile
from pathlib import Path
from typing import Any

TARGET = "x86-64-v3"
MARK = re.compile(r"(<!-- made: ([\w-]+) -->\n```(\w*)\n)(.*?)(```\n)", re.DOTALL)
PROGRAM = re.compile(r"<!-- program -->\n```python\n(.*?)```\n", re.DOTALL)


def page(text: str) -> str:
    """The page with its blocks made anew."""
    found = PROGRAM.search(text)
    assert found is not None
    blocks = make_blocks(found.group(1))
    return MARK.sub(lambda mark: mark.group(1) + blocks[mark.group(2)].strip("\n") + "\n" + mark.group(5), text)


def make_blocks(source: str) -> dict[str, str]:
    import torch

    import oxyfuel
    from oxyfuel.capture import Call, compile_watched

    program: dict[str, Any] = {}
    exec(compile(source, "model.py", "exec"), program)
    forward, inputs = program["forward"], program["inputs"]()
    calls: list[Call] = []
    options = {"target": TARGET, "compile_threads": 1}
    compile_watched(forward, calls.append, options)(*inputs)
    explanation = oxyfuel.explain(forward, *inputs, compile_options=options)
    (graph,) = explanation.graphs
    product, division = graph.kernels
    with tempfile.TemporaryDirectory() as folder:
        verification = oxyfuel.verify(forward, *inputs, compile_options=options, program=Path(folder, "mismatch.py"))
    torch.compiler.reset()
    return {
        "aten": aten_graph(calls[0].module),
        "imported": graph.before,
        "grouped": graph.after,
        "kernels": "\n".join(
            f"{k.name}: {', '.join(k.fused)}; {k.flops:,.0f} FLOP, {k.bytes:,.0f} bytes" for k in graph.kernels
        ),
        "remarks": "\n".join(f"{r.pass_name}: {r.where}: {r.text}" for r in graph.remarks),
        "loops": division.loops,
        "product": product.loops,
        "schedules": "\n".join(kernel.schedule for kernel in graph.kernels),
        "assembly": inner_loop(division.assembly),
        "steps": "\n".join(f"{number} {step.kind} {step.name}" for number, step in enumerate(graph.steps)),
        "memory": "\n".join(memory_line(buffer) for buffer in graph.buffers),
        "verified": str(verification),
    }


def aten_graph(module: Any) -> str:
    lines = module.graph.python_code("self").src.strip().splitlines()
    return "\n".join(line.split(";  ")[0].split("  # ")[0].rstrip() for line in lines if line.strip())


def memory_line(buffer: Any) -> str:
    place = f"at {buffer.offset} of the arena" if buffer.offset >= 0 else "outside of the arena"
    steps = f"steps {buffer.first_step} to {buffer.last_step}"
    return f"{buffer.kind}: {buffer.dtype}, {buffer.bytes} bytes {place}, {steps}"


def inner_loop(assembly: str) -> str:
    """The longest run of instructions that ends in a jump back to its beginning, and holds a division."""
    lines = [line.split("#")[0].rstrip().replace("\t", "  ") for line in assembly.splitlines()]
    lines = [line for line in lines if line.strip() and not re.match(r"\s*\.(?!L)", line)]
    loops = []
    for end, line in enumerate(lines):
        jump = re.match(r"\s+j\w+\s+(\.L\w+)", line)
        start = lines.index(f"{jump.group(1)}:") if jump and f"{jump.group(1)}:" in lines[:end] else None
        if start is not None and any("div" in inside for inside in lines[start:end]):
            loops.append(lines[start : end + 1])
    return "\n".join(min(loops, key=len)) if loops else "\n".join(lines)

"""Shrinking a program that differs from eager: delta debugging (Zeller and Hildebrandt, 2002) over the nodes of its graph.

A node is taken out by making its value, as eager computes it, an input; what only it needed falls away. Halves of the graph go
first, then quarters, down to single nodes. Then the result moves towards the inputs as long as the mismatch stays.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import fx

from oxyfuel.capture import Call, compile_watched
from oxyfuel.options import Settings
from oxyfuel.reproduction import load_program, with_constants_as_inputs, write_program
from oxyfuel.verification import Mismatch, Verification, first_mismatch, run_eager, with_outputs

Case = tuple[fx.GraphModule, list[Any]]
"""A graph and its inputs."""
Fails = Callable[[Case], bool]


def reduce_program(path: Path, target: Path, say: Callable[[str], None] = lambda text: None) -> Mismatch | None:
    """Shrinks a program of the form that `oxyfuel.verify` writes, and writes what is left to `target`.

    None when nothing in it differs from eager. `say` is told of each step.
    """
    program = load_program(path)
    options = getattr(program, "compile_options", None)
    found: list[Mismatch] = []

    def watch(call: Call) -> None:
        first = None if found else first_mismatch(call, Verification())
        if first is None:
            return
        mismatch, module, inputs = first
        case = with_fixed_sizes(with_constants_as_inputs(module, inputs))
        if mismatch_of(case, call.settings) is not None:
            case = reduce_case(case, lambda candidate: mismatch_of(candidate, call.settings) is not None, say)
            mismatch = mismatch_of(case, call.settings) or mismatch
        mismatch.program = str(write_program(target, *case, mismatch, options))
        found.append(mismatch)

    with torch.no_grad():
        compile_watched(program.forward, watch, options)(*program.inputs())
    torch.compiler.reset()
    return found[0] if found else None


def mismatch_of(case: Case, settings: Settings) -> Mismatch | None:
    module, inputs = case
    found = first_mismatch(Call(module, inputs, "inference", settings, inputs, ""), Verification())
    return found[0] if found else None


def with_fixed_sizes(case: Case) -> Case:
    """The graph with the values that nodes have on these inputs in place of symbolic ones."""
    module, inputs = case
    with torch.no_grad():
        values = run_eager(module, inputs)
    for node, value in values.items():
        node.meta["val"] = value
    return module, inputs


def reduce_case(case: Case, fails: Fails, say: Callable[[str], None] = lambda text: None) -> Case:
    """The smallest case that is found; `case` itself fails."""
    size = 0
    while size != (size := len(operators(case[0]))):
        say(f"{size} operators")
        case = end_earlier(cut(case, fails), fails)
    return case


def operators(module: fx.GraphModule) -> list[fx.Node]:
    return [node for node in module.graph.nodes if node.op == "call_function"]


def cut(case: Case, fails: Fails) -> Case:
    """Turns as many nodes into inputs as it can: ever smaller parts of the graph."""
    part = len(operators(case[0])) // 2
    while part >= 1:
        start = 0
        while start < len(nodes := operators(case[0])):
            candidate = with_inputs(case, nodes[start : start + part])
            if candidate is not None and fails(candidate):
                case = candidate
            else:
                start += part
        part //= 2
    return case


def end_earlier(case: Case, fails: Fails) -> Case:
    """Gives one value only, the first with which it fails."""
    module, inputs = case
    tensors = [node for node in operators(module) if isinstance(node.meta.get("val"), torch.Tensor)]
    for node in tensors[:-1]:
        candidate = without_unused_inputs((with_outputs(module, [node]), inputs))
        if fails(candidate):
            return candidate
    return case


def with_inputs(case: Case, chosen: list[fx.Node]) -> Case | None:
    """The values of the chosen nodes as inputs; None when there is nothing left to compute."""
    module, inputs = case
    values = run_eager(module, inputs)
    tensors = [node for node in chosen if isinstance(values[node], torch.Tensor)]
    results = set(module.graph.output_node().all_input_nodes)
    if results <= set(tensors) or not tensors:
        return None
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    for node in [*module.graph.find_nodes(op="placeholder"), *tensors]:
        copies[node] = graph.placeholder(node.name)
        copies[node].meta = dict(node.meta)
    result = graph.graph_copy(module.graph, copies)
    graph.output(result)
    made = fx.GraphModule(module, graph)
    return without_unused_inputs((made, [*inputs, *(values[node] for node in tensors)]))


def without_unused_inputs(case: Case) -> Case:
    module, inputs = case
    module.graph.eliminate_dead_code()
    kept = []
    for node, value in zip(module.graph.find_nodes(op="placeholder"), inputs):
        if node.users:
            kept.append(value)
        else:
            module.graph.erase_node(node)
    module.recompile()
    return module, kept

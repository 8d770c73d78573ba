"""`oxyfuel.verify(function, *arguments)`: which operator gives another result than eager, if one does.

Each ATen graph of the function is compiled a second time so that it gives the results of all its operators. Each operator is
then compared with eager on the very operands that ours had, so errors do not add up and the first that differs is the culprit.
Results that are right in this form are compared once more in the form that is used, where operators are fused and
intermediate results have no memory: what is wrong only there is searched for among graphs that end earlier.
"""

import dataclasses
import functools
import operator
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from oxyfuel.accuracy import Difference, difference, in_double, in_single
from oxyfuel.capture import Call, OursFailedError, compile_watched
from oxyfuel.explanation_text import count
from oxyfuel.importer import Operator, location_of, name_of
from oxyfuel.trial import Trial


@dataclasses.dataclass
class Mismatch:
    """An operator whose result is not eager's."""

    operator: str
    """ "aten.tanh.default" """
    location: str
    """ "model.py:12 in forward" """
    difference: Difference | None
    """None when compiling or running failed."""
    failure: str
    """What it failed with."""
    alone: bool
    """Whether the operator is wrong by itself; else it is when fused with those before it."""
    program: str = ""
    """The file with a program that repeats it; empty when none was written."""

    def __str__(self) -> str:
        what = self.failure or str(self.difference)
        fused = "" if self.alone or self.failure else " when compiled together with what it reads"
        lines = [
            f"{self.operator} at {self.location or 'an unknown place'} differs from eager{fused}",
            f"  found  {what}",
        ]
        if self.failure:
            lines[0] = f"{self.operator or 'a graph'} at {self.location or 'an unknown place'} fails"
        if self.program:
            lines += [f"  repeat python {self.program}", f"  or     oxyfuel reduce {self.program}"]
        return "\n".join(lines)


@dataclasses.dataclass
class Verification:
    """What was compared, and the first mismatch of each graph."""

    graphs: int = 0
    operators: int = 0
    mismatches: list[Mismatch] = dataclasses.field(default_factory=list)

    @property
    def matches(self) -> bool:
        return not self.mismatches

    def __str__(self) -> str:
        if self.matches:
            return f"{count(self.operators, 'operator')} in {count(self.graphs, 'graph')}: all as in eager"
        return "\n".join(map(str, self.mismatches))


def verify(
    function: Callable[..., Any],
    /,
    *arguments: Any,
    compile_options: Mapping[str, Any] | None = None,
    program: str | Path = "oxyfuel_mismatch.py",
    **keywords: Any,
) -> Verification:
    """Compares `function(*arguments, **keywords)` with eager, operator by operator, and its backward pass too.

    >>> print(oxyfuel.verify(model, x))

    The first mismatch is written as a small program to the file `program`, "" for none. `compile_options`: `dynamic`,
    `fullgraph` and `mode` of torch.compile, and our own options. Operators that draw random numbers run in PyTorch and are
    not compared. The function runs on copies of its arguments.
    """
    result = Verification()

    def watch(call: Call) -> None:
        result.graphs += 1
        first = first_mismatch(call, result)
        if first is None:
            return
        found, module, inputs = first
        if program and result.matches:
            from oxyfuel.reproduction import write_program

            found.program = str(write_program(Path(program), module, inputs, found, compile_options))
        result.mismatches.append(found)

    trial = Trial(function, arguments, keywords)
    trial.run(trial.function, backward=True)  # an error of the user's own comes from here
    trial.run(compile_watched(trial.function, watch, compile_options), backward=True)
    torch.compiler.reset()
    return result


Found = tuple[Mismatch, fx.GraphModule, list[Any]]


def first_mismatch(call: Call, result: Verification) -> Found | None:
    """The mismatch with a graph and inputs that have it; counts in `result` what it compares."""
    if any(node.target is torch.ops.higher_order.with_effects for node in call.module.graph.nodes):
        return None  # its steps may not run twice
    steps = list(_steps(call.module))
    result.operators += len(steps)
    failure = call.failure
    if not failure:
        try:
            return _wrong_alone(call, steps) or _wrong_together(call, steps)
        except OursFailedError as error:
            failure = str(error)
    return Mismatch("", "", None, failure, False), call.module, call.inputs


@dataclasses.dataclass
class _Step:
    """A tensor that an operator gives: the operator's only result, or number `index` of several."""

    node: fx.Node
    value: fx.Node
    index: int | None


def _steps(module: fx.GraphModule) -> Iterator[_Step]:
    """In order; without what draws random numbers, has not been written, or writes."""
    for node in module.graph.nodes:
        if node.op != "call_function":
            continue
        origin, index = node, None
        if node.target is operator.getitem:
            origin, index = node.args[0], node.args[1]
        target = origin.target
        if not isinstance(target, Operator) or not isinstance(node.meta.get("val"), torch.Tensor):
            continue
        is_random = torch.Tag.nondeterministic_seeded in target.tags
        if not is_random and not target._schema.is_mutable and "empty" not in name_of(target):
            yield _Step(origin, node, index)


def with_outputs(module: fx.GraphModule, values: list[fx.Node]) -> fx.GraphModule:
    """A copy of the graph that gives these values and writes to no argument."""
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    graph.graph_copy(module.graph, copies)
    for node in list(graph.nodes):
        if node.target is torch.ops.aten.copy_.default:
            node.replace_all_uses_with(node.args[1])
            graph.erase_node(node)
    graph.output(tuple(copies[value] for value in values))
    graph.eliminate_dead_code()
    return fx.GraphModule(module, graph)


def _same(value: Any) -> Any:
    return value


def run_eager(module: fx.GraphModule, inputs: list[Any], convert: Callable[[Any], Any] = _same) -> dict[fx.Node, Any]:
    """The value of each node; `convert` is applied to inputs, constants and arguments of operators."""
    values: dict[fx.Node, Any] = {}
    given = iter(inputs)
    for node in module.graph.nodes:
        if node.op == "placeholder":
            values[node] = convert(next(given))
        elif node.op == "get_attr":
            values[node] = convert(operator.attrgetter(str(node.target))(module))
        elif node.op == "call_function" and node.target is not torch.ops.aten.copy_.default:
            values[node] = _evaluate(node, values.__getitem__, convert)
    return values


def _evaluate(node: fx.Node, value_of: Callable[[fx.Node], Any], convert: Callable[[Any], Any]) -> Any:
    arguments, keywords = fx.map_arg((node.args, node.kwargs), value_of)
    return node.target(*pytree.tree_map(convert, arguments), **pytree.tree_map(convert, keywords))


def _wrong_alone(call: Call, steps: list[_Step]) -> Found | None:
    """The first operator that is wrong on its own operands."""
    values_of_steps = [step.value for step in steps]
    ours = dict(zip(values_of_steps, call.run_ours(with_outputs(call.module, values_of_steps))))
    values = {**run_eager(call.module, call.fresh_inputs()), **ours}
    for step in steps:
        found = _compare(step, values, ours[step.value])
        if found is None:
            continue
        module, inputs = alone(step.node, step.value, values)
        return Mismatch(name_of(step.node.target), location_of(step.value), found, "", True), module, inputs
    return None


def _compare(step: _Step, values: dict[fx.Node, Any], ours: torch.Tensor) -> Difference | None:
    def result(convert: Callable[[Any], Any]) -> Any:
        made = _evaluate(step.node, values.__getitem__, convert)
        return made if step.index is None else made[step.index]

    return _difference(step, ours, result)


def _difference(step: _Step, ours: torch.Tensor, result: Callable[[Callable[[Any], Any]], Any]) -> Difference | None:
    """`result(convert)` is eager's own, with arguments of operators converted."""
    eager = result(_same)
    if ours.dtype == step.value.meta["val"].dtype:
        eager = eager.to(ours.dtype)  # some operators give another type than they say
    try:
        exact = result(in_double)
        single = result(in_single) if ours.dtype in (torch.float64, torch.complex128) else None
    except RuntimeError:  # an operator without a kernel for the other type
        exact, single = eager, None
    return difference(ours, exact, eager, single)


def alone(node: fx.Node, value: fx.Node, values: dict[fx.Node, Any]) -> tuple[fx.GraphModule, list[Any]]:
    """A graph of one operator, and its operands. `value` is the node or a part of its result."""
    graph = fx.Graph()
    inputs: list[Any] = []

    def placeholder(operand: fx.Node) -> fx.Node:
        made = graph.placeholder(operand.name)
        made.meta = dict(operand.meta)
        inputs.append(values[operand])
        return made

    operands = {operand: placeholder(operand) for operand in node.all_input_nodes}
    made = graph.node_copy(node, operands.__getitem__)
    if value is not node:
        made = graph.node_copy(value, lambda _: made)
    graph.output((made,))
    return fx.GraphModule({}, graph), inputs


DISCONTINUOUS = {
    "floor",
    "ceil",
    "round",
    "trunc",
    "frac",
    "sign",
    "sgn",
    "heaviside",
    "remainder",
    "fmod",
    "floor_divide",
}
"""Floating-point operators whose result jumps. Those that give indices and conditions do too."""


def _is_discontinuous(step: _Step) -> bool:
    value, name = step.value.meta["val"], name_of(step.node.target).split(".")
    is_smooth = value.dtype.is_floating_point or value.dtype.is_complex
    return not is_smooth or name[1] in DISCONTINUOUS or name[2:] == ["Tensor_mode"]


def _right_on_its_operands(call: Call, step: _Step, by_value: dict[fx.Node, _Step], values: dict[fx.Node, Any]) -> bool:
    """Whether the operator does right by what it reads, beside which it is computed: rounding alone then has put an operand on
    the other side of a jump."""
    operands = [node for node in step.node.all_input_nodes if node in by_value]
    *seen, ours = call.run_ours(with_outputs(call.module, [*operands, step.value]))
    return _compare(step, {**values, **dict(zip(operands, seen))}, ours) is None


def _wrong_together(call: Call, steps: list[_Step]) -> Found | None:
    """The first operator, in order, that is wrong in the graph that ends with it: with all before it fused as they are."""
    results = pytree.tree_leaves(call.module.graph.find_nodes(op="output")[0].args)
    by_value = {step.value: step for step in steps}
    wanted = [by_value[node] for node in results if isinstance(node, fx.Node) and node in by_value]
    if not wanted:
        return None

    @functools.cache
    def whole(convert: Callable[[Any], Any]) -> dict[fx.Node, Any]:
        return run_eager(call.module, call.fresh_inputs(), convert)

    def compare(step: _Step, ours: torch.Tensor) -> Difference | None:
        return _difference(step, ours, lambda convert: whole(convert)[step.value])

    def differs(step: _Step) -> Difference | None:
        (ours,) = call.run_ours(with_outputs(call.module, [step.value]))
        return compare(step, ours)

    together = with_outputs(call.module, [step.value for step in wanted])
    ours = call.run_ours(together)
    compared = ((step, compare(step, own)) for step, own in zip(wanted, ours))
    last, beside = next(((step, wrong) for step, wrong in compared if wrong is not None), (None, None))
    if last is None:
        return None
    found = differs(last)
    if found is None:  # wrong only beside other results
        return Mismatch(name_of(last.node.target), location_of(last.value), beside, "", False), together, call.inputs
    while True:
        earlier = [by_value[node] for node in last.node.all_input_nodes if node in by_value]
        step = next((one for one in earlier if differs(one)), None)
        if step is None:
            break
        last, found = step, differs(step)
    if _is_discontinuous(last) and _right_on_its_operands(call, last, by_value, whole(_same)):
        return None
    module = with_outputs(call.module, [last.value])
    return Mismatch(name_of(last.node.target), location_of(last.value), found, "", False), module, call.inputs

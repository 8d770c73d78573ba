"""The child of `python -m models`: `python -m models.measure TITLE …` measures one architecture in this process.

Prints what it does, a line a stage, and then one line of JSON: a Row.
"""

from __future__ import annotations

import argparse
import copy
import dataclasses
import json
import time
import traceback
from collections import Counter
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from models.architectures import ARCHITECTURES, Architecture, Subject
from oxyfuel import graph_breaks
from oxyfuel.accuracy import in_double
from oxyfuel.cli.run_model import judge
from oxyfuel.reports import collect
from oxyfuel.trial import Trial


@dataclasses.dataclass
class Row:
    """What was found out about one architecture. Errors are relative to the largest element of a tensor."""

    title: str
    right: bool = False
    error: float | None = None
    eager_error: float | None = None
    gradients_right: bool | None = None
    """None where they are not compared."""
    gradients_error: float | None = None
    gradients_eager_error: float | None = None
    graphs: int = 0
    breaks: list[str] = dataclasses.field(default_factory=list)
    externs: dict[str, int] = dataclasses.field(default_factory=dict)
    """Operators that run in PyTorch, of forward and backward graphs."""
    speed_up: float | None = None
    compile_seconds: float | None = None
    inductor_seconds: float | None = None
    failure: str = ""

    @property
    def is_right(self) -> bool:
        return self.right and self.gradients_right is not False and not self.failure


def measure(architecture: Architecture, *, seconds: float, with_inductor: bool) -> Row:
    """Times eager and compiled code, in turn, for `seconds`."""
    row = Row(architecture.title)
    try:
        subject = architecture.make()
        measure_forward(subject, row, seconds)
        if architecture.gradients:
            measure_gradients(subject, row)
        if with_inductor:
            row.inductor_seconds = inductor_seconds(subject)
    except Exception as error:
        traceback.print_exc()
        row.failure = f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"
    return row


@torch.no_grad()
def measure_forward(subject: Subject, row: Row, seconds: float) -> None:
    tell("running it in eager PyTorch, float32 and float64")
    eager = subject.run()
    with WideTypes():
        exact = in_float64(subject).run()
    tell("compiling")
    warm_up("oxyfuel")
    with collect() as compiled, graph_breaks.collect() as breaks:
        row.compile_seconds, (ours, found) = first_call(subject, "oxyfuel")
    row.graphs = len(compiled.graphs)
    row.breaks = [str(found.reason).splitlines()[0] for found in breaks]
    row.externs = count_externs(compiled)
    row.right, row.error, row.eager_error = judge_all(found, eager, exact)
    tell("timing")
    row.speed_up = speed_up(subject, ours, seconds)


def measure_gradients(subject: Subject, row: Row) -> None:
    """Of all parameters and of inputs that have any."""
    tell("compiling forward and backward")
    ours, trial = subject.compiled("oxyfuel"), Trial(subject.model, (), subject.inputs)
    with collect() as compiled:
        *_, found = trial.run(ours.model, backward=True)
    row.externs = dict(Counter(row.externs) + Counter(count_externs(compiled)))
    *_, eager = trial.run(subject.model, backward=True)
    with WideTypes():
        wide = in_float64(subject)
        *_, exact = Trial(wide.model, (), wide.inputs).run(wide.model, backward=True)
    row.gradients_right, row.gradients_error, row.gradients_eager_error = judge_all(found, eager, exact)


def warm_up(backend: str) -> None:
    """Does what a process pays once."""
    torch.compiler.reset()
    torch.compile(torch.sin, backend=backend)(torch.ones(3))


@torch.no_grad()
def first_call(subject: Subject, backend: str) -> tuple[float, tuple[Subject, Any]]:
    """Seconds of the first call of compiled code; that code and its result."""
    start = time.monotonic()
    ours = subject.compiled(backend)
    found = ours.run()
    return time.monotonic() - start, (ours, found)


def inductor_seconds(subject: Subject) -> float | None:
    """None where Inductor fails."""
    tell("compiling with Inductor")
    try:
        warm_up("inductor")
        return first_call(subject, "inductor")[0]
    except Exception:
        traceback.print_exc()
        return None


def speed_up(eager: Subject, ours: Subject, seconds: float) -> float:
    """The shortest time of eager over our shortest, of calls in turn for `seconds`: what else runs disturbs some calls only."""
    shortest = [float("inf"), float("inf")]
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or shortest[0] == float("inf"):
        for i, subject in enumerate((eager, ours)):
            start = time.perf_counter()
            subject.run()
            shortest[i] = min(shortest[i], time.perf_counter() - start)
    return shortest[0] / shortest[1]


def count_externs(compiled: Any) -> dict[str, int]:
    names = Counter(operator for graph in compiled.graphs for operator, _, _ in graph.declined)
    names.update(f"a whole graph: {graph.fallback}" for graph in compiled.graphs if graph.fallback)
    return dict(names)


class WideTypes(TorchDispatchMode):
    """Where a model asks for float32, or for floating-point numbers from what are none, it gets float64."""

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        args, kwargs = pytree.tree_map_only(torch.dtype, in_double, (args, kwargs or {}))
        result = function(*args, **kwargs)
        operands = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        if any(operand.is_floating_point() for operand in operands):
            return result
        return pytree.tree_map_only(torch.Tensor, in_double, result)


def in_float64(subject: Subject) -> Subject:
    model = copy.deepcopy(subject.model).double()
    model.set_experts_implementation("eager")  # PyTorch's grouped products have no float64
    inputs = {name: in_double(value) for name, value in subject.inputs.items()}
    return dataclasses.replace(subject, model=model, inputs=inputs)


def judge_all(found: Any, eager: Any, exact: Any) -> tuple[bool, float, float]:
    """Whether all tensors are right; the largest errors, ours and eager's.

    Floating-point tensors are divided by their largest element, or by a thousandth of the largest of all of them where that is
    larger: a gradient that is zero but for rounding has no relative error.
    """
    trees = [
        [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)] for tree in (found, eager, exact)
    ]
    kinds = [[(leaf.shape, leaf.is_floating_point()) for leaf in leaves] for leaves in trees]
    if not kinds[0] == kinds[1] == kinds[2] or any(f.dtype != e.dtype for f, e in zip(trees[0], trees[1])):
        raise AssertionError(f"the results are {kinds[0]}, not {kinds[1]}")
    numbers = [[leaf.detach().double() for leaf in leaves if leaf.is_floating_point()] for leaves in trees]
    choices = [[leaf for leaf in leaves if not leaf.is_floating_point()] for leaves in trees]
    if not all(torch.equal(e, x) for e, x in zip(*choices[1:])):
        raise AssertionError("eager PyTorch in float32 chooses other integers than in float64: draw other weights")
    sizes = [leaf.abs().max().item() for leaf in numbers[2]]
    scales = [max(size, 1e-3 * max(sizes)) for size in sizes]
    joined = [torch.cat([(leaf / scale).flatten() for leaf, scale in zip(leaves, scales)]) for leaves in numbers]
    verdict = judge(*joined)
    are_equal = all(torch.equal(f, e) for f, e in zip(*choices[:2]))
    return verdict["right"] == "yes" and are_equal, verdict["error"], verdict["eager_error"]


def tell(stage: str) -> None:
    print(stage, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="models.measure", description=__doc__)
    parser.add_argument("title", choices=ARCHITECTURES)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--without-inductor", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    row = measure(ARCHITECTURES[options.title], seconds=options.seconds, with_inductor=not options.without_inductor)
    print(json.dumps(dataclasses.asdict(row)))


if __name__ == "__main__":
    main()

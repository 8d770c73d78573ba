"""One sample: compiled, run beside eager, judged."""

from __future__ import annotations

import copy
import dataclasses
import math
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree

from opinfo.entries import CHOOSING, UNDEFINED, entries, seed_all
from opinfo.verdict import MismatchError, compare, widened
from oxyfuel.reports import Collected, collect

SEED = 1


@dataclasses.dataclass
class Outcome:
    """What became of one sample.

    state    "right"; "wrong" (another result than eager's) or "error" (raises, where eager and aot_eager do not);
             "excused": eager refuses the sample, or aot_eager fails on it or differs from eager itself
    detail   what is wrong, or why it is excused
    externs  operators that ran in PyTorch; empty when all of it ran natively
    """

    state: str
    detail: str = ""
    externs: list[str] = dataclasses.field(default_factory=list)
    seconds: float = 0.0


def run_sample(judge: Callable[..., Outcome], *sample: Any) -> Outcome:
    """The outcome that `judge` finds for a sample, without warnings, and the time that it took."""
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outcome = judge(*sample)
    outcome.seconds = round(time.perf_counter() - start, 3)
    return outcome


def fresh(arguments: Any) -> Any:
    """A deep copy: strides, aliasing and all."""
    return copy.deepcopy(arguments)


def run(function: Callable[..., Any], given: Any) -> tuple[Any, Any]:
    """The result, and the arguments afterwards."""
    arguments, keywords = fresh(given)
    seed_all(SEED)
    result = function(*arguments, **keywords)
    return result, (arguments, keywords)


def tensors(tree: Any) -> list[Any]:
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def longest_reduction(given: Any, result: Any) -> int:
    """An upper bound: all of the largest operand."""
    return max([1, *(math.prod(t.shape) for t in (*tensors(given), *tensors(result)) if not t.is_nested)])


def judge_sample(entry: str, sample: Any) -> Outcome:
    """A sample of an operator: its result, and its arguments afterwards."""
    op = entries()[entry]
    given = ((sample.input, *sample.args), sample.kwargs)
    try:
        wanted = run(op.op, given)
    except Exception as error:
        return Outcome("excused", f"eager: {brief(error)}")
    terms = longest_reduction(given, wanted[0])

    def exact() -> Any:
        wide = pytree.tree_map(widened, given)
        return run(op.op, wide)

    def judge(found: Any) -> None:
        name = entry.split(".")[0]
        source = sample.input if name in CHOOSING else None
        compare(
            found[0],
            wanted[0],
            exact=lambda: exact()[0],
            terms=terms,
            is_undefined=name in UNDEFINED,
            chosen_from=source,
        )
        compare(tensors(found[1]), tensors(wanted[1]), exact=lambda: tensors(exact()[1]), terms=terms)

    return decide(lambda backend, fullgraph: run_compiled(op.op, given, backend, fullgraph=fullgraph), judge)


def decide(attempt: Callable[[str, bool], tuple[Any, Collected]], judge: Callable[[Any], None]) -> Outcome:
    """What becomes of a sample. `attempt(backend, fullgraph)` runs it compiled, `judge` raises MismatchError for results that
    are not eager's."""
    try:
        found, explanation = attempt("oxyfuel", True)
        judge(found)
        return Outcome("right", externs=externs(explanation))
    except MismatchError as mismatch:
        outcome = Outcome("wrong", str(mismatch), externs(explanation))
    except Exception as error:
        outcome = Outcome("error", brief(error))
    return beside_aot_eager(attempt, outcome, judge)


def beside_aot_eager(
    attempt: Callable[[str, bool], tuple[Any, Collected]], outcome: Outcome, judge: Callable[[Any], None]
) -> Outcome:
    """A failure counts only where PyTorch's own backend, without a compiler, takes the sample and gives eager's result."""
    try:
        judge(attempt("aot_eager", True)[0])
    except Exception as error:
        excuse = f"aot_eager: {brief(error)}"
    else:
        return outcome
    if outcome.state == "wrong":
        return Outcome("excused", excuse, outcome.externs)
    try:  # with graph breaks it has to run all the same
        found, explanation = attempt("oxyfuel", False)
        judge(found)
        return Outcome("excused", excuse, externs(explanation))
    except Exception as error:
        try:
            judge(attempt("aot_eager", False)[0])
        except Exception:
            return Outcome("excused", excuse)
        return Outcome("wrong" if isinstance(error, MismatchError) else "error", f"with graph breaks: {brief(error)}")


def run_compiled(function: Callable[..., Any], given: Any, backend: str, *, fullgraph: bool) -> tuple[Any, Collected]:
    torch.compiler.reset()
    compiled = torch.compile(lambda *a, **k: function(*a, **k), backend=backend, fullgraph=fullgraph)
    with collect() as explanation:
        return run(compiled, given), explanation


def externs(explanation: Collected) -> list[str]:
    """Names of what ran in PyTorch."""
    found = [target for graph in explanation.graphs for target, _, _ in graph.declined]
    found += [f"graph: {graph.fallback}" for graph in explanation.graphs if graph.fallback]
    return sorted(set(found))


def brief(error: BaseException) -> str:
    """The innermost cause in a line or two."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {' | '.join(lines[:4])[:400]}"

"""Random programs against eager: pointwise, broadcasting, views, reductions, products, mixed types, odd sizes, 0 and 1,
arguments of any layout.

A failure prints the program, and the line that draws the same ones again. `--programs` says how many there are; `make fuzz`
draws many, in every world.
"""

from __future__ import annotations

import dataclasses
import os
import random
import re
from collections.abc import Callable
from typing import Any

import hypothesis
import pytest
import torch
from hypothesis import strategies as st

from oxyfuel.reports import collect

SHARDS = 4  # that workers share
# In the world of dynamic sizes PyTorch decides, elsewhere each program is compiled for its sizes.
DYNAMIC = None if os.environ.get("OXYFUEL_TEST_DYNAMIC") else False
EXTENTS = (0, 1, 2, 3, 5, 8, 17, 33)
DTYPES = (torch.float32, torch.float32, torch.bfloat16, torch.int64, torch.bool)
LAYOUTS = ("contiguous", "transposed", "strided", "expanded")


@dataclasses.dataclass
class Step:
    """One line of a program: `values.append(run(*(values[i] for i in operands)))`."""

    text: str
    operands: tuple[int, ...]

    def run(self, values: list[torch.Tensor]) -> torch.Tensor:
        names = {name: values[i] for name, i in zip("ab", self.operands)}
        result: torch.Tensor = eval(self.text, {"torch": torch}, names)
        return result

    def line(self, number: int) -> str:
        """As a line of Python over v0, v1, …"""
        names = dict(zip("ab", (f"v{i}" for i in self.operands)))
        return f"v{number} = " + re.sub(r"\b[ab]\b", lambda match: names[match[0]], self.text)


@dataclasses.dataclass
class Program:
    """Arguments as (shape, type, layout), steps over the values so far, the values that are returned."""

    inputs: list[tuple[tuple[int, ...], torch.dtype, str]]
    steps: list[Step]
    outputs: list[int]
    seed: int

    def function(self) -> Callable[..., Any]:
        names: dict[str, Any] = {"torch": torch}
        exec(self.source(), names)
        return names["program"]  # type: ignore[no-any-return]

    def source(self) -> str:
        arguments = ", ".join(f"v{i}" for i in range(len(self.inputs)))
        lines = [step.line(i) for i, step in enumerate(self.steps, len(self.inputs))]
        lines.append(f"return [{', '.join(f'v{i}' for i in self.outputs)}]")
        return f"def program({arguments}):\n    " + "\n    ".join(lines)

    def arguments(self) -> list[torch.Tensor]:
        generator = torch.Generator().manual_seed(self.seed)
        return [make(shape, dtype, layout, generator) for shape, dtype, layout in self.inputs]

    def __str__(self) -> str:
        inputs = [f"# v{i}: {shape} {dtype} {layout}" for i, (shape, dtype, layout) in enumerate(self.inputs)]
        return "\n".join([*inputs, self.source()])


def make(shape: tuple[int, ...], dtype: torch.dtype, layout: str, generator: torch.Generator) -> torch.Tensor:
    whole = list(shape)
    if layout == "transposed":
        whole = whole[::-1]
    elif layout == "strided" and whole:
        whole[-1] *= 2
    elif layout == "expanded" and whole and whole[0] > 0:
        whole[0] = 1
    x = torch.randint(-6, 7, whole, generator=generator).double() / (1 if not dtype.is_floating_point else 4)
    x = x.to(dtype)
    if layout == "transposed":
        return x.permute(list(reversed(range(len(shape)))))
    if layout == "strided" and whole:
        return x[..., ::2]
    return x.expand(shape) if layout == "expanded" else x


POINTWISE_ONE = (
    *("a.abs()", "-a", "torch.relu(a)", "a.sigmoid()", "a.tanh()", "a.exp()", "a * 0.5", "a + 1", "a.clamp(-1, 1)"),
    *("a.float()", "a.to(torch.bfloat16)", "a.long()", "a > 0", "torch.where(a > 0, a, 2)", "a.square()", "a.round()"),
)
POINTWISE_TWO = (
    *("a + b", "a - b", "a * b", "torch.maximum(a, b)", "torch.minimum(a, b)", "a < b", "a == b"),
    *("torch.where(a > b, a, b)", "a / (b.abs() + 1)"),
)
NO_BOOL = ("-a", "torch.relu(a)", "a.clamp(-1, 1)", "a - b", "a.abs()", "a.square()", "a.round()")
REDUCTIONS = ("sum", "mean", "amax", "amin", "softmax", "cumsum", "any", "argmax")


class Writer:
    """Draws one program; runs each step as it writes it, so that only valid ones remain."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw

    def choose(self, items: Any) -> Any:
        return self.draw(st.sampled_from(list(items)))

    def shape(self) -> tuple[int, ...]:
        return tuple(self.draw(st.lists(st.sampled_from(EXTENTS), min_size=0, max_size=4)))

    def related(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """One that broadcasts with `shape`."""
        kept = [self.choose((extent, 1)) for extent in shape]
        return tuple(kept[self.draw(st.integers(0, len(kept))) :])

    def write(self) -> Program:
        first = self.shape()
        shapes = [first] + [self.related(first) for _ in range(self.draw(st.integers(0, 2)))]
        inputs = [(shape, self.choose(DTYPES), self.choose(LAYOUTS)) for shape in shapes]
        program = Program(inputs, [], [], self.draw(st.integers(0, 2**31)))
        values: list[torch.Tensor] = program.arguments()
        for _ in range(self.draw(st.integers(1, 7))):
            step = self.step(values)
            if step is None:
                continue
            try:
                result = step.run(values)
            except (RuntimeError, IndexError):
                continue
            if result.numel() > 20_000 or (result.is_floating_point() and not result.isfinite().all()):
                continue
            program.steps.append(step)
            values.append(result)
        last = len(values) - 1
        program.outputs = sorted({last, self.draw(st.integers(0, last))})
        return program

    def step(self, values: list[torch.Tensor]) -> Step | None:
        i = self.draw(st.integers(max(0, len(values) - 3), len(values) - 1))
        a = values[i]
        kind = self.choose(("one", "one", "two", "two", "view", "view", "reduce", "matmul"))
        if kind == "one":
            text = self.choose(POINTWISE_ONE)
            return None if a.dtype == torch.bool and text in NO_BOOL else Step(text, (i,))
        if kind == "two":
            text = self.choose(POINTWISE_TWO)
            j = self.draw(st.integers(0, len(values) - 1))
            is_bool = torch.bool in (a.dtype, values[j].dtype)
            return None if is_bool and text in NO_BOOL else Step(text, (i, j))
        if kind == "view":
            return self.view(a, i)
        if kind == "reduce":
            return self.reduction(a, i)
        return self.product(values, i)

    def view(self, a: torch.Tensor, i: int) -> Step | None:
        if a.dim() == 0:
            return Step(self.choose(("a.unsqueeze(0)", "a.expand(3)", "a.reshape(1, 1)")), (i,))
        axis = self.draw(st.integers(0, a.dim() - 1))
        order = self.draw(st.permutations(range(a.dim())))
        start = self.draw(st.integers(0, a.shape[axis]))
        step = self.draw(st.integers(1, 3))
        texts = [
            f"a.permute({list(order)})",
            f"a.narrow({axis}, {start}, {a.shape[axis] - start})",
            f"a.flip({axis})",
            f"a.unsqueeze({axis})",
            f"a.reshape({[-1] if a.numel() else [0]})",
            f"a.movedim({axis}, 0)[::{step}]",
            f"torch.cat([a, a], {axis})",
            f"torch.stack([a, a], {axis})",
            f"a.roll(1, {axis})",
            "torch.nn.functional.pad(a, (1, 2))",
            f"a.select({axis}, -1)",
            "a.contiguous()",
        ]
        return Step(self.choose(texts), (i,))

    def reduction(self, a: torch.Tensor, i: int) -> Step | None:
        if a.dim() == 0 or a.numel() == 0:
            return None
        axis = self.draw(st.integers(0, a.dim() - 1))
        name = self.choose(REDUCTIONS)
        if (not a.is_floating_point() and name in ("mean", "softmax")) or (a.dtype == torch.bool and name == "argmax"):
            return None
        if name in ("softmax", "cumsum"):
            return Step(f"a.{name}({axis})", (i,))
        return Step(f"a.{name}({axis}, keepdim={self.choose((True, False))})", (i,))

    def product(self, values: list[torch.Tensor], i: int) -> Step | None:
        a = values[i]
        if not a.is_floating_point() or a.dim() < 2:
            return None
        return Step(self.choose(("a @ a.mT", "a.mT @ a", "torch.nn.functional.linear(a, a.flatten(0, -2)[:5])")), (i,))


@st.composite
def programs(draw: Any) -> Program:
    return Writer(draw).write()


def close(found: torch.Tensor, wanted: torch.Tensor, exact: torch.Tensor) -> bool:
    """Equal, or as near the float64 run as the type's precision and eager's own error make one expect."""
    if found.dtype != wanted.dtype or found.shape != wanted.shape:
        return False
    if not found.is_floating_point():
        return torch.equal(found, wanted)
    scale = exact.abs().max().clamp_min(1) if exact.numel() else exact.new_ones(())
    eagers = (wanted.double() - exact).abs().max() if exact.numel() else 0.0
    bound = 4 * eagers + 16 * torch.finfo(found.dtype).eps * scale
    return bool(((found.double() - exact).abs() <= bound).all())


def is_decided(program: Program) -> bool:
    """Whether types of lower precision alone cannot turn a comparison, a rounding or an index another way."""
    undecided = (">", "<", "==", "round", "long()", "argmax", "any", "maximum", "minimum", "where", "clamp", "relu")
    return not any(word in step.text for step in program.steps for word in undecided)


def check(program: Program) -> None:
    torch.compiler.reset()
    arguments = program.arguments()
    function = program.function()
    wanted = function(*arguments)
    with collect() as explanation:
        found = torch.compile(function, backend="oxyfuel", fullgraph=True, dynamic=DYNAMIC)(*arguments)
    exact = (
        function(*(x.double() if x.is_floating_point() else x for x in arguments)) if is_decided(program) else wanted
    )
    for i, (f, w, e) in enumerate(zip(found, wanted, exact)):
        reference = e.double() if e.dtype.is_floating_point else w.double()
        assert close(f, w, reference), f"result {i}: found {f}\nwanted {w}\n{program}\n{explanation}"


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("shard", range(SHARDS))
def test_random_programs(seed, shard, request):
    count = -(-request.config.getoption("--programs") // SHARDS)
    print(f"seed {seed}; {count} programs")

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=count,
        deadline=None,
        database=None,
        derandomize=False,
        suppress_health_check=list(hypothesis.HealthCheck),
        phases=(hypothesis.Phase.generate, hypothesis.Phase.shrink),
    )
    @hypothesis.given(programs())
    def run(program: Program) -> None:
        hypothesis.note(str(program))
        state = random.getstate()
        check(program)
        random.setstate(state)

    run()

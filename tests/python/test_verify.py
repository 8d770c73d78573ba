"""oxyfuel.verify and oxyfuel reduce: they find what is wrong, and nothing where all is right.

What is wrong is made so: a rule of the importer builds another operator.
"""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from torch import nn
from typer.testing import CliRunner

import oxyfuel
from oxyfuel import _C, accuracy, importer
from oxyfuel.cli.app import app
from oxyfuel.reduction import reduce_program
from oxyfuel.reproduction import load_program


def confuse(monkeypatch, wrong: str, built: str, when=lambda node: True) -> None:
    """The operator `wrong` is imported as `built`, where `when` says so of its FX node."""
    native = importer.Importer.native

    def confused(self, node, target, name, value, location):
        name = built if name == wrong and when(node) else name
        target = torch.ops.aten.sigmoid.default if name == "aten.sigmoid.default" else target
        return native(self, node, target, name, value, location)

    monkeypatch.setattr(importer.Importer, "native", confused)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(12, 16)
        self.norm = nn.BatchNorm1d(16)
        self.second = nn.Linear(16, 4)

    def forward(self, x):
        y = self.norm(self.first(x)).relu()
        y = torch.tanh(y) * 3
        return self.second(y).log_softmax(-1), y.argmax(-1)


def line(text: str) -> str:
    with open(__file__) as file:
        number = next(i for i, found in enumerate(file, 1) if found.strip() == text)
    return f"test_verify.py:{number} in forward"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("train", [False, True])
def test_what_is_right_matches(tmp_path, dtype, train):
    model = Net().to(dtype).train(train)
    program = tmp_path / "mismatch.py"
    found = oxyfuel.verify(model, torch.randn(8, 12, dtype=dtype), program=program)
    assert found.matches, str(found)
    assert found.graphs == 2  # forward and backward
    assert found.operators > 10
    assert str(found) == f"{found.operators} operators in 2 graphs: all as in eager"
    assert not program.exists()


def test_dynamic_sizes_mutation_random_numbers_and_breaks():
    def f(x, y):
        x.add_(y)
        z = torch.nn.functional.dropout(x * 2, 0.5)
        torch._dynamo.graph_break()
        return z.reshape(-1) @ y.reshape(-1), x[1:].sort(0).values

    x = torch.randn(6, 5)
    kept = x.clone()
    found = oxyfuel.verify(f, x, torch.randn(6, 5), compile_options={"dynamic": True}, program="")
    assert found.matches, str(found)
    assert found.graphs == 2
    assert torch.equal(x, kept)


def test_the_first_wrong_operator_is_named(monkeypatch, tmp_path):
    confuse(monkeypatch, "aten.tanh.default", "aten.sigmoid.default")
    x = torch.randn(8, 12)
    program = tmp_path / "mismatch.py"
    with torch.no_grad():
        found = oxyfuel.verify(Net().eval(), x, program=program)
    (mismatch,) = found.mismatches
    assert mismatch.operator == "aten.tanh.default"
    assert mismatch.location == line("y = torch.tanh(y) * 3")
    assert mismatch.alone
    assert 0.1 < mismatch.difference.error <= 1
    assert mismatch.difference.allowed < 1e-5
    assert float(mismatch.difference.wanted) == pytest.approx(
        float(mismatch.difference.found) - mismatch.difference.error, abs=1e-6
    ) or float(mismatch.difference.wanted) == pytest.approx(
        float(mismatch.difference.found) + mismatch.difference.error, abs=1e-6
    )
    assert "aten.tanh.default at test_verify.py:" in str(found)
    assert f"repeat python {program}" in str(found)


def test_the_program_repeats_it(monkeypatch, tmp_path):
    program = tmp_path / "mismatch.py"
    with monkeypatch.context() as patch, torch.no_grad():
        confuse(patch, "aten.tanh.default", "aten.sigmoid.default")
        oxyfuel.verify(Net().eval(), torch.randn(8, 12), program=program)
        written = load_program(program)
        assert not oxyfuel.verify(written.forward, *written.inputs(), program="").matches
    text = program.read_text()
    assert text.count("torch.ops.aten.") == 1
    assert "torch.randn((8, 16))" in text
    assert not program.with_suffix(".pt").exists()
    # Once the compiler is right, the program says so.
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "1 operator in 1 graph: all as in eager\n"), done.stderr


def test_inputs_that_matter_are_kept(monkeypatch, tmp_path):
    native = importer.Importer.native

    def bounded(self, node, target, name, value, location):
        made = native(self, node, target, name, value, location)
        if name == "aten.relu.default":
            (six,) = self.graph.add("constant", [], {"dtype": made.dtype, "value": 6.0})
            (made,) = self.graph.add("minimum", [made, six], {})
        return made

    monkeypatch.setattr(importer.Importer, "native", bounded)
    program = tmp_path / "mismatch.py"
    x = torch.full((3, 2), 9.0).t()
    assert not oxyfuel.verify(torch.relu, x, program=program).matches
    assert "torch.load" in program.read_text()  # random ones stay below six
    (kept,) = load_program(program).inputs()
    assert torch.equal(kept, x)
    assert kept.stride() == x.stride()


def only_user(node) -> bool:
    """Whether the operand is computed and nobody else reads it: it has no memory of its own when it is fused."""
    return node.args[0].op == "call_function" and len(node.args[0].users) == 1


def test_what_is_wrong_only_when_fused(monkeypatch, tmp_path):
    def f(x, w):
        y = torch.relu(x @ w) + 1
        z = torch.tanh(y)
        return (z * 2).sum(-1)

    confuse(monkeypatch, "aten.tanh.default", "aten.sigmoid.default", only_user)
    program = tmp_path / "mismatch.py"
    found = oxyfuel.verify(f, torch.randn(4, 6), torch.randn(6, 7), program=program)
    (mismatch,) = found.mismatches
    assert (mismatch.operator, mismatch.alone) == ("aten.tanh.default", False)
    assert "when compiled together with what it reads" in str(found)
    # The program still has what comes before; reduced, it has only what it takes.
    assert "aten.mm.default" in program.read_text()
    steps: list[str] = []
    reduced = reduce_program(program, tmp_path / "reduced.py", steps.append)
    assert reduced.operator == "aten.tanh.default"
    text = (tmp_path / "reduced.py").read_text()
    assert [name for name in ("mm", "relu", "add", "tanh", "mul", "sum") if f"aten.{name}." in text] == ["add", "tanh"]
    assert steps[0] == "4 operators"
    written = load_program(tmp_path / "reduced.py")
    assert not oxyfuel.verify(written.forward, *written.inputs(), program="").matches


def test_a_failure_of_ours_is_a_mismatch_and_is_reduced(monkeypatch, tmp_path):
    native = importer.Importer.native

    def failing(self, node, target, name, value, location):
        if name == "aten.cos.default":
            raise _C.InternalError("made to fail")
        return native(self, node, target, name, value, location)

    monkeypatch.setattr(importer.Importer, "native", failing)
    program = tmp_path / "mismatch.py"
    found = oxyfuel.verify(lambda x: torch.tanh(torch.cos(torch.exp(x) * 2)) + 1, torch.randn(5), program=program)
    assert "made to fail" in found.mismatches[0].failure
    assert "fails" in str(found)
    reduced = reduce_program(program, tmp_path / "reduced.py")
    assert "made to fail" in reduced.failure
    text = (tmp_path / "reduced.py").read_text()
    assert text.count("torch.ops.aten.") == 1
    assert "aten.cos.default" in text


def test_a_wrong_backward_operator(monkeypatch):
    confuse(monkeypatch, "aten.cos.default", "aten.sigmoid.default")
    x = torch.randn(7, requires_grad=True)
    found = oxyfuel.verify(torch.sin, x, program="")
    (mismatch,) = found.mismatches
    assert mismatch.operator == "aten.cos.default"
    assert x.grad is None


def test_an_error_of_the_user_is_the_users():
    with pytest.raises(IndexError):
        oxyfuel.verify(lambda x: x[torch.tensor([9])], torch.randn(3), program="")


def test_difference_of_types_and_values():
    one = torch.ones(3)
    assert accuracy.difference(one, one.double(), one) is None
    assert accuracy.difference(one.int(), one, one).error == float("inf")
    worst = accuracy.difference(torch.tensor([1.0, 1.5, 1.0]), one.double(), one)
    assert (worst.index, worst.error, worst.found, worst.wanted) == ((1,), 0.5, "1.5", "1")
    last_place = torch.nextafter(one, 2 * one)
    assert accuracy.difference(last_place, one.double(), one) is None
    nan, infinite = torch.tensor([float("nan")]), torch.tensor([float("inf")])
    assert accuracy.difference(nan, nan.double(), nan) is None
    assert accuracy.difference(nan, torch.ones(1).double(), torch.ones(1)).error == float("inf")
    assert accuracy.difference(infinite, -infinite.double(), -infinite).error == float("inf")
    assert accuracy.difference(torch.tensor([2]), torch.tensor([1]), torch.tensor([1])).error == 1
    half = torch.tensor([1 + 2**-7], dtype=torch.bfloat16)
    assert accuracy.difference(half, torch.tensor([1.0]).double(), torch.ones(1, dtype=torch.bfloat16)) is None
    assert accuracy.difference(torch.tensor([1j]), torch.tensor([2j]), torch.tensor([2j])).error == 1


def test_rounding_before_a_jump_is_no_mismatch(monkeypatch):
    # Ours is off by less than is allowed, which puts elements on the other side of a half.
    native = importer.Importer.native

    def nudged(self, node, target, name, value, location):
        made = native(self, node, target, name, value, location)
        if name == "aten.mul.Tensor":
            (factor,) = self.graph.add("constant", [], {"dtype": made.dtype, "value": 1 - 2**-23})
            (made,) = self.graph.add("mul", [made, factor], {})
        return made

    def f(x, y):
        z = x * y
        return torch.round(z), z > 1.5, z

    monkeypatch.setattr(importer.Importer, "native", nudged)
    x = torch.full((4,), 1.5)
    found = torch.compile(f, backend="oxyfuel", options={"cache": False})(x, torch.ones(4))
    assert found[0].tolist() == [1.0] * 4  # eager: 2
    assert oxyfuel.verify(f, x, torch.ones(4), program="").matches


PROGRAM = """
import torch

def forward(x):
    return torch.tanh(x + 1) * 2

def inputs():
    return [torch.ones(3)]
"""


def test_commands(monkeypatch, tmp_path):
    program, mismatch = tmp_path / "program.py", tmp_path / "mismatch.py"
    program.write_text(PROGRAM)
    run = CliRunner().invoke
    right = run(app, ["verify", str(program), "--program", str(mismatch)])
    assert (right.exit_code, "3 operators in 1 graph: all as in eager" in right.output) == (0, True)
    confuse(monkeypatch, "aten.tanh.default", "aten.sigmoid.default")
    wrong = run(app, ["verify", str(program), "--program", str(mismatch)])
    assert wrong.exit_code == 1
    assert "aten.tanh.default at program.py:5 in forward differs from eager" in wrong.output
    reduced = run(app, ["reduce", str(mismatch)])
    assert reduced.exit_code == 0
    assert "aten.tanh.default" in (tmp_path / "mismatch_reduced.py").read_text()
    as_json = run(app, ["verify", str(program), "--program", str(mismatch), "--json"])
    assert '"operator": "aten.tanh.default"' in as_json.output
    monkeypatch.undo()
    fixed = run(app, ["reduce", str(mismatch)])
    assert fixed.exit_code != 0

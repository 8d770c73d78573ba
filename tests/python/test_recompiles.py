"""oxyfuel.recompiles(): reasons and counts, and what happens at Dynamo's limit."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import nn

import oxyfuel


def scaled(x: torch.Tensor, factor: float) -> torch.Tensor:
    return (x + 1) * factor


def compile_often(times: int, **options):
    """Calls a compiled function with as many types of tensors as there are `times`."""
    compiled = oxyfuel.compile(scaled, **options)
    dtypes = (torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.complex64)
    for number in range(times):
        x = torch.ones(3, dtype=dtypes[number % 5], requires_grad=number >= 5)
        assert compiled(x, 2.0).tolist() == scaled(x, 2.0).tolist()


def test_nothing_at_first():
    assert oxyfuel.recompiles().count == 0
    assert str(oxyfuel.recompiles()) == "nothing was compiled again"
    compile_often(1)
    assert oxyfuel.recompiles().functions == []


def test_reasons_and_counts_as_data_and_text():
    compile_often(3)
    found = oxyfuel.recompiles()
    assert found.count == 2
    (function,) = found.functions
    assert (function.name, function.line, function.limit) == ("scaled", scaled.__code__.co_firstlineno, 0)
    assert function.file == __file__
    assert function.reasons == [
        "tensor 'x' dtype mismatch. expected Float, actual Double",
        "tensor 'x' dtype mismatch. expected Double, actual BFloat16",
    ]
    assert str(found) == (
        f"scaled ({__file__}:{function.line}): compiled again 2 times\n"
        "  once: tensor 'x' dtype mismatch. expected Float, actual Double\n"
        "  once: tensor 'x' dtype mismatch. expected Double, actual BFloat16"
    )


def test_a_reset_begins_anew():
    compile_often(2)
    assert oxyfuel.recompiles().count == 1
    torch.compiler.reset()
    assert oxyfuel.recompiles().count == 0


def test_modules_are_named_by_their_class():
    model = oxyfuel.compile(nn.Sequential(nn.Linear(3, 3)))
    model(torch.ones(2, 3))
    model(torch.ones(2, 2, 3))
    (function,) = oxyfuel.recompiles().functions
    assert (function.name, function.where, function.count) == ("Sequential", "", 1)
    assert "rank mismatch" in function.reasons[0]


def test_other_backends_are_not_ours():
    compiled = torch.compile(scaled, backend="eager")
    compiled(torch.ones(3), 2.0)
    compiled(torch.ones(3, dtype=torch.float64), 2.0)
    assert oxyfuel.recompiles().count == 0


def test_the_limit_warns_once_and_results_stay_right(monkeypatch):
    monkeypatch.setenv("OXYFUEL_STRICT", "0")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        compile_often(8, recompile_limit=3)
    messages = [str(warning.message) for warning in caught if "oxyfuel" in str(warning.message)]
    assert len(messages) == 1
    assert messages[0] == (
        "oxyfuel: scaled was compiled 3 times, as often as PyTorch allows\n"
        f"  where  {__file__}:{scaled.__code__.co_firstlineno}\n"
        "  found  tensor 'x' dtype mismatch. expected BFloat16, actual Half\n"
        "  so     calls that none of the compiled code fits run in PyTorch from now on\n"
        "  or     a tensor in place of the number that varies, or one function a case\n"
        "  or     oxyfuel.compile(…, recompile_limit=64), when all of them are wanted; oxyfuel.recompiles() lists them"
    )
    (function,) = oxyfuel.recompiles().functions
    assert (function.count, function.limit) == (2, 3)
    assert "the limit of 3 compiles is reached" in str(function)


def test_sizes_that_vary_are_advised_to_be_dynamic(monkeypatch):
    monkeypatch.setenv("OXYFUEL_STRICT", "0")
    compiled = oxyfuel.compile(lambda x: torch.sin(x), dynamic=False, recompile_limit=2)
    compiled(torch.ones(2)), compiled(torch.ones(3))
    with pytest.warns(RuntimeWarning, match=r"mark_dynamic\(tensor, axis\), when sizes vary"):
        compiled(torch.ones(4))


def test_the_limit_raises_in_strict_mode():
    with pytest.raises(oxyfuel.CompileError, match="scaled was compiled 3 times, as often as PyTorch allows"):
        compile_often(4, recompile_limit=3)


def test_the_option_strict_counts_as_well(monkeypatch):
    monkeypatch.setenv("OXYFUEL_STRICT", "0")
    with pytest.raises(oxyfuel.CompileError, match="as often as PyTorch allows"):
        compile_often(4, recompile_limit=3, strict=True)


def test_an_extern_step_does_not_raise_in_strict_mode():
    compiled = oxyfuel.compile(lambda x: torch.linalg.qr(x)[1] + 1, strict=True)
    x = torch.randn(3, 3)
    torch.testing.assert_close(compiled(x), torch.linalg.qr(x)[1] + 1)

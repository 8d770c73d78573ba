"""FX graphs as Graph IR: the text of what is imported."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.backends.debugging import boxed_nop

from oxyfuel import decompositions
from oxyfuel.importer import Imported, Importer


def import_graphs(function: Callable[..., Any], *arguments: Any, **keywords: Any) -> list[Imported]:
    """Graph IR of each graph that AOTAutograd makes."""
    found: list[Imported] = []

    def compiler(module, examples):
        imported = Importer(module, examples).run()
        imported.graph.verify()
        found.append(imported)
        return boxed_nop(module, examples)

    def backend(module, examples):
        return aot_autograd(
            fw_compiler=compiler, keep_inference_input_mutations=True, decompositions=decompositions.table()
        )(module, examples)

    torch.compile(function, backend=backend, fullgraph=True, **keywords)(*arguments)
    return found


def text_of(function: Callable[..., Any], *arguments: Any, **keywords: Any) -> str:
    (imported,) = import_graphs(function, *arguments, **keywords)
    return str(imported.graph)


def test_an_mlp():
    with torch.no_grad():
        text = text_of(nn.Sequential(nn.Linear(4, 3), nn.GELU()), torch.randn(2, 4))
    assert "%arg0_1: f32[3, 4] strides(4, 1)" in text
    assert "matmul(" in text
    assert 'gelu(%2) {approximate = "none"}' in text or "gelu(" in text


def test_locations_are_the_users():
    text = text_of(lambda x: x.sin(), torch.randn(3))
    assert 'loc("test_importer.py:' in text


def test_sizes_are_symbols():
    (imported,) = import_graphs(lambda x: x.reshape(-1) + 1, torch.randn(6, 8), dynamic=True)
    text = str(imported.graph)
    assert "symbols(s" in text
    assert "in [2, inf) hint 6" in text
    assert imported.arguments[0][0] is True  # the size itself is an argument


def test_results_that_are_sizes():
    (imported,) = import_graphs(lambda x: (x + 1, x.shape[0] * 2, x.shape[1], 7), torch.randn(6, 8), dynamic=True)
    assert imported.outputs[1:] == [("integer", 1)] or imported.outputs[1][0] in ("integer", "argument")


def test_views_of_arguments_need_no_step():
    (imported,) = import_graphs(lambda x: x.t()[1:], torch.randn(3, 5))
    assert imported.outputs == [("view", 0, [4, 3], [1, 5], 1)]
    assert "return" in str(imported.graph)


def test_mutation():
    (imported,) = import_graphs(lambda x: x.mul_(2).sum(), torch.randn(3))
    text = str(imported.graph)
    assert "%arg0_1 = " in text or "mutat" in text or "->" in text or "<-" in text


def test_an_operator_without_a_rule():
    (imported,) = import_graphs(lambda x: torch.linalg.qr(x)[0] * 2, torch.randn(3, 3))
    text = str(imported.graph)
    assert 'target = "aten.linalg_qr.default"' in text
    assert [d.reason for d in imported.declined] == ["it has no rule"]
    assert imported.externs[0].is_picklable


def test_random_operators_keep_their_order():
    (imported,) = import_graphs(lambda x: (torch.rand_like(x), torch.randn(3)), torch.randn(3))
    assert [call.name for call in imported.externs] == ["aten.rand_like.default", "aten.randn.default"] or [
        call.name for call in imported.externs
    ] == ["aten.rand.default", "aten.randn.default"]


def test_constants_travel_with_the_program():
    (imported,) = import_graphs(lambda x: x + torch.tensor([1.0, 2.0]), torch.randn(2))
    assert len(imported.constants) <= 1
    if imported.constants:
        assert imported.positions == [0, 1]


def test_backward_graphs_see_products_of_sizes():
    x = torch.randn(5, 7, requires_grad=True)
    w = torch.randn(7, 7, requires_grad=True)
    graphs = import_graphs(lambda x, w: (x @ w).reshape(-1).sin(), x, w, dynamic=True)
    assert graphs


@pytest.mark.parametrize("value", [torch.randn(3, dtype=torch.complex64).conj()])
def test_lazy_conjugates(value):
    from support import check

    check(lambda x: torch.view_as_real(x.resolve_conj()) * 2, value, native=False)

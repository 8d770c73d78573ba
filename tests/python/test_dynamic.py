"""Sizes that change from call to call, and sizes that data decides."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from oxyfuel.reports import collect
from support import same

SIZES = (6, 1, 17, 64, 0, 2, 129)

FUNCTIONS = {
    "pointwise": lambda x: torch.tanh(x) * 2 + x.shape[0],
    "reduce": lambda x: (x.sum(0), x.softmax(-1)),
    "reshape": lambda x: x.reshape(-1, 2, 4).transpose(0, 1).contiguous(),
    "matmul": lambda x: x @ x.t(),
    "cat": lambda x: torch.cat([x, x[: x.shape[0] // 2]]),
    "norm": lambda x: F.layer_norm(x, (8,)),
    "sizes": lambda x: (x + 1, x.shape[0] * 2 + 1),
    "arange": lambda x: x + torch.arange(x.shape[0])[:, None],
    "pad": lambda x: F.pad(x, (0, 0, 1, x.shape[0] % 3)),
}


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_one_program_for_all_sizes(name):
    function = FUNCTIONS[name]
    compiled = torch.compile(function, backend="oxyfuel", dynamic=True)
    with collect() as explanation:
        for size in SIZES:
            x = torch.randn(size, 8)
            same(compiled(x), function(x), atol=1e-4, rtol=1e-4)
    assert len(explanation.graphs) <= 4  # sizes 0 and 1, and halves of them, have programs of their own
    assert all(graph.native_share == 1 for graph in explanation.graphs), str(explanation)


def test_a_batch_that_becomes_dynamic():
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4)).eval()
    compiled = torch.compile(model, backend="oxyfuel")
    with collect() as explanation, torch.no_grad():
        for size in (5, 9, 33, 2):
            x = torch.randn(size, 8)
            same(compiled(x), model(x), atol=1e-5, rtol=1e-5)
    assert len(explanation.graphs) == 2


def test_training_with_a_dynamic_batch():
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))
    compiled = torch.compile(model, backend="oxyfuel", dynamic=True)
    for size in (5, 9, 12):
        x = torch.randn(size, 8)
        grads = []
        for call in (compiled, model):
            model.zero_grad()
            call(x).square().sum().backward()
            grads.append([p.grad.clone() for p in model.parameters()])
        same(grads[0], grads[1], atol=1e-4, rtol=1e-4)


def test_numbers_as_arguments():
    function = lambda x, n, s: (x * n + s, n + 1)
    compiled = torch.compile(function, backend="oxyfuel", dynamic=True)
    x = torch.randn(4)
    for n, s in ((3, 0.5), (4, 1.5), (-7, 2.25)):
        same(compiled(x, n, s), function(x, n, s))


def test_sizes_from_data():
    def function(x):
        kept = x[x > 0]
        return kept * 2, kept.sum(), torch.nonzero(x > 0)

    compiled = torch.compile(function, backend="oxyfuel")
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        for values in ([1.0, -1, 2], [-1.0], [3.0, 4, 5, 6]):
            x = torch.tensor(values)
            same(compiled(x), function(x), strides=False)


def test_an_item_as_a_size():
    compiled = torch.compile(lambda n: torch.arange(n.item()) * 2, backend="oxyfuel")
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        for n in (5, 1, 0, 300):
            same(compiled(torch.tensor(n)), torch.arange(n) * 2)


def item_in_a_range(x):
    n = x.sum().item()
    torch._check(n >= 2)
    torch._check(n < 8)
    return torch.zeros(n) + 1


def item_as_a_place(x):
    n = x.max().item()
    torch._check(n >= 0)
    torch._check(n < x.shape[0])
    return x[n] * 2


def few_that_are_positive(x):
    kept = x[x > 0]
    torch._check(kept.shape[0] <= 2)
    return kept * 2


ASSERTIONS = {
    "below": (item_in_a_range, [1, 2], [-5, 0]),
    "above": (item_in_a_range, [1, 2], [5, 9]),
    "place": (item_as_a_place, [0, 1, 2], [5, 1, 2]),
    "size": (few_that_are_positive, [1, -1, 2], [1, 1, 1]),
    "extreme of nothing": (lambda x: x[x > 0].amax(0), [1, -1, 2], [-1, -1, 0]),
}


@pytest.mark.parametrize("name", sorted(ASSERTIONS))
def test_what_is_asserted_of_a_size_is_checked(name):
    """PyTorch narrows the size's range to what is asserted, in which the assertion itself is always true."""
    function, good, bad = ASSERTIONS[name]
    compiled = torch.compile(function, backend="oxyfuel", fullgraph=True)
    settings = {"capture_scalar_outputs": True, "capture_dynamic_output_shape_ops": True}
    with torch._dynamo.config.patch(settings):
        same(compiled(torch.tensor(good)), function(torch.tensor(good)))
        with pytest.raises(RuntimeError, match="Runtime assertion failed"):
            compiled(torch.tensor(bad))

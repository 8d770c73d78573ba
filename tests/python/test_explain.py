"""oxyfuel.explain: as data, as text and as a page."""

from __future__ import annotations

import html.parser
import os
import re

import pytest
import torch
from torch import nn

import oxyfuel
from oxyfuel.explanation import Explanation, Kernel


class Net(nn.Module):
    """A matrix product with an epilogue, a break, an operator that PyTorch runs."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(32, 48)

    def forward(self, x):
        y = torch.tanh(self.linear(x))
        torch._dynamo.graph_break()
        return torch.linalg.qr(y)[1] + y.sum()


@pytest.fixture(scope="module")
def explanation() -> Explanation:
    torch.manual_seed(0)
    return oxyfuel.explain(Net().eval().requires_grad_(False), torch.randn(48, 32))


def test_graphs_and_kernels_with_what_was_fused(explanation):
    assert [graph.kind for graph in explanation.graphs] == ["inference", "inference"]
    assert explanation.kernels[0].fused == ["matmul", "add", "tanh"]
    assert explanation.kernels[0].locations == [place("y = torch.tanh(self.linear(x))")]
    assert explanation.kernels[0].schedule.startswith("contraction {kind = ")
    assert explanation.graphs[0].native_share == 1


def place(line: str) -> str:
    """Where a line of Net.forward is."""
    with open(__file__) as file:
        number = next(i for i, text in enumerate(file, 1) if text.strip() == line)
    return f"test_explain.py:{number} in forward"


def test_a_break_has_its_reason_and_its_line(explanation):
    (found,) = explanation.breaks
    assert found.location == place("torch._dynamo.graph_break()")
    assert found.line == "torch._dynamo.graph_break()"
    assert "User-inserted graph break" in found.reason


def test_operators_in_pytorch_have_a_reason(explanation):
    (found,) = explanation.externs
    assert (found.operator, found.reason) == ("aten.linalg_qr.default", "it has no rule")
    assert found.location.startswith("test_explain.py:")


def test_what_was_not_fused_says_why():
    def f(x, w):
        return torch.tanh(x) @ w + x.sum()

    found = oxyfuel.explain(f, torch.randn(8, 40), torch.randn(40, 24))
    remarks = {(remark.pass_name, remark.where.split(" at ")[0]): remark.text for remark in found.remarks}
    assert remarks["fuse", "tanh"] == "its result goes through memory: matmul reads memory"
    own = "has a kernel of its own: its loops are not those of the kernel that reads it"
    assert remarks["fuse", "sum"] == own
    assert f"sum at test_explain.py:{f.__code__.co_firstlineno + 1} in f: {own}" in str(found)


def test_every_step_has_a_time(explanation):
    for graph in explanation.graphs:
        assert graph.calls == 1
        assert graph.steps
        assert all(step.seconds > 0 and step.runs == 5 for step in graph.steps)
        assert graph.seconds == pytest.approx(sum(step.seconds for step in graph.steps))
        assert [graph.steps[k.step].name for k in graph.kernels] == [kernel.name for kernel in graph.kernels]
    kernel = explanation.kernels[0]
    assert kernel.roofline_share == kernel.least_seconds / kernel.seconds > 0


def test_stages_and_code(explanation):
    graph = explanation.graphs[0]
    assert "tanh(" in graph.before
    assert "group(" not in graph.before
    assert graph.after.count("group(") == len(graph.kernels)
    assert graph.kernels[0].loops.startswith("kernel @")
    assert "contract %" in graph.kernels[0].loops
    assert re.search(r"^\s+ret", graph.kernels[0].assembly, re.MULTILINE)


def test_memory_plan():
    def f(x, w):
        return torch.softmax(x @ w @ w, -1)

    (graph,) = oxyfuel.explain(f, torch.randn(16, 64), torch.randn(64, 64)).graphs
    arena = [buffer for buffer in graph.buffers if buffer.kind == "arena"]
    assert any(buffer.bytes == 16 * 64 * 4 and buffer.dtype == "f32" for buffer in arena)
    assert graph.arena_bytes >= max(buffer.offset + buffer.bytes for buffer in arena)
    for a in arena:
        for b in arena:
            apart = a.last_step < b.first_step or b.last_step < a.first_step
            assert a is b or apart or a.offset + a.bytes <= b.offset or b.offset + b.bytes <= a.offset
    (result,) = [buffer for buffer in graph.buffers if buffer.kind == "output"]
    assert (result.bytes, result.offset) == (16 * 64 * 4, -1)


def only(kernels: list[Kernel]) -> Kernel:
    (kernel,) = kernels
    return kernel


def test_work_of_a_matrix_product_is_counted_once():
    m, n, k = 40, 96, 64
    # Both operands change from call to call: one is packed by a kernel of its own.
    kernels = oxyfuel.explain(torch.matmul, torch.randn(m, k), torch.randn(k, n)).kernels
    assert sum(kernel.flops for kernel in kernels) == 2 * m * n * k
    assert max(kernel.flops for kernel in kernels) == 2 * m * n * k


def test_work_of_attention_and_convolution():
    q = torch.randn(1, 2, 40, 16)
    kernels = oxyfuel.explain(nn.functional.scaled_dot_product_attention, q, q, q).kernels
    assert sum(kernel.flops for kernel in kernels) == 2 * 2 * (2 * 40 * 40 * 16)
    x, w = torch.randn(1, 6, 12, 12), torch.randn(8, 3, 3, 3)
    kernels = oxyfuel.explain(lambda x, w: nn.functional.conv2d(x, w, groups=2), x, w).kernels
    assert sum(kernel.flops for kernel in kernels) == 2 * 8 * 10 * 10 * 3 * 9
    kernels = oxyfuel.explain(nn.functional.conv_transpose2d, x, torch.randn(6, 8, 3, 3)).kernels
    assert sum(kernel.flops for kernel in kernels) == 2 * 6 * 12 * 12 * 8 * 9


def test_bytes_are_those_that_are_touched():
    x = torch.randn(64, 128)
    assert only(oxyfuel.explain(lambda x: x * 2 + 1, x).kernels).bytes == 2 * 64 * 128 * 4
    assert only(oxyfuel.explain(lambda x: x.sum(), torch.randn(128)).kernels).bytes == 128 * 4 + 4
    table, rows = torch.randn(10_000, 64), torch.tensor([3, 5, 8, 13])
    kernel = only(oxyfuel.explain(nn.functional.embedding, rows, table).kernels)
    assert kernel.bytes == pytest.approx(2 * 4 * 64 * 4 + 4 * 8, rel=0.5)  # not the 2.5 MB of the table


def test_training_has_a_backward_graph_that_is_timed():
    model = nn.Linear(8, 8)
    found = oxyfuel.explain(model, torch.randn(4, 8))
    assert [graph.kind for graph in found.graphs] == ["forward", "backward"]
    assert all(graph.seconds > 0 for graph in found.graphs)
    assert model.weight.grad is None


def test_the_function_leaves_no_trace():
    model = nn.BatchNorm1d(4)
    x = torch.randn(8, 4)
    state = torch.get_rng_state()
    oxyfuel.explain(lambda y: y + torch.rand(()), x)
    oxyfuel.explain(model, x)
    assert torch.equal(model.running_mean, torch.zeros(4))
    assert torch.equal(torch.get_rng_state(), state)
    y = x.clone()
    oxyfuel.explain(lambda y: y.add_(1), y)
    assert torch.equal(x, y)


def test_a_graph_that_runs_in_pytorch():
    found = oxyfuel.explain(lambda x: x * 2, torch.empty(3, device="meta"))
    assert "not on the CPU" in found.graphs[0].fallback
    assert "runs in PyTorch: argument" in str(found)
    assert "All of it runs in PyTorch" in found.html()


def test_options_reach_the_compiler():
    options = {"extern": ["aten.tanh.default"], "dynamic": True}
    found = oxyfuel.explain(lambda x: torch.tanh(x) + 1, torch.randn(3, 4), compile_options=options)
    assert [extern.operator for extern in found.externs] == ["aten.tanh.default"]
    assert "symbols(" in found.graphs[0].before


def test_nothing_to_compile():
    assert "nothing was compiled" in str(oxyfuel.explain(lambda x: x, 3))


def test_text(explanation):
    text = str(explanation)
    assert re.search(r"^graph 0 \(inference\): 3 operators, 1 kernel, 100% native, [\d.]+ [mµ]s a call$", text, re.M)
    assert re.search(r"^  kernel matmul_add_tanh: matmul, add, tanh; .* FLOP|kFLOP", text, re.M)
    assert "aten.linalg_qr.default runs in PyTorch (1x, first at test_explain.py:" in text
    assert "graph break at test_explain.py:" in text
    assert "    schedule: contraction {" in text


class Page(html.parser.HTMLParser):
    """Collects what a page refers to, and checks that its elements nest."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: set[str] = set()
        self.links: set[str] = set()
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.ids.add(given.get("id", ""))
        if "href" in given:
            self.links.add(given["href"])
        self.loads += [value for name, value in attributes if name == "src"] + (
            [tag] if tag in ("script", "link") else []
        )
        if tag not in ("meta", "br", "rect", "line"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        pass

    def handle_endtag(self, tag):
        if tag == "rect":
            return
        assert self.open.pop() == tag


def test_the_page_stands_alone(explanation):
    text = explanation.html()
    page = Page(text)
    assert page.open == []
    assert page.loads == []
    assert page.links
    assert all(link.startswith("#") and link[1:] in page.ids for link in page.links)
    assert "url(" not in text


def test_the_page_shows_graphs_code_and_times(explanation):
    text = explanation.html()
    for wanted in (
        "Graph breaks",
        "Before the passes",
        "Loop IR",
        "Assembly",
        "of the roofline",
        "in PyTorch",
        "Arena",
    ):
        assert wanted in text
    assert text.count("<h2>Graph ") == 3
    assert 'title="matmul_add_tanh: ' in text


def test_dumps_of_graphs_do_not_overwrite_one_another(tmp_path):
    def f(x):
        y = torch.tanh(x)
        torch._dynamo.graph_break()
        return torch.exp(y)

    torch.compile(f, backend="oxyfuel", options={"dump": str(tmp_path)})(torch.randn(5))
    assert sorted(os.listdir(tmp_path)) == ["graph_0", "graph_1"]
    assert "tanh(" in (tmp_path / "graph_0" / "00-imported.oxir").read_text()
    assert "exp(" in (tmp_path / "graph_1" / "00-imported.oxir").read_text()
    for graph in ("graph_0", "graph_1"):
        assert {"kernel_0.oxir", "kernel_0.ll", "kernel_0.s"} <= set(os.listdir(tmp_path / graph))


def compiled_forms():
    def make():
        return nn.Sequential(nn.Linear(6, 5), nn.ReLU()).eval().requires_grad_(False)

    @oxyfuel.compile
    class Decorated(nn.Sequential):
        pass

    yield torch.compile(make(), backend="oxyfuel")
    yield oxyfuel.compile(make())
    yield oxyfuel.compile(make(), in_place=True)
    yield Decorated(*make())
    yield oxyfuel.compile(make().forward)


@pytest.mark.parametrize("form", range(5))
def test_what_is_compiled_already(form):
    model, x = list(compiled_forms())[form], torch.randn(3, 6)
    assert only(oxyfuel.explain(model, x).kernels).fused == ["matmul", "add", "relu"]
    verification = oxyfuel.verify(model, x, program="")
    assert verification.matches
    assert verification.graphs == 1


def test_time_loops():
    model = nn.LSTM(8, 16).eval().requires_grad_(False)
    found = oxyfuel.explain(model, torch.randn(7, 2, 8))
    graph = found.graphs[0]
    assert any(step.kind == "loop" for step in graph.steps)
    inner = [step for step in graph.steps if step.runs == 7 * 5]
    assert inner
    assert graph.seconds == pytest.approx(sum(step.seconds for step in graph.steps if step.kind != "loop"))
    assert all(kernel.roofline_share is not None for kernel in graph.kernels)

"""Many Python threads, many or few of our own: the same bits."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils import _pytree as pytree

from oxyfuel import _C


@pytest.fixture(scope="module")
def model() -> nn.Module:
    torch.manual_seed(5)
    return nn.Sequential(nn.Linear(96, 200), nn.GELU(), nn.LayerNorm(200), nn.Linear(200, 50), nn.Softmax(-1)).eval()


def test_eight_callers(model):
    compiled = torch.compile(model, backend="oxyfuel")
    inputs = [torch.randn(40, 96) for _ in range(8)]
    with torch.no_grad():
        alone = [compiled(x) for x in inputs]

        def work(i: int) -> bool:
            with torch.no_grad():
                return all(torch.equal(compiled(inputs[i]), alone[i]) for _ in range(20))

        with ThreadPoolExecutor(8) as pool:
            assert all(pool.map(work, range(8)))


PROGRAMS = {
    "reduce_all": (lambda x: (x.sum(), x.std(), x.argmax()), (311, 523)),
    "reduce_rows": (lambda x: (x.sum(0), x.softmax(-1), x.amax(1)), (300, 411)),
    "matmul": (lambda x: torch.relu(x @ x.t()), (203, 310)),
    "matmul_deep": (lambda x: x @ x.t(), (3, 20_001)),
    "convolution": (lambda x: F.conv2d(x, x[:5, :, :3, :3].contiguous(), padding=1), (6, 5, 40, 40)),
    "attention": (lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True), (2, 3, 150, 16)),
    "scan": (lambda x: x.cumsum(1), (30, 3_000)),
    "sort": (lambda x: x.sort(-1).values, (40, 700)),
    "scatter": (lambda x: torch.zeros(50).scatter_add(0, (x.abs() * 10).long() % 50, x), (40_000,)),
}


@contextlib.contextmanager
def thread_count(threads: int) -> Iterator[None]:
    """That many threads, also where there are fewer processors."""
    before = torch.get_num_threads()
    _C.override_thread_limit(threads)
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
        _C.override_thread_limit(0)


@contextlib.contextmanager
def busy(is_wanted: bool) -> Iterator[None]:
    """Other processes that want each processor meanwhile."""
    command = [sys.executable, "-c", "while True: pass"]
    others = [subprocess.Popen(command) for _ in range(os.cpu_count() or 1)] if is_wanted else []
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


@pytest.mark.parametrize("load", [False, True], ids=["alone", "loaded"])
@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_numbers_of_threads_give_the_same_bits(name, load):
    function, shape = PROGRAMS[name]
    compiled = torch.compile(function, backend="oxyfuel")
    x = torch.randn(shape)
    with thread_count(1):
        wanted = pytree.tree_leaves(compiled(x))
    with busy(load):
        for threads in (1, 2, 3):
            with thread_count(threads):
                for _ in range(4):
                    found = pytree.tree_leaves(compiled(x))
                    assert all(map(torch.equal, found, wanted)), f"{threads} threads"


def test_a_model_gives_the_same_bits(model):
    compiled = torch.compile(model, backend="oxyfuel")
    x = torch.randn(64, 96)
    results = []
    for threads in (1, 2, 3):
        with thread_count(threads), torch.no_grad():
            results.append(compiled(x))
    assert torch.equal(results[0], results[1])
    assert torch.equal(results[0], results[2])


def test_the_interpreter_runs_meanwhile():
    """Another thread counts while a long kernel runs: were the lock held, it would stand still."""
    x = torch.randn(1200, 1200)
    compiled = torch.compile(lambda x: (x @ x @ x).sum(), backend="oxyfuel")
    compiled(x)
    counts: list[int] = []
    stop = threading.Event()
    inside = threading.Event()

    def count() -> None:
        n = 0
        while not stop.is_set():
            if inside.is_set():
                n += 1
        counts.append(n)

    thread = threading.Thread(target=count)
    thread.start()
    inside.set()
    for _ in range(3):
        compiled(x)
    inside.clear()
    stop.set()
    thread.join()
    assert counts[0] > 100


def test_two_threads_compile_two_shapes():
    compiled = torch.compile(lambda x: torch.relu(x).sum(-1), backend="oxyfuel", dynamic=False)
    inputs = [torch.randn(n, 5) for n in (3, 4, 7, 9)]
    with ThreadPoolExecutor(4) as pool:
        for x, y in zip(inputs, pool.map(compiled, inputs)):
            torch.testing.assert_close(y, torch.relu(x).sum(-1))

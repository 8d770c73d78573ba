"""Many Python threads, many or few of our own: the same bits."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn


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


def test_numbers_of_threads_give_the_same_bits(model):
    compiled = torch.compile(model, backend="oxyfuel")
    x = torch.randn(64, 96)
    before = torch.get_num_threads()
    results = []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            with torch.no_grad():
                results.append(compiled(x))
    finally:
        torch.set_num_threads(before)
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

"""A process that has compiled forks; the child calls the same compiled function."""

from __future__ import annotations

import multiprocessing

import pytest
import torch


@pytest.mark.parametrize("threads", [1, 2])
def test_a_forked_child_calls(threads):
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        compiled = torch.compile(lambda x: torch.tanh(x).cumsum(0) * x.std(), backend="oxyfuel")
        x = torch.randn(5000)
        wanted = compiled(x)
        context = multiprocessing.get_context("fork")
        answers = context.Queue()
        child = context.Process(target=lambda: answers.put(compiled(x).tolist()))
        child.start()
        found = answers.get(timeout=120)
        child.join(20)
        assert child.exitcode == 0
        assert torch.equal(torch.tensor(found), wanted)
        assert torch.equal(compiled(x), wanted)
    finally:
        torch.set_num_threads(before)

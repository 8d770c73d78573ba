"""A seeded share of PyTorch's own samples of its operators and modules beside eager. `make opinfo` and `make moduleinfo` run
all."""

from __future__ import annotations

import random
import time

import pytest

from opinfo import modules
from opinfo.entries import tasks
from opinfo.pool import Worker

PARTS = 2
SECONDS = 90.0
"""What each part may take."""
MODULE_SECONDS = 20.0


@pytest.mark.parametrize("part", range(PARTS))
def test_share_of_samples(part, seed):
    run_share(tasks()[part::PARTS], seed, SECONDS)


def test_share_of_modules(seed):
    run_share(modules.tasks(), seed, MODULE_SECONDS)


def run_share(chosen: list[tuple[str, str]], seed: int, seconds: float) -> None:
    """One random sample of one random (entry, type) after the other, until the time is over."""
    draw = random.Random(seed)
    draw.shuffle(chosen)
    worker = Worker(sample_seconds=60)
    end = time.monotonic() + seconds
    failures, count = [], 0
    try:
        for entry, dtype in chosen:
            if time.monotonic() > end:
                break
            finding = worker.run(entry, dtype, draw=draw.getrandbits(32))
            count += finding.samples
            failures += [
                f"{f['state']}: {f['detail']}\n  repeat  python -m opinfo {'--modules ' * (entry in modules.entries())}"
                f"--results /tmp/opinfo.jsonl --entry {entry} --dtype {dtype} --only {f['sample']}   (PYTHONPATH=tests/python)"
                for f in finding.failures
            ]
    finally:
        worker.stop()
    assert not failures, "\n".join(failures)
    assert count >= seconds / 20, f"only {count} samples in {seconds:.0f} seconds"

"""A seeded share of PyTorch's own samples of its operators, in all element types, beside eager. `make opinfo` runs all."""

from __future__ import annotations

import random
import time

import pytest

from opinfo.entries import tasks
from opinfo.pool import Worker

PARTS = 2
SECONDS = 120.0
"""What each part may take."""


@pytest.mark.parametrize("part", range(PARTS))
def test_share_of_samples(part, seed):
    """One random sample of one random (entry, type) after the other, until the time is over."""
    draw = random.Random(seed)
    chosen = tasks()[part::PARTS]
    draw.shuffle(chosen)
    worker = Worker(sample_seconds=60)
    end = time.monotonic() + SECONDS
    failures, count = [], 0
    try:
        for entry, dtype in chosen:
            if time.monotonic() > end:
                break
            finding = worker.run(entry, dtype, draw=draw.getrandbits(32))
            count += finding.samples
            failures += [
                f"{f['state']}: {f['detail']}\n  repeat  python -m opinfo --results /tmp/opinfo.jsonl "
                f"--entry {entry} --dtype {dtype} --only {f['sample']}   (PYTHONPATH=tests/python)"
                for f in finding.failures
            ]
    finally:
        worker.stop()
    assert not failures, "\n".join(failures)
    assert count >= 20, f"only {count} samples in {SECONDS:.0f} seconds"

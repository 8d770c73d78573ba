"""Where TorchDynamo ended a graph, and why: it keeps a list, for which it has no interface."""

import contextlib
import dataclasses
import os
from collections.abc import Iterator
from typing import Any

from torch._dynamo.utils import graph_break_reasons


@dataclasses.dataclass(frozen=True)
class Break:
    """Where TorchDynamo ended a graph."""

    reason: str
    location: str
    """ "model.py:12 in forward" """
    line: str
    """The line itself."""


@contextlib.contextmanager
def collect() -> Iterator[list[Break]]:
    """The breaks that happen meanwhile, each place once; the list is filled at the end."""
    before = len(graph_break_reasons)
    found: list[Break] = []
    try:
        yield found
    finally:
        found += dict.fromkeys(map(_break, graph_break_reasons[before:]))


def _break(reason: Any) -> Break:
    text = str(reason.reason).split("Developer debug context")[0].strip()
    if not reason.user_stack:
        return Break(text, "", "")
    frame = reason.user_stack[-1]
    place = f"{os.path.basename(frame.filename)}:{frame.lineno} in {frame.name}"
    return Break(text, place, (frame.line or "").strip())

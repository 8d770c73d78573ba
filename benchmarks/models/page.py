"""Writes docs/models.md from the rows."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import os
import platform
from collections.abc import Callable
from typing import Any

from models.architectures import ARCHITECTURES
from models.measure import Row
from oxyfuel import _C
from oxyfuel.cli.doctor import cpu_model


@dataclasses.dataclass(frozen=True)
class Setting:
    """What was measured on."""

    processor: str
    load: str
    threads: int
    torch: str
    transformers: str

    @staticmethod
    def here(threads: int) -> Setting:
        versions = (importlib.metadata.version(name) for name in ("torch", "transformers"))
        processor = f"{cpu_model() or platform.machine()}, {_C.cpu_features()}"
        return Setting(processor, f"{os.getloadavg()[2]:.0f} on {os.cpu_count()} cores", threads, *versions)


def number(value: float | None, text: str) -> str:
    return "–" if value is None else text.format(value)


Column = tuple[str, Callable[[Row], str]]

INDUCTORS: Column = ("Inductor's", lambda row: number(row.inductor_seconds, "{:.1f}"))
COLUMNS: tuple[Column, ...] = (
    ("model", lambda row: row.title),
    ("kind", lambda row: ARCHITECTURES[row.title].family),
    ("right", lambda row: "failed" if row.failure else "yes" if row.right else "**no**"),
    ("error", lambda row: number(row.error, "{:.1e}")),
    ("eager's", lambda row: number(row.eager_error, "{:.1e}")),
    ("gradients", lambda row: {None: "", True: "yes", False: "**no**"}[row.gradients_right]),
    ("error", lambda row: "" if row.gradients_error is None else number(row.gradients_error, "{:.1e}")),
    ("graphs", lambda row: str(row.graphs)),
    ("breaks", lambda row: str(len(row.breaks))),
    ("in PyTorch", lambda row: ", ".join(f"`{name}` {count}" for name, count in row.externs.items())),
    ("× eager", lambda row: number(row.speed_up, "{:.1f}")),
    ("compile s", lambda row: number(row.compile_seconds, "{:.1f}")),
    INDUCTORS,
)


def page(rows: list[Row], setting: Setting) -> str:
    compared = [row for row in rows if ARCHITECTURES[row.title].gradients]
    has_inductor = any(row.inductor_seconds is not None for row in rows)
    columns = [column for column in COLUMNS if has_inductor or column != INDUCTORS]
    right = sum(row.right and not row.failure for row in rows)
    gradients = sum(row.gradients_right is True for row in compared)
    lines = [
        "<!-- Written by benchmarks/models (`make models`). -->",
        "# Models of Hugging Face\n",
        f"Of {len(rows)} programs {right} give what eager PyTorch gives, and {gradients} of the {len(compared)} whose",
        "gradients are compared give its gradients.\n",
        f"Classes of transformers {setting.transformers} in small configurations (two layers, 64 wide, two sequences of 32",
        "tokens or images of 32 to 64 pixels a side), float32, random weights. *generate*: a prompt of 16 tokens and 12 new",
        f"ones. Measured on {setting.processor} with a load of {setting.load}, threads: {setting.threads},",
        f"PyTorch {setting.torch}; each in a process of its own with empty caches.\n",
        "- right: against a run in float64, errors are at most 3 × (largest) and 1.5 × (root mean square) of eager's own.",
        "  Errors are relative to the largest element of their tensor. Tokens that `generate` chooses are the same.",
        "- graphs: what TorchDynamo gave to Oxyfuel without gradients. breaks: places where it ended one.",
        "- in PyTorch: operators, in all graphs, that run as extern steps, and how many of each.",
        "- × eager: eager's shortest time of a call over ours. Of such small models it tells what calls and operators cost;",
        "  models of real size are in [RESULTS.md](../benchmarks/RESULTS.md).",
        "- compile: the first call without gradients, TorchDynamo's part included, what a process pays once not.\n",
        row_of([title for title, _ in columns]),
        row_of(["---"] * len(columns)),
        *(row_of([text(row) for _, text in columns]) for row in rows),
    ]
    lines += list_of("Failures", [(row.title, row.failure) for row in rows if row.failure])
    lines += list_of("Graph breaks", [(row.title, reason) for row in rows for reason in row.breaks])
    return "\n".join(lines) + "\n"


def row_of(cells: list[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def list_of(heading: str, items: list[tuple[str, Any]]) -> list[str]:
    return ["", f"## {heading}\n", *(f"- {title}: {text}" for title, text in items)] if items else []

"""benchmarks/models: some of the smallest architectures, and what is made of the findings."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from models.architectures import ARCHITECTURES
from models.measure import Row, judge_all, measure
from models.page import COLUMNS, Setting, page


@pytest.mark.parametrize("title", ["DistilBERT", "Llama, static cache", "ResNet"])
def test_right(title):
    row = measure(ARCHITECTURES[title], seconds=0.0, with_inductor=False)
    assert row.is_right, row
    assert row.graphs >= 1
    assert row.externs == {}
    assert row.speed_up > 0


def test_wrong_numbers_are_noticed():
    exact = (torch.randn(2, 50, dtype=torch.float64), torch.randn(3, dtype=torch.float64), torch.tensor([4]))
    eager = (exact[0].float(), exact[1].float(), exact[2])
    assert judge_all(eager, eager, exact)[0]
    for place in range(2):
        found = [x.clone() for x in eager]
        found[place].view(-1)[1] += 1e-3
        assert not judge_all(found, eager, exact)[0]
    assert not judge_all((*eager[:2], eager[2] + 1), eager, exact)[0]
    assert not judge_all((eager[0] * float("nan"), *eager[1:]), eager, exact)[0]


SETTING = Setting("a processor", "3 on 2 cores", 1, "2", "5")


def test_page():
    good = Row(
        "BERT", right=True, error=1e-6, eager_error=2e-6, gradients_right=True, speed_up=1.5, externs={"aten.x": 2}
    )
    rows = [
        good,
        Row("Mamba", failure="ValueError: what | is wrong"),
        dataclasses.replace(good, title="GPT-2", right=False, inductor_seconds=3.0),
    ]
    text = page(rows, SETTING)
    table = [line for line in text.splitlines() if line.startswith("| ")]
    assert [line.split(" | ")[2] for line in table[2:]] == ["yes", "failed", "**no**"]
    assert all(line.count(" | ") == len(COLUMNS) - 1 for line in table)
    assert "Of 3 programs 1 give" in text
    assert "- Mamba: ValueError" in text
    assert "Inductor's" in table[0]
    assert "Inductor's" not in page(rows[:2], SETTING)

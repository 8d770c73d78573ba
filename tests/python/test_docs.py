"""The pages of docs/: those that are generated are up to date, and the programs in them are read as they stand."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from conftest import ROOT
from oxyfuel import _C

OPT = ROOT / "build" / "wheel" / "bin" / "oxyfuel-opt"
PROGRAMS = [
    (page.name, program)
    for page in sorted((ROOT / "docs").glob("*.md"))
    for program in re.findall(r"```oxir\n(.*?)```", page.read_text(), re.DOTALL)
]


def test_generated_pages_are_up_to_date():
    command = [sys.executable, str(ROOT / "tools" / "gen_docs.py"), "--check"]
    found = subprocess.run(command, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout + found.stderr


def test_every_operator_says_what_it_does():
    assert [name for name, _, doc, _ in _C.operators() if not doc] == []


@pytest.mark.parametrize(("page", "program"), PROGRAMS, ids=lambda text: text[:24].split("(")[0])
def test_programs_print_as_they_are_written(page, program):
    if program.startswith("graph"):
        graph = _C.Graph.parse(program)
        graph.verify()
        assert str(graph) == program
    elif OPT.exists():
        found = subprocess.run([OPT, "-"], input=program, capture_output=True, text=True)
        assert (found.stdout, found.stderr) == (program, "")
    else:
        pytest.skip(f"no {OPT}: run `make native-tests`")


@pytest.mark.parametrize("page", ["README.md", *(f"docs/{page.name}" for page in sorted((ROOT / "docs").glob("*.md")))])
def test_links_lead_somewhere(page):
    path = ROOT / page
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", path.read_text())
    assert [link for link in links if "://" not in link and not (path.parent / link).exists()] == []


def test_stubs_are_up_to_date():
    command = [sys.executable, str(ROOT / "tools" / "gen_stubs.py"), "--check"]
    found = subprocess.run(command, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout + found.stderr

"""Prints the packages that parts of pyproject.toml ask for, one a line.

A part is ``build-system``, ``runtime`` (what the package needs beside PyTorch) or the name of an extra. The Makefile
installs from this list before the package itself exists, so that each pin stands in one place.
"""

import sys
import tomllib
from pathlib import Path

PYPROJECT = Path(__file__).resolve().parent.parent / "pyproject.toml"


def requirements(part: str) -> list[str]:
    """The requirements of `part`, with extras of our own package expanded."""
    with PYPROJECT.open("rb") as file:
        project = tomllib.load(file)
    if part == "build-system":
        return list(project["build-system"]["requires"])
    if part == "runtime":
        return [wanted for wanted in project["project"]["dependencies"] if not wanted.startswith("torch")]
    result = []
    for requirement in project["project"]["optional-dependencies"][part]:
        if requirement.startswith("oxyfuel["):
            result += requirements(requirement.removeprefix("oxyfuel[").removesuffix("]"))
        else:
            result.append(requirement)
    return result


if __name__ == "__main__":
    print("\n".join(requirement for part in sys.argv[1:] for requirement in requirements(part)))

"""Prints the packages that a part of pyproject.toml asks for, one a line: ``build-system`` or the name of an extra.

The Makefile installs from this list before the package itself exists, so that each pin stands in one place.
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
    result = []
    for requirement in project["project"]["optional-dependencies"][part]:
        if requirement.startswith("oxyfuel["):
            result += requirements(requirement.removeprefix("oxyfuel[").removesuffix("]"))
        else:
            result.append(requirement)
    return result


if __name__ == "__main__":
    print("\n".join(requirements(sys.argv[1])))

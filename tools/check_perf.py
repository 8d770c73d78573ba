#!/usr/bin/env python3
"""A regression gate without a clock (`make perf`): counts what compiled code and the compiler cost, and compares with
tests/perf/expected.txt.

check_perf.py BIN            fails when a number differs from the expected one by more than 3 %, either way
OXYFUEL_BLESS=1 check_perf.py BIN    writes the numbers down instead

BIN is the folder of `oxyfuel-perf`. Counted are, for each kernel of tests/perf/kernels.oxir at x86-64-v3 and v4, its
instructions and the cycles that an iteration of each of its innermost loops takes by llvm-mca's model; and, by callgrind, the
instructions that the compiler runs: up to Loop IR for tests/perf/transformer.oxir, all of it for one kernel. Neither depends
on the machine, both depend on LLVM's version, which is pinned; callgrind's also on the compiler that built Oxyfuel (g++ 12).
Without valgrind these are left out.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CASES = ROOT / "tests" / "perf"
EXPECTED = CASES / "expected.txt"
TARGETS = ("x86-64-v3", "x86-64-v4")
TOLERANCE = 0.03
HEADER = """\
# Written by tools/check_perf.py (OXYFUEL_BLESS=1 make perf).
# code: target, program, kernel, instructions, cycles of an iteration of its innermost loops by llvm-mca
# work: stage, instructions that the compiler runs, by callgrind
"""


def measure_code(tool: str) -> dict[str, tuple[float, ...]]:
    """Instructions and cycles by target, program and kernel; those of one name are numbered."""
    found: dict[str, tuple[float, ...]] = {}
    for target in TARGETS:
        lines = subprocess.run(
            [tool, "code", str(CASES / "kernels.oxir"), f"--target={target}"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.splitlines()
        for line in lines:
            program, kernel, instructions, cycles = line.split()
            name = f"code {target} {program} {kernel}"
            found[name] = (float(instructions), float(cycles))
    return found


def measure_work(tool: str) -> dict[str, tuple[float, ...]]:
    """Instructions of each stage of a compile, without those of starting the process."""
    empty = CASES / "empty.oxir"
    start = callgrind(tool, "lower", empty)
    lower = callgrind(tool, "lower", CASES / "transformer.oxir")
    code_start, code = callgrind(tool, "compile", empty), callgrind(tool, "compile", CASES / "one_kernel.oxir")
    return {"work lower": (float(lower - start),), "work compile": (float(code - code_start),)}


def callgrind(tool: str, command: str, file: Path) -> int:
    result = subprocess.run(
        [
            "valgrind",
            "--tool=callgrind",
            "--callgrind-out-file=/dev/null",
            tool,
            command,
            str(file),
            "--target=x86-64-v3",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    counted = re.search(r"Collected : (\d+)", result.stderr)
    if result.returncode != 0 or counted is None:
        sys.exit(f"callgrind cannot run {tool} {command} {file}\n{result.stderr}")
    return int(counted[1])


def read_expected() -> dict[str, tuple[float, ...]]:
    found = {}
    for line in EXPECTED.read_text().splitlines():
        if line.startswith("#"):
            continue
        words = line.split()
        count = 4 if words[0] == "code" else 2
        found[" ".join(words[:count])] = tuple(map(float, words[count:]))
    return found


def write_expected(numbers: dict[str, tuple[float, ...]]) -> None:
    lines = [
        " ".join([name, *(f"{value:g}" if value < 1e6 else f"{value:.0f}" for value in values)])
        for name, values in numbers.items()
    ]
    EXPECTED.write_text(HEADER + "\n".join(lines) + "\n")


def compare(
    expected: dict[str, tuple[float, ...]], found: dict[str, tuple[float, ...]], has_callgrind: bool
) -> list[str]:
    """What differs, a line each."""
    problems = []
    for name in sorted(expected.keys() | found.keys()):
        if name.startswith("work") and not has_callgrind:
            continue
        if name not in expected or name not in found:
            problems.append(f"{name}: {'is new' if name in found else 'is gone'}")
            continue
        unit = ("instructions", "cycles")
        for number, (wanted, got) in enumerate(zip(expected[name], found[name])):
            if abs(got - wanted) > TOLERANCE * wanted:
                problems.append(
                    f"{name}: {got:g} {unit[number]}, expected {wanted:g} ({got / max(wanted, 1e-9) - 1:+.1%})"
                )
    return problems


def main(folder: str) -> int:
    tool = str(Path(folder) / "oxyfuel-perf")
    has_callgrind = shutil.which("valgrind") is not None
    found = measure_code(tool)
    if has_callgrind:
        found |= measure_work(tool)
    else:
        print("valgrind is not installed: the compiler's own work is not counted")
    if os.environ.get("OXYFUEL_BLESS"):
        if not has_callgrind:
            found |= {name: values for name, values in read_expected().items() if name.startswith("work")}
        write_expected(found)
        return 0
    problems = compare(read_expected(), found, has_callgrind)
    for problem in problems:
        print(problem)
    if problems:
        print(
            f"numbers differ from {EXPECTED.relative_to(ROOT)} by more than {TOLERANCE:.0%}\n  or     OXYFUEL_BLESS=1 make perf"
        )
    else:
        print(f"{len(found)} counts are as expected")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

"""Keeps files and functions small, and prints how large each folder is: growth is a decision.

A file over 1,000 lines fails. A file over 800 and a function over 80 are named as warnings. C++ functions are found by
their layout, which clang-format fixes: from a line that opens a body to the closing brace in the same column.
"""

import ast
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FILE_FAILS, FILE_WARNS, FUNCTION_WARNS = 1000, 800, 80
CODE = (".cpp", ".h", ".c", ".def", ".inc", ".py", ".cmake", ".sh")
NOT_A_FUNCTION = re.compile(
    r"\s*((namespace|struct|class|enum|union|extern|if|for|while|switch|else|do|try|catch|return|case|default)\b|[}#*]|//)"
)
STATEMENT_ENDS = re.compile(r"^\s*(//.*|#.*|\*.*)?$|[;{}:]\s*(//.*)?$")


def cpp_functions(lines: list[str]) -> Iterator[tuple[int, int]]:
    """(first line, number of lines) of each outermost function body."""
    number = 0
    while number < len(lines):
        start = number
        while start and not STATEMENT_ENDS.search(lines[start - 1]):
            start -= 1
        head = lines[start]
        if lines[number].endswith("{") and not NOT_A_FUNCTION.match(head):
            indent = len(head) - len(head.lstrip())
            end = number + 1
            while end < len(lines) and not re.match(rf" {{{indent}}}}}", lines[end]):
                end += 1
            yield start + 1, end - start + 1
            number = end
        number += 1


def python_functions(text: str) -> Iterator[tuple[int, int]]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.lineno, (node.end_lineno or node.lineno) - node.lineno + 1


def main() -> int:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    totals: dict[str, list[int]] = defaultdict(list)
    failures, warnings = [], []
    for name in listed.stdout.splitlines():
        path = ROOT / name
        if not (path.suffix in CODE or path.name in ("CMakeLists.txt", "Makefile")) or not path.is_file():
            continue
        text = path.read_text(encoding="utf-8")
        lines = text.splitlines()
        parts = name.split("/")[:-1]
        totals["/".join(parts[:2]) or "."].append(len(lines))
        if len(lines) > FILE_FAILS:
            failures.append(f"{name}: {len(lines)} lines; split it, {FILE_FAILS} is the most")
        elif len(lines) > FILE_WARNS:
            warnings.append(f"{name}: {len(lines)} lines; split it before it reaches {FILE_FAILS}")
        functions = python_functions(text) if path.suffix == ".py" else ()
        if path.suffix in (".cpp", ".h"):
            functions = cpp_functions(lines)
        warnings += [f"{name}:{first}: function of {n} lines" for first, n in functions if n > FUNCTION_WARNS]
    for folder, sizes in sorted(totals.items()):
        print(f"{sum(sizes):8,} lines {len(sizes):4} files  {folder}")
    every = [size for sizes in totals.values() for size in sizes]
    print(f"{sum(every):8,} lines {len(every):4} files  in all")
    print(*(f"warning: {line}" for line in warnings), *(f"error: {line}" for line in failures), sep="\n")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

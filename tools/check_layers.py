"""Holds the house to its dependency rule, from the `#include` and `import` lines alone.

    support <- ir <- ops <- passes <- driver <- python, with codegen and schedule beside passes; runtime needs support.

LLVM's headers stay in src/codegen, nanobind's in src/python, what exists on Linux only in src/support, and PyTorch's
private modules (`torch._…`) in the Python files that face them. Exits with 1 and one line a breach.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# What the files of a layer may include, beside the layer itself. `runtime/abi.h` and `runtime/plan.h` are contracts
# without code: they are listed by file.
PLAN = ("runtime/abi.h", "runtime/plan.h")
LAYERS: dict[str, tuple[str, ...]] = {
    "support": (),
    "ir": ("support", "runtime/abi.h"),
    "ops": ("support", "ir"),
    "schedule": ("support", "ir", "ops"),
    "passes": ("support", "ir", "ops", "schedule", *PLAN),
    "codegen": ("support", "ir", "ops", "schedule", "runtime/image.h", *PLAN),
    "runtime": ("support",),
    "driver": ("support", "ir", "ops", "schedule", "passes", "codegen", "runtime"),
    "python": ("support", "ir", "ops", "schedule", "passes", "codegen", "runtime", "driver"),
}

# Folders of one layer that may not see each other: only passes/lower sees both IRs.
BLIND: dict[str, tuple[str, ...]] = {
    "ir/graph": ("ir/loop",),
    "ir/loop": ("ir/graph",),
    "passes/graph": ("ir/loop", "passes/loop", "passes/lower"),
    "passes/loop": ("ir/graph", "passes/graph", "passes/lower"),
}

# Headers from outside, by pattern, and the folders that may include them.
FOREIGN: tuple[tuple[str, tuple[str, ...]], ...] = (
    (r"llvm(-c)?/", ("src/codegen",)),
    (r"nanobind/", ("src/python",)),
    (r"dlpack/", ("src/python", "src/runtime")),
    (r"(torch|ATen|c10)/", ()),
    (r"Python\.h", ("src/python",)),
    (r"(sys|linux|asm)/|sched\.h", ("src/support",)),
)

# Python files that face PyTorch's private modules.
FACES_TORCH = (
    "arguments.py",
    "autograd.py",
    "backend.py",
    "custom_ops.py",
    "decompositions.py",
    "dynamo.py",
    "executable.py",
    "export.py",
    "extern.py",
    "graph_breaks.py",
    "importer.py",
    "inductor.py",
    "output_code.py",
    "rnn.py",
    "torchscript.py",
    "weights.py",
)

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def includes(path: Path) -> Iterator[tuple[int, bool, str]]:
    """(line, whether in quotes, header) of each include line."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if match := INCLUDE.match(line):
            yield number, match[1] == '"', match[2]


def covers(folder: str, name: str) -> bool:
    return name == folder or name.startswith(folder + "/")


def check_cpp(path: Path) -> Iterator[str]:
    relative = path.relative_to(ROOT).as_posix()
    inside = relative.removeprefix("src/")
    layer = inside.split("/")[0]
    for number, quoted, header in includes(path):
        place = f"{relative}:{number}"
        for pattern, folders in FOREIGN:
            if re.match(pattern, header) and not any(covers(folder, relative) for folder in folders):
                yield f"{place}: <{header}> belongs in {' or '.join(folders) or 'no folder of ours'} only"
        if not relative.startswith("src/") or not quoted:
            continue
        target = header.split("/")[0]
        if target not in LAYERS:
            if target != "oxyfuel" and not header.endswith((".def", ".inc")):
                yield f'{place}: "{header}" is not named from src/'
            continue
        allowed = (layer, *LAYERS.get(layer, ()))
        if not any(covers(name, header) for name in allowed):
            yield f"{place}: {layer} must not depend on {header} (it may see {', '.join(allowed)})"
        for folder, unseen in BLIND.items():
            if covers(folder, inside) and any(covers(name, header) for name in unseen):
                yield f"{place}: {folder} must not see {header}: only passes/lower sees both IRs"


def imported(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "torch":
            yield node.lineno, f"torch.{node.attr}"


def is_private(module: str) -> bool:
    parts = module.split(".")
    return parts[0] == "torch" and any(part.startswith("_") and not part.startswith("__") for part in parts[1:2])


def check_python(path: Path) -> Iterator[str]:
    relative = path.relative_to(ROOT / "python/oxyfuel").as_posix()
    if relative in FACES_TORCH:
        return
    for line, module in imported(ast.parse(path.read_text(encoding="utf-8"), str(path))):
        if is_private(module):
            files = ", ".join(FACES_TORCH)
            yield f"python/oxyfuel/{relative}:{line}: {module} is private to PyTorch; files that face it: {files}"


def main() -> int:
    breaches: list[str] = []
    for folder in ("src", "include", "tools"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".h", ".cpp", ".def", ".inc"):
                breaches += check_cpp(path)
    for path in sorted((ROOT / "python/oxyfuel").rglob("*.py")):
        breaches += check_python(path)
    print("\n".join(breaches) if breaches else "every layer depends on what it may")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())

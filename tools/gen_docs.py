#!/usr/bin/env python3
"""Writes the pages of docs/ that follow from the sources.

gen_docs.py                 writes docs/passes.md, options.md, ops.md and commands.md, and the blocks of docs/tour.md
gen_docs.py passes options  writes these; the others need the installed package
gen_docs.py --check …       writes nothing, and fails when a page is not what it would write
"""

import importlib.util
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
NOTE = "<!-- Written by tools/gen_docs.py (`make docs`): change {source} instead. -->\n"


def header_comment(path: Path) -> list[str]:
    """The lines of the comment that opens a header, without their slashes."""
    lines = []
    for line in path.read_text().splitlines():
        if not line.startswith("//"):
            break
        lines.append(line.removeprefix("//").removeprefix(" "))
    return lines


def as_markdown(comment: list[str]) -> str:
    """Paragraphs of indented lines become code; lists and the rest stay."""
    paragraphs = [part.splitlines() for part in "\n".join(comment).split("\n\n")]
    return "\n\n".join(
        "\n".join(["```", *(line.removeprefix("  ") for line in lines), "```"])
        if all(line.startswith("  ") for line in lines)
        else "\n".join(lines)
        for lines in paragraphs
    )


def passes_page() -> str:
    """From passes.def, the headers of the passes and pipeline.cpp."""
    definitions = (ROOT / "src/passes/passes.def").read_text()
    pipeline = (ROOT / "src/driver/pipeline.cpp").read_text()
    page = [
        NOTE.format(source="src/passes/passes.def and the headers"),
        "# Passes\n",
        "[add-a-pass.md](add-a-pass.md) says how to write one, [ir.md](ir.md) how to read the text.\n",
        "## Order\n",
        "`src/driver/pipeline.cpp` holds it as code. **Bold**: later stages need the pass, so `OXYFUEL_SKIP` and",
        "`OXYFUEL_FUEL` leave it alone.\n",
    ]
    titles = {"graph": "A program", "body": "The body of a time loop", "loop": "Each kernel"}
    for kind, title in titles.items():
        body = pipeline.split(f"void run_{kind}_pipeline(")[1].split("PassManager::run")[0]
        names = re.findall(r'\{"([a-z-]+)", [\w:]+(, true)?\}', body)
        listed = ", ".join(f"**{name}**" if required else name for name, required in names)
        page.append(f"- {title}: {listed}")
    for kind, function in re.findall(r"^(GRAPH|LOOP)_PASS\((\w+)\)$", definitions, re.MULTILINE):
        header = f"src/passes/{kind.lower()}/{function}.h"
        page += [
            "",
            f"## {function.replace('_', '-')}\n",
            as_markdown(header_comment(ROOT / header)),
            "",
            f"`{header}`",
        ]
    return "\n".join(page) + "\n"


def options_page() -> str:
    """From python/oxyfuel/options.py."""
    spec = importlib.util.spec_from_file_location("oxyfuel_options", ROOT / "python/oxyfuel/options.py")
    assert spec is not None
    assert spec.loader is not None
    options: Any = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = options
    spec.loader.exec_module(options)
    page = [
        NOTE.format(source="python/oxyfuel/options.py"),
        "# Options\n",
        "```python",
        'torch.compile(model, backend="oxyfuel", mode="default", options={"verify": True})',
        "```\n",
        "| option | variable | default | what it does |",
        "|---|---|---|---|",
    ]
    for option in options.OPTIONS.values():
        default = "no limit" if option.name == "fuel" else f"`{option.default!r}`"
        page.append(f"| `{option.name}` | `{option.variable}` | {default} | {option.help} |")
    page += ["", *(text.replace("``", "`") for text in options.__doc__.strip().splitlines()[2:])]
    page += [
        "",
        "In a variable, `0`, `false`, `no`, `off` and nothing are False, and lists are separated by commas. A name that does",
        "not exist is a `ValueError`, a value of another type a `TypeError`.",
    ]
    return "\n".join(page) + "\n"


def ops_page() -> str:
    """From the op table, through the module."""
    from oxyfuel import _C

    page = [
        NOTE.format(source="the declarations in src/ops"),
        "# Operators\n",
        "[add-an-op.md](add-an-op.md) says how to add one.\n",
        "## Of Graph IR\n",
        "`ulps`: the largest error in float32, in units of the last place, where the result is not the nearest float.\n",
    ]
    by_kind: dict[str, list[tuple[str, str, int]]] = {}
    for name, kind, doc, ulps in _C.operators():
        by_kind.setdefault(kind, []).append((name, doc, ulps))
    for kind, operators in by_kind.items():
        page += [f"### {kind.capitalize()}\n", "| operator | | ulps |", "|---|---|---|"]
        page += [
            f"| `{name}` | {doc.replace('|', chr(92) + '|')} | {ulps or ''} |" for name, doc, ulps in sorted(operators)
        ]
        page.append("")
    rules = sorted(_C.rules())
    page += [
        "## ATen overloads that have a rule\n",
        f"{len(rules)} overloads are compiled to our own code. Others are taken apart by PyTorch's decompositions into these",
        "where there is one, and run in PyTorch where there is none. A rule may decline some arguments: `oxyfuel.explain`",
        "says so.\n",
    ]
    overloads: dict[str, list[str]] = {}
    for rule in rules:
        packet, overload = rule.rsplit(".", 1)
        overloads.setdefault(packet, []).append(overload)
    page += [f"- `{packet}`: {', '.join(names)}" for packet, names in overloads.items()]
    return "\n".join(page) + "\n"


def tour_page() -> str:
    """The blocks of the page, which is written by hand around them."""
    import tour

    return tour.page((ROOT / "docs/tour.md").read_text())


def commands_page() -> str:
    """From python/oxyfuel/cli, through typer."""
    import typer

    from oxyfuel.cli.app import app
    from oxyfuel.cli.console import ExitCode

    page = [
        NOTE.format(source="python/oxyfuel/cli"),
        "# The command `oxyfuel`\n",
        "`python -m oxyfuel.cli` is the same. With `--json` standard output holds JSON and nothing else: an object, or",
        "one a line and row. What takes longer than two seconds says on standard error what it is doing.\n",
        "`oxyfuel --install-completion` teaches the shell (bash, zsh, fish, PowerShell) to complete commands, options",
        "and values.\n",
        "| exit code | |",
        "|---|---|",
        *(f"| {code.value} | {code.meaning} |" for code in ExitCode),
        "| 130 | interrupted |",
    ]

    def describe(command: Any, name: str) -> None:
        page.append(f"\n## {name}\n")
        page.append(" ".join((command.help or "").split("\n\n")[0].split()))
        shown = [part for part in command.params if not getattr(part, "hidden", False) and "--help" not in part.opts]
        if shown:
            page.extend(["\n| | |", "|---|---|"])
        for part in shown:
            is_option = part.param_type_name == "option"
            names = ", ".join(f"`{text}`" for text in part.opts) if is_option else f"`{part.name.upper()}`"
            page.append(f"| {names} | {part.help or ''} |")
        for child, inner in getattr(command, "commands", {}).items():
            describe(inner, f"{name} {child}")

    for name, command in typer.main.get_command(app).commands.items():
        describe(command, f"oxyfuel {name}")
    return "\n".join(page) + "\n"


PAGES: dict[str, Callable[[], str]] = {
    "passes": passes_page,
    "options": options_page,
    "ops": ops_page,
    "tour": tour_page,
    "commands": commands_page,
}


def main(arguments: list[str]) -> int:
    is_check = "--check" in arguments
    names = [name for name in arguments if name != "--check"] or list(PAGES)
    status = 0
    for name in names:
        path, text = ROOT / "docs" / f"{name}.md", PAGES[name]()
        if not is_check:
            path.write_text(text)
        elif not path.is_file() or path.read_text() != text:
            print(f"docs/{name}.md is not what tools/gen_docs.py writes\n  or     make docs")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

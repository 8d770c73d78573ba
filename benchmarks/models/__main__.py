"""python -m models: measures architectures of Hugging Face, compiled, beside eager PyTorch, and writes docs/models.md.

Each runs in a process of its own with empty caches. With titles only these are measured, and the page keeps what
build/models.jsonl has of the others.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from models.architectures import ARCHITECTURES
from models.measure import Row
from models.page import Setting, page

ROOT = Path(__file__).resolve().parent.parent.parent


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="models", description=__doc__)
    parser.add_argument("titles", nargs="*", metavar="TITLE", help=f"one of: {'; '.join(ARCHITECTURES)}")
    parser.add_argument("--threads", type=int, default=1, help="of PyTorch and compiled code")
    parser.add_argument("--seconds", type=float, default=0.5, help="to time each for")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds that one may take")
    parser.add_argument("--without-inductor", action="store_true", help="do not compile with Inductor, which needs g++")
    parser.add_argument("--rows", type=Path, default=ROOT / "build" / "models.jsonl", help="file of what was measured")
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "models.md", help="page to write")
    options = parser.parse_args()
    if unknown := set(options.titles) - set(ARCHITECTURES):
        parser.error(f"there is no {', '.join(sorted(unknown))}")
    return options


def main() -> int:
    options = parse()
    rows = load(options.rows) if options.titles else {}
    titles = options.titles or list(ARCHITECTURES)
    for number, title in enumerate(titles):
        prefix = f"[{number + 1}/{len(titles)}] {title}:"
        rows[title] = run_child(title, options, prefix)
        print(prefix, describe(rows[title]), flush=True)
        save(options.rows, rows)
    ordered = [rows[title] for title in ARCHITECTURES if title in rows]
    options.page.write_text(page(ordered, Setting.here(options.threads)))
    return any(not row.is_right for row in ordered)


def run_child(title: str, options: argparse.Namespace, prefix: str) -> Row:
    """Runs one in a process of its own, which tells what it does line by line and ends with a line of JSON."""
    command = [sys.executable, "-m", "models.measure", title]
    command += ["--threads", str(options.threads), "--seconds", str(options.seconds)]
    command += ["--without-inductor"] if options.without_inductor else []
    row, is_late = None, threading.Event()
    with tempfile.TemporaryDirectory(prefix="oxyfuel-models-") as cache:
        caches = {"OXYFUEL_CACHE_DIR": cache, "TORCHINDUCTOR_CACHE_DIR": f"{cache}/torch"}
        # A bug in the compiler raises instead of falling back to eager.
        environment = os.environ | caches | {"OXYFUEL_STRICT": "1"}
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as child:

            def stop() -> None:
                is_late.set()
                child.kill()

            timer = threading.Timer(options.limit, stop)
            timer.start()
            assert child.stdout is not None
            for line in child.stdout:
                if line.startswith("{"):
                    row = Row(**json.loads(line))
                else:
                    print(prefix, line.strip(), flush=True)
            child.wait()
            timer.cancel()
    if row is not None:
        return row
    if is_late.is_set():
        return Row(title, failure=f"took more than {options.limit:.0f} s")
    is_killed = child.returncode < 0
    end = f"signal {signal.Signals(-child.returncode).name}" if is_killed else f"code {child.returncode}"
    return Row(title, failure=f"the process ended with {end}")


def describe(row: Row) -> str:
    if row.failure:
        return f"FAILED: {row.failure}"
    gradients = {None: "", True: ", gradients right", False: ", gradients WRONG"}[row.gradients_right]
    return f"{'right' if row.right else 'WRONG'}{gradients}, {row.speed_up:.2f} x eager, {row.compile_seconds:.1f} s"


def load(path: Path) -> dict[str, Row]:
    lines = path.read_text().splitlines() if path.is_file() else []
    rows = [Row(**json.loads(line)) for line in lines]
    return {row.title: row for row in rows}


def save(path: Path, rows: dict[str, Row]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(dataclasses.asdict(row)) + "\n" for row in rows.values()))


if __name__ == "__main__":
    raise SystemExit(main())

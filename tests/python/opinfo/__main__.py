"""python -m opinfo: runs samples, keeps what it finds in a file of JSON lines, and prints a table.

A second run with the same file goes on where the first one was stopped.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import dataclasses
import json
import random
import threading
import time
from pathlib import Path

from opinfo import modules
from opinfo.entries import DTYPES, tasks
from opinfo.pool import Finding, Worker
from opinfo.summary import describe, load


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="opinfo", description=__doc__)
    parser.add_argument("--modules", action="store_true", help="modules and their gradients instead of operators")
    parser.add_argument(
        "--results", type=Path, help="file of findings; build/opinfo.jsonl or build/moduleinfo.jsonl without"
    )
    parser.add_argument("--samples", type=int, help="samples of each entry and type; all without")
    parser.add_argument("--only", type=int, action="append", help="numbers of samples; all without")
    parser.add_argument("--dtype", action="append", choices=list(DTYPES), help="element types; all without")
    parser.add_argument("--entry", action="append", help="entries; all without")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds that a sample may take")
    parser.add_argument("--minutes", type=float, help="when to stop")
    parser.add_argument("--seed", type=int, help="seed of a random order; PyTorch's order without")
    parser.add_argument("--again", action="store_true", help="run once more what has failures in the file")
    parser.add_argument("--summary", action="store_true", help="only print the table")
    options = parser.parse_args()
    if options.results is None:
        options.results = Path("build/moduleinfo.jsonl" if options.modules else "build/opinfo.jsonl")
    return options


def main() -> int:
    options = parse()
    options.results.parent.mkdir(parents=True, exist_ok=True)
    known = load(options.results)
    if not options.summary:
        chosen = [
            (entry, dtype)
            for entry, dtype in (modules.tasks() if options.modules else tasks())
            if (not options.dtype or dtype in options.dtype) and (not options.entry or entry in options.entry)
        ]
        if options.again:
            chosen = [task for task in chosen if task in known and known[task].failures]
        else:
            chosen = [task for task in chosen if task not in known]
        if options.seed is not None:
            random.Random(options.seed).shuffle(chosen)
        run_all(chosen, options)
        known = load(options.results)
    print(describe(known))
    return any(finding.failures for finding in known.values())


def run_all(chosen: list[tuple[str, str]], options: argparse.Namespace) -> None:
    end = time.monotonic() + options.minutes * 60 if options.minutes else float("inf")
    local, lock = threading.local(), threading.Lock()

    def run(task: tuple[str, str]) -> None:
        if time.monotonic() > end:
            return
        if not hasattr(local, "worker"):
            local.worker = Worker(options.timeout)
            workers.append(local.worker)
        finding = local.worker.run(*task, count=options.samples, only=options.only)
        with lock:
            with options.results.open("a") as file:
                file.write(json.dumps(dataclasses.asdict(finding)) + "\n")
            tell(finding)

    workers: list[Worker] = []
    try:
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            for _ in pool.map(run, chosen):
                pass
    finally:
        for worker in workers:
            worker.stop()


def tell(finding: Finding) -> None:
    for failure in finding.failures[:2]:
        print(
            f"{failure['state']:6} {finding.entry} {finding.dtype} #{failure['sample']}: {failure['detail']}",
            flush=True,
        )


raise SystemExit(main())

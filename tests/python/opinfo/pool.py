"""Worker processes that are started again when a sample crashes or hangs them."""

from __future__ import annotations

import dataclasses
import json
import os
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
START_SECONDS = 300.0
TASKS_PER_PROCESS = 100
"""Dynamo and allocators keep some memory of each compile."""


@dataclasses.dataclass
class Finding:
    """All samples of an entry in one element type."""

    entry: str
    dtype: str
    samples: int = 0
    native: int = 0
    excused: int = 0
    failures: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    """{"sample", "state", "detail"}; state is "wrong", "error", "crash" or "hang"."""
    excuses: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    externs: dict[str, int] = dataclasses.field(default_factory=dict)
    """What ran in PyTorch, and in how many samples."""
    seconds: float = 0.0

    def add(self, record: dict[str, Any]) -> None:
        self.samples += 1
        self.seconds = round(self.seconds + record.get("seconds", 0.0), 3)
        externs = record.get("externs", [])
        for name in externs:
            self.externs[name] = self.externs.get(name, 0) + 1
        if record["state"] == "excused":
            self.excused += 1
            if len(self.excuses) < 3:
                self.excuses.append({"sample": record["sample"], "detail": record["detail"]})
        elif record["state"] != "right":
            self.failures.append({key: record[key] for key in ("sample", "state", "detail")})
        elif not externs:
            self.native += 1


class Worker:
    """One process, started when it is first needed."""

    def __init__(self, sample_seconds: float = 60.0, log: Any = subprocess.DEVNULL) -> None:
        self.sample_seconds = sample_seconds
        self.log = log
        self.process: subprocess.Popen[bytes] | None = None
        self.tasks = 0
        self.buffer = b""

    def start(self) -> None:
        environment = os.environ | {"OXYFUEL_STRICT": "1", "OXYFUEL_COMPILE_THREADS": "1", "OMP_NUM_THREADS": "1"}
        paths = [str(HERE.parent), environment.get("PYTHONPATH", "")]
        environment["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "opinfo.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            env=environment,
        )
        self.buffer, self.tasks = b"", 0
        if self.read(START_SECONDS) is None:
            raise RuntimeError("a worker does not start; run `python -m opinfo.worker` to see why")

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def read(self, seconds: float) -> dict[str, Any] | None:
        """The next line; None when the process ended or said nothing for that long."""
        assert self.process is not None
        assert self.process.stdout is not None
        end = time.monotonic() + seconds
        while b"\n" not in self.buffer:
            ready, _, _ = select.select([self.process.stdout], [], [], max(0.0, end - time.monotonic()))
            data = os.read(self.process.stdout.fileno(), 1 << 16) if ready else b""
            if not data:
                return None
            self.buffer += data
        line, self.buffer = self.buffer.split(b"\n", 1)
        found: dict[str, Any] = json.loads(line)
        return found

    def run(
        self,
        entry: str,
        dtype: str,
        *,
        count: int | None = None,
        only: list[int] | None = None,
        draw: int | None = None,
    ) -> Finding:
        """All samples, or the first `count`, or those whose numbers are in `only`, or one that the seed `draw` chooses."""
        finding = Finding(entry, dtype)
        skip = 0
        while True:
            task = {"skip": skip, "count": count, "only": only, "draw": draw}
            stopped_at, is_done = self.run_from(finding, task)
            if is_done:
                return finding
            skip = stopped_at + 1

    def run_from(self, finding: Finding, task: dict[str, Any]) -> tuple[int, bool]:
        if self.process is None or self.tasks >= TASKS_PER_PROCESS:
            self.stop()
            self.start()
        assert self.process is not None
        assert self.process.stdin is not None
        self.tasks += 1
        line = json.dumps({"entry": finding.entry, "dtype": finding.dtype} | task)
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()
        current = task["skip"]
        while (record := self.read(self.sample_seconds)) is not None:
            if "done" in record:
                return record["done"], True
            if "failed" in record:
                finding.add({"sample": current, "state": "excused", "detail": record["failed"]})
                return current, True
            current = record["sample"]
            if "state" in record:
                finding.add(record)
        is_running = self.process.poll() is None
        self.stop()
        detail = f"nothing for {self.sample_seconds:.0f} seconds" if is_running else "the process ended"
        finding.add({"sample": current, "state": "hang" if is_running else "crash", "detail": detail})
        return current, False

"""A process that runs samples: reads tasks, a line of JSON each, and writes what it starts and what it finds.

    > {"entry": "add", "dtype": "float32", "skip": 0, "count": 3}
    < {"sample": 0}
    < {"sample": 0, "state": "right", "detail": "", "externs": [], "seconds": 0.1}
    < …
    < {"done": 3}

`skip` samples are left out, `count` (or null) is where to stop. A list `only` names the samples to run instead, and a seed
`draw` chooses one of all.
"""

from __future__ import annotations

import dataclasses
import json
import os
import random
import sys
from typing import Any

import torch
import torch._dynamo.guards

from opinfo import modules
from opinfo.entries import entries, samples
from opinfo.trial import judge_sample, run_sample


def say(line: dict[str, Any], stream: Any) -> None:
    print(json.dumps(line), file=stream, flush=True)


def run_task(task: dict[str, Any], stream: Any) -> None:
    only, number = task.get("only"), -1
    is_module = task["entry"] in modules.entries()
    judge = modules.judge_sample if is_module else judge_sample
    made = (modules.samples if is_module else samples)(task["entry"], task["dtype"], task["count"])
    if task.get("draw") is not None:
        made = list(made)
        only = [random.Random(task["draw"]).randrange(len(made))] if made else []
    for number, sample in enumerate(made):
        if number < task["skip"] or (only is not None and number not in only):
            continue
        say({"sample": number}, stream)
        say({"sample": number} | dataclasses.asdict(run_sample(judge, task["entry"], sample)), stream)
    say({"done": number + 1}, stream)


def main() -> None:
    torch.set_num_threads(1)
    torch._dynamo.guards.profile_guard_manager = lambda *_: 0.0  # flushes the caches to time guards: 100 ms a compile
    stream = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what operators print goes elsewhere
    entries()
    say({"ready": True}, stream)
    for line in sys.stdin:
        task = json.loads(line)
        try:
            run_task(task, stream)
        except Exception as error:
            say({"failed": f"samples: {type(error).__name__}: {error}"[:400]}, stream)


if __name__ == "__main__":
    main()

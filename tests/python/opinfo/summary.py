"""Tables of what was found."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from opinfo.pool import Finding


def load(path: Path) -> dict[tuple[str, str], Finding]:
    """Findings by entry and type; the last one of each counts."""
    found = {}
    if path.is_file():
        for line in path.read_text().splitlines():
            finding = Finding(**json.loads(line))
            found[finding.entry, finding.dtype] = finding
    return found


def describe(findings: dict[tuple[str, str], Finding]) -> str:
    """A line a type, and the operators that keep most samples from being native."""
    lines = [
        f"{'type':10} {'entries':>7} {'samples':>7} {'right':>7} {'native':>7} {'excused':>7} {'failed':>6} {'seconds':>7}"
    ]
    by_dtype: dict[str, list[Finding]] = {}
    for (_, dtype), finding in findings.items():
        by_dtype.setdefault(dtype, []).append(finding)
    for dtype, group in by_dtype.items():
        samples, failed = sum(f.samples for f in group), sum(len(f.failures) for f in group)
        excused, native = sum(f.excused for f in group), sum(f.native for f in group)
        lines.append(
            f"{dtype:10} {len(group):7} {samples:7} {samples - failed - excused:7} {native:7} {excused:7} {failed:7} "
            f"{sum(f.seconds for f in group):7.0f}"
        )
    keep: dict[str, set[str]] = {}
    for finding in findings.values():
        for name in finding.externs:
            keep.setdefault(name, set()).add(finding.entry)
    common = Counter({name: len(entries) for name, entries in keep.items()})
    lines += ["", "what runs in PyTorch, and for how many entries"]
    lines += [f"{count:5} {name}" for name, count in common.most_common(40)]
    return "\n".join(lines)

"""The compiled kernels on disk: how much they take, and making them less.

An entry is one file a kernel (src/driver/kernels.cpp). A hit renews its time of modification, so the oldest entry is the one
that was not used for longest. Any file may go at any time: a missing one is compiled again.
"""

import contextlib
import dataclasses
import threading
import time
from collections.abc import Iterable
from pathlib import Path

from oxyfuel.options import cache_directory, make_settings

SUFFIX = ".kernel"
DRAFT = SUFFIX + ".tmp-"
DRAFT_SECONDS = 3600.0
"""Older drafts were left by processes that were killed."""
LOOK_EVERY = 256
"""Kernels that a process writes before it measures the folder again."""


@dataclasses.dataclass(frozen=True)
class Usage:
    """Entries of a cache and what they take."""

    files: int
    bytes: int


@dataclasses.dataclass(frozen=True)
class _Entry:
    path: Path
    bytes: int
    seconds: float
    """When it was last used, since the epoch."""


def directory() -> Path:
    """Where kernels are kept, also when the cache is switched off."""
    return Path(cache_directory(make_settings({"cache": True})))


def size(folder: Path | None = None) -> Usage:
    """What the cache takes; nothing where there is none."""
    return _usage(_entries(folder))


def clear(folder: Path | None = None) -> Usage:
    """Removes every entry and gives what went. Running programs keep the code that they have loaded."""
    return _remove(_entries(folder))


def prune(max_bytes: int | None = None, max_age: float | None = None, folder: Path | None = None) -> Usage:
    """Removes entries not used for `max_age` seconds, then the least recently used until at most `max_bytes` are left.
    Gives what went. None leaves that limit out."""
    now = time.time()
    gone: list[_Entry] = []
    kept: list[_Entry] = []
    for entry in sorted(_entries(folder), key=lambda entry: entry.seconds):
        age = now - entry.seconds
        too_old = age > DRAFT_SECONDS if DRAFT in entry.path.name else max_age is not None and age > max_age
        (gone if too_old else kept).append(entry)
    if max_bytes is not None:
        total = _usage(kept).bytes
        for entry in kept:
            if total <= max_bytes:
                break
            gone.append(entry)
            total -= entry.bytes
    return _remove(gone)


class Keeper:
    """Keeps folders within their limit as kernels are written. Measuring takes about 2 us a file, so it is done when a process
    first writes to a folder and each LOOK_EVERY kernels from then on."""

    def __init__(self) -> None:
        self._unseen: dict[str, int] = {}
        self._lock = threading.Lock()

    def wrote(self, folder: str, kernels: int, max_bytes: int) -> Usage:
        """Tells of `kernels` new entries; removes a tenth more than needed when there are too many. A limit of 0 is none."""
        if not folder or not kernels or not max_bytes:
            return Usage(0, 0)
        with self._lock:
            unseen = self._unseen.get(folder, LOOK_EVERY) + kernels
            self._unseen[folder] = unseen % LOOK_EVERY if unseen >= LOOK_EVERY else unseen
        if unseen < LOOK_EVERY or size(Path(folder)).bytes <= max_bytes:
            return Usage(0, 0)
        return prune(max_bytes * 9 // 10, folder=Path(folder))


keeper = Keeper()


def _entries(folder: Path | None) -> list[_Entry]:
    found = []
    # Other processes add and remove entries meanwhile.
    with contextlib.suppress(OSError):
        for path in (folder or directory()).iterdir():
            if path.suffix != SUFFIX and DRAFT not in path.name:
                continue
            with contextlib.suppress(OSError):
                status = path.stat()
                found.append(_Entry(path, status.st_size, status.st_mtime))
    return found


def _usage(entries: Iterable[_Entry]) -> Usage:
    sizes = [entry.bytes for entry in entries]
    return Usage(len(sizes), sum(sizes))


def _remove(entries: Iterable[_Entry]) -> Usage:
    gone = []
    for entry in entries:
        with contextlib.suppress(OSError):
            entry.path.unlink()
            gone.append(entry)
    return _usage(gone)

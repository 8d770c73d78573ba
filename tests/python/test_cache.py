"""The cache of kernels on disk: what it takes, what goes first, damaged and foreign files."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from oxyfuel import cache
from oxyfuel.cache import Usage


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Four entries of 1,000 bytes, used 4, 3, 2 and 1 hours ago, and a file that is not ours."""
    for hours in (4, 3, 2, 1):
        path = tmp_path / f"{hours:064}.kernel"
        path.write_bytes(b"x" * 1000)
        os.utime(path, (time.time() - hours * 3600,) * 2)
    (tmp_path / "notes.txt").write_text("mine")
    return tmp_path


def left(folder: Path) -> list[int]:
    return sorted(int(path.stem) for path in folder.glob("*.kernel"))


def test_size_counts_kernels_only(folder):
    assert cache.size(folder) == Usage(4, 4000)
    assert cache.size(folder / "nowhere") == Usage(0, 0)


def test_clear_leaves_what_is_not_ours(folder):
    assert cache.clear(folder) == Usage(4, 4000)
    assert [path.name for path in folder.iterdir()] == ["notes.txt"]
    assert cache.clear(folder) == Usage(0, 0)


def test_prune_by_age(folder):
    assert cache.prune(max_age=2.5 * 3600, folder=folder) == Usage(2, 2000)
    assert left(folder) == [1, 2]


def test_prune_by_size_takes_the_least_recently_used(folder):
    assert cache.prune(max_bytes=2999, folder=folder) == Usage(2, 2000)
    assert left(folder) == [1, 2]
    assert cache.prune(max_bytes=2999, folder=folder) == Usage(0, 0)
    assert cache.prune(max_bytes=0, folder=folder) == Usage(2, 2000)


def test_prune_removes_drafts_of_killed_processes(folder):
    fresh, old = folder / "1.kernel.tmp-1-0", folder / "2.kernel.tmp-1-0"
    for path in (fresh, old):
        path.write_bytes(b"part")
    os.utime(old, (time.time() - 2 * cache.DRAFT_SECONDS,) * 2)
    assert cache.prune(folder=folder) == Usage(1, 4)
    assert fresh.exists()


def test_the_keeper_looks_at_once_and_then_now_and_then(folder):
    keeper = cache.Keeper()
    assert keeper.wrote(str(folder), 1, max_bytes=0) == Usage(0, 0)
    assert keeper.wrote(str(folder), 1, max_bytes=3500) == Usage(1, 1000)
    assert keeper.wrote(str(folder), 1, max_bytes=2000) == Usage(0, 0)
    assert keeper.wrote(str(folder), cache.LOOK_EVERY, max_bytes=2000) == Usage(2, 2000)
    assert left(folder) == [1]


def test_the_default_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("OXYFUEL_CACHE_DIR", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("OXYFUEL_CACHE", "0")
    assert cache.directory() == tmp_path / "oxyfuel"

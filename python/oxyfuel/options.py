"""Options of `torch.compile(..., options={...}, mode=...)` and the environment variables with the same meaning.

An option given in the call wins over its variable. Modes:

- ``default``: schedules from the cost model; the code is made for the sizes that PyTorch found to be fixed.
- ``reduce-overhead``: the same. A call has no launches whose overhead could be taken away: it enters native code once.
- ``max-autotune``, ``max-autotune-no-cudagraphs``: the same as well. Schedules are not measured yet.
"""

import dataclasses
import difflib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


@dataclasses.dataclass(frozen=True)
class Option:
    """One option: what it is called, what it is without being given, and what it does."""

    name: str
    default: Any
    help: str

    @property
    def variable(self) -> str:
        return "OXYFUEL_" + self.name.upper()

    def parse(self, text: str) -> Any:
        """The value that a variable's text stands for."""
        if isinstance(self.default, bool):
            return text.strip().lower() not in ("", "0", "false", "no", "off")
        if isinstance(self.default, int):
            return int(text)
        if isinstance(self.default, tuple):
            return tuple(part.strip() for part in text.split(",") if part.strip())
        return text

    def check(self, value: Any) -> Any:
        """The value as it is kept; TypeError when it is of another kind than the default."""
        if isinstance(self.default, tuple) and isinstance(value, (list, tuple, set, frozenset)):
            return tuple(sorted(map(str, value)))
        if isinstance(self.default, str) and isinstance(value, os.PathLike):
            value = os.fspath(value)
        if not isinstance(value, type(self.default)) or isinstance(value, bool) != isinstance(self.default, bool):
            raise TypeError(
                f"oxyfuel: option {self.name!r} has the wrong type\n"
                f"  found  {value!r}\n"
                f"  or     a value of type {type(self.default).__name__}, like {self.default!r}"
            )
        return value


OPTIONS = {
    option.name: option
    for option in (
        Option("target", "host", "machine to make code for; `host` is the one that runs"),
        Option("compile_threads", 0, "threads that compile kernels side by side; 0: one a usable CPU"),
        Option("verify", False, "check both IRs between passes, and the LLVM modules"),
        Option("round_trip", False, "print and parse both IRs after each pass; a text that changes is a bug"),
        Option("fusion", True, "share kernels between operators; off: each operator has one of its own"),
        Option("scalar", False, "kernels without vectors"),
        Option("dump", "", "folder to write each stage of a compile to, a folder a graph; compiles afresh"),
        Option("skip", (), "passes to leave out"),
        Option("fuel", 2**63 - 1, "rewrites that passes may do, to bisect a wrong one"),
        Option("cache", True, "keep compiled programs and kernels on disk"),
        Option("cache_dir", "", "folder of the cache; empty: ~/.cache/oxyfuel"),
        Option("cache_limit", 2048, "MiB that kernels on disk may take; the least recently used go first; 0: no limit"),
        Option("extern", (), "operators to run in PyTorch, by overload: aten.gelu.default"),
        Option("static_weights", True, "prepare weights of inference graphs when they are first seen"),
        Option("perf_map", False, "write names of kernels to /tmp/perf-<process>.map, where `perf report` looks"),
        Option("strict", False, "raise on a bug in the compiler instead of running the graph in PyTorch"),
    )
}


@dataclasses.dataclass(frozen=True)
class Settings:
    """What one compile goes by: a value for every option, and the mode."""

    values: Mapping[str, Any]
    mode: str = "default"

    def __getattr__(self, name: str) -> Any:
        try:
            return self.values[name]
        except KeyError:
            raise AttributeError(name) from None

    def salt(self) -> str:
        """Text that differs when compiled code may differ."""
        leave_out = {"cache_dir", "cache_limit", "compile_threads", "strict", "cache", "perf_map"}
        return repr(sorted((k, v) for k, v in self.values.items() if k not in leave_out)) + self.mode


def make_settings(
    options: Mapping[str, Any] | None = None, mode: str | None = None, others: Iterable[str] = ()
) -> Settings:
    """Options of a call over variables over defaults; the mode may be among the options. ValueError for names that do not
    exist, with the nearest options and `others`."""
    given = dict(options or {})
    mode = given.pop("mode", None) or mode or "default"
    if mode not in MODES:
        raise ValueError(f"oxyfuel: unknown mode\n  found  {mode!r}{_nearest(mode, MODES)}")
    values = {}
    for option in OPTIONS.values():
        text = os.environ.get(option.variable)
        values[option.name] = option.default if text is None else option.parse(text)
    for name, value in given.items():
        if name not in OPTIONS:
            raise ValueError(f"oxyfuel: unknown option\n  found  {name!r}{_nearest(name, (*OPTIONS, *others))}")
        values[name] = OPTIONS[name].check(value)
    if values["dump"]:
        values["cache"] = False  # what comes from a cache has no stages
    if values["skip"]:
        _check_passes(values["skip"])
    return Settings(values, mode)


def _check_passes(names: Iterable[str]) -> None:
    from oxyfuel import _C  # here, so that options can be listed without the compiled module

    known = _C.pass_names()
    for name in names:
        if name not in known:
            raise ValueError(f"oxyfuel: unknown pass in the option skip\n  found  {name!r}{_nearest(name, known)}")


def _nearest(name: str, known: Any) -> str:
    if name == "options":  # as torch.compile takes them
        return "\n  or     its entries as keywords, such as verify=True"
    near = difflib.get_close_matches(name, list(known), n=3, cutoff=0.4) or list(known)
    return f"\n  or     {', '.join(map(repr, near))}"


def cache_directory(settings: Settings) -> str:
    """Where compiled kernels are kept; empty when they are not."""
    if not settings.cache:
        return ""
    if settings.cache_dir:
        return str(settings.cache_dir)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return str(Path(base) / "oxyfuel")

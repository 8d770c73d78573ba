"""`oxyfuel doctor`: what this machine offers, whether compiled code is right on it, and what would make it faster."""

import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer

import oxyfuel
from oxyfuel.cli.console import ExitCode, Json, output, print_json, progress

Facts = Mapping[str, Any]


def doctor(as_json: Json = False) -> None:
    """Show processor, caches, measured peaks, threads and PyTorch, try the compiler, and say what would be faster."""
    facts: dict[str, Any] = {}
    with progress("doctor") as show:
        show("loading PyTorch")
        facts.update(versions())
        facts.update(threads())
        show("measuring the peaks of this machine")
        facts.update(peaks(facts["torch_threads"]))
        show("compiling and checking a program")
        facts["self_test"] = self_test()
    facts["advice"] = advice(facts)
    if as_json:
        print_json(facts)
    else:
        for name, text in describe(facts):
            output.print(f"{name:<10}{text}", highlight=False, markup=False)
    if facts["self_test"] != "right":
        raise typer.Exit(ExitCode.WRONG.value)


def versions() -> dict[str, Any]:
    import torch

    return {"oxyfuel": oxyfuel.__version__, "torch": torch.__version__, "python": platform.python_version()}


def threads() -> dict[str, Any]:
    """The processor, and how much of it this process may use."""
    import torch

    from oxyfuel import _C, cache
    from oxyfuel.options import make_settings

    usage = cache.size()
    return {
        **_C.machine(),
        "cpu_model": cpu_model(),
        "torch_threads": torch.get_num_threads(),
        "load": os.getloadavg()[0],
        "huge_pages": chosen(read("/sys/kernel/mm/transparent_hugepage/enabled")),
        "governor": read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").strip(),
        "cache_is_on": make_settings().cache,
        "cache_folder": str(cache.directory()),
        "cache_bytes": usage.bytes,
        "cache_files": usage.files,
    }


def peaks(threads: int) -> dict[str, Any]:
    """Gigaflops and gigabytes a second, of one thread and of as many as PyTorch uses."""
    from oxyfuel import roofline

    found: dict[str, Any] = {}
    for name, count in (("one_thread", 1), ("all_threads", threads)):
        roof = roofline.measure(count)
        found[name] = {
            "threads": count,
            "gflops": roof.flops * 1e-9,
            "gbytes": {level: bandwidth * 1e-9 for level, _, bandwidth in roof.bandwidths},
        }
    return {"peaks": found}


def self_test() -> str:
    """Compiles a small program afresh and compares it with eager; `right`, or what went wrong."""
    import torch

    def function(x: Any, w: Any) -> Any:
        return torch.softmax(torch.nn.functional.gelu(x @ w), dim=-1)

    x, w = torch.randn(9, 33), torch.randn(33, 17)
    try:
        compiled = torch.compile(function, backend="oxyfuel", options={"cache": False, "strict": True})
        torch.testing.assert_close(compiled(x, w), function(x, w))
    except Exception as error:
        return f"{type(error).__name__}: {error}".splitlines()[0]
    return "right"


def advice(facts: Facts) -> list[str]:
    """What would make compiled programs faster here; each names the remedy."""
    found = []
    limit, torch_threads, quota = facts["thread_limit"], facts["torch_threads"], facts["cpu_quota"]
    if torch_threads < limit:
        found.append(f"PyTorch uses {torch_threads} of {limit} threads: torch.set_num_threads({limit})")
    if torch_threads > limit:
        found.append(
            f"PyTorch has {torch_threads} threads for {limit} CPUs, and its own operators get in each other's way: "
            f"torch.set_num_threads({limit})"
        )
    if quota and quota < facts["affinity_cpus"]:
        found.append(
            f"the container may use {quota:g} of {facts['affinity_cpus']} CPUs: raise its quota (docker run --cpus)"
        )
    one, every = facts["peaks"]["one_thread"], facts["peaks"]["all_threads"]
    if every["threads"] > 1 and every["gflops"] < 0.75 * every["threads"] * one["gflops"]:
        found.append(
            f"{every['threads']} threads reach {every['gflops'] / max(one['gflops'], 1e-9):.1f} x the peak of one: other "
            f"processes run (load {facts['load']:.1f}), or threads share a core; as many threads as cores are best"
        )
    if facts["vector_bits"] < 256:
        found.append("this processor, or its virtual machine, has no AVX2: any since 2013 is several times as fast")
    if facts["huge_pages"] == "never":
        found.append(
            "huge pages are off, so large weights miss in the TLB: "
            "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"
        )
    if facts["governor"] in ("powersave", "conservative", "ondemand"):
        found.append(f"the CPU's clock follows the load ({facts['governor']}): cpupower frequency-set -g performance")
    if not facts["cache_is_on"]:
        found.append("kernels are compiled afresh in each process: unset OXYFUEL_CACHE")
    if "avx512bf16" in facts["features"] or "amx_bf16" in facts["features"]:
        found.append("bfloat16 multiplies faster than float32 here: model.to(torch.bfloat16), where it is exact enough")
    return found


def describe(facts: Facts) -> list[tuple[str, str]]:
    """Lines of the report: what each is about, and its text."""
    lines = [
        ("oxyfuel", f"{facts['oxyfuel']}, PyTorch {facts['torch']}, Python {facts['python']}"),
        ("processor", f"{facts['cpu_model'] or facts['cpu']}: {facts['features'].replace('+', ', ')}"),
        ("caches", ", ".join(f"{name} {size(facts[key])}" for name, key in CACHES)),
        ("threads", thread_text(facts)),
    ]
    for row in facts["peaks"].values():
        speeds = ", ".join(f"{level} {speed:.0f} GB/s" for level, speed in row["gbytes"].items())
        count = "1 thread" if row["threads"] == 1 else f"{row['threads']} threads"
        lines.append(("peak", f"{count}: {row['gflops']:.0f} GF/s of float32 multiply-adds; read from {speeds}"))
    lines.append(
        ("kernels", f"{facts['cache_files']} in {facts['cache_folder']}, {facts['cache_bytes'] / 1e6:.1f} MB"),
    )
    lines.append(("self-test", facts["self_test"]))
    lines += [("faster", text) for text in facts["advice"]] or [("faster", "nothing that is known here")]
    return lines


CACHES = (("L1", "l1_data_bytes"), ("L2", "l2_bytes"), ("L3", "l3_bytes"))


def thread_text(facts: Facts) -> str:
    quota = f"a quota of {facts['cpu_quota']:g}" if facts["cpu_quota"] else "no quota"
    return f"{facts['torch_threads']} of PyTorch; {facts['affinity_cpus']} CPUs, {quota}, load {facts['load']:.1f}"


def size(count: int) -> str:
    return f"{count >> 20} MiB" if count >= 1 << 20 else f"{count >> 10} KiB"


def cpu_model() -> str:
    for line in read("/proc/cpuinfo").splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return ""


def chosen(text: str) -> str:
    """The word in brackets: "always [madvise] never"."""
    return text.split("[", 1)[1].split("]", 1)[0] if "[" in text else ""


def read(path: str) -> str:
    """Contents of a file of the system; empty where there is none."""
    try:
        return Path(path).read_text()
    except OSError:
        return ""

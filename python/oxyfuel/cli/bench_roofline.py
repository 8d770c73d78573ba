"""Groups that do little for each byte: how near they come to what bounds them.

Two bounds are measured beside each group. `copy`: its operands and results, all beyond the caches, at the speed at which
PyTorch copies such a block. `maths`: its elements at the rate that the same code reaches when everything lies in the second
cache, which is what its instructions take. The longer time is the bound.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F

from oxyfuel import _C
from oxyfuel.cli.bench import Part, Row, Settings, alternate, best_seconds

COLUMNS = 1024


def rotary(x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
    """Rotary embedding of the last axis: the two halves are turned by the angle of the row."""
    half = x.shape[-1] // 2
    turned = torch.cat((-x[..., half:], x[..., :half]), dim=-1)
    return x * cosine + turned * sine


def rms_norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return F.rms_norm(x, (COLUMNS,), weight)


GROUPS: dict[str, tuple[Callable[..., Any], Callable[[int], tuple[torch.Tensor, ...]]]] = {
    "softmax": (lambda x: torch.softmax(x, dim=-1), lambda rows: (torch.randn(rows, COLUMNS),)),
    "layer norm": (
        lambda x, w, b: F.layer_norm(x, (COLUMNS,), w, b),
        lambda rows: (torch.randn(rows, COLUMNS), torch.randn(COLUMNS), torch.randn(COLUMNS)),
    ),
    "rms norm": (rms_norm, lambda rows: (torch.randn(rows, COLUMNS), torch.randn(COLUMNS))),
    "gelu chain": (
        lambda x, y, b: F.gelu(x + b) * y,
        lambda rows: (torch.randn(rows, COLUMNS), torch.randn(rows, COLUMNS), torch.randn(COLUMNS)),
    ),
    "cross entropy": (
        lambda x, target: F.cross_entropy(x, target),
        lambda rows: (torch.randn(rows, COLUMNS), torch.randint(COLUMNS, (rows,))),
    ),
    "rotary embedding": (
        rotary,
        lambda rows: (torch.randn(rows, COLUMNS), torch.randn(rows, COLUMNS), torch.randn(rows, COLUMNS)),
    ),
}


def rows(settings: Settings, tell: Callable[[str], None]) -> Iterator[Row]:
    machine = _C.machine()
    block = 4 * COLUMNS  # bytes of a row
    # Both are multiples of the rows that a task takes, and the small one has work for every thread.
    small = max(int(machine["l2_bytes"]) * settings.threads // block // 4, 32)
    large = max(5 * int(machine["l3_bytes"]) // block, 4 * small)
    names = [name for name in GROUPS if settings.wants(name)]
    if not names:
        return
    tell("copying")
    speed = copy_speed(large, settings)
    for name in names:
        tell(name)
        yield measure(name, small, large, speed, settings)


def copy_speed(count: int, settings: Settings) -> float:
    """Bytes a second, read and written, of copying a block of `count` rows."""
    source = torch.randn(count, COLUMNS)
    target = torch.empty_like(source)
    return 2 * tensor_bytes((source,)) / best_seconds(lambda: target.copy_(source), settings.seconds)


def measure(name: str, small: int, large: int, copying: float, settings: Settings) -> Row:
    function, make = GROUPS[name]
    torch.compiler.reset()
    compiled = torch.compile(function, backend="oxyfuel", fullgraph=True, dynamic=False)
    with torch.no_grad():
        near, far = make(small), make(large)
        size = tensor_bytes(far) + tensor_bytes((compiled(*far),))
        times = alternate(
            {"near": lambda: compiled(*near), "far": lambda: compiled(*far), "eager": lambda: function(*far)},
            settings.seconds,
        )
    bounds = {"copy": size / copying, "maths": times["near"] * large / small}
    which = max(bounds, key=lambda bound: bounds[bound])
    share = bounds[which] / times["far"]
    return {
        "name": name,
        "megabytes": size / 1e6,
        "ms": times["far"] * 1e3,
        "eager_ms": times["eager"] * 1e3,
        "gbytes": size / times["far"] * 1e-9,
        "copy_gbytes": copying * 1e-9,
        "maths_gelements": math.prod((small, COLUMNS)) / times["near"] * 1e-9,
        "bound": which,
        "share": share,
        "met": share >= 0.85,
    }


def tensor_bytes(tensors: tuple[torch.Tensor, ...]) -> float:
    return float(sum(tensor.numel() * tensor.element_size() for tensor in tensors))


PART = Part(
    title="Memory-bound groups, float32, beyond the caches",
    columns=(
        ("group", "name", "{}"),
        ("bound", "bound", "{}"),
        ("MB", "megabytes", "{:.0f}"),
        ("ms", "ms", "{:.2f}"),
        ("eager ms", "eager_ms", "{:.2f}"),
        ("GB/s", "gbytes", "{:.1f}"),
        ("copy GB/s", "copy_gbytes", "{:.1f}"),
        ("maths G/s", "maths_gelements", "{:.2f}"),
        ("of bound", "share", "{:.0%}"),
    ),
    texts=2,
    goal="85 % of the bound",
    rows=rows,
)

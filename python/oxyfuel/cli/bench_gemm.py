"""Contractions of real models: ours beside PyTorch's own (MKL for matrix products, oneDNN for convolutions) and beside oneDNN
with weights that were packed ahead.

Ours is the compiled graph called without TorchDynamo in front; the others are called through PyTorch.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F

from oxyfuel import _C, timing
from oxyfuel.cli.bench import Part, Row, Settings, alternate


@dataclasses.dataclass(frozen=True)
class Product:
    """x[rows, depth] times the transposed weight [columns, depth], as `F.linear` has it."""

    name: str
    rows: int
    columns: int
    depth: int

    @property
    def flops(self) -> float:
        return 2.0 * self.rows * self.columns * self.depth

    @property
    def bytes(self) -> float:
        return 4.0 * (self.rows * self.depth + self.columns * self.depth + self.rows * self.columns)

    @property
    def shape(self) -> str:
        return f"{self.rows} x {self.columns} x {self.depth}"

    def make(self) -> tuple[torch.nn.Module, torch.Tensor]:
        return torch.nn.Linear(self.depth, self.columns, bias=False), torch.randn(self.rows, self.depth)

    def library(self, layer: torch.nn.Module, x: torch.Tensor) -> Callable[[], Any]:
        return functools.partial(F.linear, x, layer.weight)

    def packed(self, layer: torch.nn.Module, x: torch.Tensor) -> Callable[[], Any]:
        weight = torch.ops.mkldnn._reorder_linear_weight(layer.weight, self.rows)
        return lambda: torch.ops.mkldnn._linear_pointwise(x, weight, None, "none", [], "")


@dataclasses.dataclass(frozen=True)
class Convolution:
    """A two-dimensional convolution of `batch` images, in channels-last layout, which is the faster one for all."""

    name: str
    batch: int
    inputs: int
    size: int
    outputs: int
    kernel: int
    stride: int = 1

    @property
    def result_size(self) -> int:
        return (self.size + 2 * (self.kernel // 2) - self.kernel) // self.stride + 1

    @property
    def flops(self) -> float:
        return 2.0 * self.batch * self.outputs * self.result_size**2 * self.inputs * self.kernel**2

    @property
    def bytes(self) -> float:
        image, result = self.inputs * self.size**2, self.outputs * self.result_size**2
        return 4.0 * (self.batch * (image + result) + self.outputs * self.inputs * self.kernel**2)

    @property
    def rows(self) -> int:
        return self.batch * self.result_size**2

    @property
    def shape(self) -> str:
        stride = f"/{self.stride}" if self.stride > 1 else ""
        return f"{self.batch} x {self.inputs} x {self.size}², {self.outputs} x {self.kernel}²{stride}"

    def make(self) -> tuple[torch.nn.Module, torch.Tensor]:
        layer = torch.nn.Conv2d(
            self.inputs, self.outputs, self.kernel, stride=self.stride, padding=self.kernel // 2, bias=False
        ).to(memory_format=torch.channels_last)
        x = torch.randn(self.batch, self.inputs, self.size, self.size)
        return layer, x.contiguous(memory_format=torch.channels_last)

    def library(self, layer: torch.nn.Module, x: torch.Tensor) -> Callable[[], Any]:
        return functools.partial(layer, x)

    def packed(self, layer: torch.nn.Module, x: torch.Tensor) -> Callable[[], Any]:
        padding, stride = [self.kernel // 2] * 2, [self.stride] * 2
        weight = torch.ops.mkldnn._reorder_convolution_weight(layer.weight, padding, stride, [1, 1], 1, list(x.shape))
        convolve = torch.ops.mkldnn._convolution_pointwise
        return lambda: convolve(x, weight, None, padding, stride, [1, 1], 1, "none", [], "")


CASES: tuple[Product | Convolution, ...] = (
    *(Product(f"bert qkv, {rows // 128} x 128 tokens", rows, 768, 768) for rows in (128, 1024, 8192)),
    Product("bert up", 128, 3072, 768),
    Product("bert down", 128, 768, 3072),
    Product("gpt2 qkv", 128, 2304, 768),
    Product("gpt2 vocabulary", 32, 50257, 768),
    Product("llama gate", 128, 5632, 2048),
    Product("llama down", 128, 2048, 5632),
    *(Product(f"llama down, {rows} tokens", rows, 2048, 5632) for rows in (1, 2, 4, 8, 16, 32, 64)),
    Product("decode", 1, 4096, 4096),
    Product("decode vocabulary", 1, 32000, 2048),
    Product("tall", 16384, 64, 256),
    Product("skinny", 256, 16, 4096),
    Product("odd", 127, 333, 1000),
    Product("tails", 65, 129, 257),
    *(
        Convolution(f"resnet, batch {batch}: {name}", batch, *rest)
        for batch in (1, 8)
        for name, *rest in (
            ("first", 3, 224, 64, 7, 2),
            ("3x3 at 56", 64, 56, 64, 3),
            ("3x3 at 28", 128, 28, 128, 3),
            ("3x3 at 14", 256, 14, 256, 3),
            ("3x3 at 7", 512, 7, 512, 3),
            ("1x1 at 56", 64, 56, 256, 1),
            ("1x1 at 14", 1024, 14, 256, 1),
            ("1x1 at 7", 512, 7, 2048, 1),
        )
    ),
)


def rows(settings: Settings, tell: Callable[[str], None]) -> Iterator[Row]:
    for case in CASES:
        if settings.wants(case.name):
            tell(case.name)
            yield measure(case, settings)


def measure(case: Product | Convolution, settings: Settings) -> Row:
    with torch.no_grad():
        layer, x = case.make()
        layer.eval()
        runs = {
            "oxyfuel": compiled_call(layer, x),
            "library": case.library(layer, x),
            "packed": case.packed(layer, x),
        }
        error = (runs["oxyfuel"]()[0] - runs["library"]()).abs().max().item()
        times = alternate(runs, settings.seconds)
        peak = _C.measure_fma_peak(max(_C.machine()["vector_bits"], 256), settings.threads)
        bandwidth = _C.measure_read_bandwidth(int(case.bytes), settings.threads)
    speed = {name: case.flops / seconds * 1e-9 for name, seconds in times.items()}
    best = max(speed["library"], speed["packed"])
    share, read = speed["oxyfuel"] * 1e9 / peak, case.bytes / times["oxyfuel"] / bandwidth
    reaches = share >= 0.9 if case.rows >= 32 else read >= 0.85 if case.rows == 1 else True
    return {
        "name": case.name,
        "shape": case.shape,
        **speed,
        "ratio": speed["oxyfuel"] / best,
        "peak": peak * 1e-9,
        "share": share,
        "bandwidth_share": read,
        "error": error,
        "met": reaches and speed["oxyfuel"] >= 0.97 * best,
    }


def compiled_call(layer: torch.nn.Module, x: torch.Tensor) -> Callable[[], list[torch.Tensor]]:
    """The compiled graph of `layer` by itself, on the arguments that PyTorch would give it."""
    torch.compiler.reset()
    compiled = torch.compile(layer, backend="oxyfuel", fullgraph=True)
    compiled(x)
    graph = timing.live_graphs()[-1]
    execute, seen = graph.executable, []

    def remember(inputs: list[Any]) -> Any:
        seen.extend(inputs)
        return execute(inputs)

    graph.executable = remember
    try:
        compiled(x)
    finally:
        graph.executable = execute
    return lambda: execute(list(seen))


PART = Part(
    title="Contractions, float32",
    columns=(
        ("what", "name", "{}"),
        ("shape", "shape", "{}"),
        ("GF/s", "oxyfuel", "{:.1f}"),
        ("PyTorch", "library", "{:.1f}"),
        ("packed oneDNN", "packed", "{:.1f}"),
        ("to the better", "ratio", "{:.2f} x"),
        ("peak", "peak", "{:.0f}"),
        ("of peak", "share", "{:.0%}"),
        ("of bandwidth", "bandwidth_share", "{:.0%}"),
        ("error", "error", "{:.0e}"),
    ),
    texts=2,
    goal="90 % of the multiply-add peak from 32 rows up, 85 % of the bandwidth for one; never 3 % under the better library",
    rows=rows,
)

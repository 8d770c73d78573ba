"""The most that this machine can do, measured, and how near a kernel comes to it.

The bound of a kernel is the longer of two times: that of its floating-point operations at the fused multiply-add peak, and
that of its operands and results at the speed at which the smallest cache that holds them is read (memory where none does).
"""

import dataclasses
import functools

from oxyfuel import _C


@dataclasses.dataclass(frozen=True)
class Roof:
    """Peaks of a number of threads together."""

    threads: int
    flops: float
    """Float32 operations a second of fused multiply-adds; 0 where the processor has none."""
    bandwidths: tuple[tuple[str, float, float], ...]
    """(name, bytes that it holds, bytes a second that are read from it), nearest first; the last is memory."""

    @property
    def memory_bandwidth(self) -> float:
        return self.bandwidths[-1][2]

    def level(self, size: float) -> tuple[str, float]:
        """Name and bandwidth of the nearest level that holds `size` bytes."""
        for name, capacity, bandwidth in self.bandwidths:
            if size <= capacity:
                return name, bandwidth
        raise AssertionError("memory holds everything")

    def bound(self, flops: float, size: float) -> tuple[float, str]:
        """Least seconds for so many operations and bytes, and what sets them: `compute` or the name of a level."""
        name, bandwidth = self.level(size)
        compute = flops / self.flops if self.flops else 0.0
        transfer = size / bandwidth if bandwidth else 0.0
        return (compute, "compute") if compute >= transfer else (transfer, name)


@functools.cache
def measure(threads: int) -> Roof:
    """Measures once a process; takes about half a second."""
    machine = _C.machine()
    vector_bits = machine["vector_bits"] if machine["vector_bits"] >= 256 else 256
    # L1 counts as L2: kernels walk through their operands once, so nothing is there before.
    l2, l3 = machine["l2_bytes"] * threads, machine["l3_bytes"]
    sizes = [("L2", l2, l2 // 2), ("L3", l3, l2 + (l3 - l2) // 2), ("memory", float("inf"), 4 * l3)]
    levels = [(name, float(holds), size) for name, holds, size in sizes if name != "L3" or l3 > 2 * l2]
    return Roof(
        threads,
        _C.measure_fma_peak(vector_bits, threads),
        tuple((name, holds, _C.measure_read_bandwidth(int(size), threads)) for name, holds, size in levels),
    )

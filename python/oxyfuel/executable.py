"""Connects the native module with this process's PyTorch, before the first executable is made."""

from pathlib import Path

import torch

from oxyfuel import _C

_C.attach(
    torch.Tensor.__dlpack_c_exchange_api__,
    str(Path(torch.__file__).parent / "lib"),
    torch.zeros(3),
    torch.get_num_threads,
)

_C.attach_profiler(torch.autograd.profiler.__dict__, torch._C._profiler._RecordFunctionFast)

Executable = _C.Executable

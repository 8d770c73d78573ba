"""A deep-learning compiler behind PyTorch: ``torch.compile(model, backend="oxyfuel")``."""

from oxyfuel._requirements import check_platform, check_torch

__version__ = "0.1.0"

check_platform()
check_torch()

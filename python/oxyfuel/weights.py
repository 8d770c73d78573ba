"""When prepared weights are out of date.

A program that prepares a weight ahead looks at the weight's storage address, version counter and a few samples at each call.
Fused optimizers write behind the version counter, so a hook on optimizer steps tells the programs; what else goes behind it
(`p.data` in place, numpy and DLPack aliases) samples notice mostly, and `invalidate()` always.
"""

import functools
from typing import Any

from torch.optim.optimizer import register_optimizer_step_post_hook

from oxyfuel import _C


def _after_step(optimizer: Any, arguments: Any, keywords: Any) -> None:
    if any(group.get("fused") for group in optimizer.param_groups):
        _C.bump_epoch()


@functools.cache
def watch_optimizers() -> None:
    """Installs the hook, once a process."""
    register_optimizer_step_post_hook(_after_step)


def invalidate() -> None:
    """Makes every compiled program prepare its weights again at its next call."""
    _C.bump_epoch()

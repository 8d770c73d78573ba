"""What became of a model: as text, as data, and as a page in the file explain.html (or the one that is named).

`oxyfuel explain examples/explain.py` shows the same without the code below `inputs`.
"""

import sys
from pathlib import Path

import torch
from torch import nn

import oxyfuel


class Block(nn.Module):
    """A feed-forward block as in a transformer."""

    def __init__(self, size: int = 64) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(size)
        self.up = nn.Linear(size, 4 * size)
        self.down = nn.Linear(4 * size, size)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


forward = Block().eval().requires_grad_(False)


def inputs():
    return [torch.randn(16, 64)]


if __name__ == "__main__":
    explanation = oxyfuel.explain(forward, *inputs())
    print(explanation)
    for kernel in explanation.kernels:
        print(kernel.name, "fuses", kernel.fused)
    page = Path(sys.argv[1] if len(sys.argv) > 1 else "explain.html")
    page.write_text(explanation.html())
    print("wrote", page)

"""Whether each operator of a model, and of its backward pass, gives what eager gives.

`oxyfuel verify examples/verify.py` does the same.
"""

import torch
from torch import nn

import oxyfuel

forward = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 6 * 6, 5))


def inputs():
    return [torch.randn(4, 3, 8, 8)]


if __name__ == "__main__":
    print(oxyfuel.verify(forward, *inputs()))

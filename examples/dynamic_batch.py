"""One compiled program for all batch sizes."""

import torch
from torch import nn

from oxyfuel.reports import collect

model = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 4)).eval()
compiled = torch.compile(model, backend="oxyfuel", dynamic=True)

with torch.no_grad(), collect() as collected:
    for batch in (2, 7, 33, 128):
        x = torch.randn(batch, 16)
        torch.testing.assert_close(compiled(x), model(x))
print(len(collected.graphs), "graph for 4 batch sizes")

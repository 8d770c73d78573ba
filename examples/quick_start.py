"""A model through Oxyfuel, and the same numbers as eager."""

import torch
from torch import nn

model = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 10)).eval()
x = torch.randn(32, 64)

compiled = torch.compile(model, backend="oxyfuel")
with torch.no_grad():
    torch.testing.assert_close(compiled(x), model(x))
print("the same as eager")

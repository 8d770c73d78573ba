"""Training: the forward and the backward pass are compiled, the optimiser is PyTorch's."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
compiled = torch.compile(model, backend="oxyfuel")

x = torch.rand(256, 2) * 2 - 1
y = (x[:, :1] * x[:, 1:]).sin()
for step in range(301):
    loss = nn.functional.mse_loss(compiled(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 100 == 0:
        print(f"step {step}: loss {loss.item():.4f}")
assert loss.item() < 0.01

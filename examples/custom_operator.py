"""An operator of one's own: it runs in PyTorch as a step of the compiled program, and the graph is not broken by it."""

import torch

import oxyfuel


@torch.library.custom_op("examples::running_median", mutates_args=())
def running_median(x: torch.Tensor, width: int) -> torch.Tensor:
    return x.unfold(-1, width, 1).median(-1).values.contiguous()


@running_median.register_fake
def _(x, width):
    return x.new_empty((*x.shape[:-1], x.shape[-1] - width + 1))


def forward(x):
    smooth = running_median(torch.tanh(x) * 2, 5)
    return smooth - smooth.mean(-1, keepdim=True)


if __name__ == "__main__":
    x = torch.randn(8, 100)
    torch.testing.assert_close(torch.compile(forward, backend="oxyfuel", fullgraph=True)(x), forward(x))
    (graph,) = oxyfuel.explain(forward, x).graphs
    (extern,) = graph.externs
    print(f"{extern.operator} runs in PyTorch: {extern.reason}")
    print("kernels around it:", ", ".join(kernel.name for kernel in graph.kernels))

"""The models of `oxyfuel run`: architectures from `transformers` with random weights, nothing is downloaded."""

import os
from collections.abc import Callable
from typing import Any

import torch

os.environ.setdefault("HF_HUB_OFFLINE", "1")


class Tensors(torch.nn.Module):
    """A Hugging Face model that takes tensors and gives one."""

    def __init__(self, model: torch.nn.Module, result: str) -> None:
        super().__init__()
        self.model = model
        self.result = result

    def forward(self, x: torch.Tensor) -> Any:
        return getattr(self.model(x, return_dict=True), self.result)


def bert() -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    from transformers import BertConfig, BertModel

    return Tensors(BertModel(BertConfig()).eval(), "last_hidden_state"), (torch.randint(0, 30000, (1, 128)),)


def resnet50() -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    from transformers import ResNetConfig, ResNetModel

    return Tensors(ResNetModel(ResNetConfig()).eval(), "last_hidden_state"), (torch.randn(1, 3, 224, 224),)


MODELS: dict[str, tuple[str, Callable[[], Any]]] = {
    "bert": ("BERT-base, 128 tokens", bert),
    "resnet50": ("ResNet-50, 224 x 224", resnet50),
}

"""Small configurations of the kinds of models that Oxyfuel is for, with random weights: minutes of real models in seconds."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

os.environ.setdefault("HF_HUB_OFFLINE", "1")

Made = tuple[nn.Module, tuple[torch.Tensor, ...]]


class Field(nn.Module):
    """A Hugging Face model as a function of tensors that gives one."""

    def __init__(self, model: nn.Module, field: str, **keywords: Any) -> None:
        super().__init__()
        self.model = model.eval()
        self.field = field
        self.keywords = keywords

    def forward(self, *arguments: torch.Tensor) -> Any:
        return getattr(self.model(*arguments, return_dict=True, **self.keywords), self.field)


def mlp() -> Made:
    layers = [layer for _ in range(2) for layer in (nn.Linear(24, 24), nn.GELU(), nn.LayerNorm(24))]
    return nn.Sequential(*layers), (torch.randn(5, 24),)


class Chain(nn.Module):
    """Bound by memory: what fusion is for."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        z = F.gelu(x * torch.sigmoid(y) + 0.5)
        z = (z - z.mean(-1, keepdim=True)) * torch.rsqrt(z.var(-1, keepdim=True) + 1e-5)
        return F.softmax(z + torch.tanh(y), -1)


def pointwise_norm() -> Made:
    return Chain(), (torch.randn(6, 37), torch.randn(6, 37))


class Tagger(nn.Module):
    """A class for each token by an LSTM."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(50, 12), nn.Linear(10, 7)
        self.lstm = nn.LSTM(12, 10, 2, batch_first=True)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.head(self.lstm(self.embed(tokens))[0])
        return result


def lstm() -> Made:
    return Tagger(), (torch.randint(0, 50, (2, 5)),)


def bert() -> Made:
    from transformers import BertConfig, BertModel

    config = BertConfig(vocab_size=60, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24)
    return Field(BertModel(config), "last_hidden_state"), (torch.randint(0, 60, (1, 9)),)


def gpt2() -> Made:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(vocab_size=60, n_positions=32, n_embd=16, n_layer=2, n_head=2)
    return Field(GPT2LMHeadModel(config), "logits", use_cache=False), (torch.randint(0, 60, (1, 9)),)


def llama_prefill() -> Made:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=60,
    )
    return Field(LlamaForCausalLM(config), "logits", use_cache=False), (torch.randint(0, 60, (1, 9)),)


class Layer(nn.Module):
    """Weights of one layer of a decoder."""

    def __init__(self, size: int, inner: int) -> None:
        super().__init__()
        self.before, self.after = nn.RMSNorm(size), nn.RMSNorm(size)
        self.query, self.key, self.value, self.out = (nn.Linear(size, size, bias=False) for _ in range(4))
        self.gate, self.up = nn.Linear(size, inner, bias=False), nn.Linear(size, inner, bias=False)
        self.down = nn.Linear(inner, size, bias=False)


class Decoder(nn.Module):
    """One token against a cache of keys and values, which grows (`place` is None) or is written at a place."""

    def __init__(self, layers: int = 2, size: int = 16, heads: int = 2, inner: int = 24, words: int = 50) -> None:
        super().__init__()
        self.heads = heads
        self.layers = nn.ModuleList(Layer(size, inner) for _ in range(layers))
        self.norm, self.head = nn.RMSNorm(size), nn.Linear(size, words, bias=False)

    def split(self, x: torch.Tensor) -> torch.Tensor:
        return x.view(*x.shape[:2], self.heads, -1).transpose(1, 2)

    def forward(
        self, x: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, place: torch.Tensor | None = None
    ) -> torch.Tensor:
        mask = None if place is None else (torch.arange(keys.shape[3]) <= place).view(1, 1, 1, -1)
        for i, layer in enumerate(self.layers):
            y = layer.before(x)
            key, value = self.split(layer.key(y)), self.split(layer.value(y))
            if place is None:
                key, value = torch.cat([keys[i], key], 2), torch.cat([values[i], value], 2)
            else:
                keys[i].index_copy_(2, place, key)
                values[i].index_copy_(2, place, value)
                key, value = keys[i], values[i]
            y = F.scaled_dot_product_attention(self.split(layer.query(y)), key, value, attn_mask=mask)
            x = x + layer.out(y.transpose(1, 2).reshape(x.shape))
            y = layer.after(x)
            x = x + layer.down(F.silu(layer.gate(y)) * layer.up(y))
        result: torch.Tensor = self.head(self.norm(x))
        return result


def decode() -> Made:
    return Decoder(), (torch.randn(1, 1, 16), torch.randn(2, 1, 2, 13, 8), torch.randn(2, 1, 2, 13, 8))


def decode_static() -> Made:
    model, (x, keys, values) = decode()
    return model, (x, keys, values, torch.tensor([6]))


def vit() -> Made:
    from transformers import ViTConfig, ViTModel

    config = ViTConfig(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24, image_size=16, patch_size=4
    )
    return Field(ViTModel(config), "last_hidden_state"), (torch.randn(1, 3, 16, 16),)


def resnet() -> Made:
    from transformers import ResNetConfig, ResNetModel

    config = ResNetConfig(embedding_size=8, hidden_sizes=[12, 16], depths=[1, 1])
    return Field(ResNetModel(config), "last_hidden_state"), (torch.randn(1, 3, 32, 32),)


def mobilenet_v2() -> Made:
    from transformers import MobileNetV2Config, MobileNetV2Model

    config = MobileNetV2Config(depth_multiplier=0.1, min_depth=4, image_size=32)
    return Field(MobileNetV2Model(config), "last_hidden_state"), (torch.randn(1, 3, 32, 32),)


MODELS: dict[str, Callable[[], Made]] = {
    make.__name__: make
    for make in (
        *(mlp, pointwise_norm, lstm, bert, gpt2, llama_prefill, decode, decode_static, vit, resnet, mobilenet_v2),
    )
}

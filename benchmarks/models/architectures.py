"""The architectures that are measured: classes of `transformers` in small configurations with random weights. Nothing is
downloaded."""

from __future__ import annotations

import copy
import dataclasses
import os
from collections.abc import Callable
from typing import Any

import torch

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

BATCH, TOKENS, WORDS, NEW_TOKENS = 2, 32, 100, 12

Inputs = dict[str, torch.Tensor]


@dataclasses.dataclass
class Subject:
    """A model and what to call it with."""

    model: Any
    inputs: Inputs
    cache: str = ""
    """ "dynamic" or "static": what runs is its `generate`, with that kind of key-value cache."""

    def run(self) -> Any:
        if not self.cache:
            return self.model(**self.inputs)
        result = self.model.generate(
            **self.inputs,
            max_new_tokens=NEW_TOKENS,
            do_sample=False,
            cache_implementation="static" if self.cache == "static" else None,
            return_dict_in_generate=True,
            output_logits=True,
        )
        return result.sequences, torch.stack(result.logits)

    def compiled(self, backend: str) -> Subject:
        """The same with its forward pass compiled. Shares the parameters unless it generates."""
        if not self.cache:
            return dataclasses.replace(self, model=torch.compile(self.model, backend=backend))
        model = copy.deepcopy(self.model)
        model.forward = torch.compile(model.forward, backend=backend)
        return dataclasses.replace(self, model=model)


@dataclasses.dataclass(frozen=True)
class Architecture:
    title: str
    family: str
    model: str
    """The name of a class of `transformers`."""
    settings: dict[str, Any]
    """Of its configuration."""
    inputs: Callable[[], Inputs]
    gradients: bool = False
    """Whether gradients are compared too."""
    cache: str = ""

    def make(self, seed: int = 0) -> Subject:
        import transformers

        torch.manual_seed(seed)
        kind = getattr(transformers, self.model)
        model = kind(kind.config_class(**self.settings)).eval()
        draw_weights(model)
        return Subject(model, self.inputs(), self.cache)


@torch.no_grad()
def draw_weights(model: torch.nn.Module) -> None:
    """Initial weights have zero biases, unit scales and matrices so small that attention is even: errors would not show."""
    for parameter in model.parameters():
        noise = 0.1 * torch.randn_like(parameter)
        parameter.copy_(noise if parameter.ndim > 1 else parameter + noise)
    for name, buffer in model.named_buffers():
        if name.endswith("running_mean"):
            buffer.normal_(std=0.1)
        elif name.endswith("running_var"):
            buffer.uniform_(0.5, 1.5)


def tokens() -> Inputs:
    """The second sequence ends in padding."""
    mask = torch.ones(BATCH, TOKENS, dtype=torch.long)
    mask[1, -4:] = 0
    return {"input_ids": torch.randint(3, WORDS, (BATCH, TOKENS)), "attention_mask": mask}


def prompt() -> Inputs:
    """The second sequence begins with padding."""
    mask = torch.ones(BATCH, TOKENS // 2, dtype=torch.long)
    mask[1, :4] = 0
    return {"input_ids": torch.randint(3, WORDS, mask.shape).masked_fill(mask == 0, 0), "attention_mask": mask}


def unmasked() -> Inputs:
    return {"input_ids": torch.randint(3, WORDS, (BATCH, TOKENS))}


def two_texts() -> Inputs:
    return {**tokens(), "decoder_input_ids": torch.randint(3, WORDS, (BATCH, TOKENS // 2))}


def image(size: int) -> Callable[[], Inputs]:
    return lambda: {"pixel_values": torch.randn(BATCH, 3, size, size)}


def image_and_text() -> Inputs:
    return {**tokens(), **image(32)()}


def image_in_text() -> Inputs:
    """A token for each of 16 patches, then words."""
    ids = torch.randint(3, WORDS - 1, (BATCH, TOKENS))
    ids[:, :16] = WORDS - 1
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), **image(32)()}


def samples() -> Inputs:
    return {"input_values": torch.randn(BATCH, 4000)}


def spectrum() -> Inputs:
    return {"input_features": torch.randn(BATCH, 16, 64), "decoder_input_ids": torch.randint(3, WORDS, (BATCH, 16))}


def patches_of_spectrum() -> Inputs:
    return {"input_values": torch.randn(BATCH, 64, 32)}


BODY = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
TEXT = {**BODY, "vocab_size": WORDS}
DECODER = {**TEXT, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": None, "use_cache": False}
GROUPED = {**DECODER, "num_key_value_heads": 2}
VISION = {**BODY, "image_size": 32, "patch_size": 8}
GPT2 = {"n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": WORDS, "eos_token_id": None, "pad_token_id": 0}
T5 = {
    "d_model": 64,
    "d_kv": 16,
    "d_ff": 128,
    "num_layers": 2,
    "num_heads": 4,
    "vocab_size": WORDS,
    "decoder_start_token_id": 0,
    "eos_token_id": None,
}
TWO_STACKS = {
    "d_model": 64,
    "encoder_layers": 2,
    "encoder_ffn_dim": 128,
    "encoder_attention_heads": 4,
    "decoder_layers": 2,
    "decoder_ffn_dim": 128,
    "decoder_attention_heads": 4,
    "vocab_size": WORDS,
    "use_cache": False,
}
SPEECH = {
    **BODY,
    "vocab_size": 32,
    "conv_dim": [32] * 7,
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 4,
    "apply_spec_augment": False,
}
ROUTED = {**GROUPED, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
PYRAMID = {"hidden_sizes": [16, 32, 48, 64], "depths": [1, 1, 1, 1]}

ENCODERS = [
    Architecture("BERT", "encoder", "BertModel", TEXT, tokens, gradients=True),
    Architecture("RoBERTa", "encoder", "RobertaForMaskedLM", TEXT, tokens),
    Architecture(
        "DistilBERT",
        "encoder",
        "DistilBertModel",
        {"dim": 64, "n_layers": 2, "n_heads": 4, "hidden_dim": 128, "vocab_size": WORDS},
        tokens,
        gradients=True,
    ),
    Architecture("ELECTRA", "encoder", "ElectraModel", {**TEXT, "embedding_size": 32}, tokens),
    Architecture("ALBERT", "encoder", "AlbertModel", {**TEXT, "embedding_size": 32}, tokens, gradients=True),
    Architecture(
        "DeBERTa-v2",
        "encoder",
        "DebertaV2Model",
        {**TEXT, "relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_buckets": 16},
        tokens,
        gradients=True,
    ),
    Architecture(
        "ModernBERT",
        "encoder",
        "ModernBertModel",
        {
            **TEXT,
            "num_hidden_layers": 4,
            "local_attention": 16,
            "pad_token_id": 0,
            "cls_token_id": 1,
            "sep_token_id": 2,
        },
        tokens,
    ),
    Architecture("FNet", "encoder", "FNetModel", {k: v for k, v in TEXT.items() if "heads" not in k}, unmasked),
]

DECODERS = [
    Architecture("GPT-2", "decoder", "GPT2LMHeadModel", {**GPT2, "use_cache": False}, tokens, gradients=True),
    Architecture("GPT-NeoX", "decoder", "GPTNeoXForCausalLM", DECODER, tokens),
    Architecture("OPT", "decoder", "OPTForCausalLM", {**DECODER, "ffn_dim": 128, "word_embed_proj_dim": 64}, tokens),
    Architecture(
        "BLOOM",
        "decoder",
        "BloomForCausalLM",
        {"hidden_size": 64, "n_layer": 2, "n_head": 4, "vocab_size": WORDS, "use_cache": False},
        tokens,
    ),
    Architecture("Falcon", "decoder", "FalconForCausalLM", DECODER, tokens),
    Architecture("Llama", "decoder", "LlamaForCausalLM", GROUPED, tokens, gradients=True),
    Architecture("Mistral", "decoder", "MistralForCausalLM", {**GROUPED, "sliding_window": 16}, tokens),
    Architecture("Qwen2", "decoder", "Qwen2ForCausalLM", GROUPED, tokens),
    Architecture("Qwen3", "decoder", "Qwen3ForCausalLM", {**GROUPED, "head_dim": 16}, tokens),
    Architecture("Gemma", "decoder", "GemmaForCausalLM", {**GROUPED, "head_dim": 16}, tokens, gradients=True),
    Architecture(
        "Gemma 2",
        "decoder",
        "Gemma2ForCausalLM",
        {**GROUPED, "head_dim": 16, "query_pre_attn_scalar": 16, "sliding_window": 16},
        tokens,
    ),
    Architecture("Phi", "decoder", "PhiForCausalLM", DECODER, tokens, gradients=True),
    Architecture("Phi-3", "decoder", "Phi3ForCausalLM", GROUPED, tokens),
]

GENERATE = [
    Architecture("GPT-2, dynamic cache", "generate", "GPT2LMHeadModel", GPT2, prompt, cache="dynamic"),
    Architecture(
        "Llama, dynamic cache", "generate", "LlamaForCausalLM", {**GROUPED, "use_cache": True}, prompt, cache="dynamic"
    ),
    Architecture(
        "Llama, static cache", "generate", "LlamaForCausalLM", {**GROUPED, "use_cache": True}, prompt, cache="static"
    ),
    Architecture(
        "Qwen2, static cache", "generate", "Qwen2ForCausalLM", {**GROUPED, "use_cache": True}, prompt, cache="static"
    ),
    Architecture("T5, dynamic cache", "generate", "T5ForConditionalGeneration", T5, prompt, cache="dynamic"),
]

ENCODER_DECODERS = [
    Architecture(
        "T5", "encoder-decoder", "T5ForConditionalGeneration", {**T5, "use_cache": False}, two_texts, gradients=True
    ),
    Architecture("BART", "encoder-decoder", "BartForConditionalGeneration", TWO_STACKS, two_texts, gradients=True),
]

IMAGES = [
    Architecture("ViT", "vision", "ViTModel", VISION, image(32), gradients=True),
    Architecture("DINOv2", "vision", "Dinov2Model", {**VISION, "mlp_ratio": 2}, image(32)),
    Architecture("ResNet", "vision", "ResNetModel", {**PYRAMID, "embedding_size": 16}, image(64), gradients=True),
    Architecture("ConvNeXt", "vision", "ConvNextModel", PYRAMID, image(64), gradients=True),
    Architecture("MobileNet v2", "vision", "MobileNetV2Model", {"depth_multiplier": 0.25, "image_size": 64}, image(64)),
    Architecture(
        "Swin",
        "vision",
        "SwinModel",
        {"image_size": 32, "patch_size": 2, "embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4], "window_size": 4},
        image(32),
        gradients=True,
    ),
    Architecture(
        "SegFormer",
        "vision",
        "SegformerForSemanticSegmentation",
        {**PYRAMID, "num_attention_heads": [1, 2, 3, 4], "decoder_hidden_size": 32, "num_labels": 5},
        image(64),
        gradients=True,
    ),
]

SOUND = [
    Architecture("Wav2Vec2", "audio", "Wav2Vec2Model", SPEECH, samples, gradients=True),
    Architecture("HuBERT", "audio", "HubertModel", SPEECH, samples),
    Architecture(
        "Whisper",
        "audio",
        "WhisperModel",
        {
            **TWO_STACKS,
            "num_mel_bins": 16,
            "max_source_positions": 32,
            "pad_token_id": 0,
            "bos_token_id": 1,
            "eos_token_id": 2,
            "decoder_start_token_id": 1,
        },
        spectrum,
        gradients=True,
    ),
    Architecture(
        "Audio Spectrogram Transformer",
        "audio",
        "ASTModel",
        {**BODY, "patch_size": 8, "frequency_stride": 8, "time_stride": 8, "max_length": 64, "num_mel_bins": 32},
        patches_of_spectrum,
    ),
]

CLIP = {"text_config": {**TEXT, "eos_token_id": WORDS - 1}, "vision_config": VISION, "projection_dim": 32}
LLAVA = {
    "text_config": {**GROUPED, "model_type": "llama"},
    "vision_config": {**VISION, "model_type": "clip_vision_model"},
    "image_token_index": WORDS - 1,
    "use_cache": False,
}

OTHERS = [
    Architecture("CLIP", "multimodal", "CLIPModel", CLIP, image_and_text, gradients=True),
    Architecture("SigLIP", "multimodal", "SiglipModel", {"text_config": TEXT, "vision_config": VISION}, image_and_text),
    Architecture("LLaVA", "multimodal", "LlavaForConditionalGeneration", LLAVA, image_in_text),
    Architecture("Mamba", "state space", "MambaForCausalLM", {**DECODER, "state_size": 8}, unmasked),
    Architecture(
        "Mamba-2",
        "state space",
        "Mamba2ForCausalLM",
        {**DECODER, "state_size": 16, "num_heads": 8, "head_dim": 16, "n_groups": 2, "chunk_size": 16},
        unmasked,
        gradients=True,
    ),
    Architecture(
        "Mixtral",
        "mixture of experts",
        "MixtralForCausalLM",
        {**ROUTED, "num_local_experts": 4},
        tokens,
        gradients=True,
    ),
    Architecture(
        "Qwen2-MoE",
        "mixture of experts",
        "Qwen2MoeForCausalLM",
        {**ROUTED, "num_experts": 4, "shared_expert_intermediate_size": 64},
        tokens,
    ),
    Architecture(
        "DeepSeek-V3",
        "mixture of experts",
        "DeepseekV3ForCausalLM",
        {
            **ROUTED,
            "num_key_value_heads": 4,
            "n_routed_experts": 4,
            "n_group": 2,
            "topk_group": 1,
            "first_k_dense_replace": 1,
            "kv_lora_rank": 16,
            "q_lora_rank": 32,
            "qk_rope_head_dim": 8,
            "qk_nope_head_dim": 8,
            "v_head_dim": 16,
        },
        tokens,
    ),
    Architecture(
        "gpt-oss",
        "mixture of experts",
        "GptOssForCausalLM",
        {**ROUTED, "head_dim": 16, "num_local_experts": 4, "sliding_window": 16},
        tokens,
    ),
]

ARCHITECTURES = {
    architecture.title: architecture
    for architecture in (*ENCODERS, *DECODERS, *GENERATE, *ENCODER_DECODERS, *IMAGES, *SOUND, *OTHERS)
}

"""What Hugging Face calls the parts of our networks: configurations, parameters and their layout."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ceil_jax.encoders.transformer import ACTIVATIONS, Family, Pooling, TransformerConfig
from ceil_jax.errors import UserError, unknown_name

FAMILIES: dict[str, Family] = {
    "bert": "bert",
    "roberta": "roberta",
    "xlm-roberta": "roberta",
    "camembert": "roberta",
    "mpnet": "mpnet",
}
"""The `model_type` of a config.json -> the network."""

UNUSED = re.compile(r"(pooler|cls|lm_head|classifier)\.|.*\.position_ids$")
"""Tensors of a checkpoint that no vector depends on: the pretraining heads, and BERT's pooler, which neither
pooling here reads. The pooler is written back, because transformers' models have it."""


def network_config(
    config: Mapping[str, Any], file: Path | str, pooling: Pooling, normalize: bool
) -> TransformerConfig:
    """A config.json in our words; `file` is named in errors."""
    kind = config.get("model_type", "")
    if kind not in FAMILIES:
        raise unknown_name("model_type", kind, FAMILIES, f"{file} is not an encoder built here.")
    family = FAMILIES[kind]
    activation = config.get("hidden_act", "gelu")
    if activation not in ACTIVATIONS:
        raise unknown_name("hidden_act", activation, ACTIVATIONS, f"In {file}.")
    if (position := config.get("position_embedding_type") or "absolute") != "absolute" or config.get(
        "is_decoder"
    ):
        raise UserError(
            f"{file}: only encoders with absolute positions are built here, not {position!r} or a decoder"
        )
    pad_id = config.get("pad_token_id")
    try:
        return TransformerConfig(
            family=family,
            vocab_size=config["vocab_size"],
            width=config["hidden_size"],
            layers=config["num_hidden_layers"],
            heads=config["num_attention_heads"],
            hidden=config["intermediate_size"],
            positions=config["max_position_embeddings"],
            token_types=config.get("type_vocab_size", 2),
            pad_id=pad_id if pad_id is not None else (0 if family == "bert" else 1),
            activation=activation,
            norm_epsilon=config.get("layer_norm_eps", 1e-12),
            dropout=config.get("hidden_dropout_prob", 0.1),
            attention_dropout=config.get("attention_probs_dropout_prob", 0.1),
            relative_buckets=config.get("relative_attention_num_buckets", 32),
            pooling=pooling,
            normalize=normalize,
        )
    except KeyError as missing:
        raise UserError(
            f"{file}: field {missing} is missing; is this the config.json of an encoder?"
        ) from None


def hugging_face_name(name: str, family: Family) -> str:
    """`layers.0.up.kernel` -> `encoder.layer.0.intermediate.dense.weight`."""
    stem, _, leaf = name.rpartition(".")
    leaf = "bias" if leaf == "bias" else "weight"
    if block := re.fullmatch(r"layers\.(\d+)\.(.+)", stem):
        return f"encoder.layer.{block[1]}.{(_MPNET_BLOCK if family == 'mpnet' else _BLOCK)[block[2]]}.{leaf}"
    return f"{_OUTSIDE_BLOCKS[stem]}.{leaf}"


_OUTSIDE_BLOCKS = {
    "embeddings.word": "embeddings.word_embeddings",
    "embeddings.position": "embeddings.position_embeddings",
    "embeddings.token_type": "embeddings.token_type_embeddings",
    "embeddings.norm": "embeddings.LayerNorm",
    "relative_position": "encoder.relative_attention_bias",
}
_BLOCK = {
    "attention.query": "attention.self.query",
    "attention.key": "attention.self.key",
    "attention.value": "attention.self.value",
    "attention.output": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "up": "intermediate.dense",
    "down": "output.dense",
    "norm": "output.LayerNorm",
}
_MPNET_BLOCK = _BLOCK | {
    "attention.query": "attention.attn.q",
    "attention.key": "attention.attn.k",
    "attention.value": "attention.attn.v",
    "attention.output": "attention.attn.o",
    "attention_norm": "attention.LayerNorm",
}


def turned(name: str, tensor: np.ndarray) -> np.ndarray:
    """Our layout from a checkpoint's, or the other way: torch keeps a linear layer's weight as [out, in]."""
    return tensor.T if name.endswith(".kernel") else tensor


def base_names(tensors: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Without the prefix of a model with a head, and with today's names for LayerNorm's parameters."""
    prefix = re.compile(r"^(bert|roberta|mpnet)\.")
    old = {".gamma": ".weight", ".beta": ".bias"}
    renamed = {}
    for name, tensor in tensors.items():
        name = prefix.sub("", name)
        for ending, today in old.items():
            if name.endswith("LayerNorm" + ending):
                name = name.removesuffix(ending) + today
        renamed[name] = tensor
    return renamed

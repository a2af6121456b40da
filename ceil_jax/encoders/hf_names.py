"""The names that Hugging Face gives to the settings and parameters of our networks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
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
"""`model_type` of a config.json -> the network."""

UNUSED = re.compile(r"(pooler|cls|lm_head|classifier)\.|.*\.position_ids$")
"""Tensors of a checkpoint that no vector depends on: the pretraining heads, and BERT's pooler, which neither mean
nor cls pooling uses."""

MOST = 2**31 - 1
"""The largest size of a network: positions in its tables are int32."""


def network_config(
    config: Mapping[str, Any], file: Path | str, pooling: Pooling, normalize: bool
) -> TransformerConfig:
    """Translate the content of a config.json into our configuration.

    Args:
        config: the content.
        file: the file, to be named in errors.
        pooling: "mean" or "cls"; a config.json does not say.
        normalize: whether vectors are divided by their length.

    Raises:
        UserError: the network is of a kind that is not built here, or a field is missing or out of its range.
    """
    kind = config.get("model_type", "")
    if not isinstance(kind, str) or kind not in FAMILIES:
        raise unknown_name("model_type", str(kind), FAMILIES, f"{file} is not an encoder built here.")
    family = FAMILIES[kind]
    activation = config.get("hidden_act", "gelu")
    if not isinstance(activation, str) or activation not in ACTIVATIONS:
        raise unknown_name("hidden_act", str(activation), ACTIVATIONS, f"In {file}.")
    position = config.get("position_embedding_type") or "absolute"
    if position != "absolute" or config.get("is_decoder"):
        raise UserError(
            f"{file}: only encoders with absolute positions are built here, not {position!r} or a decoder"
        )
    number, share = partial(whole_number, config, file=file), partial(_share, config, file=file)
    pad_id = number("pad_token_id", least=0, default=0 if family == "bert" else 1)
    network = TransformerConfig(
        family=family,
        vocab_size=number("vocab_size"),
        width=number("hidden_size"),
        layers=number("num_hidden_layers", most=1000),
        heads=number("num_attention_heads"),
        hidden=number("intermediate_size"),
        positions=number("max_position_embeddings", least=3),
        token_types=number("type_vocab_size", default=2),
        pad_id=pad_id,
        activation=activation,
        norm_epsilon=share("layer_norm_eps", 1e-12),
        dropout=share("hidden_dropout_prob", 0.1),
        attention_dropout=share("attention_probs_dropout_prob", 0.1),
        relative_buckets=number("relative_attention_num_buckets", least=4, default=32),
        pooling=pooling,
        normalize=normalize,
    )
    if network.width % network.heads:
        raise UserError(f"{file}: hidden_size {network.width} is no multiple of {network.heads} heads")
    if network.pad_id >= network.vocab_size or network.first_position >= network.positions:
        raise UserError(
            f"{file}: pad_token_id {network.pad_id} is beyond the vocabulary ({network.vocab_size}) "
            f"or the positions ({network.positions})"
        )
    return network


_REQUIRED = -1


def whole_number(
    config: Mapping[str, Any],
    field: str,
    file: Path | str,
    *,
    least: int = 1,
    most: int = MOST,
    default: int = _REQUIRED,
) -> int:
    """Return a field of a configuration that has to be a whole number.

    The range is by default 1 to `MOST`; `default` is the value where the field is missing or null, which otherwise is
    an error.

    Raises:
        UserError: the field is missing, not a whole number, or out of the range.
    """
    value = config.get(field)
    if value is None and default != _REQUIRED:
        return default
    if field not in config:
        raise UserError(f"{file}: field {field!r} is missing; is this the config.json of an encoder?")
    if type(value) is not int or not least <= value <= most:
        raise UserError(
            f"{file}: {field} is {str(value)[:40]}; expected a whole number from {least} to {most}"
        )
    return value


def _share(config: Mapping[str, Any], field: str, default: float, file: Path | str) -> float:
    """A field that has to be a number from 0 to below 1, such as a rate of dropout."""
    value = config.get(field, default)
    if type(value) not in (int, float) or not 0 <= value < 1:
        raise UserError(f"{file}: {field} is {str(value)[:40]}; expected a number from 0 to below 1")
    return value


def hugging_face_name(name: str, family: Family) -> str:
    """Translate a parameter's name: `layers.0.up.kernel` is `encoder.layer.0.intermediate.dense.weight`."""
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
    """Transpose a linear layer's weight, which torch keeps as [out, in] and Flax as [in, out]; `name` is ours."""
    return tensor.T if name.endswith(".kernel") else tensor


def base_names(tensors: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Drop the prefix that models with a head have, and give LayerNorm's parameters their current names."""
    return {_base_name(name): tensor for name, tensor in tensors.items()}


def _base_name(name: str) -> str:
    name = re.sub(r"^(bert|roberta|mpnet)\.", "", name)
    name = re.sub(r"LayerNorm\.gamma$", "LayerNorm.weight", name)
    return re.sub(r"LayerNorm\.beta$", "LayerNorm.bias", name)

"""Hugging Face's names for the settings and parameters of our networks."""

from __future__ import annotations

import re
import reprlib
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
"""`model_type` in config.json → the family of the network."""

_MOST_LAYERS = 48
"""The largest number of layers of a network; the largest of these families have 24."""

UNUSED = re.compile(r"(pooler|cls|lm_head|classifier)\.|.*\.position_ids$")
"""Tensors of a checkpoint that do not affect vectors: the pretraining heads, and BERT's pooler,
which neither mean nor cls pooling uses."""


def network_config(
    config: Mapping[str, Any], file: Path | str, pooling: Pooling, normalize: bool
) -> TransformerConfig:
    """Translate the contents of a config.json into our configuration.

    Args:
        config: the contents of config.json.
        file: the file, for messages.
        pooling: how the vectors of tokens are pooled, which config.json does not say.
        normalize: whether vectors are scaled to unit length, which it does not say either.

    Raises:
        UserError: a field is missing, or the network is of an unsupported kind.
    """

    def number(
        field: str, default: float | None = None, low: int = 1, most: int = 2**31 - 1
    ) -> Any:
        value = config.get(field)
        if value is None and default is None:
            raise UserError(
                f"{file}: field {field!r} is missing; is this the config.json of an encoder?"
            )
        value = default if value is None else value
        # a share or a small number where the default is one
        kind = float if isinstance(default, float) else int
        if isinstance(value, bool) or not isinstance(value, int | kind) or not low <= value <= most:
            raise UserError(
                f"{file}: {field} is {reprlib.repr(value)}; expected a number from {low} to {most:,}"
            )
        return value

    kind = str(config.get("model_type"))
    activation = str(config.get("hidden_act", "gelu"))
    if kind not in FAMILIES:
        raise unknown_name("model_type", kind, FAMILIES, f"{file} is not a supported encoder.")
    if activation not in ACTIVATIONS:
        raise unknown_name("hidden_act", activation, ACTIVATIONS, f"In {file}.")
    position = config.get("position_embedding_type") or "absolute"
    if position != "absolute" or config.get("is_decoder"):
        raise UserError(
            f"{file}: only encoders with absolute positions are supported, not {position!r} or a "
            "decoder"
        )
    family = FAMILIES[kind]
    return TransformerConfig(
        family=family,
        vocab_size=number("vocab_size"),
        width=number("hidden_size"),
        layers=number("num_hidden_layers", most=_MOST_LAYERS),
        heads=number("num_attention_heads"),
        hidden=number("intermediate_size"),
        positions=number("max_position_embeddings"),
        token_types=number("type_vocab_size", 2),
        pad_id=number("pad_token_id", 0 if family == "bert" else 1, low=0),
        activation=activation,
        norm_epsilon=number("layer_norm_eps", 1e-12, low=0, most=1),
        dropout=number("hidden_dropout_prob", 0.1, low=0, most=1),
        attention_dropout=number("attention_probs_dropout_prob", 0.1, low=0, most=1),
        relative_buckets=number("relative_attention_num_buckets", 32, low=4),
        pooling=pooling,
        normalize=normalize,
    )


def hugging_face_name(name: str, family: Family) -> str:
    """Translate our name of a parameter into Hugging Face's.

    `layers.0.up.kernel` is `encoder.layer.0.intermediate.dense.weight`.
    """
    module, _, our_leaf = name.rpartition(".")
    # Flax calls a weight kernel, scale or embedding
    leaf = "bias" if our_leaf == "bias" else "weight"
    in_layer = re.fullmatch(r"layers\.(?P<number>\d+)\.(?P<module>.+)", module)
    if in_layer is None:
        return f"{_OUTSIDE_LAYERS[module]}.{leaf}"
    names = _MPNET_LAYER if family == "mpnet" else _LAYER
    return f"encoder.layer.{in_layer['number']}.{names[in_layer['module']]}.{leaf}"


_OUTSIDE_LAYERS = {
    "embeddings.word": "embeddings.word_embeddings",
    "embeddings.position": "embeddings.position_embeddings",
    "embeddings.token_type": "embeddings.token_type_embeddings",
    "embeddings.norm": "embeddings.LayerNorm",
    "relative_position": "encoder.relative_attention_bias",
}
_LAYER = {
    "attention.query": "attention.self.query",
    "attention.key": "attention.self.key",
    "attention.value": "attention.self.value",
    "attention.output": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "up": "intermediate.dense",
    "down": "output.dense",
    "norm": "output.LayerNorm",
}
_MPNET_LAYER = _LAYER | {
    "attention.query": "attention.attn.q",
    "attention.key": "attention.attn.k",
    "attention.value": "attention.attn.v",
    "attention.output": "attention.attn.o",
    "attention_norm": "attention.LayerNorm",
}


def turned(name: str, tensor: np.ndarray) -> np.ndarray:
    """Return the weight of a linear layer transposed, and other tensors unchanged.

    torch stores it as [out, in], and Flax as [in, out]. `name` is our name.
    """
    return tensor.T if name.endswith(".kernel") else tensor


def base_name(name: str) -> str:
    """Return a parameter's name without its model prefix, with outdated names replaced by current
    ones.

    LayerNorm's parameters had other names in old checkpoints.
    """
    name = re.sub(r"^(bert|roberta|mpnet)\.", "", name)
    return name.replace("LayerNorm.gamma", "LayerNorm.weight").replace(
        "LayerNorm.beta", "LayerNorm.bias"
    )

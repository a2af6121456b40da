"""An encoder that stops after one of its inner layers, to be named on the command line:

PYTHONPATH=experiments ceil-jax compare … --encoder inner_layers:layer_3
"""

from __future__ import annotations

from dataclasses import replace

from flax import nnx

from ceil_jax.encoders.encoder import Encoder
from ceil_jax.encoders.registry import load_encoder
from ceil_jax.encoders.transformer import Transformer
from ceil_jax.errors import UserError


def inner_layer(encoder: Encoder, layer: int) -> Encoder:
    """Return the encoder whose vector is pooled from the tokens of an inner layer, in place of the
    last one. The layers after it are left out: it is smaller, faster, and trains and saves as any
    other.

    Args:
        encoder: one of a Hugging Face family (BERT, RoBERTa, MPNet).
        layer: the layer to stop after, from 1 to the number of layers.

    Raises:
        UserError: the encoder's network is of no such family, or has no such layer.
    """
    checkpoint = encoder.checkpoint
    if checkpoint is None:
        raise UserError(
            f"encoder {encoder.name!r} has no layers that are known here; expected a BERT, RoBERTa "
            "or MPNet of a Hugging Face folder"
        )
    layers = checkpoint.network.layers
    if not 1 <= layer <= layers:
        raise UserError(f"encoder {encoder.name!r} has layers 1 to {layers}; there is no {layer}")
    network = replace(checkpoint.network, layers=layer)
    config = {**checkpoint.config, "num_hidden_layers": layer}
    shortened = Encoder(
        nnx.eval_shape(lambda: Transformer(network, nnx.Rngs(0))),
        encoder.tokenizer,
        max_length=encoder.max_length,
        name=f"{encoder.name}-layer{layer}",
        checkpoint=replace(checkpoint, network=network, config=config),
    )
    return shortened.with_params({name: encoder.params[name] for name in shortened.params})


def layer_3() -> Encoder:
    """Return the third of the six layers of all-MiniLM-L6-v2."""
    return inner_layer(load_encoder("all-MiniLM-L6-v2"), 3)


def layer_5() -> Encoder:
    """Return the fifth of the six layers of all-MiniLM-L6-v2."""
    return inner_layer(load_encoder("all-MiniLM-L6-v2"), 5)

"""Hugging Face and sentence-transformers folders: read into an encoder, and written from one.

Weights are safetensors only; no code that comes with a checkpoint is run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from ceil_jax.encoder import Encoder, fits
from ceil_jax.errors import UserError, unknown_name
from ceil_jax.tokens import PretrainedTokenizer
from ceil_jax.transformer import ACTIVATIONS, Family, Pooling, Transformer, TransformerConfig

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


@dataclass(frozen=True)
class Checkpoint:
    """What a Hugging Face folder holds beside the parameters and the tokenizer."""

    network: TransformerConfig
    config: Mapping[str, Any]
    """config.json as it was read."""
    pooler: Mapping[str, np.ndarray] = field(default_factory=dict, repr=False)


def read_folder(folder: Path, name: str) -> Encoder:
    """The encoder in a Hugging Face or sentence-transformers folder.

    Pooling and normalisation are what `modules.json` says. A plain Hugging Face folder does not say, and gets
    mean pooling and unit vectors.

    Raises:
        UserError: a file missing, cut short or not understood; a network, pooling or module not built here;
            weights that do not fit the configuration, named on both sides.
    """
    modules = _modules(folder)
    inner = folder / modules.get("Transformer", {"path": ""})["path"]
    config = read_json(inner / "config.json")
    pooling = _pooling(folder / modules["Pooling"]["path"] / "config.json") if modules else "mean"
    network = network_config(
        config, inner / "config.json", pooling, normalize=not modules or "Normalize" in modules
    )
    sentence = read_json(inner / "sentence_bert_config.json", missing={})
    prompts = read_json(folder / "config_sentence_transformers.json", missing={})
    prefix = (prompts.get("prompts") or {}).get(prompts.get("default_prompt_name")) or ""
    tokenizer = _tokenizer(inner)
    limits = (
        sentence.get("max_seq_length"),
        tokenizer.model_max_length,
        network.positions - network.first_position,
    )
    tensors = _base_names(read_tensors(inner))
    shapes = nnx.eval_shape(lambda: Transformer(network, nnx.Rngs(0)))
    encoder = Encoder(
        shapes,
        PretrainedTokenizer(tokenizer, prefix, bool(sentence.get("do_lower_case"))),
        max_length=min(limit for limit in limits if limit),
        name=name,
        checkpoint=Checkpoint(
            network, config, {key: tensor for key, tensor in tensors.items() if key.startswith("pooler.")}
        ),
    )
    used = {key: tensor for key, tensor in tensors.items() if not UNUSED.match(key)}
    theirs = {hugging_face_name(key, network.family): key for key in encoder.params}
    fits(
        {
            hf: jax.ShapeDtypeStruct(_turned(ours, encoder.params[ours]), jnp.float32)
            for hf, ours in theirs.items()
        },
        used,
        str(inner),
    )
    return encoder.with_params({ours: _as_param(ours, used[hf]) for hf, ours in theirs.items()})


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


def _turned(name: str, value: Any) -> tuple[int, ...]:
    """The shape in the checkpoint: torch keeps a linear layer's weight as [out, in]."""
    return value.shape[::-1] if name.endswith(".kernel") else value.shape


def _as_param(name: str, tensor: np.ndarray) -> jax.Array:
    return jnp.asarray(tensor.T if name.endswith(".kernel") else tensor, jnp.float32)


def write_folder(encoder: Encoder, folder: Path) -> None:
    """Write the encoder into an empty folder, in the layout that every sentence-transformers reads."""
    from safetensors.numpy import save_file

    checkpoint, tokenizer = encoder.checkpoint, encoder.tokenizer
    assert checkpoint is not None and isinstance(tokenizer, PretrainedTokenizer)
    network = checkpoint.network
    tensors = dict(checkpoint.pooler)
    for name, value in encoder.params.items():
        array = np.asarray(value, np.float32)
        turned = array.T if name.endswith(".kernel") else array
        tensors[hugging_face_name(name, network.family)] = np.ascontiguousarray(turned)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    # what is written is float32, whatever the checkpoint was
    config = {key: value for key, value in checkpoint.config.items() if key not in ("dtype", "torch_dtype")}
    write_json(folder / "config.json", config | {"dtype": "float32"})
    tokenizer.tokenizer.save_pretrained(folder)
    write_json(
        folder / "sentence_bert_config.json",
        {"max_seq_length": encoder.max_length, "do_lower_case": tokenizer.lower_case},
    )
    prompts = {"prompts": {"default": tokenizer.prefix}, "default_prompt_name": "default"}
    write_json(folder / "config_sentence_transformers.json", prompts if tokenizer.prefix else {"prompts": {}})
    modules = [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")]
    write_json(
        folder / "modules.json",
        [
            {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
            for i, (path, kind) in enumerate(modules[: 3 if network.normalize else 2])
        ],
    )
    (folder / "1_Pooling").mkdir()
    write_json(
        folder / "1_Pooling" / "config.json",
        {
            "word_embedding_dimension": network.width,
            "pooling_mode_cls_token": network.pooling == "cls",
            "pooling_mode_mean_tokens": network.pooling == "mean",
            "pooling_mode_max_tokens": False,
            "pooling_mode_mean_sqrt_len_tokens": False,
        },
    )
    if network.normalize:
        (folder / "2_Normalize").mkdir()


def write_json(file: Path, content: Any) -> None:
    file.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def read_json(file: Path, missing: Any = None) -> Any:
    if not file.is_file():
        if missing is not None:
            return missing
        raise UserError(f"{file} is missing; expected a Hugging Face or sentence-transformers folder")
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(f"{file} is not JSON: {error}") from None


def _modules(folder: Path) -> dict[str, dict[str, Any]]:
    """modules.json by class name, whatever version of sentence-transformers wrote it; {} if there is none."""
    file = folder / "modules.json"
    modules = {str(entry["type"]).rpartition(".")[2]: entry for entry in read_json(file, missing=[])}
    for kind in modules:
        if kind not in ("Transformer", "Pooling", "Normalize"):
            raise UserError(
                f"{file}: module {kind!r} is not built here; expected Transformer, Pooling, Normalize"
            )
    if modules and "Pooling" not in modules:
        raise UserError(f"{file}: no Pooling module; expected Transformer, Pooling and possibly Normalize")
    return modules


def _pooling(file: Path) -> Pooling:
    config = read_json(file)
    mode = config.get("pooling_mode")
    modes = (
        [mode]
        if isinstance(mode, str)
        else mode
        or [
            key.removeprefix("pooling_mode_")
            for key, on in config.items()
            if key.startswith("pooling_mode_") and on
        ]
    )
    known: dict[str, Pooling] = {"mean": "mean", "mean_tokens": "mean", "cls": "cls", "cls_token": "cls"}
    if len(modes) != 1 or modes[0] not in known:
        raise UserError(f"{file}: pooling {', '.join(map(str, modes)) or 'none'}; expected mean or cls alone")
    if config.get("include_prompt", True) is False:
        raise UserError(f"{file}: include_prompt is false; only pooling over the whole text is built here")
    return known[modes[0]]


def _tokenizer(folder: Path) -> Any:
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    except (OSError, ValueError) as error:
        raise UserError(f"{folder}: cannot load the tokenizer: {str(error).splitlines()[0]}") from None


def read_tensors(folder: Path) -> dict[str, np.ndarray]:
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    files = sorted(folder.glob("model*.safetensors"))
    if not files:
        other = next((file.name for file in sorted(folder.glob("*.bin"))), None)
        raise UserError(
            f"{folder} holds no model.safetensors"
            + (
                f", only {other}; convert it with transformers: model.save_pretrained(folder)"
                if other
                else ""
            )
        )
    tensors: dict[str, np.ndarray] = {}
    for file in files:
        try:
            tensors |= load_file(file)
        except SafetensorError as error:
            raise UserError(
                f"{file} cannot be read ({error}); the file is truncated: fetch it again"
            ) from None
    return tensors


def _base_names(tensors: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
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

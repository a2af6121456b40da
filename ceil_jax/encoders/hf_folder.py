"""Hugging Face and sentence-transformers folders: read into an encoder, and written from one.

Weights are safetensors only; no code that comes with a checkpoint is run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from flax import nnx

from ceil_jax.encoders.encoder import Encoder, fits
from ceil_jax.encoders.hf_names import UNUSED, base_names, hugging_face_name, network_config, turned
from ceil_jax.encoders.tokenizers import PretrainedTokenizer
from ceil_jax.encoders.transformer import Pooling, Transformer, TransformerConfig
from ceil_jax.errors import UserError


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
    mean pooling and vectors of any length, as sentence-transformers gives it.

    Raises:
        UserError: a file missing, cut short or not understood; a network, pooling or module not built here;
            weights that do not fit the configuration, named on both sides.
    """
    modules = _modules(folder)
    inner = folder / modules.get("Transformer", {"path": ""})["path"]
    config = read_json(inner / "config.json")
    pooling = _pooling(folder / modules["Pooling"]["path"] / "config.json") if modules else "mean"
    network = network_config(config, inner / "config.json", pooling, normalize="Normalize" in modules)
    sentence = read_json(inner / "sentence_bert_config.json", missing={})
    prompts = read_json(folder / "config_sentence_transformers.json", missing={})
    prefix = (prompts.get("prompts") or {}).get(prompts.get("default_prompt_name")) or ""
    tokenizer = _tokenizer(inner, network.vocab_size)
    limits = (
        sentence.get("max_seq_length"),
        tokenizer.model_max_length,
        network.positions - network.first_position,
    )
    tensors = base_names(read_tensors(inner))
    encoder = Encoder(
        nnx.eval_shape(lambda: Transformer(network, nnx.Rngs(0))),
        PretrainedTokenizer(tokenizer, prefix, bool(sentence.get("do_lower_case"))),
        max_length=min(limit for limit in limits if limit),
        name=name,
        checkpoint=Checkpoint(network, config, {k: v for k, v in tensors.items() if k.startswith("pooler.")}),
    )
    ours = {hugging_face_name(name, network.family): name for name in encoder.params}
    used = {
        key: turned(ours.get(key, ""), tensor) for key, tensor in tensors.items() if not UNUSED.match(key)
    }
    fits({key: encoder.params[name] for key, name in ours.items()}, used, str(inner))
    return encoder.with_params({name: jnp.asarray(used[key], jnp.float32) for key, name in ours.items()})


def write_folder(encoder: Encoder, folder: Path) -> None:
    """Write the encoder into an empty folder, in the layout that every sentence-transformers reads."""
    from safetensors.numpy import save_file

    checkpoint, tokenizer = encoder.checkpoint, encoder.tokenizer
    assert checkpoint is not None and isinstance(tokenizer, PretrainedTokenizer)
    network = checkpoint.network
    tensors = dict(checkpoint.pooler)
    for name, value in encoder.params.items():
        array = np.asarray(value, np.float32)
        tensors[hugging_face_name(name, network.family)] = np.ascontiguousarray(turned(name, array))
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


def _tokenizer(folder: Path, vocab_size: int) -> Any:
    from transformers import AutoTokenizer

    files = ("tokenizer.json", "vocab.txt", "vocab.json", "sentencepiece.bpe.model")
    if not any((folder / file).is_file() for file in files):  # transformers would make up an empty vocabulary
        raise UserError(f"{folder} holds no tokenizer; expected one of {', '.join(files)}")
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    except Exception as error:  # what the tokenizers library raises has no narrower class
        said = str(error).strip().splitlines()[:1] or [type(error).__name__]
        raise UserError(f"{folder}: cannot read the tokenizer ({said[0]}); fetch it again") from None
    if len(tokenizer) > vocab_size:
        raise UserError(
            f"{folder}: the tokenizer has {len(tokenizer)} tokens and the network {vocab_size}; "
            "they are not of the same checkpoint"
        )
    return tokenizer


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

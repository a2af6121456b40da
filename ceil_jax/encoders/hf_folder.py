"""Reading an encoder from a Hugging Face or sentence-transformers folder.

Weights must be safetensors, and no code that comes with a checkpoint is run.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import jax.numpy as jnp
from flax import nnx

from ceil_jax.encoders.checkpoint import Checkpoint
from ceil_jax.encoders.encoder import Encoder, check_same_shapes
from ceil_jax.encoders.files import read_config, read_tensors
from ceil_jax.encoders.hf_names import UNUSED, base_name, hugging_face_name, network_config, turned
from ceil_jax.encoders.side_prompts import read_prompts
from ceil_jax.encoders.tokenizers import PretrainedTokenizer
from ceil_jax.encoders.transformer import Pooling, Transformer
from ceil_jax.errors import UserError

_POOLINGS: dict[str, Pooling] = {
    "mean": "mean",
    "mean_tokens": "mean",
    "cls": "cls",
    "cls_token": "cls",
}

_TOKENIZERS = ("BertTokenizer", "RobertaTokenizer", "XLMRobertaTokenizer", "MPNetTokenizer")
"""The tokenizers of the supported networks; `AutoTokenizer` takes the same, but imports torch."""


def read_folder(folder: Path, name: str) -> Encoder:
    """Read an encoder from a Hugging Face or sentence-transformers folder, and give it a name.

    Pooling and normalisation are those of `modules.json`. A plain Hugging Face folder does not have
    this file; it gets mean pooling without normalisation, as in sentence-transformers.

    Raises:
        UserError: a file is missing, damaged or not understood; the network, the pooling or a
            module is of an unsupported kind; the weights do not fit the configuration.
    """
    try:
        return _read(folder, name)
    except (
        AttributeError,
        KeyError,
        TypeError,
        ValueError,
        OverflowError,
        ZeroDivisionError,
    ) as error:
        reason = str(error).partition("\n")[0]
        raise UserError(
            f"{folder} is damaged, or no encoder's ({type(error).__name__}: {reason:.80}); fetch it "
            "again"
        ) from error


def _read(folder: Path, name: str) -> Encoder:
    modules = _modules(folder)
    inner = folder / modules.get("Transformer", "")
    config = read_config(inner / "config.json")
    pooling = _pooling(folder / modules["Pooling"] / "config.json") if modules else "mean"
    network = network_config(
        config, inner / "config.json", pooling, normalize="Normalize" in modules
    )
    # files of sentence-transformers, which a plain Hugging Face folder does not have
    sentence = read_config(inner / "sentence_bert_config.json", missing={})
    sentence_file = folder / "config_sentence_transformers.json"
    prompts = read_prompts(read_config(sentence_file, missing={}), sentence_file)
    tokenizer = _tokenizer(inner, network.vocab_size)
    # the first token of RoBERTa and MPNet has the position after that of padding
    first_position = 0 if network.family == "bert" else network.pad_id + 1
    limits = (
        sentence.get("max_seq_length"),
        tokenizer.model_max_length,
        network.positions - first_position,
    )
    # Hugging Face's name → tensor
    tensors = {base_name(key): tensor for key, tensor in read_tensors(inner).items()}
    # first without weights, to learn the names and shapes of its parameters
    encoder = Encoder(
        nnx.eval_shape(lambda: Transformer(network, nnx.Rngs(0))),
        PretrainedTokenizer(tokenizer, prompts.default, bool(sentence.get("do_lower_case"))),
        max_length=min(limit for limit in limits if limit),
        name=name,
        checkpoint=Checkpoint(
            network,
            config,
            {key: tensor for key, tensor in tensors.items() if key.startswith("pooler.")},
            prompts,
        ),
    )
    # Hugging Face's name → ours
    our_names = {hugging_face_name(name, network.family): name for name in encoder.params}
    used = {
        key: turned(our_names.get(key, ""), tensor)
        for key, tensor in tensors.items()
        if not UNUSED.match(key)
    }
    expected = {key: encoder.params[name] for key, name in our_names.items()}
    check_same_shapes(expected, used, str(inner))
    return encoder.with_params(
        {name: jnp.asarray(used[key], jnp.float32) for key, name in our_names.items()}
    )


def _modules(folder: Path) -> dict[str, str]:
    """Class name → path for each entry of modules.json, of any version; empty if there is no such
    file."""
    file = folder / "modules.json"
    paths: dict[str, str] = {}
    for entry in read_config(file, missing=[]):
        kind = entry["type"].rpartition(".")[2]
        if kind not in ("Transformer", "Pooling", "Normalize"):
            raise UserError(
                f"{file}: module {kind!r} is not built here; expected Transformer, Pooling, "
                "Normalize"
            )
        paths[kind] = entry["path"]
    if paths and "Pooling" not in paths:
        raise UserError(
            f"{file}: no Pooling module; expected Transformer, Pooling and possibly Normalize"
        )
    return paths


def _pooling(file: Path) -> Pooling:
    config = read_config(file)
    prefix = "pooling_mode_"
    mode = config.get("pooling_mode")
    if mode is None:
        mode = [
            key.removeprefix(prefix) for key, on in config.items() if key.startswith(prefix) and on
        ]
    modes = list(map(str, mode)) if isinstance(mode, list) else [str(mode)]
    if len(modes) != 1 or modes[0] not in _POOLINGS:
        raise UserError(f"{file}: pooling {', '.join(modes) or 'none'}; expected mean or cls alone")
    if config.get("include_prompt", True) is False:
        raise UserError(
            f"{file}: include_prompt is false; only pooling over the whole text is built here"
        )
    return _POOLINGS[modes[0]]


def _tokenizer(folder: Path, vocab_size: int) -> Any:
    # otherwise transformers warns that torch is missing, which encoders do not need
    os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")
    import transformers

    files = ("tokenizer.json", "vocab.txt", "vocab.json", "sentencepiece.bpe.model")
    # without one of these, transformers would use an empty vocabulary
    if not any((folder / file).is_file() for file in files):
        raise UserError(f"{folder} holds no tokenizer; expected one of {', '.join(files)}")
    named = read_config(folder / "tokenizer_config.json", missing={}).get("tokenizer_class")
    kind = str(named).removesuffix("Fast")
    try:
        if kind in _TOKENIZERS:
            tokenizer = getattr(transformers, kind).from_pretrained(folder, local_files_only=True)
        else:
            tokenizer = transformers.AutoTokenizer.from_pretrained(
                folder, trust_remote_code=False, local_files_only=True
            )
    except Exception as error:  # the tokenizers library raises Exception itself
        reason = str(error).strip().splitlines()[:1] or [type(error).__name__]
        raise UserError(
            f"{folder}: cannot read the tokenizer ({reason[0]}); fetch it again"
        ) from None
    if tokenizer.pad_token_id is None:
        raise UserError(
            f"{folder}: the tokenizer names no padding token; set pad_token in "
            "tokenizer_config.json"
        )
    if len(tokenizer) > vocab_size:
        raise UserError(
            f"{folder}: the tokenizer has {len(tokenizer)} tokens and the network {vocab_size}; "
            "they are not of the same checkpoint"
        )
    return tokenizer

"""Reading an encoder from a Hugging Face or sentence-transformers folder.

Weights must be safetensors, the tokenizer must be in `tokenizer.json`, and no class is chosen by what
stands in a file: no code that comes with a checkpoint is run.
"""

from __future__ import annotations

import base64
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import jax.numpy as jnp
import numpy as np
from flax import nnx
from pydantic import PositiveFloat, PositiveInt
from tokenizers import Tokenizer as Backend

from ceil_jax.encoders.checkpoint import Checkpoint
from ceil_jax.encoders.encoder import Encoder, check_same_shapes
from ceil_jax.encoders.hf_names import UNUSED, base_name, hugging_face_name, network_config, turned
from ceil_jax.encoders.side_prompts import SavedPrompts, read_prompts
from ceil_jax.encoders.tokenizers import PretrainedTokenizer, failures
from ceil_jax.encoders.transformer import Pooling, Transformer, TransformerConfig
from ceil_jax.errors import UserError
from ceil_jax.store.opened import Files, RelativePath

_POOLINGS: dict[str, Pooling] = {
    "mean": "mean",
    "mean_tokens": "mean",
    "cls": "cls",
    "cls_token": "cls",
}

_MOST_PARAMETERS = 2**30
"""The largest number of parameters of a network: 4 GiB. The largest of these families has half as many."""

_SHORTEST = 3
"""The smallest number of tokens that texts may be cut to: one between the two that open and close a text."""

_MOST_OF_A_WORD = 1000
"""The length of the longest word, in characters, that a tokenizer may have to split into pieces:
the time grows with the cube of it."""

_MOST_PARTS = 2_000
_LONGEST = 200
"""The maximum number of values of a tokenizer besides its vocabulary, and the maximum length of
each in characters."""

_MOST_VOCABULARY = 4_000_000
"""The maximum size of a tokenizer's vocabulary in characters: 250,000 tokens, as in multilingual
models, of 16 characters each. A Unigram model takes hundreds of bytes for each token."""

_LARGE = ("vocab", "merges", "precompiled_charsmap")
_PATTERN = {"String", "Regex"}
_REPEATED = ("Sequence", "Replace", "Split")
"""The kinds of tokenizer parts that may occur several times."""

_LAYER = re.compile(r"encoder\.layer\.(\d+)\.")

_KEPT = re.compile(r"(bos|eos|unk|sep|pad|cls|mask)_token|model_max_length|truncation_side")
"""Pattern of the entries of tokenizer_config.json that are written back."""


@dataclass
class _Module:
    """An entry of modules.json."""

    type: str
    path: RelativePath | Literal[""] = ""


@dataclass
class _Sentence:
    """The entries of sentence_bert_config.json that are used."""

    max_seq_length: PositiveInt | None = None
    do_lower_case: bool | None = False


@dataclass
class _TokenizerConfig:
    """The entries of tokenizer_config.json that are used."""

    model_max_length: PositiveFloat | None = None
    truncation_side: Literal["left", "right"] = "right"


def read_folder(files: Files, name: str) -> Encoder:
    """Read an encoder from a Hugging Face or sentence-transformers folder, and give it a name.

    Pooling and normalisation are those of `modules.json`. A plain Hugging Face folder does not have
    this file; it gets mean pooling without normalisation, as in sentence-transformers.

    Raises:
        UserError: a file is missing, damaged or not understood; the network, the pooling or a
            module is of an unsupported kind; the weights do not fit the configuration.
    """
    try:
        return _read(files, name)
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
            f"{files.path()} is damaged, or is not an encoder ({type(error).__name__}: {reason:.80}); "
            "fetch it again"
        ) from error


def _read(files: Files, name: str) -> Encoder:
    modules = _modules(files)
    inner = files.inside(modules.get("Transformer", ""))
    config = inner.json("config.json", dict[str, Any])
    pooling = _pooling(files.inside(modules["Pooling"])) if modules else "mean"
    network = network_config(
        config, inner.path("config.json"), pooling, normalize="Normalize" in modules
    )
    # files of sentence-transformers, which a plain Hugging Face folder does not have
    sentence = inner.json("sentence_bert_config.json", _Sentence, missing=_Sentence())
    file = "config_sentence_transformers.json"
    saved = files.json(file, SavedPrompts, missing=SavedPrompts())
    prompts = read_prompts(saved, files.path(file))
    limits = inner.json("tokenizer_config.json", _TokenizerConfig, missing=_TokenizerConfig())
    # the first token of RoBERTa and MPNet has the position after that of padding
    first_position = 0 if network.family == "bert" else network.pad_id + 1
    lengths = (
        sentence.max_seq_length,
        limits.model_max_length,
        network.positions - first_position,
    )
    max_length = int(min(length for length in lengths if length is not None))
    if max_length < _SHORTEST:
        raise UserError(
            f"{inner.path('config.json')}: texts of {max_length} tokens; expected 3 or more"
        )
    # Hugging Face's name → tensor; no number of them is read before their shapes are checked
    tensors = {base_name(key): tensor for key, tensor in inner.tensors().items()}
    layers = {match[1] for key in tensors if (match := _LAYER.match(key))}
    if len(layers) != network.layers:  # building more than there are would take long
        raise UserError(
            f"{inner.path()}: a checkpoint of another architecture: weights of {len(layers)} layers "
            f"where config.json says {network.layers}"
        )
    shapes = {"pooler.dense.weight": (network.width,) * 2, "pooler.dense.bias": (network.width,)}
    pooler = {
        key: np.array(tensors[key])
        for key, shape in shapes.items()
        if key in tensors and tensors[key].shape == shape
    }
    # first without weights, to learn the names and shapes of its parameters
    encoder = Encoder(
        nnx.eval_shape(lambda: Transformer(network, nnx.Rngs(0))),
        _tokenizer(inner, network, prompts.default, bool(sentence.do_lower_case)),
        max_length=max_length,
        name=name,
        checkpoint=Checkpoint(network, config, pooler, prompts),
    )
    # Hugging Face's name → ours
    our_names = {hugging_face_name(name, network.family): name for name in encoder.params}
    used = {
        key: turned(our_names.get(key, ""), tensor)
        for key, tensor in tensors.items()
        if not UNUSED.match(key)
    }
    expected = {key: encoder.params[name] for key, name in our_names.items()}
    check_same_shapes(expected, used, str(inner.path()))
    if sum(param.size for param in expected.values()) > _MOST_PARAMETERS:
        raise UserError(f"{inner.path()}: more than {_MOST_PARAMETERS:,} parameters")
    # a copy, because the file may be replaced while the encoder lives
    return encoder.with_params(
        {name: jnp.asarray(np.array(used[key], np.float32)) for key, name in our_names.items()}
    )


def _modules(files: Files) -> dict[str, str]:
    """Return the path of each module in modules.json, by class name, for any version of the file.

    Empty if there is no such file.
    """
    file = files.path("modules.json")
    paths: dict[str, str] = {}
    for entry in files.json("modules.json", list[_Module], missing=[]):
        kind = entry.type.rpartition(".")[2]
        if kind not in ("Transformer", "Pooling", "Normalize"):
            raise UserError(
                f"{file}: module {kind[:40]!r} is not supported; expected Transformer, Pooling, "
                "Normalize"
            )
        paths[kind] = entry.path
    if paths and "Pooling" not in paths:
        raise UserError(
            f"{file}: no Pooling module; expected Transformer, Pooling and possibly Normalize"
        )
    return paths


def _pooling(files: Files) -> Pooling:
    file = files.path("config.json")
    config = files.json("config.json", dict[str, Any])
    prefix = "pooling_mode_"
    mode = config.get("pooling_mode")
    if mode is None:
        mode = [
            key.removeprefix(prefix) for key, on in config.items() if key.startswith(prefix) and on
        ]
    modes = list(map(str, mode)) if isinstance(mode, list) else [str(mode)]
    if len(modes) != 1 or modes[0] not in _POOLINGS:
        found = ", ".join(modes)[:80] or "none"
        raise UserError(f"{file}: pooling {found}; expected mean or cls alone")
    if config.get("include_prompt", True) is False:
        raise UserError(
            f"{file}: include_prompt is false; only pooling over the whole text is supported"
        )
    return _POOLINGS[modes[0]]


def _tokenizer(
    files: Files, network: TransformerConfig, prefix: str, lower_case: bool
) -> PretrainedTokenizer:
    folder = files.path()
    if "tokenizer.json" not in files:
        raise UserError(
            f'{folder} holds no tokenizer.json; transformers writes it: python -c "from '
            f"transformers import AutoTokenizer as T; T.from_pretrained('{folder}')"
            f".save_pretrained('{folder}')\""
        )
    content = files.json("tokenizer.json", dict[str, Any])
    _check_parts(content, folder)
    with failures(f"{folder}: cannot read the tokenizer"):
        backend = Backend.from_buffer(files.read("tokenizer.json"))
        backend.no_padding()
        backend.no_truncation()
        # the vocabulary, and a text with what stands around it
        ids = [*backend.get_vocab(with_added_tokens=True).values(), *backend.encode("a").ids]
    most = max(ids, default=-1)
    if most >= network.vocab_size or network.pad_id >= network.vocab_size:
        raise UserError(
            f"{folder}: the tokenizer has {most + 1} tokens and the network {network.vocab_size}; "
            "they are not of the same checkpoint"
        )
    none: dict[str, Any] = {}
    config = files.json("special_tokens_map.json", dict[str, Any], missing=none)
    config = config | files.json("tokenizer_config.json", dict[str, Any], missing=none)
    kept = {key: value for key, value in config.items() if _KEPT.fullmatch(key)}
    return PretrainedTokenizer(backend, network.pad_id, prefix, lower_case, kept)


def _check_parts(content: dict[str, Any], folder: Path) -> None:
    """Raise a UserError for a tokenizer whose time or memory may grow without bounds.

    With a regular expression of its own, with a replacement longer than what it replaces, that
    splits words of any length, or with more, longer or repeated parts than any tokenizer has.
    """

    def refuse(what: str) -> None:
        raise UserError(f"{folder}: tokenizer.json {what}, which is not supported")

    parts = {key: value for key, value in content.items() if key != "added_tokens"}
    if len([*_values(parts)]) > _MOST_PARTS:
        refuse(f"has more than {_MOST_PARTS:,} values besides its vocabulary")
    if any(isinstance(value, str) and len(value) > _LONGEST for value in _values(content)):
        refuse(f"has a text of more than {_LONGEST} characters besides its vocabulary")
    model = content.get("model")
    vocabulary = (model.get("vocab") if isinstance(model, dict) else None) or ()
    tokens = [entry[0] if isinstance(entry, list) and entry else entry for entry in vocabulary]
    if sum(len(token) for token in tokens if isinstance(token, str)) > _MOST_VOCABULARY:
        refuse(f"has a vocabulary of more than {_MOST_VOCABULARY:,} characters")
    for part in filter(_is_object, _values(content)):
        pattern = part.get("pattern", {"String": ""})
        replaced = pattern.get("String", " ")
        longer = len(part.get("content", "")) > len(replaced) and "pattern" in part
        if pattern.get("Regex", " {2,}") != " {2,}" or longer:
            refuse(f"has the pattern {str(pattern)[:80]}")
        if part.get("max_input_chars_per_word", 0) > _MOST_OF_A_WORD:
            refuse(f"splits words of more than {_MOST_OF_A_WORD:,} characters")
        # the replacements follow the trie and its size, each ended by a zero
        charsmap = base64.b64decode(part.get("precompiled_charsmap") or "")
        trie = int.from_bytes(charsmap[:4], "little")
        if any(len(text) > _LONGEST for text in charsmap[4 + trie :].split(b"\0")):
            refuse(f"replaces a character by more than {_LONGEST} bytes")
    for step in ("normalizer", "pre_tokenizer"):
        # some of them double the length of a text
        objects = filter(_is_object, _values(content.get(step)))
        kinds = Counter(part.get("type") for part in objects if not part.keys() <= _PATTERN)
        twice = [kind for kind, count in kinds.items() if count > 1 and kind not in _REPEATED]
        if twice:
            refuse(f"has a {step} {twice[0]!r:.40} twice")


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _values(value: Any) -> Iterator[Any]:
    """Yield a JSON value and all values nested in it.

    The content of the largest parts of a tokenizer is left out.
    """
    yield value
    if isinstance(value, dict):
        value = [part for key, part in value.items() if key not in _LARGE]
    if isinstance(value, list):
        for part in value:
            yield from _values(part)

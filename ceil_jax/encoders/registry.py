"""Names -> encoders, and encoders -> folders."""

from __future__ import annotations

import importlib
import inspect
import os
import re
import sys
import tempfile
from collections.abc import Callable, Collection
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from ceil_jax.encoders.encoder import Encoder, fits
from ceil_jax.encoders.hf_folder import read_folder, read_json, read_tensors, write_folder, write_json
from ceil_jax.encoders.tokenizers import HashingTokenizer, Tokenizer
from ceil_jax.encoders.transformer import Transformer, TransformerConfig
from ceil_jax.errors import UserError, unknown_name
from ceil_jax.lm.openai.address import is_address
from ceil_jax.lm.openai.config import EndpointConfig
from ceil_jax.tasks.assets import fetch

Factory = Callable[[], Encoder]

FACTORY_FILE = "ceil_jax.json"
"""In the folder of a saved encoder that is not of a Hugging Face family: the name of its factory."""

_MARKS = ("config.json", "modules.json", "sentence_bert_config.json", "config_sentence_transformers.json")
"""In the folder of one that is: what readers of such folders begin with."""


def load_encoder(
    name_or_path: str | os.PathLike[str],
    *,
    dtype: str = "float32",
    endpoint: EndpointConfig | None = None,
    allow_import: Collection[str] = (),
) -> Encoder:
    """The encoder of that name.

    In this order: a registered name ("tiny", "all-MiniLM-L6-v2", "all-mpnet-base-v2" and those added with
    `register_encoder`); a folder, from `save_pretrained`, transformers or sentence-transformers;
    `module:function`, a function of the user's own that returns an Encoder; a Hugging Face hub id; a server's
    model, `http://host:8000/v1#model-name`, which embeds but cannot be trained (`endpoint` says how to ask).
    Pooling and normalisation are the checkpoint's own; a plain Hugging Face folder, which does not say, gets
    mean pooling and vectors of any length. dtype is what it computes in: "float32" or "bfloat16".

    A folder of a user's own network names the function that builds it. That function is imported only if
    `allow_import` holds its module ("my_encoders") or its full name ("my_encoders:build"), and never for what was
    downloaded from the hub; names given to `register_encoder` need no import.

    Raises:
        UserError: none of these, a checkpoint that cannot be read or is of another architecture, or a folder
            whose function may not be imported.
    """
    name = os.fspath(name_or_path)
    if is_address(name):
        from ceil_jax.encoders.endpoint import EndpointEncoder

        return EndpointEncoder(name, endpoint or EndpointConfig())
    folder = Path(name).expanduser()
    if name in _FACTORIES or re.fullmatch(r"[\w.]+:\w+", name):
        encoder = _made_by(name)
    elif folder.is_dir():
        encoder = _from_folder(folder, folder.resolve().name, allow_import)
    elif folder.exists() or len(folder.parts) > 2 or name.startswith((".", "~", os.sep)):
        raise UserError(
            f"{name} is not a folder; expected a saved encoder, a hub id, or one of {sorted(_FACTORIES)}"
        )
    else:
        encoder = _from_folder(_download(name), name)
    return encoder.with_dtype(dtype)


def register_encoder(name: str, factory: Factory) -> None:
    """Make `load_encoder(name)` return `factory()`; a later registration of the same name replaces it."""
    _FACTORIES[name] = factory


def init_encoder(
    config: TransformerConfig, key: jax.Array, tokenizer: Tokenizer | None = None, name: str = "random"
) -> Encoder:
    """An untrained encoder, its weights drawn from the key; by default with a hashing tokenizer."""
    return Encoder(
        Transformer(config, nnx.Rngs(key)),
        tokenizer or HashingTokenizer(config.vocab_size, config.pad_id),
        max_length=config.positions - config.first_position,
        name=name,
    )


def save_encoder(encoder: Encoder, folder: Path) -> None:
    """Write the encoder so that `load_encoder(folder)` brings it back; each file appears whole or not at all.

    A BERT, RoBERTa or MPNet with a Hugging Face tokenizer is written as a sentence-transformers folder. Any
    other network is written as its parameters and the name of its factory.

    Raises:
        UserError: the disk is full or the folder cannot be written; an encoder without a factory's name.
    """
    if encoder.checkpoint is None and encoder.factory is None:
        raise UserError(
            f"encoder {encoder.name!r} cannot be saved: nothing says how to build its network again; "
            "load it by a name given to register_encoder, or as 'module:function'"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".saving-") as scratch:
            writing = Path(scratch)
            if encoder.checkpoint is not None:
                write_folder(encoder, writing)
            else:
                _write_params(encoder, writing)
            for file in sorted(writing.rglob("*")):
                target = folder / file.relative_to(writing)
                if file.is_dir():
                    target.mkdir(exist_ok=True)
                else:
                    os.replace(file, target)
            # what says that another kind of encoder was saved here before
            for name in _MARKS if encoder.checkpoint is None else (FACTORY_FILE,):
                (folder / name).unlink(missing_ok=True)
    except OSError as error:
        raise UserError(
            f"cannot write {folder}: {error.strerror or error}; free space or choose another folder"
        ) from None


def _write_params(encoder: Encoder, folder: Path) -> None:
    from safetensors.numpy import save_file

    params = {name: np.ascontiguousarray(value) for name, value in encoder.params.items()}
    save_file(params, folder / "model.safetensors")
    write_json(folder / FACTORY_FILE, {"factory": encoder.factory})


def _from_folder(folder: Path, name: str, allow_import: Collection[str] = ()) -> Encoder:
    if not any((folder / file).is_file() for file in (FACTORY_FILE, "modules.json", "config.json")):
        # archives are often unpacked into a folder of their own
        inner = [file.parent for file in (*folder.glob("*/modules.json"), *folder.glob("*/config.json"))]
        folder = inner[0] if inner else folder
    if not (folder / FACTORY_FILE).is_file():
        return read_folder(folder, name)
    factory = str(read_json(folder / FACTORY_FILE).get("factory"))
    allow_import = (allow_import,) if isinstance(allow_import, str) else allow_import
    allowed = factory in allow_import or factory.partition(":")[0] in allow_import
    if factory not in _FACTORIES and not allowed:
        raise UserError(
            f"{name} asks to import {factory!r}; look at it, then register it with register_encoder, or, for a "
            f"folder of your own, pass allow_import=({factory.partition(':')[0]!r},)"
        )
    tensors = read_tensors(folder)
    encoder = _made_by(factory).renamed(name, factory)
    fits(encoder.params, tensors, str(folder))
    return encoder.with_params({key: jnp.asarray(tensor) for key, tensor in tensors.items()})


def _made_by(name: str) -> Encoder:
    """What the factory of that registered name, or that `module:function`, returns, marked with the name."""
    factory = _FACTORIES.get(name) or _imported(name)
    try:
        inspect.signature(factory).bind()
    except TypeError as error:
        raise UserError(f"{name}: {error}; the factory of an encoder is called without arguments") from None
    encoder = factory()
    if not isinstance(encoder, Encoder):
        raise UserError(
            f"{name} returned {type(encoder).__name__}; the factory of an encoder returns an Encoder"
        )
    return encoder.renamed(name, factory=name)


def _imported(name: str) -> Factory:
    """The function that `module:function` names; modules in the current folder count too."""
    module_name, _, function = name.partition(":")
    if not function:
        raise unknown_name("encoder", name, _FACTORIES)
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise UserError(
            f"encoder {name!r}: {error}; expected module:function, importable from here"
        ) from None
    found = getattr(module, function, None)
    if found is None:
        raise unknown_name(f"function in {module_name}", function, [n for n in vars(module) if n[0] != "_"])
    if not callable(found) or isinstance(found, type):
        raise UserError(f"{name} is {found!r}; expected a function that returns an Encoder")
    return found


def _download(name: str) -> Path:
    """The folder of a hub id: configuration, tokenizer and safetensors only."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(name, allow_patterns=["*.json", "*.txt", "*.model", "*.safetensors"]))
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        raise unknown_name(
            "encoder",
            name,
            _FACTORIES,
            f"It is not a folder here, and no hub id that can be fetched ({type(error).__name__}).",
        ) from None


def _tiny() -> Encoder:
    """The deterministic test encoder: a seeded BERT of two layers that hashes words."""
    config = TransformerConfig(
        family="bert", vocab_size=4096, width=32, layers=2, heads=2, hidden=64, positions=128
    )
    encoder = init_encoder(config, jax.random.key(0))
    # words outweigh positions, so that texts with the same words are near each other
    word = "embeddings.word.embedding"
    return encoder.with_params({**encoder.params, word: 8 * encoder.params[word]})


_FACTORIES: dict[str, Factory] = {
    "tiny": _tiny,
    **{
        name: lambda name=name: _from_folder(fetch(name), name)  # type: ignore[misc]
        for name in ("all-MiniLM-L6-v2", "all-mpnet-base-v2")
    },
}

"""Loading of encoders by name.

A name is a registered one, a folder, a function of the user, an id on the hub or a server's
address.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import cast

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from ceil_jax.encoders.encoder import FACTORY_FILE, Encoder, check_same_shapes
from ceil_jax.encoders.hf_folder import read_folder
from ceil_jax.encoders.tokenizers import HashingTokenizer
from ceil_jax.encoders.transformer import Transformer, TransformerConfig
from ceil_jax.errors import UserError, unknown_name
from ceil_jax.lm.openai.address import is_address
from ceil_jax.lm.openai.config import EndpointConfig
from ceil_jax.registry import Registry, imported, is_function, made_by, tell_of_folder
from ceil_jax.store.hub import hub_name
from ceil_jax.store.opened import Files
from ceil_jax.store.places import user_path
from ceil_jax.store.weights import no_model
from ceil_jax.tasks.assets import fetch

FREE_FILE = "free.json"
"""The file of a saved head (`training.free.encoder`), next to the encoder whose vectors it takes."""


def load_encoder(
    name_or_path: str | os.PathLike[str], *, endpoint: EndpointConfig | None = None
) -> Encoder:
    """Load an encoder; pooling and normalisation are those of the checkpoint.

    Args:
        name_or_path: the first of these that applies: a registered name ("tiny",
            "all-MiniLM-L6-v2", "all-mpnet-base-v2", or one given to `register_encoder`; a `Path`
            of that name is the folder); `module:function`, a function that returns an `Encoder`; a
            folder written by `save_pretrained`, transformers or sentence-transformers; the id of a
            Hugging Face hub repository; the address of a server's model,
            `http://host:8000/v1#model-name`, which gives a `TextEncoder` that cannot be trained.
        endpoint: settings for a server; by default `EndpointConfig()`.

    Raises:
        UserError: the name is none of these; the folder cannot be read, or its weights are of
            another architecture; or its network is made by a function that has not been registered
            or loaded by name in this process, because folders never import code.
    """
    name = os.fspath(name_or_path)
    if is_address(name):
        from ceil_jax.encoders.endpoint import EndpointEncoder

        # typed as the common case; `require_network` refuses it if a network is needed
        return cast(Encoder, EndpointEncoder(name, endpoint or EndpointConfig()))
    folder = user_path(name)
    is_folder = isinstance(name_or_path, os.PathLike) and folder.is_dir()
    if not is_folder and (name in ENCODERS or is_function(name)):
        tell_of_folder("encoder", name)
        return _made_by(name)
    if (folder / FREE_FILE).is_file():
        raise UserError(
            f"{name} holds a head that was trained on a bank's outputs, on top of an encoder; "
            f"expected an encoder: {folder / 'base'}, or open both with "
            "CeilSelector.from_pretrained"
        )
    if folder.is_dir():
        return _from_folder(folder, hub_name(folder))
    if folder.exists() or len(folder.parts) > 2 or name.startswith((".", "~", os.sep)):
        raise UserError(
            f"{name} is not a folder; expected a saved encoder, a hub id, or one of "
            f"{sorted(ENCODERS)}"
        )
    return _from_folder(_download(name), name)


def register_encoder(name: str, factory: Callable[[], Encoder], *, replace: bool = False) -> None:
    """Register an encoder, so that `load_encoder(name)` returns `factory()`.

    Raises:
        UserError: the name is taken, and `replace` is not set.
    """
    ENCODERS.register(name, factory, replace=replace)


def _from_folder(folder: Path, name: str) -> Encoder:
    marks = (FACTORY_FILE, "modules.json", "config.json")
    if not any((folder / file).is_file() for file in marks):
        # archives are often unpacked into an inner folder
        inner = {file.parent for mark in marks for file in folder.glob(f"*/{mark}")}
        if len(inner) != 1:
            raise no_model(folder, "encoder")
        [folder] = inner
    with Files(folder) as files:
        return read_encoder(files, name)


def read_encoder(files: Files, name: str) -> Encoder:
    """Return the encoder in a folder, with a name.

    A network of another kind than Hugging Face's is made by the function that is registered, or has
    been loaded in this process, under the name in the folder; nothing is imported.

    Raises:
        UserError: a file is damaged or not understood, or nobody has registered the network.
    """
    if FACTORY_FILE not in files:
        return read_folder(files, name)
    factory = files.json(FACTORY_FILE, _Factory).factory
    known = {**_named, **ENCODERS}
    if factory not in known:
        raise UserError(
            f"{name} is made by {factory[:80]!r}, which is not registered: if it is yours, call "
            f"register_encoder({factory[:80]!r}, …) before you load the folder, or give the encoder "
            "itself, encoder=…"
        )
    encoder = made_by(known[factory], "encoder", factory, Encoder).renamed(name, factory)
    tensors = files.tensors()
    check_same_shapes(encoder.params, tensors, str(files.path()))
    # copies, because the file may be replaced while the encoder lives
    return encoder.with_params({key: jnp.asarray(np.array(t)) for key, t in tensors.items()})


@dataclass
class _Factory:
    """The content of FACTORY_FILE."""

    factory: str


def _made_by(name: str) -> Encoder:
    if name in ENCODERS:
        return made_by(ENCODERS[name], "encoder", name, Encoder).renamed(name, factory=name)
    factory = imported("encoder", name, ENCODERS)
    encoder = made_by(factory, "encoder", name, Encoder).renamed(name, factory=name)
    _named[name] = factory
    return encoder


def _download(name: str) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return Path(
            snapshot_download(name, allow_patterns=["*.json", "*.txt", "*.model", "*.safetensors"])
        )
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        hint = f"It is neither a folder nor a hub id that can be fetched ({type(error).__name__})."
        raise unknown_name("encoder", name, ENCODERS, hint) from None


def _packaged(name: str) -> Encoder:
    return _from_folder(fetch(name), name)


def _tiny() -> Encoder:
    """The deterministic test encoder: a seeded two-layer BERT whose tokenizer hashes words."""
    config = TransformerConfig(
        family="bert", vocab_size=4096, width=32, layers=2, heads=2, hidden=64, positions=128
    )
    network = Transformer(config, nnx.Rngs(jax.random.key(0)))
    encoder = Encoder(network, HashingTokenizer(config.vocab_size), max_length=config.positions)
    # words outweigh positions, so that texts with the same words are near each other
    word = "embeddings.word.embedding"
    return encoder.with_params({**encoder.params, word: 8 * encoder.params[word]})


_named: dict[str, Callable[[], Encoder]] = {}
"""The functions `module:function` that have made an encoder in this process, which saved folders
may name."""

ENCODERS: Registry[Callable[[], Encoder]] = Registry("encoder")
ENCODERS.register("tiny", _tiny)
for _name in ("all-MiniLM-L6-v2", "all-mpnet-base-v2"):
    ENCODERS.register(_name, partial(_packaged, _name))

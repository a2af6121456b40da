"""Loading of language models by name.

A name is that of packaged weights, a function of the user, a folder, a hub id or a server.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from ceil_jax.errors import UserError, unknown_name
from ceil_jax.lm.base import LanguageModel
from ceil_jax.lm.openai.address import SERVED, is_address
from ceil_jax.lm.openai.config import EndpointConfig
from ceil_jax.lm.tiny import TinyLM
from ceil_jax.lm.torch.gguf import PACKAGED, converted
from ceil_jax.registry import Registry, imported, is_function, made_by, tell_of_folder
from ceil_jax.store.hashing import POINTER, file_sha256, is_pointer, is_sidecar
from ceil_jax.store.hub import hub_name
from ceil_jax.store.places import user_path
from ceil_jax.store.weights import no_model

LMS: Registry[Callable[[], LanguageModel]] = Registry("language model")
"""The language models that `register_lm` has added, by name."""


def register_lm(name: str, factory: Callable[[], LanguageModel], *, replace: bool = False) -> None:
    """Register a language model, so that `load_lm(name)` and `--lm name` use `factory()`.

    Raises:
        UserError: the name is taken, and `replace` is not set.
    """
    LMS.register(name, factory, replace=replace)


def load_lm(
    spec: str,
    *,
    dtype: str = "auto",
    device_map: str | None = None,
    endpoint: EndpointConfig | None = None,
) -> LanguageModel:
    """Return a language model by its name.

    >>> lm = load_lm("tiny")
    >>> lm.choose(["good film. bad film. good"], [[" film", " day"]]).tolist()
    [0]

    Args:
        spec: a name given to `register_lm`; a packaged name (`SmolLM2-135M-Instruct`,
            `gemma-3-270m`); `tiny`, the deterministic test LM; a folder with
            safetensors and a tokenizer; a hub id `owner/name`; a server and its model,
            `http://host:8000/v1#model-name` (without a name: the only one it serves); or
            `module:function`, a function without arguments that returns a `LanguageModel`.
        dtype: "auto", "float32", "bfloat16" or "float16"; auto is bfloat16 if the device supports
            it. The dtype is part of the LM's name, because results are cached under that.
        device_map: transformers' device_map: a device such as "cpu", or "auto", which spreads a
            large model over several; by default CUDA if there is one.
        endpoint: settings for a server: the variable with the key, retries, the budget; by default
            `EndpointConfig()`.

    Raises:
        UserError: the name or dtype is unknown; a function returns something else; the folder holds
            no such model; torch or openai is not installed; the server cannot be reached or does
            not know the model.
    """
    if spec in LMS:
        return made_by(LMS[spec], "language model", spec, LanguageModel)
    if spec == "tiny":
        tell_of_folder("language model", spec)
        return TinyLM()
    if is_function(spec):
        return made_by(_imported(spec), "language model", spec, LanguageModel)
    if is_address(spec):
        from ceil_jax.lm.openai.model import EndpointLM

        return EndpointLM(spec, endpoint or EndpointConfig())
    source, name = source_of(spec)
    return _torch_loading().load_torch(source, name, dtype, device_map)


def _imported(spec: str) -> Callable[[], LanguageModel]:
    try:
        return imported("language model", spec)
    except UserError as error:
        if f"No module named {spec.partition(':')[0]!r}" not in str(error):
            raise
        raise UserError(f"{error}; {SERVED}") from None


def key_without_weights(spec: str, dtype: str = "auto") -> str | None:
    """Return the key of a local LM without loading its weights.

    None for any other LM, whose key is known only after it is loaded.

    Args:
        spec: as in `load_lm`.
        dtype: as in `load_lm`.

    Raises:
        UserError: the name or dtype is unknown, or torch is not installed.
    """
    if spec in LMS or spec == "tiny" or is_function(spec) or is_address(spec):
        return None
    return _torch_loading().name_with_dtype(source_of(spec)[1], dtype)


def _torch_loading() -> ModuleType:
    try:
        from ceil_jax.lm.torch import loading
    except ModuleNotFoundError as missing:
        raise UserError(f"{missing.name} is not installed; pip install 'ceil-jax[lm]'") from None
    return loading


def source_of(spec: str) -> tuple[str, str]:
    """Return the folder or hub id of a transformers LM, and its name without the dtype.

    A UserError if there is no such LM.
    """
    if spec in PACKAGED:
        tell_of_folder("language model", spec)
        return str(converted(spec)), spec
    folder = user_path(spec)
    if folder.is_dir():
        weights = sorted(folder.glob("*.safetensors"))
        if not weights or not (folder / "config.json").is_file():
            raise no_model(folder, "lm")
        for file in filter(is_pointer, weights):
            raise UserError(f"{file} {POINTER}")
        return str(folder), f"{hub_name(folder)}-{_fingerprint(folder)}"
    if spec.count("/") == 1 and not spec.startswith((".", "/", "~")):
        return spec, spec
    hint = f"A folder, a hub id (owner/name) or module:function is accepted too; {SERVED}"
    raise unknown_name("language model", spec, ["tiny", *PACKAGED], hint)


def _fingerprint(folder: Path) -> str:
    # whole files are hashed, because two checkpoints of one run may differ only in their weights
    files = (
        file
        for kind in ("json", "txt", "model", "safetensors")
        for file in folder.glob(f"*.{kind}")
        if not is_sidecar(file.relative_to(folder))
    )
    lines = sorted(f"{file.name} {file_sha256(file)}\n" for file in files)
    return hashlib.sha256("".join(lines).encode()).hexdigest()[:8]

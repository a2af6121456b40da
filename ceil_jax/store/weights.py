"""Whether a model's folder or repository holds a whole model with safetensors, before its weights
are read or fetched.

Pickles (`pytorch_model.bin`) may run code when they are read, so they are never opened.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal

from ceil_jax.errors import UserError
from ceil_jax.store.hashing import POINTER, is_pointer
from ceil_jax.store.opened import Files

log = logging.getLogger(__name__)

Use = Literal["lm", "encoder"]
"""The use of a model, which is also the flag that names it."""

_CLASSES: dict[Use, str] = {"lm": "AutoModelForCausalLM", "encoder": "AutoModel"}

_PICKLE = re.compile(r"(pytorch_)?model[^/]*\.(bin|pt|pth|ckpt)")

_SECONDS = 10.0
"""Seconds to wait for the list of a repository's files."""

_OTHER = re.compile(r"[^/]*\.(h5|msgpack|gguf|ggml|ot|onnx)")


def check_weights(model: str | Path, use: Use) -> None:
    """Raise a UserError if the weights in a folder or a hub repository are only in other formats, or
    if a folder holds an adapter or pointers of Git LFS; the message says what to do.

    A repository whose files cannot be listed, for example without a network, is accepted.
    """
    if isinstance(model, Path) and model.is_dir():
        _check_adapter(model, use)
        for file in sorted(model.iterdir()):
            if is_pointer(file):
                raise UserError(f"{file} {POINTER}")
    names = _names(model) if isinstance(model, Path) else _listed(model)
    if any(name.endswith(".safetensors") for name in names):
        return
    if pickle := _first(_PICKLE, names):
        kind = _CLASSES[use]
        raise UserError(
            f"{model} has its weights as {pickle} alone, a format that may run code when it is "
            "read; safetensors are read here. Convert it once, if you trust it: python -c "
            f'"from transformers import AutoTokenizer as T, {kind} as M; '
            f"M.from_pretrained('{model}', use_safetensors=False).save_pretrained('converted'); "
            f"T.from_pretrained('{model}').save_pretrained('converted')\"; then --{use} ./converted"
        )
    if weights := _first(_OTHER, names):
        raise UserError(
            f"{model} has its weights as {weights} alone; safetensors are read here: name a "
            "repository or folder of the same model that holds model.safetensors"
        )


def inner_models(folder: Path) -> list[Path]:
    """Return the folders of models in a folder that is none itself, such as that of a trainer's
    checkpoints, in order of their names; a sentence-transformers folder counts as one."""
    marks = (*folder.glob("*/modules.json"), *folder.glob("*/config.json"))
    return sorted({file.parent for file in marks})


def several_models(folder: Path, inner: Sequence[Path]) -> str:
    """Return a message for a folder with these models in it."""
    names = ", ".join(path.name for path in inner[:5]) + (", …" if len(inner) > 5 else "")
    return f"{folder} holds no model, but folders of models ({names}); name one: {inner[-1]}"


def _check_adapter(folder: Path, use: Use) -> None:
    """Raise a UserError for the folder of an adapter, such as LoRA's, which does not contain a
    whole model."""
    file = folder / "adapter_config.json"
    if not file.is_file() or (folder / "config.json").is_file():
        return
    try:
        with Files(folder) as files:
            settings = files.json(file.name, dict[str, Any])
    except UserError:
        settings = {}
    kind = str(settings.get("peft_type") or "PEFT")[:80]
    base = str(settings.get("base_model_name_or_path") or "BASE")[:200]
    raise UserError(
        f"{folder} holds an adapter ({kind}) of the model {base}, not a model; merge it and give the folder "
        f"of the whole: PeftModel.from_pretrained({_CLASSES[use]}.from_pretrained({base!r}), "
        f"{str(folder)!r}).merge_and_unload().save_pretrained('merged'), and the tokenizer beside it"
    )


def _first(form: re.Pattern[str], names: Iterable[str]) -> str | None:
    # files in subfolders of a repository, such as onnx/, are not loaded
    return next((name for name in sorted(names) if form.fullmatch(name)), None)


def _names(folder: Path) -> list[str]:
    return [file.name for file in folder.iterdir()] if folder.is_dir() else []


@cache
def _listed(repository: str) -> list[str]:
    """The names of the files of a hub repository; empty if they cannot be listed."""
    from huggingface_hub import model_info

    try:
        return [file.rfilename for file in model_info(repository, timeout=_SECONDS).siblings or []]
    except Exception as error:  # any error of the hub or the network
        log.debug("the files of %s cannot be listed: %s", repository, error)
        return []

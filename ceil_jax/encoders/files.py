"""JSON and safetensors files of a model's folder, and a folder whose files are each written whole or not at all."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from ceil_jax.errors import UserError
from ceil_jax.store.locking import disk_errors

HF_MARKERS = ("config.json", "modules.json", "sentence_bert_config.json", "config_sentence_transformers.json")
"""Marker files of a transformers or sentence-transformers folder."""


def read_config(file: Path, missing: Any = None) -> Any:
    """Return the JSON object of a file, or `missing` where there is no such file; it also says the expected type.

    Raises:
        UserError: there is no file and no `missing`, or the file is not JSON or holds something else.
    """
    if not file.is_file():
        if missing is not None:
            return missing
        raise UserError(f"{file} is missing; expected a Hugging Face or sentence-transformers folder")
    try:
        content = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{file} is not JSON: {error}") from None
    expected = dict if missing is None else type(missing)
    if not isinstance(content, expected):
        raise UserError(f"{file} holds {json.dumps(content)[:40]}; expected a {expected.__name__}")
    return content


def read_tensors(folder: Path) -> dict[str, np.ndarray]:
    """Return the arrays of all `model*.safetensors` files of a folder, by name. Pickles are never opened.

    Raises:
        UserError: there is no such file, or one cannot be read.
    """
    from safetensors.numpy import load_file

    files = sorted(folder.glob("model*.safetensors"))
    if not files:
        other = next((file.name for file in sorted(folder.glob("*.bin"))), None)
        remedy = f", only {other}; convert it with transformers: model.save_pretrained(folder)"
        raise UserError(f"{folder} holds no model.safetensors{remedy if other else ''}")
    tensors: dict[str, np.ndarray] = {}
    for file in files:
        try:
            tensors |= load_file(file)
        except Exception as error:  # SafetensorError is one itself, and quantised types raise others
            raise UserError(
                f"{file} cannot be read ({error}); fetch the checkpoint again, one that is not quantised"
            ) from None
    return tensors


def replace_files(folder: Path, write: Callable[[Path], None], obsolete: Iterable[str]) -> None:
    """Write files beside `folder`'s own and move each into its place, so that each appears whole or not at all.

    Args:
        folder: it is made if there is none.
        write: called once with an empty folder, which it fills.
        obsolete: names of files of `folder` to remove afterwards.

    Raises:
        UserError: the disk is full, or the folder cannot be written.
    """
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".saving-") as scratch:
            write(Path(scratch))
            for file in sorted(Path(scratch).rglob("*")):
                target = folder / file.relative_to(scratch)
                if file.is_dir():
                    target.mkdir(exist_ok=True)
                else:
                    os.replace(file, target)
            for name in obsolete:
                (folder / name).unlink(missing_ok=True)

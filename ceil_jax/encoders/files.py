"""JSON and safetensors files, checked as they are read; a folder whose files are each written whole or not at all."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import jax
import numpy as np

from ceil_jax.errors import UserError

READABLE = ("F64", "F32", "F16", "BF16", "I64", "I32", "I16", "I8", "U8", "BOOL")
"""Tensor types, by their safetensors names, that numpy can hold; quantised weights have others."""

MARKERS = ("config.json", "modules.json", "sentence_bert_config.json", "config_sentence_transformers.json")
"""Marker files of a transformers or sentence-transformers folder."""

_Kind = TypeVar("_Kind", dict, list)


def write_json(file: Path, content: Any) -> None:
    """Write `content` as indented JSON."""
    file.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def read_json(file: Path, missing: _Kind | None = None, kind: type[_Kind] = dict) -> _Kind:  # type: ignore[assignment]
    """Read a JSON file whose outermost value is an object or a list.

    Args:
        file: the file.
        missing: what to return when there is no such file; by default that is an error.
        kind: `dict` for an object, which is the default, or `list`.

    Raises:
        UserError: the file is missing, cannot be read, is not JSON, or holds a value of another kind.
    """
    if not file.is_file():
        if missing is not None:
            return missing
        raise UserError(f"{file} is missing; expected a Hugging Face or sentence-transformers folder")
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise UserError(f"{file} is not JSON: {error}") from None
    except OSError as error:
        raise UserError(f"cannot read {file}: {error.strerror or error}") from None
    if not isinstance(content, kind):
        expected = {dict: "an object", list: "a list"}[kind]
        raise UserError(f"{file} holds {json.dumps(content)[:40]}; expected {expected}")
    return content


def read_tensors(folder: Path) -> dict[str, np.ndarray]:
    """Read the arrays of all `model*.safetensors` files of a folder, by name. Pickles are never opened.

    Raises:
        UserError: there is no such file, one cannot be read, or its tensors are quantised.
    """
    from safetensors import SafetensorError, safe_open

    files = sorted(file for file in folder.glob("model*.safetensors") if file.is_file())
    if not files:
        other = next((file.name for file in sorted(folder.glob("*.bin"))), None)
        remedy = f", only {other}; convert it with transformers: model.save_pretrained(folder)"
        raise UserError(f"{folder} holds no model.safetensors{remedy if other else ''}")
    tensors: dict[str, np.ndarray] = {}
    for file in files:
        try:
            with safe_open(file, framework="numpy") as opened:
                for name in opened.keys():  # noqa: SIM118  it is not a mapping
                    dtype = opened.get_slice(name).get_dtype()
                    if dtype not in READABLE:
                        raise UserError(
                            f"{file}: tensor {name} is of type {dtype}; expected float32, float16 or bfloat16: "
                            "fetch a checkpoint that is not quantised"
                        )
                    tensors[name] = opened.get_tensor(name)
        except (SafetensorError, OSError) as error:
            raise UserError(
                f"{file} cannot be read ({error}); the file is truncated: fetch it again"
            ) from None
    return tensors


def write_tensors(file: Path, tensors: Mapping[str, np.ndarray | jax.Array]) -> None:
    """Write arrays as a safetensors file that transformers reads too."""
    from safetensors.numpy import save_file

    arrays = {name: np.ascontiguousarray(value) for name, value in tensors.items()}
    save_file(arrays, file, metadata={"format": "pt"})


def replace_files(folder: Path, write: Callable[[Path], None], obsolete: Iterable[str]) -> None:
    """Write files beside `folder`'s own and move each into its place, so that each appears whole or not at all.

    Args:
        folder: the folder to write to; it is made if there is none.
        write: called once with an empty folder, which it fills.
        obsolete: names of files of `folder` to remove afterwards.

    Raises:
        UserError: the disk is full, or the folder cannot be written.
    """
    try:
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
    except OSError as error:
        raise UserError(
            f"cannot write {folder}: {error.strerror or error}; free space or choose another folder"
        ) from None

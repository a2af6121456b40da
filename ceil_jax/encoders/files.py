"""Reading and checking the JSON and safetensors files of a model's folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from ceil_jax.errors import UserError
from ceil_jax.store.weights import check_weights


def read_config(file: Path, missing: Any = None) -> Any:
    """Return the JSON value in a file, or `missing` if there is no such file. The value must have
    the type of `missing`, or be an object if that is None."""
    if not file.is_file():
        if missing is not None:
            return missing
        raise UserError(
            f"{file} is missing; expected a Hugging Face or sentence-transformers folder"
        )
    try:
        content = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{file} is not JSON: {error}") from None
    expected = dict if missing is None else type(missing)
    if not isinstance(content, expected):
        raise UserError(f"{file} holds {json.dumps(content)[:40]}; expected a {expected.__name__}")
    return content


def read_tensors(folder: Path) -> dict[str, np.ndarray]:
    """Return the arrays in all `model*.safetensors` files of a folder, by name. Pickles are never
    opened."""
    from safetensors.numpy import load_file

    files = sorted(folder.glob("model*.safetensors"))
    if not files:
        check_weights(folder, "encoder")
        raise UserError(f"{folder} holds no model.safetensors")
    tensors: dict[str, np.ndarray] = {}
    for file in files:
        try:
            tensors |= load_file(file)
        # SafetensorError is a direct subclass of it, and quantised types raise others
        except Exception as error:
            raise UserError(
                f"{file} cannot be read ({error}); fetch the checkpoint again, one that is not "
                "quantised"
            ) from None
    return tensors

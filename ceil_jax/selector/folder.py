"""Saving a selector to a folder, loading it, and fetching a saved one from the Hugging Face hub.

Without pickles or code.

```
selector.json   settings, and the sha256 of every file of the save
content-3/      examples.jsonl, vectors.npy, encoder/, and query_encoder/ where queries have one of
                their own; an encoder's folder is as `load_encoder` takes it
README.md       the model card; not read
```
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from pydantic import with_config

from ceil_jax.errors import UserError
from ceil_jax.selector.bank import Bank, Snapshot
from ceil_jax.selector.card import Card, model_card
from ceil_jax.selector.rows import as_examples
from ceil_jax.selector.saved import (
    Manifest,
    load_content,
    name_of,
    read_encoders,
    save_content,
)
from ceil_jax.selector.settings import Settings
from ceil_jax.store.locking import write
from ceil_jax.store.opened import AGAIN, STRICT, Files, checked, matrix_header
from ceil_jax.tasks.example import Example, Template
from ceil_jax.tasks.rows import Columns

MANIFEST = "selector.json"
EXAMPLES = "examples.jsonl"
VECTORS = "vectors.npy"
CARD = "README.md"

_NOT_SAVED = "count_tokens"
"""The setting that is not saved, because it is a function."""

_UNIT = 1e-3
"""The largest difference between a vector's length and 1."""

_ROWS_AT_ONCE = 65_536

for _kind in (Example, Template, Card, Settings):
    with_config(STRICT)(_kind)


def save_selector(
    folder: Path,
    bank: Snapshot,
    next_id: int,
    encoders: Mapping[str, Any],
    settings: Mapping[str, Any],
) -> None:
    """Write a selector into a folder; a selector in it is replaced.

    A loaded selector whose vectors are memory-mapped from the folder keeps the old ones.

    Args:
        folder: the folder to write; created if needed.
        bank: the examples and their vectors.
        next_id: the number for the next example without an id.
        encoders: the encoders by name: "encoder", and "query_encoder" if queries have their own.
        settings: the selector's settings, by name; `count_tokens` is not saved.

    Raises:
        UserError: the folder holds other files than a selector's, or the disk is full.
    """
    saved = {name: value for name, value in settings.items() if name != _NOT_SAVED}

    def fill(content: Path) -> None:
        vectors = np.ascontiguousarray(bank.live_vectors, np.float32)
        # not np.save, which says less clearly that the disk is full
        with (content / VECTORS).open("wb") as out:
            out.write(matrix_header(*vectors.shape))
            out.write(vectors.data)
        with (content / EXAMPLES).open("w", encoding="utf-8") as file:
            for example in bank:
                row = {**vars(example), "fields": dict(example.fields)}
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
        card = model_card(
            settings["card"],
            [example.output for example in bank],
            name_of(encoders["encoder"]),
            vectors.shape[1],
            settings["trade_off"],
        )
        write(folder / CARD, card.encode())

    save_content(folder, MANIFEST, fill, encoders, saved, next_id)


class Saved(NamedTuple):
    """The parts of a saved selector."""

    bank: Bank
    encoders: dict[str, Any]
    """The encoders by name: "encoder", and possibly "query_encoder"."""
    settings: dict[str, Any]


def load_selector(folder: Path, given: Mapping[str, Any]) -> Saved:
    """Load and check a selector that `save_selector` wrote.

    Args:
        folder: the folder.
        given: encoders by name, in place of those of the folder. For a folder that holds a head
            without the encoder below it, they are that encoder.

    Raises:
        UserError: the folder is none, or is damaged; or an encoder has to be given.
    """
    return load_content(folder, MANIFEST, partial(_loaded, given=given))


def _loaded(manifest: Manifest, files: Files, given: Mapping[str, Any]) -> Saved:
    text = json.dumps(manifest.settings).encode()
    settings = vars(checked(text, Settings, f"{files.folder / MANIFEST}, settings"))
    settings = {name: value for name, value in settings.items() if name in manifest.settings}
    Settings(**settings)  # refuses values out of their ranges
    examples = read_examples(files)
    encoders = read_encoders(manifest, files, given)
    vectors = read_vectors(files, len(examples), encoders)
    return Saved(Bank(examples, vectors, manifest.next_id), encoders, settings)


def read_examples(files: Files) -> list[Example]:
    """Return the examples of a save.

    Raises:
        UserError: a line is not an example with the types of `Example`, or two have the same id.
    """
    file = str(files.path(EXAMPLES))
    rows = [
        checked(line, Example, f"{file}, line {number}")
        for number, line in enumerate(files.lines(EXAMPLES), 1)
    ]
    examples = as_examples(rows, Columns(), file, "line")
    counts = Counter(example.id for example in examples)
    for number, example in enumerate(examples, 1):
        if counts[example.id] > 1 or not example.id:
            what = f"{example.id!r:.80}, which {counts[example.id]} examples have"
            expected = "an id that no other example has"
            raise UserError(f"{file}, line {number}, 'id': expected {expected}, found {what}")
    return examples


def read_vectors(
    files: Files, examples: int, encoders: Mapping[str, Any]
) -> Float[np.ndarray, "n d"]:
    """Return the vectors of a saved bank, float32 [N, D], memory-mapped unless the bank is empty.

    Args:
        files: the files of the save.
        examples: N, the number of examples.
        encoders: the encoders by name. D must equal the `dim` of those that have one.

    Raises:
        UserError: the number, length or type of the vectors is wrong, or they are not unit vectors.
    """
    file = files.path(VECTORS)
    vectors = files.matrix(VECTORS, examples)
    if not examples:
        return vectors
    for name, encoder in encoders.items():
        dim = getattr(encoder, "dim", None)
        if dim is not None and dim != vectors.shape[1]:
            raise UserError(
                f"{file}: vectors of {vectors.shape[1]} numbers, and those of the {name} have {dim}; "
                f"{AGAIN}"
            )
    all_zero = True
    for start in range(0, examples, _ROWS_AT_ONCE):
        with np.errstate(all="ignore"):
            lengths = np.linalg.norm(vectors[start : start + _ROWS_AT_ONCE], axis=1)
        # an encoder may give a vector of zeros for a text without known words
        wrong = ~((np.abs(lengths - 1) <= _UNIT) | (lengths == 0))
        if wrong.any():
            row = int(np.argmax(wrong))
            raise UserError(
                f"{file}, vector {start + row + 1}: expected unit length, found "
                f"{lengths[row]:g}; {AGAIN}"
            )
        all_zero = all_zero and not lengths.any()
    if all_zero:
        raise UserError(f"{file}: all vectors are zero; {AGAIN}")
    return np.asarray(vectors)


def download(name: str) -> Path:
    """Return the folder of a hub id, which is fetched if needed. No code is fetched."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    try:
        return Path(snapshot_download(name, allow_patterns=[MANIFEST, "content-*"]))
    except (HfHubHTTPError, HFValidationError, OSError) as error:
        raise UserError(
            f"{name!r} is neither a folder nor a hub id that can be fetched "
            f"({type(error).__name__})"
        ) from None

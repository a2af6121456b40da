"""Saving a selector as a folder, loading it, and fetching one from the Hugging Face hub; without
pickles or code.

```
selector.json   settings, and the sha256 of every file of the save; replaced last
content-3/      examples.jsonl, vectors.npy, encoder/, and query_encoder/ where queries have one of
                their own; an encoder's folder is as `load_encoder` takes it
README.md       the model card; not read
```

A save writes a new `content-N`, then replaces `selector.json` in one step, then removes the old
content. If it is killed at any moment, the folder holds either the old selector or the new one,
complete.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from ceil_jax.errors import UserError
from ceil_jax.selector.bank import Bank, Snapshot
from ceil_jax.selector.card import model_card
from ceil_jax.selector.saved import (
    CONTENT,
    EXAMPLES,
    FORMAT,
    MANIFEST,
    VECTORS,
    check_files,
    read_examples,
    read_manifest,
    read_vectors,
)
from ceil_jax.store.hashing import file_hashes
from ceil_jax.store.locking import disk_errors, held, write

CARD = "README.md"
LOCK = ".lock"


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
        UserError: an encoder cannot be saved, the folder holds other files than a selector's, or
            the disk is full.
    """
    for name, encoder in encoders.items():
        if not (hasattr(encoder, "save_pretrained") and hasattr(encoder, "name")):
            raise UserError(
                f"{name} is a {type(encoder).__name__}, which does not say how to save it; give "
                "one that load_encoder loads from a folder, a name or the hub"
            )
    check_target(folder)
    with held(folder, LOCK), disk_errors(folder):
        before = [path for path in folder.iterdir() if CONTENT.fullmatch(path.name)]
        numbers = [int(path.name.removeprefix("content-")) for path in before]
        content = folder / f"content-{1 + max(numbers, default=0)}"
        content.mkdir()
        try:
            np.save(content / VECTORS, bank.live_vectors)
            with (content / EXAMPLES).open("w", encoding="utf-8") as file:
                for example in bank:
                    row = {**vars(example), "fields": dict(example.fields)}
                    file.write(json.dumps(row, ensure_ascii=False) + "\n")
            for name, encoder in encoders.items():
                encoder.save_pretrained(content / name)
            record = {
                "format": FORMAT,
                "content": content.name,
                "settings": {
                    **{name: value for name, value in settings.items() if name != "count_tokens"},
                    "template": asdict(settings["template"]),
                    "card": asdict(settings["card"]),
                },
                "next_id": next_id,
                "encoders": {name: encoder.name for name, encoder in encoders.items()},
                "files": file_hashes(content),
            }
            outputs = [example.output for example in bank]
            dim = bank.vectors.shape[1]
            card = model_card(
                settings["card"], outputs, encoders["encoder"].name, dim, settings["trade_off"]
            )
            write(folder / CARD, card.encode())
        except BaseException:
            shutil.rmtree(content, ignore_errors=True)
            raise
        text = json.dumps(record, indent=1, default=lambda number: number.item())  # numpy's numbers
        write(folder / MANIFEST, text.encode())
        for path in before:
            shutil.rmtree(path, ignore_errors=True)


def check_target(folder: Path) -> None:
    """Raise a UserError if a folder exists that is neither empty nor a selector's. The remains of a
    first save that was killed are accepted.
    """
    if (folder / MANIFEST).exists() or not folder.exists():
        return
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else {""}
    if names and LOCK not in names:
        raise UserError(f"{folder} is there already and is no selector; choose another folder")


def load_selector(folder: Path) -> tuple[Bank, dict[str, Any], dict[str, Any]]:
    """Load what `save_selector` wrote, after checking it (see `saved`): the bank, the encoders by
    name, and the settings."""
    from ceil_jax.training.free.encoder import open_encoder

    manifest = read_manifest(folder / MANIFEST)
    content = folder / manifest.content
    check_files(content, manifest.files)
    examples = read_examples(content / EXAMPLES)
    encoders = {}
    for name, title in manifest.encoders.items():
        encoder = open_encoder((content / name).resolve())
        encoders[name] = encoder.renamed(title) if hasattr(encoder, "renamed") else encoder
    vectors = read_vectors(content / VECTORS, len(examples), encoders)
    return Bank(examples, vectors, manifest.next_id), encoders, manifest.settings


def download(name: str) -> Path:
    """Return the folder of a hub id, which is fetched if needed. No code is fetched."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    try:
        return Path(snapshot_download(name, allow_patterns=[MANIFEST, "content-*"]))
    except (HfHubHTTPError, HFValidationError, OSError) as error:
        raise UserError(
            f"{name!r} is not a folder here, and no hub id that can be fetched "
            f"({type(error).__name__})"
        ) from None

"""A selector as a folder, and fetched from the Hugging Face hub; without pickle and without code.

```
selector.json        settings, and the sha256 of every file in the folder that it names; replaced last
content-3/           examples.jsonl, vectors.npy, encoder/, and query_encoder/ where queries have one of their own;
                     an encoder's folder is as `load_encoder` takes it
README.md            the model card; not read
```

A save writes a new `content-N`, then replaces `selector.json` in one step, then removes the old one. After a kill at
any moment the folder holds the old selector or the new one, whole.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Collection, Mapping
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ceil_jax.errors import UserError
from ceil_jax.selector.bank import Bank, View
from ceil_jax.selector.card import Card, model_card
from ceil_jax.selector.rows import read_examples
from ceil_jax.store.hashing import file_hashes
from ceil_jax.store.locking import appearing, disk_errors, held
from ceil_jax.tasks.example import Example, Template

FORMAT = 4
MANIFEST, CARD, LOCK = "selector.json", "README.md", ".lock"
EXAMPLES, VECTORS = "examples.jsonl", "vectors.npy"
ENCODERS = ("encoder", "query_encoder")
AGAIN = "save or fetch the selector again"

_CONTENT = re.compile(r"content-[1-9]\d*")
_OURS = re.compile(r"\.lock|content-[1-9]\d*|(selector\.json|README\.md)(\.\d+\.part)?")


def save(
    folder: Path, view: View, next_id: int, encoders: Mapping[str, Any], settings: Mapping[str, Any]
) -> None:
    """Write a selector into a folder, in place of the one that is there.

    A selector that has the folder's vectors memory-mapped keeps the old ones.

    Args:
        folder: made if need be.
        view: the bank.
        next_id: the number that the next example without an id gets.
        encoders: "encoder", and "query_encoder" where queries have one of their own.
        settings: `Settings.settings`.

    Raises:
        UserError: the folder cannot be written, or an encoder cannot be saved.
    """
    for name, encoder in encoders.items():
        if not hasattr(encoder, "save_pretrained") or not hasattr(encoder, "fingerprint"):
            raise UserError(
                f"{name} is a {type(encoder).__name__}, which does not say how to save it; give one that "
                "load_encoder loads from a folder, a name or the hub"
            )
    with held(folder, LOCK), disk_errors(folder):
        before = [path for path in folder.iterdir() if _CONTENT.fullmatch(path.name)]
        content = folder / f"content-{1 + max((int(path.name[8:]) for path in before), default=0)}"
        content.mkdir()
        try:
            np.save(content / VECTORS, view.live_vectors)
            with (content / EXAMPLES).open("w", encoding="utf-8") as file:
                file.writelines(
                    json.dumps({**vars(example), "fields": dict(example.fields)}, ensure_ascii=False) + "\n"
                    for example in view
                )
            for name, encoder in encoders.items():
                encoder.save_pretrained(content / name)
            record = {
                "format": FORMAT,
                "content": content.name,
                "settings": {
                    name: asdict(value) if is_dataclass(value) and not isinstance(value, type) else value
                    for name, value in settings.items()
                    if name != "count_tokens"  # a function cannot be saved
                },
                "next_id": next_id,
                "encoders": {
                    name: {"name": encoder.name, "dtype": getattr(encoder, "dtype", "float32")}
                    for name, encoder in encoders.items()
                },
                "files": file_hashes(content),
            }
            outputs, trade_off = [example.output for example in view], settings["trade_off"]
            card = model_card(
                settings["card"], outputs, encoders["encoder"].name, view.vectors.shape[1], trade_off
            )
            with appearing(folder / CARD) as out:
                out.write(card.encode())
        except BaseException:
            shutil.rmtree(content, ignore_errors=True)
            raise
        with appearing(folder / MANIFEST) as out:
            out.write(json.dumps(record, indent=1).encode())
        for path in before:
            shutil.rmtree(path, ignore_errors=True)


def check_target(folder: Path) -> None:
    """Check that a selector may be written into a folder: there is none, or an empty one, or a selector.

    What the first save of a selector left when it was killed is no obstacle.

    Raises:
        UserError: it holds something else.
    """
    if (folder / MANIFEST).exists() or not folder.exists():
        return
    found = {path.name for path in folder.iterdir()} if folder.is_dir() else {""}
    if found and not (LOCK in found and all(map(_OURS.fullmatch, found))):
        raise UserError(f"{folder} is there already and is no selector; choose another folder")


def load(folder: Path, allow_import: Collection[str]) -> tuple[Bank, dict[str, Any], dict[str, Any]]:
    """Return what a folder holds: the bank, the encoders by name, and the settings.

    Args:
        folder: what `save` wrote.
        allow_import: the modules, or `module:function` names, that an encoder's folder may import.

    Raises:
        UserError: a file missing, damaged, or of another save; an encoder that asks to import something else.
    """
    from ceil_jax.encoders.registry import load_encoder

    record = read_manifest(folder / MANIFEST)
    content, encoders = folder / record["content"], {}
    try:
        named, found = record["files"], file_hashes(content)
        for name in sorted({*named, *found}):
            if named.get(name) != found.get(name):
                raise UserError(f"{content / name} is missing, damaged, or of another save; {AGAIN}")
        template, card = record["settings"]["template"], record["settings"]["card"]
        settings = {**record["settings"], "template": Template(**template), "card": Card(**card)}
        for name in ENCODERS:
            if said := record["encoders"].get(name):
                encoder = load_encoder(
                    (content / name).resolve(), dtype=said["dtype"], allow_import=allow_import
                )
                encoders[name] = encoder.renamed(said["name"]) if hasattr(encoder, "renamed") else encoder
        with (content / EXAMPLES).open(encoding="utf-8") as lines:
            examples = read_examples(map(_example, lines))
        vectors = np.load(content / VECTORS, mmap_mode="r" if examples else None, allow_pickle=False)
        return Bank(examples, np.asarray(vectors), record["next_id"]), encoders, settings
    except (KeyError, TypeError, AttributeError, ValueError, OSError) as error:
        raise UserError(f"{folder} cannot be read ({error!r:.80}); {AGAIN}") from error


def read_manifest(file: Path) -> dict[str, Any]:
    """Return the content of `selector.json`.

    Raises:
        UserError: the file is missing, damaged or of another format.
    """
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
        fits = record["format"] == FORMAT and _CONTENT.fullmatch(record["content"])
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(
            f"{file.parent} holds no {file.name}; expected what CeilSelector.save_pretrained wrote"
        ) from None
    except (OSError, ValueError, RecursionError, KeyError, TypeError):
        fits = None
    if not fits:
        raise UserError(f"{file} is damaged, or of another version than this one reads; {AGAIN}")
    return dict(record)


def _example(line: str) -> Example:
    row: dict[str, Any] = json.loads(line)
    for name, value in row.items():
        row[name] = tuple(value) if isinstance(value, list) else value
    return Example(**row)


def download(name: str) -> Path:
    """Return the folder of a hub id, fetched if need be; no file of it is code.

    Raises:
        UserError: no such repository, or no connection.
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    try:
        return Path(snapshot_download(name, allow_patterns=[MANIFEST, "content-*"]))
    except (HfHubHTTPError, HFValidationError, OSError) as error:
        raise UserError(
            f"{name!r} is not a folder here, and no hub id that can be fetched ({type(error).__name__})"
        ) from None

"""A selector in a folder or on the hub, without pickle and without code.

```
selector.json      settings, the encoder's fingerprint, the sha256 of the next two; written last
examples.parquet   id, input, output, choices, references, and metadata as the struct `fields`
vectors.npy        float32 [N, D], unit rows, memory-mapped when loaded
encoder/           as `load_encoder` takes it; query_encoder/ too where queries have one of their own
README.md          the model card
```
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from ceil_jax.errors import UserError
from ceil_jax.selector.bank import Bank, View
from ceil_jax.selector.card import Card, model_card
from ceil_jax.store.hashing import file_sha256
from ceil_jax.tasks.example import Example, Template

if TYPE_CHECKING:
    from ceil_jax.encoders.encoder import Encoder
    from ceil_jax.selector.selector import CeilSelector

FORMAT = 1
"""Of the folder; a folder of a later one is refused."""

SETTINGS, EXAMPLES, VECTORS = "selector.json", "examples.parquet", "vectors.npy"

_HUB_FILES = ["*.json", "*.txt", "*.model", "*.safetensors", EXAMPLES, VECTORS]


def save(selector: CeilSelector, folder: Path) -> None:
    """Write the folder. Each file appears whole or not at all, and `selector.json` last: a process killed in
    between leaves a folder that `load` refuses or reads as it was. A selector that has the folder's vectors
    mapped keeps the old ones.

    Raises:
        UserError: the folder cannot be written, or an encoder cannot be saved.
    """
    from ceil_jax.encoders.encoder import Encoder
    from ceil_jax.encoders.files import write_json

    view, next_id = selector.bank.view, selector.bank.next_id
    encoders = {"encoder": selector.encoder}
    if selector.query_encoder is not selector.encoder:
        encoders["query_encoder"] = selector.query_encoder
    for name, encoder in encoders.items():
        if not isinstance(encoder, Encoder):
            raise UserError(
                f"{name} is a {type(encoder).__name__}; only what load_encoder gives can be saved"
            )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".saving-") as scratch:
            writing = Path(scratch)
            rows = _write_vectors(view, writing / VECTORS)
            _write_examples(list(view), writing / EXAMPLES)
            card = model_card(
                selector.card,
                examples=rows,
                labels=view.labels,
                dim=view.dim or 0,
                encoder=selector.encoder.name,
                diversity=selector.diversity,
            )
            (writing / "README.md").write_text(card, encoding="utf-8")
            settings = {
                "format": FORMAT,
                "diversity": selector.diversity,
                "shortlist": selector.shortlist,
                "template": asdict(selector.template),
                "context": selector.context,
                "next_id": next_id,
                "card": asdict(selector.card),
                "encoders": {
                    name: {"name": e.name, "dtype": e.dtype, "fingerprint": e.fingerprint}
                    for name, e in encoders.items()
                },
                "sha256": {file: file_sha256(writing / file) for file in (EXAMPLES, VECTORS)},
            }
            write_json(writing / SETTINGS, settings)
            for name, encoder in encoders.items():
                encoder.save_pretrained(folder / name)
            for file in (VECTORS, EXAMPLES, "README.md", SETTINGS):
                os.replace(writing / file, folder / file)
    except OSError as error:
        raise UserError(
            f"cannot write {folder}: {error.strerror or error}; free space or choose another folder"
        ) from None


def _write_vectors(view: View, file: Path) -> int:
    """How many rows; block by block, so that a mapped bank is never in memory whole."""
    rows = int(view.live.sum())
    if rows == 0:
        np.save(file, np.zeros((0, view.dim or 0), np.float32))
        return 0
    out = np.lib.format.open_memmap(file, mode="w+", dtype=np.float32, shape=(rows, view.dim or 0))
    start = 0
    for block in view.live_blocks():
        out[start : start + len(block)] = block
        start += len(block)
    out.flush()
    return rows


def _write_examples(examples: Sequence[Example], file: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    texts = {name: pa.array([getattr(e, name) for e in examples], pa.string()) for name in _TEXTS}
    lists = {name: pa.array([getattr(e, name) for e in examples], pa.list_(pa.string())) for name in _LISTS}
    columns = texts | lists
    names = sorted({name for example in examples for name in example.fields})
    if names:  # a struct without members cannot be written
        kind = pa.struct([(name, pa.string()) for name in names])
        columns["fields"] = pa.array([dict(example.fields) for example in examples], kind)
    pq.write_table(pa.table(columns), file, compression="zstd")


def _read_examples(file: Path) -> list[Example]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(file)
    except (pa.ArrowException, OSError) as error:
        raise UserError(f"cannot read {file}: {str(error).splitlines()[0]}; save or fetch it again") from None
    missing = {*_TEXTS, *_LISTS} - set(table.column_names)
    if missing:
        raise UserError(f"{file} has no column {', '.join(sorted(missing))}; expected a selector's examples")
    columns = [table[name].to_pylist() for name in (*_TEXTS, *_LISTS)]
    fields = table["fields"].to_pylist() if "fields" in table.column_names else [{}] * len(table)
    return [
        Example(id, input, output, tuple(choices), tuple(references), _present(row))
        for id, input, output, choices, references, row in zip(*columns, fields, strict=True)
    ]


_TEXTS = ("id", "input", "output")
_LISTS = ("choices", "references")


def _present(fields: Mapping[str, str | None]) -> Mapping[str, str]:
    """A struct has all members in every row; those this row lacks are null."""
    return MappingProxyType({name: value for name, value in fields.items() if value is not None})


def load(
    cls: type[CeilSelector], name: str | os.PathLike[str], verify: bool, settings: Mapping[str, Any]
) -> CeilSelector:
    """See `CeilSelector.from_pretrained`."""
    from ceil_jax.encoders.files import read_json

    folder = Path(name).expanduser()
    local = folder.is_dir()
    if not local:
        folder = _download(os.fspath(name))
    if not (folder / SETTINGS).is_file():
        raise UserError(f"{folder} holds no {SETTINGS}; expected what CeilSelector.save_pretrained wrote")
    saved = read_json(folder / SETTINGS)
    if not isinstance(saved, dict) or saved.get("format") != FORMAT:
        raise UserError(
            f"{folder / SETTINGS} is not of format {FORMAT}; this version of ceil_jax reads only that"
        )
    if verify:
        _verify(folder, saved["sha256"])
    encoders = {
        kind: _load_encoder(folder / kind, kind, expected, local)
        for kind, expected in saved["encoders"].items()
    }
    examples = _read_examples(folder / EXAMPLES)
    vectors = _map(folder / VECTORS, len(examples))
    own = {
        "diversity": saved["diversity"],
        "shortlist": saved["shortlist"],
        "template": Template(**saved["template"]),
        "context": saved.get("context", "input"),
        "card": Card(**saved["card"]),
    }
    bank = Bank(examples, vectors, saved["next_id"])
    return cls(bank, encoders["encoder"], encoders.get("query_encoder"), **{**own, **settings})


def _verify(folder: Path, sha256: Mapping[str, str]) -> None:
    for file, expected in sha256.items():
        if not (folder / file).is_file():
            raise UserError(f"{folder / file} is missing; save or fetch the selector again")
        if file_sha256(folder / file) != expected:
            raise UserError(
                f"{folder / file} is not what {SETTINGS} names: damaged, or of another save; "
                "save or fetch the selector again"
            )


def _map(file: Path, rows: int) -> np.ndarray:
    try:
        vectors = np.load(file, mmap_mode="r" if rows else None, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read {file}: {error}; save or fetch the selector again") from None
    if vectors.ndim != 2 or len(vectors) != rows or vectors.dtype != np.float32:
        raise UserError(
            f"{file} holds {vectors.dtype} {vectors.shape} for {rows} examples; expected float32 ({rows}, D)"
        )
    return np.asarray(vectors)


def _load_encoder(folder: Path, kind: str, expected: Mapping[str, str], local: bool) -> Encoder:
    from ceil_jax.encoders.encoder import FACTORY_FILE
    from ceil_jax.encoders.files import read_json
    from ceil_jax.encoders.registry import load_encoder

    factory = str(read_json(folder / FACTORY_FILE, missing={}).get("factory", ""))
    if not local and ":" in factory:
        # a module to import, named by strangers; a folder on disk is the user's own
        raise UserError(
            f"the {kind} asks to import {factory!r}; look at it, then load the selector from a folder of your own"
        )
    encoder = load_encoder(folder, dtype=expected["dtype"]).renamed(expected["name"])
    if encoder.fingerprint != expected["fingerprint"]:
        raise UserError(
            f"{folder} is not the encoder that {SETTINGS} names, which gave the bank's vectors; "
            "save or fetch the selector again"
        )
    return encoder


def _download(name: str) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    try:
        return Path(snapshot_download(name, allow_patterns=_HUB_FILES))
    except (HfHubHTTPError, HFValidationError, OSError) as error:
        raise UserError(
            f"{name!r} is not a folder here, and no hub id that can be fetched ({type(error).__name__})"
        ) from None


def push(selector: CeilSelector, repo_id: str, private: bool, token: str | None) -> str:
    """See `CeilSelector.push_to_hub`.

    Raises:
        UserError: not logged in, no such name, or no connection.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    with tempfile.TemporaryDirectory() as folder:
        save(selector, Path(folder))
        api = HfApi(token=token)
        try:
            api.create_repo(repo_id, private=private, exist_ok=True)
            commit = api.upload_folder(
                repo_id=repo_id, folder_path=folder, commit_message=f"Selector of {len(selector)} examples"
            )
        except (HfHubHTTPError, HFValidationError, OSError) as error:
            said = str(error).strip().splitlines()[:1] or [type(error).__name__]
            raise UserError(f"cannot push to {repo_id!r}: {said[0]}; log in with `hf auth login`?") from None
    return str(commit.commit_url)

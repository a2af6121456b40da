"""A selector as a folder, on the Hugging Face hub, and as bytes; without pickle and without code.

```
selector.json        settings, sha256 and size of every file in the folder it names, its own sha256; replaced last
content-3/           examples.parquet, vectors.npy, encoder/, and query_encoder/ where queries have one of their own;
                     an encoder's folder is as `load_encoder` takes it
README.md            the model card; not read
```

A save writes a new `content-N`, then replaces `selector.json` in one step, then removes the old one. After a kill at
any moment the folder holds the old selector or the new one, whole; a file that is damaged is found by its checksum.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ceil_jax.errors import UserError
from ceil_jax.selector.bank import Bank, View
from ceil_jax.selector.card import Card, model_card
from ceil_jax.selector.rows import read_examples
from ceil_jax.selector.settings import Settings
from ceil_jax.store.hashing import file_hashes
from ceil_jax.store.locking import appearing, held
from ceil_jax.tasks.example import Example, Template

FORMAT = 4
MANIFEST, CARD, LOCK = "selector.json", "README.md", ".lock"
EXAMPLES, VECTORS = "examples.parquet", "vectors.npy"
ENCODERS = ("encoder", "query_encoder")
AGAIN = "save or fetch the selector again"

_CONTENT = re.compile(r"content-[1-9]\d*")
_OURS = re.compile(r"\.lock|content-[1-9]\d*|(selector\.json|README\.md)(\.\d+\.part)?")
_TEXTS, _LISTS = ("id", "input", "output"), ("choices", "references", "parts")


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
    with held(folder, LOCK):
        before = [path for path in folder.iterdir() if _CONTENT.fullmatch(path.name)]
        content = folder / f"content-{1 + max((int(path.name[8:]) for path in before), default=0)}"
        content.mkdir()
        try:
            _write_vectors(view, content / VECTORS)
            _write_examples(list(view), content / EXAMPLES)
            for name, encoder in encoders.items():
                encoder.save_pretrained(content / name)
            record = {
                "format": FORMAT,
                "content": content.name,
                # a function cannot be saved
                "settings": {
                    name: asdict(value) if isinstance(value, (Card, Template)) else value
                    for name, value in settings.items()
                    if name != "count_tokens"
                },
                "next_id": next_id,
                "encoders": {
                    name: {
                        "name": encoder.name,
                        "dtype": getattr(encoder, "dtype", "float32"),
                        "fingerprint": encoder.fingerprint,
                    }
                    for name, encoder in encoders.items()
                },
                "files": _files(content),
            }
            text = _text(record)
            for path in (*content.rglob("*"), content, folder):
                _fsync(path)
            outputs = [example.output for example in view]
            card = model_card(
                settings["card"], outputs, encoders["encoder"].name, view.dim or 0, settings["trade_off"]
            )
            _replace(folder / CARD, card)
        except BaseException:
            shutil.rmtree(content, ignore_errors=True)
            raise
        _replace(folder / MANIFEST, text)
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


@dataclass(frozen=True)
class Loaded:
    """The content of a selector's folder."""

    bank: Bank
    encoders: Mapping[str, Any]
    settings: Settings


def load(folder: Path, verify: bool, allow_import: Collection[str]) -> Loaded:
    """Return what a folder holds.

    Args:
        folder: what `save` wrote.
        verify: compare every file's sha256 with what was saved; sizes and names are always compared.
        allow_import: the modules, or `module:function` names, that an encoder's folder may import.

    Raises:
        UserError: a file missing, damaged, or of another save; an encoder that asks to import something else.
    """
    record = read_manifest(folder / MANIFEST)
    try:
        return _load(folder, record, verify, allow_import)
    except UserError:
        again = read_manifest(folder / MANIFEST)
        if again["content"] == record["content"]:
            raise
    return load(folder, verify, allow_import)  # another process has saved meanwhile


def _load(folder: Path, record: Mapping[str, Any], verify: bool, allow_import: Collection[str]) -> Loaded:
    from ceil_jax.encoders.registry import load_encoder

    content, encoders = folder / record["content"], {}
    try:
        _check_files(content, record["files"], verify)
        settings = Settings(
            **{
                **record["settings"],
                "template": Template(**record["settings"]["template"]),
                "card": Card(**record["settings"]["card"]),
            }
        )
        for name, said in record["encoders"].items():
            if name not in ENCODERS:
                raise KeyError(name)
            encoder = load_encoder((content / name).resolve(), dtype=said["dtype"], allow_import=allow_import)
            encoders[name] = encoder.renamed(said["name"]) if hasattr(encoder, "renamed") else encoder
            if encoder.fingerprint != said["fingerprint"]:
                raise UserError(
                    f"{content / name} is not the encoder that {MANIFEST} names, which gave the bank's vectors; "
                    f"{AGAIN}"
                )
        examples, vectors = _read_examples(content / EXAMPLES), content / VECTORS
        bank = Bank(examples, _read_vectors(vectors, len(examples)), record["next_id"])
        return Loaded(bank, {"encoder": encoders["encoder"], **encoders}, settings)
    except (KeyError, TypeError, AttributeError) as error:
        raise UserError(
            f"{folder / MANIFEST} has a wrong or missing field ({error!r:.80}); {AGAIN}"
        ) from None


def read_manifest(file: Path) -> dict[str, Any]:
    """Return the content of `selector.json`, whose text is exactly what writing its content again gives.

    Raises:
        UserError: the file is missing, damaged or of another format.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(
            f"{file.parent} holds no {file.name}; expected what CeilSelector.save_pretrained wrote"
        ) from None
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read {file}: {error}; {AGAIN}") from None
    try:
        record = json.loads(text)
        if record["format"] != FORMAT:
            raise UserError(
                f"{file} is not of format {FORMAT}, the only one that this version reads; {AGAIN}"
            )
        record.pop("sha256")
        whole = text == _text(record) and _CONTENT.fullmatch(record["content"])
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
        whole = None
    if not whole:
        raise UserError(f"{file} is damaged; {AGAIN}. To change a setting, give it to from_pretrained")
    return dict(record)


def _text(record: Mapping[str, Any]) -> str:
    """The text of `selector.json`: a record with the sha256 of what it is without that."""
    try:
        body = json.dumps(record, indent=1, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise UserError(
            f"the model card cannot be saved: {error}; expected texts and finite numbers"
        ) from None
    return json.dumps({**record, "sha256": hashlib.sha256(body.encode()).hexdigest()}, indent=1) + "\n"


def _files(content: Path) -> dict[str, Any]:
    return {name: [sha256, (content / name).stat().st_size] for name, sha256 in file_hashes(content).items()}


def _check_files(content: Path, named: Mapping[str, Any], verify: bool) -> None:
    found = {path.relative_to(content).as_posix(): path for path in content.rglob("*") if not path.is_dir()}
    for name in sorted({*named, *found}):
        file = content / name
        if name not in named:
            raise UserError(f"{file} is not named in {MANIFEST}, so it is not read; remove it, or {AGAIN}")
        if name not in found:
            raise UserError(f"{content if not found else file} is missing; {AGAIN}")
        if file.stat().st_size != named[name][1]:
            raise UserError(f"{file} is not what {MANIFEST} names: damaged, or of another save; {AGAIN}")
    if verify and (
        damaged := [name for name, (sha256, _) in _files(content).items() if sha256 != named[name][0]]
    ):
        raise UserError(
            f"{content / damaged[0]} is not what {MANIFEST} names: damaged, or of another save; {AGAIN}"
        )


def _write_vectors(view: View, file: Path) -> None:
    shape = (int(view.live.sum()), view.dim or 0)
    with file.open("wb") as stream:
        header = {"descr": "<f4", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(stream, header)
        # block by block, so that a memory-mapped bank is never in memory as a whole
        for block in view.live_blocks():
            stream.write(np.ascontiguousarray(block, "<f4").data)


def _read_vectors(file: Path, rows: int) -> np.ndarray:
    try:
        vectors = np.load(file, mmap_mode="r" if rows else None, allow_pickle=False)
    except (OSError, ValueError, SyntaxError, EOFError, OverflowError, MemoryError, TypeError) as error:
        raise UserError(f"cannot read {file}: {str(error)[:120]}; {AGAIN}") from None
    if vectors.ndim != 2 or len(vectors) != rows or vectors.dtype != np.float32:
        raise UserError(
            f"{file} holds {vectors.dtype} {vectors.shape} for {rows} examples; expected float32 ({rows}, D)"
        )
    return np.asarray(vectors)


def _write_examples(examples: Sequence[Example], file: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {name: pa.array([getattr(e, name) for e in examples], pa.string()) for name in _TEXTS}
    columns |= {
        name: pa.array([getattr(e, name) for e in examples], pa.list_(pa.string())) for name in _LISTS
    }
    if names := sorted({name for example in examples for name in example.fields}):
        # a struct without members cannot be written
        kind = pa.struct([(name, pa.string()) for name in names])
        columns["fields"] = pa.array([dict(example.fields) for example in examples], kind)
    pq.write_table(pa.table(columns), file, compression="zstd")


def _read_examples(file: Path) -> list[Example]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        rows = pq.read_table(file).to_pylist()
        examples = read_examples(
            Example(
                *(row["id"], row["input"], row["output"]),
                tuple(row["choices"] or ()),
                tuple(row["references"] or ()),
                # a struct has all members in every row; those that a row lacks are null
                {name: value for name, value in (row.get("fields") or {}).items() if value is not None},
                tuple(row["parts"] or ()),
            )
            for row in rows
        )
    except (
        pa.ArrowException,
        OSError,
        ValueError,
        MemoryError,
        KeyError,
        TypeError,
        AttributeError,
    ) as error:
        said = str(error).splitlines()[:1] or [type(error).__name__]
        raise UserError(f"cannot read {file}: {said[0]}; {AGAIN}") from None
    if not all(example.id for example in examples) or len({e.id for e in examples}) < len(examples):
        raise UserError(f"{file} has an example without an id, or an id twice; {AGAIN}")
    return examples


def _replace(file: Path, text: str) -> None:
    """Replace a file in one step that survives a crash of the machine."""
    with appearing(file) as out:
        out.write(text.encode())
    _fsync(file.parent)


def _fsync(path: Path) -> None:
    if path.is_dir() and os.name == "nt":
        return  # folders cannot be opened there
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


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


def upload(folder: Path, repo_id: str, message: str, private: bool, token: str | None) -> str:
    """Upload a saved selector in place of what the repository has; return the commit's address.

    Args:
        folder: what `save` wrote.
        repo_id: "owner/name"; made if need be.
        message: the commit's message.
        private: whether a repository that is made is private.
        token: the hub's token; None for the one of `hf auth login`.

    Raises:
        UserError: not logged in, no such name, or no connection.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    api = HfApi(token=token)
    try:
        api.create_repo(repo_id, private=private, exist_ok=True)
        commit = api.upload_folder(
            repo_id=repo_id,
            folder_path=folder,
            commit_message=message,
            ignore_patterns=[LOCK],
            delete_patterns=[MANIFEST, "content-*"],
        )
    except (HfHubHTTPError, HFValidationError, OSError) as error:
        said = str(error).strip().splitlines()[:1] or [type(error).__name__]
        raise UserError(f"cannot push to {repo_id!r}: {said[0]}; log in with `hf auth login`?") from None
    return str(commit.commit_url)


@dataclass(frozen=True)
class PackedEncoder:
    """The files that an Encoder was saved as; compiled functions cannot be pickled."""

    name: str
    dtype: str
    factory: str | None
    files: dict[str, bytes]


def pack(encoder: Any) -> Any:
    """Return what can be pickled in place of an encoder; any but an `Encoder` must be picklable itself.

    Raises:
        UserError: an Encoder that cannot be saved.
    """
    from ceil_jax.encoders.encoder import Encoder

    if not isinstance(encoder, Encoder):
        return encoder
    with tempfile.TemporaryDirectory() as folder:
        encoder.save_pretrained(folder)
        root = Path(folder)
        files = {str(f.relative_to(root)): f.read_bytes() for f in root.rglob("*") if f.is_file()}
    return PackedEncoder(encoder.name, encoder.dtype, encoder.factory, files)


def unpack(packed: Any) -> Any:
    """Return the encoder that was packed.

    A pickle runs code anyway, so the function that builds a user's own network is imported.
    """
    from ceil_jax.encoders.registry import load_encoder

    if not isinstance(packed, PackedEncoder):
        return packed
    with tempfile.TemporaryDirectory() as folder:
        for name, content in packed.files.items():
            file = Path(folder) / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        allowed = (packed.factory,) if packed.factory else ()
        return load_encoder(folder, dtype=packed.dtype, allow_import=allowed).renamed(packed.name)

"""A selector as a folder, without pickle and without code.

```
selector.json        settings, and sha256 and size of every file in the folder it names; replaced last
content-3/           the current version: examples.parquet, vectors.npy, encoder/, and query_encoder/ where queries
                     have one of their own; an encoder's folder is as `load_encoder` takes it
README.md            the model card; not read
```

A save writes a new `content-N`, then replaces `selector.json` in one step, then removes the older versions that
nobody is reading. Whoever loads gets the old selector or the new one, whole, whatever happens in between.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ceil_jax.errors import UserError
from ceil_jax.selector.bank import Bank, View
from ceil_jax.selector.folder.card import model_card
from ceil_jax.selector.folder.content import EXAMPLES, VECTORS, read_bank, write_bank
from ceil_jax.selector.folder.manifest import (
    AGAIN,
    MANIFEST,
    Manifest,
    SavedEncoder,
    check_files,
    describe,
    manifest_text,
    read_manifest,
)
from ceil_jax.selector.options import CheckedSettings
from ceil_jax.store.locking import held

if TYPE_CHECKING:
    from ceil_jax.encoders.encoder import Encoder

try:
    import fcntl
except ImportError:  # on Windows a file that is open cannot be removed, which protects readers as well
    fcntl = None  # type: ignore[assignment]

CARD = "README.md"
LOCK = ".lock"

_FORMAT_1 = (EXAMPLES, VECTORS, "encoder", "query_encoder")
"""Files and folders of format 1 beside `selector.json`."""


Loaded = tuple[Bank, Mapping[str, "Encoder"], CheckedSettings]
"""The content of a selector's folder."""


def save(
    folder: Path, view: View, next_id: int, encoders: Mapping[str, Encoder], settings: CheckedSettings
) -> None:
    """Write a selector into a folder, in place of the one that is there.

    A selector that has the folder's vectors memory-mapped keeps the old ones.

    Args:
        folder: made if need be.
        view: the bank.
        next_id: the number that the next example without an id gets.
        encoders: "encoder", and "query_encoder" where queries have one of their own.
        settings: λ and the like.

    Raises:
        UserError: the folder cannot be written, or an encoder cannot be saved.
    """
    from ceil_jax.encoders.encoder import Encoder

    for name, encoder in encoders.items():
        if not isinstance(encoder, Encoder):
            raise UserError(
                f"{name} is a {type(encoder).__name__}; only what load_encoder gives can be saved"
            )
    card = model_card(settings.card, view, encoders["encoder"].name, settings.trade_off)
    with held(folder, LOCK):
        content = folder / f"content-{1 + max(map(_number, _versions(folder)), default=0)}"
        content.mkdir()
        try:
            write_bank(view, content)
            for name, encoder in encoders.items():
                encoder.save_pretrained(content / name)
            _sync(content)
            saved = {name: SavedEncoder(e.name, e.dtype, e.fingerprint) for name, e in encoders.items()}
            text = manifest_text(Manifest(content.name, settings, next_id, saved, describe(content)))
            _replace(folder / CARD, card)
        except BaseException:
            shutil.rmtree(content, ignore_errors=True)
            raise
        _replace(folder / MANIFEST, text)
        _sweep(folder, content)


def check_target(folder: Path) -> None:
    """Check that a selector may be written into a folder: there is none, or an empty one, or a selector.

    What the first save of a selector left when it was killed is no obstacle.

    Args:
        folder: where a selector is to be written.

    Raises:
        UserError: it holds something else.
    """
    if (folder / MANIFEST).exists() or not folder.exists():
        return
    if folder.is_dir():
        found = {path.name for path in folder.iterdir()}
        unfinished = {
            LOCK,
            CARD,
            _beside(CARD),
            _beside(MANIFEST),
            *(path.name for path in _versions(folder)),
        }
        if not found or (LOCK in found and found <= unfinished):
            return
    raise UserError(f"{folder} is there already and is no selector; choose another folder")


def load(folder: Path, verify: bool, allow_import: Collection[str]) -> Loaded:
    """Return what a folder holds.

    Args:
        folder: what `save` wrote.
        verify: compare every file's sha256 with what was saved; sizes and names are always compared.
        allow_import: the modules, or `module:function` names, that an encoder's folder may import.

    Raises:
        UserError: a file missing, damaged, or of another save; an encoder that asks to import something else.
    """
    while True:
        manifest = read_manifest(folder / MANIFEST)
        try:
            with _reading(folder / manifest.content):
                return _load(folder / manifest.content, manifest, verify, allow_import)
        except UserError:
            # another process may have saved and swept between the first line and the lock
            if read_manifest(folder / MANIFEST).content == manifest.content:
                raise


def _load(folder: Path, manifest: Manifest, verify: bool, allow_import: Collection[str]) -> Loaded:
    from ceil_jax.encoders.registry import load_encoder

    check_files(manifest, folder, contents=verify)
    encoders = {}
    for kind, expected in manifest.encoders.items():
        encoder = load_encoder((folder / kind).resolve(), dtype=expected.dtype, allow_import=allow_import)
        encoders[kind] = encoder.renamed(expected.name)
        if encoders[kind].fingerprint != expected.fingerprint:
            raise UserError(
                f"{folder / kind} is not the encoder that {MANIFEST} names, which gave the bank's vectors; {AGAIN}"
            )
    examples, vectors = read_bank(folder)
    if len({example.id for example in examples}) < len(examples):
        raise UserError(f"{folder / EXAMPLES} has an id twice; {AGAIN}")
    return Bank(examples, vectors, manifest.next_id), encoders, manifest.settings


def _versions(folder: Path) -> list[Path]:
    return [path for path in folder.glob("content-*") if _number(path)]


def _number(path: Path) -> int:
    number = path.name.removeprefix("content-")
    return int(number) if number.isdecimal() and number.isascii() else 0


def _replace(file: Path, text: str) -> None:
    """Replace a file in one step that survives a crash of the machine."""
    beside = file.with_name(_beside(file.name))
    with beside.open("w", encoding="utf-8", newline="\n") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(beside, file)
    _fsync(file.parent)


def _beside(name: str) -> str:
    """The name of a file's next version until it takes its place."""
    return f".{name}.new"


def _sync(folder: Path) -> None:
    """Have everything under a folder, and its name in the folder above, on disk."""
    for path in folder.rglob("*"):
        _fsync(path)
    _fsync(folder)
    _fsync(folder.parent)


def _fsync(path: Path) -> None:
    if path.is_dir() and os.name == "nt":
        return  # folders cannot be opened there
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sweep(folder: Path, current: Path) -> None:
    """Remove the versions that are not current and that nobody is reading."""
    for path in [*_versions(folder), *(folder / name for name in _FORMAT_1)]:
        if path != current and path.exists():
            # the save is done: what cannot be removed now is removed by the next one
            with suppress(OSError), _locked(path, shared=False) as alone:
                if alone and path.is_dir():
                    shutil.rmtree(path, ignore_errors=True)
                elif alone:
                    path.unlink()


@contextmanager
def _reading(content: Path) -> Iterator[None]:
    """Keep a version from being swept while it is read, or those who load would never end where others save often."""
    try:
        with _locked(content, shared=True):
            yield
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(f"{content} is missing; {AGAIN}") from None


@contextmanager
def _locked(path: Path, shared: bool) -> Iterator[bool]:
    """Lock a file or folder that is never written to; False if others hold it and it was not to be shared.

    An advisory lock on the folder itself needs no permission to write, so that a folder which may only be read can
    be loaded; file systems without such locks go without.
    """
    if fcntl is None:
        yield True
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH if shared else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        except OSError:
            pass
        try:
            yield True
        finally:
            # not by closing alone: a child forked meanwhile has the descriptor open too
            with suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_UN)
    finally:
        os.close(descriptor)

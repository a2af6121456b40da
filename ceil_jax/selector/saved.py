"""Folders that a save replaces in one step, such as a selector's or a classifier's.

```
selector.json   the manifest: the settings, and the sha256 of every file of the save; replaced last
content-3/      the files of the save
```

A save writes a new `content-N`, then replaces the manifest in one step, then removes the old content.
If it is killed at any moment, the folder holds either the old content or the new one, complete. A
reader opens all files of a save at once, so that it keeps them while another process replaces them.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field, with_config

from ceil_jax.errors import UserError
from ceil_jax.store.hashing import file_hashes
from ceil_jax.store.locking import disk_errors, held, write
from ceil_jax.store.opened import MOST_FILES, STRICT, Files, RelativePath, Title, checked, titled

LOCK = ".lock"
_CONTENT = r"content-[1-9][0-9]{0,17}"
"""Pattern of the name of the folder that holds the content of a save."""

_LOOKS = 50
"""The number of attempts to read a folder that other processes keep replacing."""

T = TypeVar("T")


@with_config(STRICT)
@dataclass
class Manifest:
    """The content of a manifest."""

    format: Literal[5]
    content: Annotated[str, Field(pattern=f"^{_CONTENT}$")]
    """The name of the save's folder."""
    settings: dict[str, Any]
    """The content of the save that is not in its files."""
    encoders: dict[Annotated[str, Field(pattern=r"^(query_)?encoder$")], Title]
    """Folder → the encoder's name, for messages."""
    files: Annotated[dict[RelativePath, str], Field(max_length=MOST_FILES)]
    """Relative path in the save's folder → sha256."""
    next_id: Annotated[int, Field(ge=0, lt=2**63)] = 0
    """The number of the next example without an id."""


def check_target(folder: Path, manifest: str) -> None:
    """Raise a UserError if a folder exists that is neither empty nor a save with that manifest.

    The remains of a killed first save are accepted.
    """
    if (folder / manifest).exists() or not folder.exists():
        return
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else {""}
    if names and LOCK not in names:
        what = Path(manifest).stem
        raise UserError(f"{folder} exists and is not a {what}; choose another folder")


def save_content(
    folder: Path,
    manifest: str,
    fill: Callable[[Path], None],
    encoders: Mapping[str, Any],
    settings: Mapping[str, Any],
    next_id: int = 0,
) -> None:
    """Replace the content of a saved folder in one step.

    Args:
        folder: the folder; created if needed.
        manifest: the name of its manifest.
        fill: writes the files of the save, without its encoders, into a folder.
        encoders: the encoders by name: "encoder", "query_encoder". One that cannot be saved is left
            out, and has to be given when the folder is loaded.
        settings: JSON values, and dataclasses of them.
        next_id: the number of the next example without an id.

    Raises:
        UserError: the folder holds something else, or the disk is full.
    """
    check_target(folder, manifest)
    with held(folder, LOCK), disk_errors(folder):
        before = [path for path in folder.iterdir() if re.fullmatch(_CONTENT, path.name)]
        numbers = [int(path.name.removeprefix("content-")) for path in before]
        content = folder / f"content-{1 + max(numbers, default=0)}"
        content.mkdir()
        try:
            fill(content)
            for name, encoder in encoders.items():
                if hasattr(encoder, "save_pretrained"):
                    encoder.save_pretrained(content / name)
            record = Manifest(
                format=5,
                content=content.name,
                settings=dict(settings),
                encoders={name: name_of(encoder) for name, encoder in encoders.items()},
                files=file_hashes(content),
                next_id=next_id,
            )
            text = json.dumps(vars(record), indent=1, default=_plain).encode()
            # what a reader would refuse does not replace what is there
            checked(text, Manifest, str(folder / manifest))
            _flush(content)
        except BaseException:
            shutil.rmtree(content, ignore_errors=True)
            raise
        write(folder / manifest, text)
        for path in before:
            shutil.rmtree(path, ignore_errors=True)


def load_content(folder: Path, manifest: str, load: Callable[[Manifest, Files], T]) -> T:
    """Return the result of `load` for a folder's manifest and the files of its save.

    Their sha256 are checked first. If another process replaces the save meanwhile, the new one is
    loaded.

    Raises:
        UserError: the folder has no such manifest; it or a file is damaged; or what `load` raises.
    """
    looks = 0
    while True:
        with Files(folder) as files:
            if manifest not in files:
                raise UserError(
                    f"{folder} holds no {manifest}; expected what save_pretrained wrote"
                )
            text = files.read(manifest)
            record = checked(text, Manifest, str(files.path(manifest)))
        try:
            names = [f"{record.content}/{name}" for name in record.files]
            with Files(folder, names) as files:
                content = files.inside(record.content)
                content.check(record.files)
                return load(record, content)
        except UserError:
            with Files(folder) as files:
                is_replaced = manifest in files and files.read(manifest) != text
            looks += 1
            if not is_replaced or looks == _LOOKS:
                raise


def name_of(encoder: Any) -> str:
    """Return the name of an encoder, for messages: one line."""
    return titled(str(getattr(encoder, "name", "") or type(encoder).__name__))


def read_encoders(manifest: Manifest, files: Files, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the encoders of a save by name; some of them may be given."""
    from ceil_jax.training.free.encoder import FreeEncoder, opened_encoder

    encoders: dict[str, Any] = {}
    for name, title in {**dict.fromkeys(given, ""), **manifest.encoders}.items():
        encoder = given.get(name)
        is_base = not isinstance(encoder, FreeEncoder) and f"{name}/free.json" in files
        if encoder is None or is_base:
            if name not in files:
                raise UserError(
                    f"{files.folder}: its {name}, {title[:80]!r}, is not saved with it; give it: "
                    f"from_pretrained(folder, {name}=…)"
                )
            encoder = opened_encoder(files.inside(name), title, encoder)
        encoders[name] = encoder
    return encoders


def _plain(value: Any) -> Any:
    """Return a dataclass or a numpy number as a JSON value."""
    return value.item() if hasattr(value, "item") else vars(value)


def _flush(content: Path) -> None:
    """Flush the files of a folder to the disk."""
    for file in content.rglob("*"):
        if file.is_file():
            with file.open("rb") as stream:
                os.fsync(stream.fileno())

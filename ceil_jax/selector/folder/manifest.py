"""`selector.json`: the settings of a saved selector, and the checksum of every file that belongs to it.

The file says of itself that it is whole: its text is exactly what writing its content again gives, and holds the
sha256 of the rest of it. It is the one pointer to the folder's current content, and is replaced last.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from ceil_jax.errors import UserError
from ceil_jax.selector.folder.card import Card
from ceil_jax.selector.options import CheckedSettings, count
from ceil_jax.store.hashing import file_hashes, file_sha256
from ceil_jax.tasks.example import Template

FORMAT = 2
"""Format of the folder. Format 1 (one version, no checksum of `selector.json` itself) is still read."""

MANIFEST = "selector.json"
AGAIN = "save or fetch the selector again"


@dataclass(frozen=True)
class SavedEncoder:
    """An encoder's properties that are checked when its folder is loaded."""

    name: str
    dtype: str
    fingerprint: str


@dataclass(frozen=True)
class Manifest:
    """The content of `selector.json`."""

    content: str
    """The folder of the current version, such as "content-3"; "." in format 1."""
    settings: CheckedSettings
    next_id: int
    """The number that the next example without an id gets."""
    encoders: Mapping[str, SavedEncoder]
    """"encoder", and "query_encoder" where queries have one of their own."""
    files: Mapping[str, tuple[str, int | None]]
    """sha256 and size of every file, by its path inside the content's folder. Format 1 names two, without sizes."""

    @property
    def complete(self) -> bool:
        """Whether every file is named; not so in format 1."""
        return self.content != "."


def manifest_text(manifest: Manifest) -> str:
    """Return the text of `selector.json`.

    Raises:
        UserError: a setting that is not a finite number.
    """
    record = {
        "format": FORMAT,
        "content": manifest.content,
        "settings": {**asdict(manifest.settings), "count_tokens": None},
        "next_id": manifest.next_id,
        "encoders": {name: asdict(encoder) for name, encoder in manifest.encoders.items()},
        "files": {path: {"sha256": sha, "size": size} for path, (sha, size) in manifest.files.items()},
    }
    try:
        return _text({**record, "sha256": _checksum(record)})
    except (TypeError, ValueError) as error:
        raise UserError(
            f"the model card cannot be saved: {error}; expected texts and finite numbers"
        ) from None


def read_manifest(file: Path) -> Manifest:
    """Return the content of `selector.json`.

    Raises:
        UserError: the file is missing, damaged or of another format, or a value has the wrong type or range.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(
            f"{file.parent} holds no {file.name}; expected what CeilSelector.save_pretrained wrote"
        ) from None
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read {file}: {error}; {AGAIN}") from None
    damaged = UserError(f"{file} is damaged; {AGAIN}. To change a setting, give it to from_pretrained")
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        raise damaged from None
    if not isinstance(record, dict) or record.get("format") not in (1, FORMAT):
        raise UserError(f"{file} is not of format 1 or {FORMAT}; this version of ceil_jax reads only those")
    if record["format"] == FORMAT:
        body = {key: value for key, value in record.items() if key != "sha256"}
        if text != _text(record) or record.get("sha256") != _checksum(body):
            raise damaged
    try:
        return _manifest(record)
    except (KeyError, TypeError, AttributeError, OverflowError) as error:
        raise UserError(f"{file} has a wrong or missing field ({error!r:.80}); {AGAIN}") from None
    except UserError as error:
        raise UserError(f"{file}: {error}") from None


def describe(folder: Path) -> dict[str, tuple[str, int | None]]:
    """Return sha256 and size of every file under a folder, by its path inside it."""
    return {path: (sha256, (folder / path).stat().st_size) for path, sha256 in file_hashes(folder).items()}


def check_files(manifest: Manifest, folder: Path, contents: bool) -> None:
    """Check that the files of a folder are those that the manifest names.

    Args:
        manifest: what `selector.json` says.
        folder: the folder that holds the current content.
        contents: compare checksums too, which reads every file once.

    Raises:
        UserError: a file that is missing, has another size or content, or is not named.
    """
    for path, (sha256, size) in manifest.files.items():
        file = folder / path
        if not file.is_file():
            raise UserError(f"{file} is missing; {AGAIN}")
        if size not in (None, file.stat().st_size) or (contents and file_sha256(file) != sha256):
            raise UserError(f"{file} is not what {MANIFEST} names: damaged, or of another save; {AGAIN}")
    if manifest.complete:
        for file in folder.rglob("*"):
            if not file.is_dir() and file.relative_to(folder).as_posix() not in manifest.files:
                raise UserError(
                    f"{file} is not named in {MANIFEST}, so it is not read; remove it, or {AGAIN}"
                )


def _text(record: Mapping[str, Any]) -> str:
    return json.dumps(record, indent=1, allow_nan=False) + "\n"


def _checksum(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(_text(body).encode()).hexdigest()


def _manifest(record: Mapping[str, Any]) -> Manifest:
    files: dict[str, tuple[str, int | None]]
    if record["format"] == 1:
        content, saved = ".", record
        files = {_path(path): (_str("sha256", sha), None) for path, sha in record["sha256"].items()}
    else:
        content, saved = _path(record["content"]), record["settings"]
        files = {
            _path(path): (_str("sha256", entry["sha256"]), count("size", entry["size"], least=0))
            for path, entry in record["files"].items()
        }
    encoders = {
        kind: SavedEncoder(**{name: _str(name, value) for name, value in entry.items()})
        for kind, entry in record["encoders"].items()
    }
    if "encoder" not in encoders or not set(encoders) <= {"encoder", "query_encoder"}:
        raise UserError(f"encoders are {', '.join(encoders)}; expected encoder, and perhaps query_encoder")
    return Manifest(content, _settings(saved), count("next_id", record["next_id"], least=0), encoders, files)


def _settings(saved: Mapping[str, Any]) -> CheckedSettings:
    # λ was called diversity in format 1; folders without near_duplicate or keys were saved before there were any
    plain = {"near_duplicate": None, **{key: saved[key] for key in _PLAIN if key in saved}}
    card = {key: _str(f"card, {key}", value) for key, value in saved["card"].items() if key != "metrics"}
    metrics = {_str("metric", name): float(value) for name, value in saved["card"].get("metrics", {}).items()}
    template = {key: _str(f"template, {key}", value) for key, value in saved["template"].items()}
    plain["trade_off"] = saved["trade_off"] if "trade_off" in saved else saved["diversity"]
    return CheckedSettings(**plain, template=Template(**template), card=Card(**card, metrics=metrics))


_PLAIN = ("near_duplicate", "shortlist", "context", "input_key", "output_key")


def _str(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise UserError(f"{name} is {value!r:.60}; expected a text")
    return value


def _path(value: Any) -> str:
    """A relative path that stays inside the folder."""
    parts = PurePosixPath(_str("path", value)).parts
    if not parts or ".." in parts or value.startswith("/") or "\\" in value or ":" in value or "\0" in value:
        raise UserError(f"{value!r:.60} is not a path inside the folder")
    return "/".join(parts)

"""Encoders as bytes, so that a selector can be pickled and sent to worker processes."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any


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

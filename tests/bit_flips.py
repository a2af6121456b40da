"""Folders with one damaged file: a reader refuses them in one line, or reads what was saved."""

import random
import shutil
from collections.abc import Callable
from pathlib import Path

from ceil_jax.errors import UserError


def unbound(
    folder: Path, read: Callable[[Path], object], same: Callable[[object], bool], seed: int
) -> set[str]:
    """Flip a bit of each file in turn, and read the folder. Return the files whose damage made no difference.

    Args:
        folder: what the reader accepts; a copy is damaged.
        read: the reader.
        same: whether the reader's result is what was saved.
        seed: draws the bits.
    """
    copy, draw = folder.with_name(f"{folder.name}-damaged"), random.Random(seed)
    found = set()
    shutil.copytree(folder, copy)
    for file in sorted(file for file in copy.rglob("*") if file.is_file() and file.stat().st_size):
        before = file.read_bytes()
        after = bytearray(before)
        after[draw.randrange(len(after))] ^= 1 << draw.randrange(8)
        file.write_bytes(after)
        try:
            assert same(read(copy)), f"seed {seed}: {file.name} was read as something else"
            found.add(str(file.relative_to(copy)))
        except UserError:
            pass
        file.write_bytes(before)
    shutil.rmtree(copy)
    return found

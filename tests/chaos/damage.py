"""Harms to files, drawn by a seeded generator."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path


def flip(content: bytes, draw: random.Random) -> bytes:
    """One bit is another."""
    if not content:
        return b"\x00"
    place = draw.randrange(len(content))
    return content[:place] + bytes([content[place] ^ 1 << draw.randrange(8)]) + content[place + 1 :]


def truncate(content: bytes, draw: random.Random) -> bytes:
    """The end is missing."""
    return content[: draw.randrange(len(content))] if content else b""


def zero(content: bytes, draw: random.Random) -> bytes:
    """A block is zeros, as after a crash of the machine."""
    place = draw.randrange(len(content) + 1)
    return content[:place] + bytes(len(content[place : place + 64])) + content[place + 64 :]


def drop_line(content: bytes, draw: random.Random) -> bytes:
    """A line is missing."""
    lines = content.splitlines(keepends=True)
    if lines:
        del lines[draw.randrange(len(lines))]
    return b"".join(lines)


def double_line(content: bytes, draw: random.Random) -> bytes:
    """A line stands twice."""
    lines = content.splitlines(keepends=True)
    if lines:
        place = draw.randrange(len(lines))
        lines.insert(place, lines[place])
    return b"".join(lines)


HARMS: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "flip": flip,
    "truncate": truncate,
    "zero": zero,
    "drop line": drop_line,
    "double line": double_line,
}


def harm_file(file: Path, others: Sequence[Path], draw: random.Random) -> str:
    """Harm one file; what was done to it.

    Args:
        file: what to harm.
        others: files that its content may be swapped with; those of the same name are taken where there are any.
        draw: decides how.
    """
    how = draw.choice([*HARMS, "delete", "swap"])
    if how == "delete":
        file.unlink()
    elif how == "swap":
        alike = [other for other in others if other.name == file.name and other != file]
        other = draw.choice(alike or list(others))
        ours, theirs = file.read_bytes(), other.read_bytes()
        file.write_bytes(theirs)
        other.write_bytes(ours)
        return f"swap {file} with {other}"
    else:
        file.write_bytes(HARMS[how](file.read_bytes(), draw))
    return f"{how} {file}"

"""Damage to one file of a folder after another, and the count of what a reader made of it.

A reader has two honest answers to a damaged file: it refuses with one line (`UserError`), or it returns what was
saved because the damage is in what it does not read. A traceback and other content are failures.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from chaos.attempt import attempt
from chaos.damage import HARMS

FLIPS = [*HARMS, *["flip"] * 15]
"""Four of five harms are one flipped bit."""


@dataclass
class Damaged:
    """The outcomes of so many damaged folders."""

    tried: int = 0
    refused: int = 0
    unchanged: list[str] = field(default_factory=list)
    """The files whose damage made no difference."""
    failures: list[str] = field(default_factory=list)
    """Each with what repeats it."""

    def __str__(self) -> str:
        lines = [f"{self.tried} tried, {self.refused} refused, {len(self.failures)} failures", *self.failures]
        return "\n".join(lines)


def fuzz_folder(
    folder: Path, read: Callable[[Path], object], same: Callable[[object], bool], count: int, seed: int
) -> Damaged:
    """Damage one file at a time, in turn, and read the folder.

    Args:
        folder: what a reader accepts; it is copied, and the copy is damaged.
        read: the reader.
        same: whether the reader's result is what was saved.
        count: how many times to damage something.
        seed: repeats all of it.
    """
    copy = folder.with_name(f"{folder.name}-damaged")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder, copy)
    files = sorted(file for file in copy.rglob("*") if file.is_file())
    found = Damaged()
    for number in range(count):
        draw, file = random.Random(f"{seed} {number}"), files[number % len(files)]
        how, before = draw.choice(FLIPS), file.read_bytes()
        name = str(file.relative_to(copy))
        file.write_bytes(HARMS[how](before, draw))
        outcome, failure = attempt(lambda: read(copy), f"seed {seed}, number {number}: {how} in {name}", same)
        file.write_bytes(before)
        found.tried += 1
        found.refused += outcome == "refused in one line"
        if outcome == "read":
            found.unchanged.append(name)
        if failure:
            found.failures.append(failure)
    shutil.rmtree(copy)
    return found

"""Damage to the files of a folder, seeded, and the count of what a reader made of it.

A reader has three honest answers to a damaged file: it refuses with one line (`UserError`), it returns what was saved
because the damage is in what it does not read, or it fails this check. A traceback and other content are failures.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from ceil_jax import UserError


@dataclass
class Tally:
    """What happened to so many damaged folders."""

    tried: int = 0
    refused: int = 0
    unchanged: list[str] = field(default_factory=list)
    """The files whose damage made no difference."""
    failures: list[str] = field(default_factory=list)
    """Each with what repeats it."""

    def __str__(self) -> str:
        lines = [f"{self.tried} tried, {self.refused} refused, {len(self.failures)} failures", *self.failures]
        return "\n".join(lines)


@contextmanager
def damaged(file: Path, change: Callable[[bytearray], None]) -> Iterator[None]:
    """Change the bytes of a file for the length of a block."""
    before = file.read_bytes()
    after = bytearray(before)
    change(after)
    file.write_bytes(after)
    try:
        yield
    finally:
        file.write_bytes(before)


def flip(random_: random.Random) -> Callable[[bytearray], None]:
    """Return a change that flips one bit."""

    def change(content: bytearray) -> None:
        if content:
            content[random_.randrange(len(content))] ^= 1 << random_.randrange(8)

    return change


def cut(random_: random.Random) -> Callable[[bytearray], None]:
    """Return a change that removes the end."""

    def change(content: bytearray) -> None:
        if content:
            del content[random_.randrange(len(content)) :]

    return change


def fuzz_folder(
    folder: Path, read: Callable[[Path], object], same: Callable[[object], bool], count: int, seed: int
) -> Tally:
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
    tally = Tally()
    for number in range(count):
        random_ = random.Random(f"{seed} {number}")
        file = files[number % len(files)]
        kind = flip if random_.random() < 0.8 else cut
        again = f"seed {seed}, number {number}: {kind.__name__} in {file.relative_to(copy)}"
        tally.tried += 1
        with damaged(file, kind(random_)):
            try:
                result = read(copy)
            except UserError as error:
                tally.refused += 1
                if len(str(error).splitlines()) != 1:
                    tally.failures.append(f"{again}: a message of several lines: {error}")
                continue
            except Exception as error:
                tally.failures.append(f"{again}: {type(error).__name__}: {error}")
                continue
        if same(result):
            tally.unchanged.append(str(file.relative_to(copy)))
        else:
            tally.failures.append(f"{again}: read as something else")
    shutil.rmtree(copy)
    return tally

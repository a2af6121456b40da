"""Damaged folders of a selector: refused with one line, or read as what was saved."""

from __future__ import annotations

import random
import shutil
import tempfile
from functools import cached_property
from pathlib import Path

from selector_words import ROWS

from ceil_jax import CeilSelector, load_encoder
from chaos.attempt import attempt
from chaos.bit_flips import fuzz_folder
from chaos.damage import harm_file

FLIPPED_AT_ONCE = 12
"""Files harmed, one after the other, in one case of `flipped`."""

SETTINGS = ("trade_off", "near_duplicate", "shortlist", "template", "context", "card")


class SelectorFolders:
    """Two saved selectors: one to read, and one whose files may take the place of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @cached_property
    def whole(self) -> tuple[CeilSelector, Path, Path]:
        """The selector, its folder, and the other one's."""
        tiny = load_encoder("tiny")
        selector = CeilSelector.from_examples(ROWS, encoder=tiny, trade_off=0.2, shortlist=30)
        other = CeilSelector.from_examples(ROWS[::-1], encoder=tiny, trade_off=0.3)
        ours, theirs = self.folder / "selectors" / "ours", self.folder / "selectors" / "theirs"
        selector.save_pretrained(ours)
        other.save_pretrained(theirs)
        return selector, ours, theirs

    def _same(self, loaded: object) -> bool:
        selector = self.whole[0]
        return loaded.examples == selector.examples and all(
            getattr(loaded, name) == getattr(selector, name) for name in SETTINGS
        )

    def flipped(self, draw: random.Random) -> tuple[str, str]:
        """One file after another, mostly a bit of each."""
        found = fuzz_folder(
            self.whole[1], CeilSelector.from_pretrained, self._same, FLIPPED_AT_ONCE, draw.randrange(10**9)
        )
        return f"{FLIPPED_AT_ONCE} files each", "; ".join(found.failures)

    def damaged(self, draw: random.Random) -> tuple[str, str]:
        """One to three files harmed, deleted, or swapped within the folder or with those of another selector."""
        _, ours, theirs = self.whole
        with tempfile.TemporaryDirectory(dir=self.folder) as scratch:
            copy, other = Path(scratch) / "ours", Path(scratch) / "theirs"
            shutil.copytree(ours, copy)
            shutil.copytree(theirs, other)
            harms = []
            for _ in range(draw.randint(1, 3)):
                found = _files(copy)
                others = found if draw.random() < 0.5 else _files(other)
                harms.append(harm_file(draw.choice(found), others, draw).replace(f"{scratch}/", ""))
            return attempt(lambda: CeilSelector.from_pretrained(copy), "; ".join(harms), self._same)


def _files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.rglob("*") if file.is_file() and file.name != ".lock")

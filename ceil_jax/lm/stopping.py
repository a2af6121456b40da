"""Stop strings: the text that an LM generates ends before the first of them."""

from __future__ import annotations

from collections.abc import Sequence


def first_stop(text: str, stop: Sequence[str]) -> int | None:
    """Return where the earliest stop string begins in `text`; None if there is none."""
    starts = [start for string in stop if (start := text.find(string)) >= 0]
    return min(starts, default=None)


def cut(text: str, stop: Sequence[str]) -> str:
    """Return `text` before its first stop string, with nothing else removed.

    The released CEIL code calls `.strip("<|endoftext|>")`, which removes letters: "find /home -type f" becomes
    "ind /home -type".
    """
    return text[: first_stop(text, stop)]

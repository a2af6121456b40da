"""Where a generated text ends."""

from __future__ import annotations

from collections.abc import Sequence

from ceil_jax.errors import UserError


def first_stop(text: str, stop: Sequence[str]) -> int | None:
    """Where the earliest stop string begins in `text`; None if there is none."""
    starts = [start for string in stop if (start := text.find(string)) >= 0]
    return min(starts, default=None)


def cut(text: str, stop: Sequence[str]) -> str:
    """`text` before its first stop string. Nothing else is taken away, as the released CEIL code does with
    `.strip("<|endoftext|>")`, which eats letters: "find /home -type f" → "ind /home -type"."""
    return text[: first_stop(text, stop)]


def check_sampling(stop: Sequence[str], temperature: float) -> None:
    """Refuses a negative temperature, and a stop that would stop at nothing or at everything: a bare string
    (taken for its letters), an empty one."""
    if temperature < 0:
        raise UserError(f"temperature is {temperature}; it must be 0 (greedy) or more")
    if isinstance(stop, str) or "" in stop:
        raise UserError(f"stop is {stop!r}; it must be a list of non-empty strings, such as ['\\n']")

"""Cutting generated text where it ends."""

from __future__ import annotations

from collections.abc import Sequence

from ceil_jax.errors import UserError


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


def seed_of_each(prompts: Sequence[str], seed: int | Sequence[int]) -> Sequence[int]:
    """Return the seed of each prompt.

    Args:
        prompts: N prompts.
        seed: one for all, or one for each.
    """
    return [seed] * len(prompts) if isinstance(seed, int) else seed


def check_sampling(stop: Sequence[str], temperature: float) -> None:
    """Check the arguments of `generate`.

    Raises:
        UserError: the temperature is negative; `stop` is a bare string, which would be taken for its letters, or
            holds an empty one, which would stop at once.
    """
    if temperature < 0:
        raise UserError(f"temperature is {temperature}; it must be 0 (greedy) or more")
    if isinstance(stop, str) or "" in stop:
        raise UserError(f"stop is {stop!r}; it must be a list of non-empty strings, such as ['\\n']")

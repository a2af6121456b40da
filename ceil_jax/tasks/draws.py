"""Draws by a seed: some of a list's items, and the random numbers of one text."""

from __future__ import annotations

import random
import zlib
from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from ceil_jax.errors import UserError

T = TypeVar("T")


def draw(items: Sequence[T], limit: int | None, seed: int) -> Sequence[T]:
    """Return `limit` of the items, at least 1, or all with None, in their own order.

    The same seed keeps the same places of lists of equal length.
    """
    if limit is not None and limit < 1:
        raise UserError(f"a limit of {limit} rows: expected at least 1, or none for all")
    if limit is None or limit >= len(items):
        return items
    order = list(range(len(items)))
    random.Random(seed).shuffle(order)
    return [items[i] for i in sorted(order[:limit])]


def text_rng(text: str, *seeds: int) -> np.random.Generator:
    """Return the random generator of one text (a query's id, or a prompt) and some seeds.

    A query's draws are therefore the same whichever other queries are asked, in whatever order.
    """
    return np.random.default_rng([*seeds, zlib.crc32(text.encode())])

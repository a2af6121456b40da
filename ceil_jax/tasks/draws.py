"""Seeded draws: a sample of a list, and the random generator of one text."""

from __future__ import annotations

import random
import zlib
from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from ceil_jax.errors import UserError

T = TypeVar("T")


def draw(items: Sequence[T], limit: int | None, seed: int) -> Sequence[T]:
    """Return a random sample of `limit` items (at least 1; None for all), in their original order.

    Lists of equal length and the same seed give the same positions.
    """
    if limit is not None and limit < 1:
        raise UserError(f"a limit of {limit} rows: expected at least 1, or none for all")
    if limit is None or limit >= len(items):
        return items
    order = list(range(len(items)))
    random.Random(seed).shuffle(order)
    return [items[i] for i in sorted(order[:limit])]


def text_rng(text: str, *seeds: int) -> np.random.Generator:
    """Return a random generator seeded by a text and some integers.

    The text is a query's id, or a prompt. So the draws for a query do not depend on the other
    queries and their order.
    """
    return np.random.default_rng([*seeds, zlib.crc32(text.encode())])

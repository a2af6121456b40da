"""How fast machines are, for estimates before any work is done. Where each number comes from stands beside it."""

from __future__ import annotations

from typing import NamedTuple


class Machine(NamedTuple):
    """Rates in parameters × tokens a second: a network twice as large takes twice as long."""

    name: str
    lm: float
    """Tokens an LM reads, or writes in batches."""
    encode: float
    train: float
    """Forward and backward together."""


SMOLLM2, MINILM = 134.5e6, 22.7e6

TWO_CORES = Machine(
    "2 CPU cores (measured)",
    # SmolLM2-135M in bfloat16 reads about 1,900 tokens a second
    lm=SMOLLM2 * 1900,
    # all-MiniLM-L6-v2 encodes about 290 sentences a second, of 32 tokens with their padding
    encode=MINILM * 290 * 32,
    # and trains on 48 texts of 64 tokens in 1.5 to 2 seconds
    train=MINILM * 48 * 64 / 1.75,
)

_H100_BF16 = 989e12  # dense bfloat16 FLOP/s, the maker's figure for the SXM model
_H100_TF32 = 495e12

ONE_H100 = Machine(
    "one H100 (an estimate from its peak, not measured)",
    # 2 FLOP a parameter and token, at 40 % of the peak
    lm=0.4 * _H100_BF16 / 2,
    # short texts in small networks: 10 % of the peak
    encode=0.1 * _H100_TF32 / 2,
    # the backward pass costs twice the forward one
    train=0.1 * _H100_TF32 / 6,
)

WRITING = 4.0
"""A written token costs as many read ones: a guess, because a step writes one token a text."""

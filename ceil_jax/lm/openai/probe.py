"""The probe: are a server's log-probabilities what they should be? Asked before the first score."""

from __future__ import annotations

import secrets
from collections.abc import Callable

from ceil_jax.errors import UserError
from ceil_jax.lm.openai.alignment import ScoredText
from ceil_jax.lm.openai.client import Refused

DRIFT = 0.3
"""The most nats by which a token's log-probability may differ between two readings: bfloat16 logits
of 16 to 32 are 0.125 apart."""
SURPRISE = 1.0
"""The fewest nats by which an expected word must be more likely than a word that is new to the
text."""


def probe(score: Callable[[str, str], ScoredText], where: str) -> None:
    """Score a known prompt with two endings, in two orders, twice.

    The prompt repeats two colours in turn. It begins with random digits, so that nothing of it is
    in a server's cache, and is long enough to fill several of the blocks of 16 tokens that prefix
    caches keep.

    - The prompt's tokens must have log-probabilities: llama.cpp's server gives those of the
      generated tokens only, `transformers serve` none.
    - The colour that comes next must be more likely than another word. It is not where each
      log-probability belongs to the token before or behind.
    - The prompt alone and the prompt with either ending must agree in the prompt's tokens, and each
      text must have the same log-probabilities the second time: with prefix caching, some versions
      of vLLM return stale memory for prompt tokens that were read before.

    `score` asks anew each time. A server that fails is a UserError, which names the address and
    says what to do.
    """
    prompt = f"Sample {secrets.randbelow(10**8):08d}:" + " red blue" * 48 + " red"
    try:
        first, other = score(prompt, " blue"), score(prompt, " stone")
    except Refused as refusal:
        raise UserError(
            f"{refusal}. Scoring needs log-probabilities of the prompt's own tokens (echo, "
            "logprobs), as vLLM and SGLang give them; without them a server can only generate"
        ) from None
    if sum(first.of_continuation) - sum(other.of_continuation) < SURPRISE:
        raise UserError(
            f"{where}: the next word of a repeated pattern is no more likely than any other, so "
            "its log-probabilities belong to other tokens than it says; update the server"
        )
    # the second time the other way round
    alone, again_odd, again = score(prompt, ""), score(prompt, " stone"), score(prompt, " blue")
    for one, two, length, what in (
        (first, other, min(first.start, other.start), "another ending"),
        (first, alone, min(first.start, len(alone.tokens)), "its beginning alone"),
        (first, again, len(first.tokens), "the same text again"),
        (other, again_odd, len(other.tokens), "the same text again"),
    ):
        if one.tokens[:length] != two.tokens[:length]:
            raise UserError(
                f"{where}: the same text has other tokens when it is read with {what}; update the "
                "server"
            )
        furthest = max(
            abs(a - b) for a, b in zip(one.log_probs[:length], two.log_probs, strict=False)
        )
        if furthest > DRIFT:
            raise UserError(
                f"{where}: scores depend on what was asked before (a token differs by "
                f"{furthest:.2f} nats when the server then reads {what}); switch prefix caching "
                "off: vLLM --no-enable-prefix-caching, SGLang --disable-radix-cache"
            )

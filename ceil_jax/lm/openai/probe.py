"""The probe: are a server's log-probabilities what they should be? Asked before the first score."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import NamedTuple

from ceil_jax.errors import UserError
from ceil_jax.lm.openai.alignment import Misaligned, continuation_tokens

DRIFT = 0.3
"""The most nats by which a token's log-probability may differ between two readings: bfloat16 logits of 16 to 32
are 0.125 apart."""
SURPRISE = 1.0
"""The fewest nats by which an expected word must be more likely than a word that is new to the text."""


class TokenScores(NamedTuple):
    """The tokens of a text, in order; a server may put special tokens before them."""

    tokens: list[str]
    """The spelling of each token."""
    log_probs: list[float | None]
    """The log-probability of each token given its prefix, in nats; None for a token without a prefix."""


def probe(score: Callable[[str], TokenScores], where: str) -> None:
    """Score a known prompt with two endings, in two orders, twice.

    The prompt repeats two colours in turn. It begins with random digits, so that nothing of it is in a server's
    cache, and is long enough to fill several of the blocks of 16 tokens that prefix caches keep.

    - The prompt's tokens must have log-probabilities: llama.cpp's server gives those of the generated tokens
      only, `transformers serve` none.
    - The colour that comes next must be more likely than another word. It is not where each log-probability
      belongs to the token before or behind.
    - The prompt alone and the prompt with either ending must agree in the prompt's tokens, and each text must
      have the same log-probabilities the second time: with prefix caching, some versions of vLLM return stale
      memory for prompt tokens that were read before.

    `score` asks anew each time. A server that fails is a UserError, which names the address and says what to do.
    """
    prompt = f"Sample {secrets.randbelow(10**8):08d}:" + " red blue" * 48 + " red"
    expected, odd = prompt + " blue", prompt + " stone"
    first = score(expected)
    tokens = _continuation(first, expected, len(prompt), where)
    other = score(odd)
    odd_tokens = _continuation(other, odd, len(prompt), where)
    likely = sum(first.log_probs[place] or 0.0 for place in tokens)
    unlikely = sum(other.log_probs[place] or 0.0 for place in odd_tokens)
    if likely - unlikely < SURPRISE:
        raise UserError(
            f"{where}: the next word of a repeated pattern is no more likely than any other, so its "
            "log-probabilities belong to other tokens than it says; update the server"
        )
    # the second time the other way round
    alone, again_odd, again = score(prompt), score(odd), score(expected)
    _agree(first, other, min(tokens.start, odd_tokens.start), "another ending", where)
    _agree(first, alone, min(tokens.start, len(alone.tokens)), "its beginning alone", where)
    _agree(first, again, len(first.tokens), "the same text again", where)
    _agree(other, again_odd, len(other.tokens), "the same text again", where)


def _continuation(scores: TokenScores, text: str, start: int, where: str) -> range:
    """The places of the last word's tokens, once every token of the text but the first has a log-probability."""
    remedy = "so it can generate but not score; serve the model with vLLM or SGLang"
    if not scores.tokens[1:]:
        raise UserError(
            f"{where} returns no log-probabilities of the prompt (asked with echo and logprobs), {remedy}"
        )
    try:
        places = continuation_tokens(scores.tokens, text, start)
    except Misaligned as problem:
        raise UserError(
            f"{where}: its tokens do not spell the text that was sent ({problem}), {remedy}"
        ) from None
    if None in scores.log_probs[1 : places.stop]:
        raise UserError(f"{where} returns log-probabilities of some of the prompt's tokens only, {remedy}")
    return places


def _agree(one: TokenScores, two: TokenScores, length: int, what: str, where: str) -> None:
    """Check that two readings give the first `length` tokens the same log-probabilities."""
    if one.tokens[:length] != two.tokens[:length]:
        raise UserError(
            f"{where}: the same text has other tokens when it is read with {what}; update the server"
        )
    pairs = zip(one.log_probs[:length], two.log_probs[:length], strict=True)
    furthest = max((abs((a or 0.0) - (b or 0.0)) for a, b in pairs), default=0.0)
    if furthest > DRIFT:
        raise UserError(
            f"{where}: scores depend on what was asked before (a token differs by {furthest:.2f} nats when the "
            f"server then reads {what}); switch prefix caching off: vLLM --no-enable-prefix-caching, SGLang "
            "--disable-radix-cache"
        )

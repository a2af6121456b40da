"""The log-probabilities in a server's answer, and which of its tokens belong to a continuation.

Servers return tokens as strings. Their offsets cannot be used: SGLang's are all −1, and vLLM's
count the characters of a start-of-text token that is not in the text. So this module aligns the
tokens with the text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any, NamedTuple

_NAMELESS = re.compile(r"^$|\ufffd|^<0x[0-9A-Fa-f]{2}>$|^bytes:")
"""The names that servers give to a token that is only a part of a character; "" if a later token
has the whole character."""


_HIGHEST = 1e-3
"""The largest number that is accepted as a log-probability: rounding may make one slightly larger than 0."""


class ScoredText(NamedTuple):
    """The tokens of a prompt and its continuation, in order.

    A server may put special tokens before them.
    """

    tokens: list[str]
    log_probs: list[float]
    """The log-probability of each token given its prefix, in nats; 0 for the first one if the
    server gives none."""
    start: int
    """The position of the continuation's first token."""
    alternatives: Mapping[str, float] = {}
    """The log-probabilities of other single tokens in place of the continuation, by text; empty if
    they cannot be determined, because spaces are lost or a token covers both sides of the
    boundary."""

    @property
    def of_continuation(self) -> list[float]:
        return self.log_probs[self.start :]


def scored_text(choice: Any, prompt: str, continuation: str) -> ScoredText:
    """Return the scores from a choice of /completions.

    The text was sent with `echo` and `logprobs`.

    Raises:
        ValueError: the tokens do not spell the text, or a log-probability is missing.
    """
    logprobs = choice.get("logprobs") or {}
    text = prompt + continuation
    tokens = logprobs.get("tokens") or []
    log_probs = logprobs.get("token_logprobs") or []
    if not tokens:
        raise ValueError("no log-probabilities of the text's own tokens")
    if len(tokens) != len(log_probs):
        raise ValueError(f"{len(tokens)} tokens with {len(log_probs)} log-probabilities")
    # a server may generate a token although none was requested
    if choice.get("text") not in (text, "", None) and len(tokens) > 1:
        tokens = tokens[:-1]
    positions = continuation_tokens(tokens, text, len(prompt))
    first_log_prob = log_probs[:1]
    rest = log_probs[1 : positions.stop]
    if None in rest:
        raise ValueError("log-probabilities of some of the tokens only")
    if first_log_prob == [None]:
        if not positions.start:
            raise ValueError(
                "a text's first token has none; give every prompt at least one character"
            )
        first_log_prob = [0.0]
    for log_prob in first_log_prob + rest:
        if not -math.inf < log_prob <= _HIGHEST:
            raise ValueError(f"{log_prob} is not a log-probability")
    tokens = tokens[: positions.stop]
    others = _alternatives(
        logprobs.get("top_logprobs"), tokens, positions.start, prompt, continuation
    )
    return ScoredText(tokens, first_log_prob + rest, positions.start, others)


def _alternatives(
    top: Any, tokens: list[str], start: int, prompt: str, continuation: str
) -> dict[str, float]:
    """The log-probabilities of other tokens in place of the continuation's first one.

    Args:
        top: the server's `top_logprobs`: for each position, a mapping from tokens to
            log-probabilities; or whatever else a server sends there.
        tokens: the tokens of the prompt and the continuation.
        start: the position of the continuation's first token.
        prompt: the text of the prompt; without one, the first token has no alternatives.
        continuation: the text of the continuation.
    """
    # a server's tokens may lack spaces, or a token may cover both sides of the boundary
    prompt_is_spelt = "".join(tokens[:start]).endswith(prompt)
    continuation_is_spelt = "".join(tokens[start:]) == continuation
    if not prompt or not prompt_is_spelt or not continuation_is_spelt:
        return {}
    if not isinstance(top, list) or start >= len(top):
        return {}
    alternatives = top[start]
    if not isinstance(alternatives, dict):
        return {}
    return {
        token: float(log_prob)
        for token, log_prob in alternatives.items()
        if isinstance(log_prob, int | float) and -math.inf < log_prob <= _HIGHEST
    }


def continuation_tokens(tokens: Sequence[str], text: str, start: int) -> range:
    """Return the positions of the tokens that end after character `start` of the text.

    Special tokens before the text (start-of-text) end at 0, and tokens that were generated after it
    are left out. A token may lack the space before it, as with some tokenizers. If several tokens
    share a character, each of them ends with it, as in the offsets of Hugging Face's tokenizers.

    Raises:
        ValueError: the tokens spell another text; or `start` is inside characters whose tokens
            cannot be told apart.
    """
    ends: list[int] = []
    position = 0
    while len(ends) < len(tokens) and position < len(text):
        rest = tokens[len(ends) :]
        nameless = list(takewhile(_NAMELESS.search, rest))
        named = list(takewhile(lambda token: not _NAMELESS.search(token), rest[len(nameless) :]))
        match = _match(nameless, named, text, position)
        if match is None:
            if position:
                raise ValueError(
                    f"token {len(ends)} is {rest[0][:40]!r} at {text[position:][:20]!r}"
                )
            # a special token before the text
            ends.append(0)
            continue
        end, named_ends = match
        if position < start < end:
            raise ValueError(f"the tokens of {text[position:end]!r} have no names of their own")
        # nameless tokens that take no text are parts of the character that the next token has as a
        # whole, and end with it; before the text there is no such character
        inside_next = end == position and position > 0
        ends += [end + 1 if inside_next else end] * len(nameless)
        ends += named_ends
        position = ends[-1]
    if position < len(text):
        raise ValueError(f"the tokens spell {position} of the text's {len(text)} characters")
    beginning = next((number for number, end in enumerate(ends) if end > start), len(ends))
    return range(beginning, len(ends))


def _match(
    nameless: Sequence[str], named: Sequence[str], text: str, position: int
) -> tuple[int, list[int]] | None:
    """The position at which some nameless tokens end, and the ends of the named tokens after them.

    None if the tokens do not match the text from `position` on.

    A nameless token has at most one character, and none if it is the empty string. They end at the
    first position at which the named tokens match.
    """
    first = position + 1 if any(nameless) else position
    last = min(position + len(nameless), len(text))
    for end in range(first, last + 1):
        named_ends = _ends(named, text, end)
        if named_ends is not None and (named or end == len(text)):
            return end, named_ends
    return None


def _ends(named: Sequence[str], text: str, position: int) -> list[int] | None:
    """The end position of each token from a position on, up to the end of the text.

    A space may precede each token. None if the tokens do not match the text.
    """
    ends: list[int] = []
    for token in named:
        if position == len(text):
            break
        spelt = next(
            (spelling for spelling in (token, " " + token) if text.startswith(spelling, position)),
            None,
        )
        if spelt is None:
            return None
        position += len(spelt)
        ends.append(position)
    return ends

"""The probe: what can a server do? Asked before anything else, with a dozen small requests at
most."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

from ceil_jax.errors import UserError
from ceil_jax.lm.openai.alignment import ScoredText
from ceil_jax.lm.openai.client import CUT, Client, in_order
from ceil_jax.lm.openai.http import Refused

DRIFT = 0.3
"""The most nats by which a token's log-probability may differ between two readings: bfloat16 logits
of 16 to 32 are 0.125 apart."""
SURPRISE = 1.0
"""The fewest nats by which an expected word must be more likely than a word that is new to the
text."""
ALTERNATIVES = (20, 5, 1)
"""Numbers of alternatives to ask for with each token's log-probability, tried in this order: the
most that vLLM allows, the most that OpenAI allows, and the fewest for which SGLang gives
log-probabilities."""
_GREETING = "Say yes."
_TOKENS = 16
"""The tokens that the probe lets a server write: some refuse fewer."""
_FATAL = (401, 408, 409, 429, 502, 503, 504)
"""A key that is wanted, and what passes: nothing is known of the server then."""


class Interface(NamedTuple):
    """How a server is asked for texts."""

    path: str
    """/completions or /chat/completions."""
    lists: bool = True
    """Whether /completions takes several prompts in one request."""
    why: str = ""
    """Why chat is asked."""

    @property
    def chat(self) -> bool:
        return self.path == "/chat/completions"


def find_interface(client: Client, model: str, chat: bool) -> Interface:
    """Return how a server writes texts: by /completions, of a list of prompts or of one prompt, or
    else by chat.

    Args:
        client: asks the server.
        model: the model's name there.
        chat: whether chat is wanted, whatever else there is.

    Raises:
        UserError: the server has neither, does not know the model, or wants a key.
    """
    why = "--endpoint.chat"
    refusals = []
    if not chat:
        for lists in (True, False):
            prompt = [_GREETING] if lists else _GREETING
            try:
                client.post("/completions", _body(model, prompt=prompt), _completion)
                return Interface("/completions", lists)
            except Refused as refusal:
                if refusal.status in _FATAL:
                    raise
                refusals.append(refusal)
            if refusals[-1].status in (404, 405, 501):
                break
        why = str(refusals[-1])
    message = {"role": "user", "content": _GREETING}
    try:
        client.post("/chat/completions", _body(model, messages=[message]), _choices)
    except Refused as refusal:
        if refusal.status in _FATAL:
            raise
        # a reasoning model that could not end is there all the same
        if not CUT.search(str(refusal)):
            hint = "an address often ends in /v1, and a model is named as the server names it"
            messages = [str(error) for error in (*refusals[:1], refusal)]
            raise Refused(f"{'; '.join(messages)}; {hint}", refusal.status) from None
    return Interface("/chat/completions", why=why)


def _body(model: str, **prompt: Any) -> dict[str, Any]:
    return {"model": model, **prompt, "max_tokens": _TOKENS, "temperature": 0.0}


def _completion(answer: Any) -> Any:
    [choice] = in_order(answer["choices"], 1)
    return choice["text"]


def _choices(answer: Any) -> Sequence[Any]:
    choices: Sequence[Any] = answer["choices"]
    if not isinstance(choices, list):
        raise ValueError("choices that are no list")
    return choices


class Score(Protocol):
    """Asks a server anew for the scores of a prompt and a continuation."""

    def __call__(self, prompt: str, continuation: str, *, alternatives: int) -> ScoredText: ...


def most_alternatives(score: Score) -> int:
    """Return how many alternatives to each token a server gives, 0 if they cannot be used, after
    the check that its log-probabilities are what they should be (`check_scores`).

    Raises:
        Refused: it gives none of the prompt's own tokens.
        UserError: see `check_scores`.
    """
    for alternatives in ALTERNATIVES[:-1]:
        try:
            return alternatives * check_scores(partial(score, alternatives=alternatives))
        except Refused as refusal:
            if refusal.status not in (400, 422):
                raise
    return check_scores(partial(score, alternatives=ALTERNATIVES[-1])) * ALTERNATIVES[-1]


def check_scores(score: Callable[[str, str], ScoredText]) -> bool:
    """Score a known prompt with two endings, in two orders, twice. Return whether the log-probability
    of an ending also stands among the alternatives to another one.

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

    Raises:
        UserError: a check fails; the message says what is wrong and what to do.
    """
    prompt = f"Sample {secrets.randbelow(10**8):08d}:" + " red blue" * 48 + " red"
    scored = score(prompt, " blue")
    other = score(prompt, " stone")
    if sum(scored.of_continuation) - sum(other.of_continuation) < SURPRISE:
        raise UserError(
            "the next word of a repeated pattern is no more likely than any other, so its "
            "log-probabilities belong to other tokens than it says; update the server"
        )
    # the second time the other way round
    alone = score(prompt, "")
    other_again = score(prompt, " stone")
    first_again = score(prompt, " blue")
    for text, same, length, what in (
        (scored, other, min(scored.start, other.start), "another ending"),
        (scored, alone, min(scored.start, len(alone.tokens)), "its beginning alone"),
        (scored, first_again, len(scored.tokens), "the same text again"),
        (other, other_again, len(other.tokens), "the same text again"),
    ):
        if text.tokens[:length] != same.tokens[:length]:
            raise UserError(
                f"the same text has other tokens when it is read with {what}; update the server"
            )
        furthest = max(
            abs(a - b) for a, b in zip(text.log_probs[:length], same.log_probs, strict=False)
        )
        if furthest > DRIFT:
            raise UserError(
                f"scores depend on what was asked before (a token differs by {furthest:.2f} nats "
                f"when the server then reads {what}); switch prefix caching off: vLLM "
                "--no-enable-prefix-caching, SGLang --disable-radix-cache"
            )
    expected = sum(scored.of_continuation)
    return abs(other.alternatives.get(" blue", -math.inf) - expected) <= DRIFT

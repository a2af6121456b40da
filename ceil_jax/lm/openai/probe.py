"""The probe: at most a dozen small requests that find out what a server can do, before any other request."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar

from ceil_jax.errors import UserError
from ceil_jax.lm.messages import Messages
from ceil_jax.lm.openai.alignment import ScoredText
from ceil_jax.lm.openai.chat import chat_answer, held_to, label_in
from ceil_jax.lm.openai.client import FIRST_ATTEMPTS, Client, Refused, in_order
from ceil_jax.lm.openai.labels import FirstTokens, label_log_probs

DRIFT = 0.3
"""The largest difference, in nats, between two readings of a token's log-probability: neighbouring
bfloat16 logits from 16 to 32 differ by 0.125."""
SURPRISE = 1.0
"""The number of nats by which an expected word must be more likely than a word that is new to the text."""
ALTERNATIVES = (20, 5, 1)
"""Numbers of alternatives to request for each token, tried in this order: the most that vLLM
allows, the most that OpenAI allows, and the fewest with which SGLang returns log-probabilities."""
MOST_ALTERNATIVES = max(ALTERNATIVES)
_FIRST_TOKENS = (100, 20, 5)
"""Numbers of first tokens of a chat's answer to request, tried in this order: what a server of
one's own can give (vLLM with --max-logprobs 100), the most that OpenAI allows, and fewer. One
token, that of the answer itself, says nothing about the other labels."""
_GREETING = "Say yes."
FEW_TOKENS = 16
"""The token limit of requests whose text is not needed; some servers refuse fewer."""
_ENOUGH_TOKENS = 1024
"""The token limit of such requests to a model that reasons first."""
_COLOURS = ("turquoise", "vermilion")
"""Labels with which no LM answers a greeting unless it is constrained to them."""
DICTATED = "Write this and nothing else: {label}"
_SHOWN = ("river", "Seven", "old oak")
"""Texts for earlier turns of a dictation: a small LM follows an example rather than an instruction."""
_FATAL = (401, 408, 409, 429, 502, 503, 504)
"""HTTP statuses of a missing key and of temporary failures, which say nothing about what the server can do."""


Out = TypeVar("Out")


class Interface(NamedTuple):
    """The HTTP interface by which a server generates texts, as the probe found it."""

    path: str
    """/completions or /chat/completions."""
    lists: bool = False
    """Whether /completions accepts several prompts in one request."""
    limit: str = "max_tokens"
    """The field of a request that limits the number of tokens of an answer."""
    warm: bool = False
    """Whether the server refuses a temperature of 0, as some reasoning models do."""
    system: bool = True
    """Whether a chat may begin with a system message."""
    labels: bool = False
    """Whether answers of a chat can be constrained to labels."""
    why: str = ""
    """The reason why the chat interface is used."""

    @property
    def chat(self) -> bool:
        return self.path == "/chat/completions"

    def settings(self, limit: int, temperature: float = 0.0) -> dict[str, Any]:
        """Return the fields of a request for at most `limit` tokens."""
        if self.warm and not temperature:
            return {self.limit: limit}
        return {self.limit: limit, "temperature": temperature}


def find_interface(client: Client, model: str, chat: bool) -> Interface:
    """Return a server's interface: /completions with a list of prompts or one, or chat.

    Args:
        client: asks the server.
        model: the model's name there.
        chat: whether chat is used, even if the server has another interface.

    Raises:
        UserError: the server has neither interface, does not know the model, or wants a key.
    """
    refusals: list[Refused] = []

    def answers(interface: Interface, read: Callable[[Any], Any], limit: int, **body: Any) -> bool:
        """Return whether the server answers a greeting."""
        asked = {"model": model, **body, **interface.settings(limit)}
        try:
            asked_first(partial(client.ask, interface.path, asked, read))
            return True
        except Refused as refusal:
            if refusal.status in _FATAL:
                raise
            refusals.append(refusal)
            return False

    if not chat:
        for lists in (True, False):
            interface = Interface("/completions", lists)
            prompt = [_GREETING] if lists else _GREETING
            if answers(interface, _completion, FEW_TOKENS, prompt=prompt):
                return interface
            if refusals[-1].status in (404, 405, 501):
                break
    why = str(refusals[-1]) if refusals else "--endpoint.chat"
    greeting = {"role": "user", "content": _GREETING}
    both = [{"role": "system", "content": "Be brief."}, greeting]
    plain = Interface("/chat/completions", why=why)
    reasoning = plain._replace(limit="max_completion_tokens", warm=True)
    for interface, messages, limit in (
        (plain, both, FEW_TOKENS),
        (plain._replace(system=False), [greeting], FEW_TOKENS),
        (reasoning, both, _ENOUGH_TOKENS),
        (reasoning._replace(system=False), [greeting], _ENOUGH_TOKENS),
    ):
        if answers(interface, _choices, limit, messages=messages):
            held = {"messages": [greeting], **held_to(_COLOURS)}
            return interface._replace(labels=answers(interface, _held, max(64, limit), **held))
        if refusals[-1].status in (404, 405, 501):
            break
    firsts = dict.fromkeys(str(refusal) for refusal in (refusals[0], refusals[-1]))
    raise Refused("; ".join(firsts), refusals[-1].status) from None


def asked_first(ask: Callable[[int | None], Out]) -> Out:
    """Send one of the first requests to a server, and return its result.

    What fails is told after a few attempts, but a limit of requests is waited for. `ask` is given
    the most attempts.
    """
    try:
        return ask(FIRST_ATTEMPTS)
    except Refused as refusal:
        if refusal.status != 429:
            raise
    return ask(None)


def _completion(answer: Any) -> Any:
    [choice] = in_order(answer["choices"], 1)
    return choice["text"]


def _choices(answer: Any) -> Sequence[Any]:
    choices: Sequence[Any] = answer["choices"]
    if not isinstance(choices, list):
        raise ValueError("choices that are not a list")
    return choices


def _held(answer: Any) -> None:
    """Raise a ValueError unless an answer is one of the two labels."""
    label = label_in(chat_answer(_choices(answer), _GREETING)).text
    if label not in _COLOURS:
        raise ValueError(f"{label!r:.80} is not a label")


def most_first_tokens(ask: Callable[[Messages, int], FirstTokens]) -> int:
    """Check the log-probabilities of first tokens in a chat, and return how many of them the server
    gives, 100, 20 or 5; 0 if it gives fewer or they cannot be used.

    Each of two words is dictated, and must be far more likely than the other. A chat that reasons
    first, or returns something else there, fails.

    Args:
        ask: (chat, number of tokens) → the most likely first tokens of the answer.

    Raises:
        UserError: the server cannot be reached or wants a key.
    """
    for count in _FIRST_TOKENS:
        try:
            return count if _obeys_dictation(partial(_repeated, ask, count)) else 0
        except Refused as refusal:
            if refusal.status in _FATAL:
                raise
    return 0


def dictation(label: str) -> Messages:
    """Return a chat whose right answer is the given label."""
    turns = [
        turn
        for text in _SHOWN
        for turn in (
            {"role": "user", "content": DICTATED.format(label=text)},
            {"role": "assistant", "content": text},
        )
    ]
    return Messages([*turns, {"role": "user", "content": DICTATED.format(label=label)}])


def _repeated(ask: Callable[[Messages, int], FirstTokens], count: int, word: str) -> FirstTokens:
    return ask(dictation(word), count)


def _obeys_dictation(repeat: Callable[[str], FirstTokens]) -> bool:
    for number, word in enumerate(_COLOURS):
        log_probs = label_log_probs(repeat(word), _COLOURS)
        if log_probs[number] - log_probs[1 - number] < SURPRISE:
            return False
    return True


class Score(Protocol):
    """A function that asks a server for the scores of a prompt and a continuation."""

    def __call__(self, prompt: str, continuation: str, *, alternatives: int) -> ScoredText: ...


def most_alternatives(score: Score) -> int:
    """Return how many alternatives to each token a server gives; 0 if they cannot be used.

    Its log-probabilities are checked first (`check_scores`).

    Raises:
        Refused: the server gives no log-probabilities of the prompt's own tokens.
        UserError: see `check_scores`.
    """
    *more, fewest = ALTERNATIVES
    for alternatives in more:
        try:
            return _usable_alternatives(score, alternatives)
        except Refused as refusal:
            # a bad request: the server may allow fewer
            if refusal.status not in (400, 422):
                raise
    return _usable_alternatives(score, fewest)


def _usable_alternatives(score: Score, alternatives: int) -> int:
    """The number of alternatives to each token if they can be used, else 0."""
    usable = check_scores(partial(score, alternatives=alternatives))
    return alternatives if usable else 0


def check_scores(score: Callable[[str, str], ScoredText]) -> bool:
    """Score a known prompt with two endings, twice, in two orders.

    Return whether the log-probability of one ending is also among the alternatives to the other.

    The prompt repeats two colours in turn. It begins with random digits, so that no part of it is
    in a server's cache, and it fills several of the blocks of 16 tokens of prefix caches.

    - The prompt's tokens must have log-probabilities: llama.cpp's server gives only those of
      generated tokens, `transformers serve` none.
    - The colour that comes next must be more likely than another word. It is not if
      log-probabilities are shifted by a token.
    - The prompt's tokens must have the same log-probabilities alone and with either ending, and
      each text must have the same ones the second time: with prefix caching, some versions of vLLM
      return stale memory for prompt tokens that were read before.

    Raises:
        UserError: a check fails; the message says what is wrong and what to do.
    """
    prompt = f"Sample {secrets.randbelow(10**8):08d}:" + " red blue" * 48 + " red"
    blue = score(prompt, " blue")
    stone = score(prompt, " stone")
    if sum(blue.of_continuation) - sum(stone.of_continuation) < SURPRISE:
        raise UserError(
            "the next word of a repeated pattern is no more likely than any other, so its "
            "log-probabilities belong to other tokens than it says; update the server"
        )
    # the second time in reverse order
    alone = score(prompt, "")
    stone_again = score(prompt, " stone")
    blue_again = score(prompt, " blue")
    for text, repeated, length, what in (
        (blue, stone, min(blue.start, stone.start), "another ending"),
        (blue, alone, min(blue.start, len(alone.tokens)), "its beginning alone"),
        (blue, blue_again, len(blue.tokens), "the same text again"),
        (stone, stone_again, len(stone.tokens), "the same text again"),
    ):
        if text.tokens[:length] != repeated.tokens[:length]:
            raise UserError(
                f"the same text has other tokens when it is read with {what}; update the server"
            )
        furthest = max(
            abs(a - b) for a, b in zip(text.log_probs[:length], repeated.log_probs, strict=False)
        )
        if furthest > DRIFT:
            raise UserError(
                f"scores depend on what was asked before (a token differs by {furthest:.2f} nats "
                f"when the server then reads {what}); switch prefix caching off: vLLM "
                "--no-enable-prefix-caching, SGLang --disable-radix-cache"
            )
    expected = sum(blue.of_continuation)
    return abs(stone.alternatives.get(" blue", -math.inf) - expected) <= DRIFT

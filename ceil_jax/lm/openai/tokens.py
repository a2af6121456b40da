"""Counting the tokens of a text for a model on a server: exactly if possible, else by an
estimate."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from typing import Any

from ceil_jax.lm.openai.client import BYTES_A_TOKEN, Client
from ceil_jax.lm.openai.http import Refused
from ceil_jax.lm.openai.listing import whole_number
from ceil_jax.lm.tokens import pair_tokenizer

log = logging.getLogger(__name__)

_OPENING = "Say yes. "
"""The beginning of both texts, because some servers refuse an empty one."""
_SAMPLE = (
    "A table of 1,250 rows holds a ticket's text, the date (2024-03-17) and the team that answered "
    'it. Users write in haste: "cannot log in since yesterday, error 403"; others explain at length '
    "what they tried, in which order, and why none of it helped. SELECT team, COUNT(*) FROM tickets "
    "WHERE status = 'open' GROUP BY team; def total(items): return sum(item.price for item in items). "
    'The answer is {"team": "billing", "urgent": false}.'
)
"""A text of several kinds, to measure the server's tokens per byte."""
_MARGIN = 1.1
"""The factor by which estimates are increased, because a prompt that is too long is refused."""
_PLAUSIBLE = (0.05, 1.5)
"""The range of plausible tokens per byte."""


class TokenCounter:
    """Counts the tokens of texts for one model: with a given tokenizer, by the server's /tokenize
    (vLLM's or llama.cpp's), by a rate from the usage of two requests, or by a constant rate. The
    way is chosen on first use; an estimate is logged once.

    Args:
        client: asks the server.
        model: the model's name there.
        tokenizer: a folder or hub id; None to use the server's.
        prompt_tokens: a function that returns the number of tokens of a text in the server's usage;
            0 if it reports none.
    """

    def __init__(
        self,
        client: Client,
        model: str,
        tokenizer: str | None,
        prompt_tokens: Callable[[str], int],
    ) -> None:
        self._client = client
        self._model = model
        self._tokenizer = tokenizer
        self._prompt_tokens = prompt_tokens
        self._counts: dict[str, int] = {}
        self._count: Callable[[str], int] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """The counter to be pickled; the way to count is chosen again."""
        return {**vars(self), "_count": None}

    def count(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of each text."""
        new = [text for text in dict.fromkeys(texts) if text not in self._counts]
        if self._tokenizer is not None:
            counts = pair_tokenizer(self._tokenizer).count(new).tolist()
        elif new:
            if self._count is None:
                self._count = self._served() or self._estimated()
            counts = self._client.map(self._count, new, "counting tokens")
        else:
            counts = []
        self._counts |= dict(zip(new, counts, strict=True))
        return [self._counts[text] for text in texts]

    def _served(self) -> Callable[[str], int] | None:
        """A counter that uses the server's /tokenize, in vLLM's or llama.cpp's form; None if it has
        none."""
        for dialect in (_as_vllm, _as_llama_cpp):
            count = self._by(dialect)
            try:
                # llama.cpp answers a request that it does not understand with no tokens
                if count(_SAMPLE) > 1:
                    return count
            except Refused:
                continue
        return None

    def _by(self, dialect: Callable[[str, str], dict[str, Any]]) -> Callable[[str], int]:
        return lambda text: self._client.post("/tokenize", dialect(self._model, text), _length)

    def _estimated(self) -> Callable[[str], int]:
        try:
            stated = self._prompt_tokens(_OPENING + _SAMPLE) - self._prompt_tokens(_OPENING)
        except Refused:
            stated = 0
        rate = stated / len(_SAMPLE.encode())
        low, high = _PLAUSIBLE
        if low <= rate <= high:
            source = "from the usage that the server states"
        else:
            rate = 1 / BYTES_A_TOKEN
            source = "because the server neither counts nor states them"
        log.warning(
            "%s: tokens are estimated, %.2f a byte, %s; --endpoint.tokenizer FOLDER counts them",
            self._model,
            rate,
            source,
        )
        rate *= _MARGIN

        def estimate(text: str) -> int:
            tokens = rate * len(text.encode(errors="replace"))
            # rounded first, because a whole number may come out a little too large
            return math.ceil(round(tokens, 6))

        return estimate


def _as_vllm(model: str, text: str) -> dict[str, Any]:
    return {"model": model, "prompt": text, "add_special_tokens": False}


def _as_llama_cpp(model: str, text: str) -> dict[str, Any]:
    return {"content": text, "add_special": False}


def _length(answer: Any) -> int:
    count = answer.get("count")
    return len(answer["tokens"]) if count is None else whole_number(count, "a count of")

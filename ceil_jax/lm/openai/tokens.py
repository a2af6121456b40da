"""Token counts of texts for a model on a server, by a tokenizer or by an estimate."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence

from ceil_jax.lm.openai.client import BYTES_A_TOKEN
from ceil_jax.lm.tokens import pair_tokenizer

log = logging.getLogger(__name__)

_OPENING = "Say yes. "
"""The beginning of both texts that are measured, because some servers refuse an empty one."""
_SAMPLE = (
    "A table of 1,250 rows holds a ticket's text, the date (2024-03-17) and the team that answered "
    'it. Users write in haste: "cannot log in since yesterday, error 403"; others explain at length '
    "what they tried, in which order, and why none of it helped. SELECT team, COUNT(*) FROM tickets "
    "WHERE status = 'open' GROUP BY team; def total(items): return sum(item.price for item in items). "
    'The answer is {"team": "billing", "urgent": false}.'
)
"""A text of several kinds (prose, SQL, code, JSON), to measure the server's tokens per byte."""
_MARGIN = 1.1
"""The factor by which estimates are increased, because a prompt that is too long is refused."""
_PLAUSIBLE = (0.05, 1.5)
"""The range of plausible tokens per byte."""


class TokenCounter:
    """Counts the tokens of texts for one model.

    With a tokenizer, else by a rate of tokens per byte from the usage of two requests, else by a
    constant rate. The rate is measured on first use, and logged.

    Args:
        model: the model's name on the server, for the log.
        tokenizer: a folder or hub id; None to estimate.
        prompt_tokens: a function that returns the number of tokens of a text in the server's usage;
            0 if it reports none.
    """

    def __init__(
        self, model: str, tokenizer: str | None, prompt_tokens: Callable[[str], int]
    ) -> None:
        self._model = model
        self._tokenizer = tokenizer
        self._prompt_tokens = prompt_tokens
        self._rate: float | None = None

    def count(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of each text."""
        if self._tokenizer is not None:
            counts: list[int] = pair_tokenizer(self._tokenizer).count(texts).tolist()
            return counts
        if self._rate is None:
            self._rate = _MARGIN * self._measured()
        sizes = (self._rate * len(text.encode(errors="replace")) for text in texts)
        # rounded first, because a whole number may come out a little too large
        return [math.ceil(round(size, 6)) for size in sizes]

    def _measured(self) -> float:
        stated = self._prompt_tokens(_OPENING + _SAMPLE) - self._prompt_tokens(_OPENING)
        rate = stated / len(_SAMPLE.encode())
        low, high = _PLAUSIBLE
        source = "from the usage that the server states"
        if not low <= rate <= high:
            rate = 1 / BYTES_A_TOKEN
            source = "because the server does not state them"
        log.warning(
            "%s: tokens are estimated, %.2f a byte, %s; --endpoint.tokenizer FOLDER counts them",
            self._model,
            rate,
            source,
        )
        return rate

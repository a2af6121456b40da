"""A language model behind an OpenAI-compatible server."""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any, TypeVar

import numpy as np

from ceil_jax.errors import UserError
from ceil_jax.lm.base import Continuations, LanguageModel
from ceil_jax.lm.openai.address import parse_address
from ceil_jax.lm.openai.alignment import Misaligned, continuation_tokens
from ceil_jax.lm.openai.chat import ChatText, chat_text, completed_text, note_on
from ceil_jax.lm.openai.client import Client, Refused, in_order
from ceil_jax.lm.openai.config import EndpointConfig
from ceil_jax.lm.openai.probe import TokenScores, probe
from ceil_jax.lm.stopping import cut

log = logging.getLogger(__name__)

Out = TypeVar("Out")


class EndpointLM(LanguageModel):
    """An LM over /completions, or over /chat/completions for generation alone.

    Scoring asks for the log-probabilities of the prompt's own tokens (`echo`, `logprobs`), as vLLM and SGLang
    give them; the server is probed before the first score (`probe`). `tokens_read` is the number of tokens that
    the server states. Tokens are counted by the server's /tokenize, one text at a time, or by a local tokenizer.

    Raises:
        UserError: see `Client`; the server has no such model or does not state its context length; an answer has
            another number of choices than there are prompts; the probe fails.
    """

    def __init__(self, spec: str, config: EndpointConfig) -> None:
        address = parse_address(spec)
        self._client = Client(address.base, config)
        self._config = config
        served = self._client.served(address.model)
        self._model, self.name = served.model, served.name
        length = config.context_length or served.context_length
        if length is None:
            raise UserError(
                f"{address.base} does not say how many tokens {self._model} reads; give --endpoint.context-length"
            )
        # servers keep a place for the token that they would generate next
        self.context_length = length - 1
        self.can_score = not config.chat
        self._counts: dict[str, int] = {}
        self._probed = self._noted = False

    @property
    def tokens_read(self) -> int:
        return self._client.budget.tokens

    def count_tokens(self, texts: Sequence[str]) -> np.ndarray:
        new = [text for text in dict.fromkeys(texts) if text not in self._counts]
        if self._tokenizer is not None:
            found = self._tokenizer.count(new)
        else:
            found = self._client.map(self._count, new, "counting tokens")
        self._counts |= dict(zip(new, found, strict=True))
        return np.array([self._counts[text] for text in texts], dtype=np.int64)

    def write(
        self, prompts: Sequence[str], limit: int, stop: Sequence[str], temperature: float, seeds: list[int]
    ) -> list[str]:
        """Generate, as far as the server honours greedy decoding and seeds.

        A chat is not sent the stop strings, which would end it within its reasoning or its first code fence: its
        answer is cut here. The first answers that had something removed, or were empty, are logged.
        """
        written = [ChatText("")] * len(prompts)
        body: dict[str, Any] = {"max_tokens": limit, "temperature": temperature}
        if stop and not self._config.chat:
            body["stop"] = list(stop)
        asked: dict[int | None, list[int]] = {}  # a request has one seed
        for row, seed in enumerate(seeds if limit > 0 else ()):
            asked.setdefault(seed if temperature else None, []).append(row)
        for one, rows in asked.items():
            request = body if one is None else {**body, "seed": one}
            texts = [prompts[row] for row in rows]
            if self._config.chat:
                read = self._client.map(partial(self._chat, request), texts, "generating")
            else:
                read = self._completions(texts, request, "generating", completed_text)
            for row, answer in zip(rows, read, strict=True):
                written[row] = answer
        note = note_on(Counter(name for answer in written for name in answer.found), len(written))
        if note and not self._noted:
            self._noted = True
            log.warning("%s: %s", self.name, note)
        return [cut(answer.text, stop) for answer in written]

    def scores(self, asked: Continuations) -> tuple[list[float], list[int]]:
        if not self.can_score:
            raise UserError(
                f"{self.name} is asked through its chat interface, which gives no log-probabilities: it can "
                "generate, not score or choose. Leave out --endpoint.chat if the server has /completions; if not, "
                "take methods that learn from the bank's own outputs, such as tst, which need no scores"
            )
        if not self._probed:
            probe(lambda text: self._read([text], "probing")[0], self._client.base)
            self._probed = True
        pairs = list(zip(asked.prompts, asked.texts, strict=True))
        new = [pair for pair in dict.fromkeys(pairs) if pair[1]]
        read = self._read([prompt + continuation for prompt, continuation in new], "scoring")
        known = {pair: self._of_continuation(*pair, scores) for pair, scores in zip(new, read, strict=True)}
        found = [known.get(pair, []) for pair in pairs]
        return [sum(log_probs) for log_probs in found], [len(log_probs) for log_probs in found]

    def _of_continuation(self, prompt: str, continuation: str, scores: TokenScores) -> list[float]:
        try:
            places = continuation_tokens(scores.tokens, prompt + continuation, len(prompt))
        except Misaligned as problem:
            raise UserError(
                f"{self._client.base}: cannot tell which tokens belong to {continuation[:40]!r}: {problem}"
            ) from None
        found = [one for place in places if (one := scores.log_probs[place]) is not None]
        if len(found) < len(places):
            raise UserError(
                f"{self._client.base} gives the first token of a text no log-probability; "
                "give every prompt at least one character"
            )
        return found

    def _read(self, texts: Sequence[str], what: str) -> list[TokenScores]:
        # SGLang takes logprobs=0 for none; one alternative costs little
        body = {"echo": True, "logprobs": 1, "max_tokens": 0, "temperature": 0.0}
        return self._completions(texts, body, what, _token_scores)

    def _completions(
        self, prompts: Sequence[str], body: dict[str, Any], what: str, read: Callable[[Any, str], Out]
    ) -> list[Out]:
        """What `read` takes from the server's choice for each prompt."""

        def ask(some: Sequence[str]) -> list[Out]:
            return self._client.post(
                "/completions",
                {"model": self._model, "prompt": list(some), **body},
                lambda answer: list(map(read, in_order(answer["choices"], len(some)), some)),
            )

        size = self._config.batch
        batches = [prompts[start : start + size] for start in range(0, len(prompts), size)]
        return [found for batch in self._client.map(ask, batches, what) for found in batch]

    def _chat(self, body: dict[str, Any], prompt: str) -> ChatText:
        request = {"model": self._model, "messages": [{"role": "user", "content": prompt}], **body}
        try:
            return self._client.post(
                "/chat/completions", request, lambda answer: chat_text(answer["choices"], prompt)
            )
        except Refused as refusal:
            if "content_filter" not in str(refusal):
                raise
            return ChatText("", ("empty",))

    @cached_property
    def _tokenizer(self) -> Any:
        """The local tokenizer that counts in place of the server; None for none."""
        if self._config.tokenizer is None:
            return None
        from transformers import AutoTokenizer

        from ceil_jax.lm.tokens import PairTokenizer

        try:
            return PairTokenizer(AutoTokenizer.from_pretrained(self._config.tokenizer))
        except (OSError, ValueError) as error:
            reason = str(error).strip().splitlines()[0]
            raise UserError(f"--endpoint.tokenizer {self._config.tokenizer}: {reason}") from None

    def _count(self, text: str) -> int:
        body = {"model": self._model, "prompt": text, "add_special_tokens": False}
        try:
            return self._client.post("/tokenize", body, lambda answer: int(answer["count"]))
        except Refused as refusal:
            raise UserError(
                f"{refusal}. The server counts no tokens: give --endpoint.tokenizer, a folder or hub id with the "
                "model's tokenizer"
            ) from None


def _token_scores(choice: Any, sent: str) -> TokenScores:
    """The log-probabilities of the tokens of a text that was sent with `echo`; empty if there are none."""
    found = choice.get("logprobs") or {}
    tokens, log_probs = found.get("tokens") or [], found.get("token_logprobs") or []
    if len(tokens) != len(log_probs):
        raise ValueError(f"{len(tokens)} tokens with {len(log_probs)} log-probabilities")
    # rounding may lift one a little above 0
    for one in log_probs:
        if one is not None and not -math.inf < one <= 1e-3:
            raise ValueError(f"{one} is no log-probability")
    # a server may write a token although it was asked for none
    if choice.get("text") not in (sent, "", None) and len(tokens) > 1:
        tokens, log_probs = tokens[:-1], log_probs[:-1]
    return TokenScores(tokens, log_probs)

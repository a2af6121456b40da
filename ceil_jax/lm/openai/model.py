"""A language model behind an OpenAI-compatible server."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np

from ceil_jax.errors import UserError
from ceil_jax.lm.base import Continuations, LanguageModel
from ceil_jax.lm.openai.address import parse_address
from ceil_jax.lm.openai.alignment import ScoredText, scored_text
from ceil_jax.lm.openai.chat import ChatText, chat_text, completed_text, note_on
from ceil_jax.lm.openai.client import Client, Refused, in_order
from ceil_jax.lm.openai.config import EndpointConfig
from ceil_jax.lm.openai.probe import probe
from ceil_jax.lm.tokens import pair_tokenizer

log = logging.getLogger(__name__)

Out = TypeVar("Out")


class EndpointLM(LanguageModel):
    """An LM over /completions, or over /chat/completions for generation alone.

    Scoring asks for the log-probabilities of the prompt's own tokens (`echo`, `logprobs`), as vLLM
    and SGLang give them; the server is probed before the first score (`probe`). `tokens_read` is
    the number of tokens that the server states. Tokens are counted by the server's /tokenize, one
    text at a time, or by a local tokenizer.

    Raises:
        UserError: see `Client`; the server has no such model or does not state its context length;
            an answer has another number of choices than there are prompts; the probe fails.
    """

    def __init__(self, spec: str, config: EndpointConfig) -> None:
        base, model = parse_address(spec)
        self._client = Client(base, config)
        self._config = config
        self._model, self.name, stated = self._client.served(model)
        length = config.context_length or stated
        if length is None:
            raise UserError(
                f"{base} does not say how many tokens {self._model} reads; give "
                "--endpoint.context-length"
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
        if self._config.tokenizer is not None:
            found = pair_tokenizer(self._config.tokenizer).count(new).tolist()
        else:
            found = self._client.map(self._count, new, "counting tokens")
        self._counts |= dict(zip(new, found, strict=True))
        return np.array([self._counts[text] for text in texts], dtype=np.int64)

    def write(
        self,
        prompts: Sequence[str],
        limit: int,
        stop: Sequence[str],
        temperature: float,
        seeds: list[int],
    ) -> list[str]:
        """Generate, as far as the server honours greedy decoding and seeds.

        A chat is not sent the stop strings, which would end it within its reasoning or its first
        code fence: its answer is cut here. The first answers that had something removed, or were
        empty, are logged.
        """
        written: dict[int, ChatText] = {}
        body: dict[str, Any] = {"max_tokens": limit, "temperature": temperature}
        if stop and not self._config.chat:
            body["stop"] = list(stop)
        for seed in dict.fromkeys(seeds):  # a request has one
            rows = [row for row, one in enumerate(seeds) if one == seed]
            request = {**body, "seed": seed} if temperature else body
            if self._config.chat:
                texts = [prompts[row] for row in rows]
                read = self._client.map(partial(self._chat, request), texts, "generating")
            else:
                pairs = [(prompts[row], "") for row in rows]
                read = self._completions(pairs, request, "generating", completed_text)
            written |= zip(rows, read, strict=True)
        note = note_on(
            Counter(name for answer in written.values() for name in answer.found), len(written)
        )
        if note and not self._noted:
            self._noted = True
            log.warning("%s: %s", self.name, note)
        return [written[row].text for row in range(len(prompts))]

    def scores(self, asked: Continuations) -> tuple[list[float], list[int]]:
        if not self.can_score:
            raise UserError(
                f"{self.name} is asked through its chat interface, which gives no "
                "log-probabilities: it can generate, not score or choose. Leave out "
                "--endpoint.chat if the server has /completions; if not, take methods that learn "
                "from the bank's own outputs, such as tst, which need no scores"
            )
        if not self._probed:
            probe(lambda *pair: self._scored([pair], "probing")[0], self._client.base)
            self._probed = True
        pairs = list(zip(asked.prompts, asked.texts, strict=True))
        new = [pair for pair in dict.fromkeys(pairs) if pair[1]]
        known = dict(zip(new, self._scored(new, "scoring"), strict=True))
        found = [known[pair].of_continuation if pair[1] else [] for pair in pairs]
        return [sum(log_probs) for log_probs in found], [len(log_probs) for log_probs in found]

    def _scored(self, pairs: Sequence[tuple[str, str]], what: str) -> list[ScoredText]:
        # SGLang takes logprobs=0 for none; one alternative costs little
        body = {"echo": True, "logprobs": 1, "max_tokens": 0, "temperature": 0.0}
        return self._completions(pairs, body, what, scored_text)

    def _completions(
        self,
        pairs: Sequence[tuple[str, str]],
        body: dict[str, Any],
        what: str,
        read: Callable[[Any, str, str], Out],
    ) -> list[Out]:
        """What `read` takes from the server's choice for each prompt and its continuation."""

        def ask(some: Sequence[tuple[str, str]]) -> list[Out]:
            return self._client.post(
                "/completions",
                {"model": self._model, "prompt": list(map("".join, some)), **body},
                lambda answer: [
                    read(choice, *pair)
                    for choice, pair in zip(
                        in_order(answer["choices"], len(some)), some, strict=True
                    )
                ],
            )

        size = self._config.batch
        batches = [pairs[start : start + size] for start in range(0, len(pairs), size)]
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

    def _count(self, text: str) -> int:
        body = {"model": self._model, "prompt": text, "add_special_tokens": False}
        try:
            return self._client.post("/tokenize", body, lambda answer: int(answer["count"]))
        except Refused as refusal:
            raise UserError(
                f"{refusal}. The server counts no tokens: give --endpoint.tokenizer, a folder or "
                "hub id with the model's tokenizer"
            ) from None

"""A language model behind an OpenAI-compatible server."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np

from ceil_jax.errors import UserError
from ceil_jax.lm.base import BaseLM, Continuations
from ceil_jax.lm.openai.address import parse_address
from ceil_jax.lm.openai.alignment import Misaligned, continuation_tokens
from ceil_jax.lm.openai.answers import Chat, Choice, Completions, Refused, Tokenized, TokenScores, in_order
from ceil_jax.lm.openai.chat import Read, after_reasoning, chat_answer, note_on
from ceil_jax.lm.openai.client import Client
from ceil_jax.lm.openai.config import EndpointConfig
from ceil_jax.lm.openai.probe import probe
from ceil_jax.lm.stopping import cut

log = logging.getLogger(__name__)


class EndpointLM(BaseLM):
    """The `LanguageModel` protocol over /completions, or over /chat/completions for generation alone.

    Scoring asks for the log-probabilities of the prompt's own tokens (`echo`, `logprobs`), as vLLM and SGLang
    give them; the server is probed before the first score (`probe`). `tokens_read` is the number of tokens that
    the server states. Tokens are counted by the server's /tokenize, one text at a time, or by a local tokenizer.

    Args:
        spec: the address of the server and its model; see `parse_address`.
        config: how the server is asked.

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
        self._probed = False
        self._answers = 0
        self._found: Counter[str] = Counter()

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
        """Generate as the protocol says, as far as the server honours greedy decoding and seeds.

        A chat is not sent the stop strings, which would end it within its reasoning or its first code fence: its
        answer is cut here. The first answers that had something removed, or were empty, are logged; see `note`.
        """
        written = [""] * len(prompts)
        body: dict[str, Any] = {"max_tokens": limit, "temperature": temperature}
        if stop and not self._config.chat:
            body["stop"] = list(stop)
        asked: dict[int | None, list[int]] = {}  # a request has one seed
        for row, seed in enumerate(seeds if limit > 0 else ()):
            asked.setdefault(seed if temperature else None, []).append(row)
        logged = self.note
        for one, rows in asked.items():
            request = body if one is None else {**body, "seed": one}
            read = self._written([prompts[row] for row in rows], request)
            for row, answer in zip(rows, read, strict=True):
                written[row] = cut(answer.text, stop)
                self._found.update(answer.found)
            self._answers += len(rows)
        if self.note and not logged:
            log.warning("%s: %s", self.name, self.note)
        return written

    @property
    def note(self) -> str:
        """One line on what was removed around the answers so far, and how many were empty; "" for nothing."""
        return note_on(self._found, self._answers)

    def _written(self, prompts: Sequence[str], body: dict[str, Any]) -> list[Read]:
        if self._config.chat:
            return self._client.map(partial(self._chat, body), prompts, "generating")
        return [self._completed(choice) for choice in self._completions(prompts, body, "generating")]

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
        found = []
        for place in places:
            log_prob = scores.log_probs[place]
            if log_prob is None:
                raise UserError(
                    f"{self._client.base} gives the first token of a text no log-probability; "
                    "give every prompt at least one character"
                )
            found.append(log_prob)
        return found

    def _read(self, texts: Sequence[str], what: str) -> list[TokenScores]:
        """The tokens of each text with their log-probabilities."""
        # SGLang takes logprobs=0 for none; one alternative costs little
        body = {"echo": True, "logprobs": 1, "max_tokens": 0, "temperature": 0.0}
        answers = self._completions(texts, body, what)
        pairs = zip(answers, texts, strict=True)
        return [choice.scores(text, self._client.base) for choice, text in pairs]

    def _completions(self, prompts: Sequence[str], body: dict[str, Any], what: str) -> list[Choice]:
        """The server's choice for each prompt."""
        where = f"{self._client.base}/completions"

        def ask(some: Sequence[str]) -> list[Choice]:
            request = {"model": self._model, "prompt": list(some), **body}
            answer = self._client.post("/completions", request, Completions)
            return in_order(answer.choices, "choices", len(some), where)

        size = self._config.batch
        batches = [prompts[start : start + size] for start in range(0, len(prompts), size)]
        return [choice for batch in self._client.map(ask, batches, what) for choice in batch]

    def _completed(self, choice: Choice) -> Read:
        text, reasoned = after_reasoning(choice.text or "")
        found = {"reasoning": reasoned, "empty": not choice.text or (reasoned and not text)}
        return Read(text, tuple(name for name, there in found.items() if there))

    def _chat(self, body: dict[str, Any], prompt: str) -> Read:
        request = {"model": self._model, "messages": [{"role": "user", "content": prompt}], **body}
        try:
            answer = self._client.post("/chat/completions", request, Chat)
        except Refused as refusal:
            if "content_filter" not in str(refusal):
                raise
            return Read("", ("refused", "empty"))
        return chat_answer(answer.choices[0] if answer.choices else None, prompt)

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
            return self._client.post("/tokenize", body, Tokenized).count
        except Refused as refusal:
            raise UserError(
                f"{refusal}. The server counts no tokens: give --endpoint.tokenizer, a folder or hub id with the "
                "model's tokenizer"
            ) from None

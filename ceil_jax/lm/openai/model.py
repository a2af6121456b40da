"""A language model behind an OpenAI-compatible server."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np

from ceil_jax.errors import UserError
from ceil_jax.lm.base import TokenScores
from ceil_jax.lm.choosing import ByChoices, flat_choices, likelihoods
from ceil_jax.lm.openai.address import parse_address
from ceil_jax.lm.openai.alignment import Misaligned, continuation_tokens
from ceil_jax.lm.openai.answers import echoed_scores, find_model, in_order
from ceil_jax.lm.openai.client import Client
from ceil_jax.lm.openai.config import EndpointConfig
from ceil_jax.lm.openai.probe import probe
from ceil_jax.lm.openai.schema import Chat, Choice, Completions, Tokenized
from ceil_jax.lm.stopping import check_sampling, cut


class EndpointLM(ByChoices):
    """The `LanguageModel` protocol over /completions, or /chat/completions for generation alone.

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
        served = find_model(self._client, address.model)
        self._model, self.name = served.model, served.name
        length = config.context_length or served.context_length
        if length is None:
            raise UserError(
                f"{address.base} does not say how many tokens {self._model} reads; give --endpoint.context-length"
            )
        # servers keep a place for the token that they would generate next
        self.context_length = length - 1
        self._counts: dict[str, int] = {}
        self._probed = False

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

    def choice_log_likelihood(
        self, prompts: Sequence[str], choices: Sequence[Sequence[str]], *, per_token: bool = False
    ) -> list[np.ndarray]:
        flat = flat_choices(prompts, choices)
        found = self._scores(list(zip(flat.prompts, flat.texts, strict=True)))
        return likelihoods([sum(option) for option in found], list(map(len, found)), choices, per_token)

    def generate(
        self,
        prompts: Sequence[str],
        max_new_tokens: int,
        stop: Sequence[str] = (),
        *,
        temperature: float = 0.0,
        seed: int | Sequence[int] = 0,
    ) -> list[str]:
        """Generate as the protocol says, as far as the server honours greedy decoding and seeds."""
        check_sampling(stop, temperature)
        body: dict[str, Any] = {"max_tokens": max_new_tokens, "temperature": temperature}
        if stop:
            body["stop"] = list(stop)
        if max_new_tokens < 1:
            return [""] * len(prompts)
        if temperature and not isinstance(seed, int):
            written = [""] * len(prompts)
            for one in dict.fromkeys(seed):  # a request has one seed
                rows = [row for row, own in enumerate(seed) if own == one]
                some = self.generate(
                    [prompts[row] for row in rows], max_new_tokens, stop, temperature=temperature, seed=one
                )
                for row, text in zip(rows, some, strict=True):
                    written[row] = text
            return written
        if temperature:
            body["seed"] = seed
        if self._config.chat:
            written = self._client.map(partial(self._chat, body), prompts, "generating")
        else:
            answers = self._completions(prompts, body, "generating")
            written = [self._text(choice) for choice in answers]
        return [cut(text, stop) for text in written]

    def _scores(self, pairs: Sequence[tuple[str, str]]) -> list[list[float]]:
        """The log-probabilities of the continuation's tokens, for each prompt and continuation."""
        if self._config.chat:
            raise UserError(
                f"{self.name} is asked through its chat interface, which gives no log-probabilities of a prompt; "
                "it can generate but not score or choose: leave out --endpoint.chat"
            )
        if not self._probed:
            probe(lambda text: self._read([text], "probing")[0], self._client.base)
            self._probed = True
        asked = [pair for pair in dict.fromkeys(pairs) if pair[1]]
        read = self._read([prompt + continuation for prompt, continuation in asked], "scoring")
        known = {
            pair: self._of_continuation(pair[0], pair[1], scores)
            for pair, scores in zip(asked, read, strict=True)
        }
        return [known.get(pair, []) for pair in pairs]

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
        return [
            echoed_scores(choice, text, self._client.base)
            for choice, text in zip(answers, texts, strict=True)
        ]

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

    def _text(self, choice: Choice) -> str:
        if choice.text is None:
            raise UserError(f"{self._client.base}/completions: a choice without a text")
        return choice.text

    def _chat(self, body: dict[str, Any], prompt: str) -> str:
        messages = [{"role": "user", "content": prompt}]
        request = {"model": self._model, "messages": messages, **body}
        answer = self._client.post("/chat/completions", request, Chat)
        [choice] = in_order(answer.choices, "choices", 1, f"{self._client.base}/chat/completions")
        return choice.message.content

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
        return self._client.post("/tokenize", body, Tokenized).count

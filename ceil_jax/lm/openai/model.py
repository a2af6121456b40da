"""A language model behind an OpenAI-compatible server."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ceil_jax.errors import UserError, unknown_name
from ceil_jax.lm.answers import Answer
from ceil_jax.lm.base import Continuations, LanguageModel
from ceil_jax.lm.openai.address import parse_address
from ceil_jax.lm.openai.alignment import ScoredText, scored_text
from ceil_jax.lm.openai.chat import chat_answer, completed_answer
from ceil_jax.lm.openai.client import BREACH, Client, in_order
from ceil_jax.lm.openai.config import EndpointConfig
from ceil_jax.lm.openai.http import FILTERED, TOO_LONG, Refused
from ceil_jax.lm.openai.listing import Listed, whole_number
from ceil_jax.lm.openai.probe import FEW_TOKENS, Interface, find_interface, most_alternatives
from ceil_jax.lm.openai.tokens import TokenCounter

log = logging.getLogger(__name__)

CONTEXT_LENGTH = 4096
"""The assumed context length if neither the server nor the user states it: Ollama's default."""
_SHORTER = "; give --endpoint.context-length what the model reads, or a smaller --token-budget"

In = TypeVar("In")
Out = TypeVar("Out")


class EndpointLM(LanguageModel):
    """An LM on a server. What the server can do is found out with at most a dozen small requests
    (`probe`), and logged in one line:

    1. /completions with the log-probabilities of the prompt's own tokens (`echo`, `logprobs`), as
       vLLM and SGLang give them: it scores and generates.
    2. /completions without these: it generates.
    3. only /chat/completions, or if the settings say `chat`: it generates, with each prompt as a
       user's message.

    `tokens_read` is the number of tokens that the server reports.

    Raises:
        UserError: see `Client`; or the server has no such model, or neither interface; or an answer
            has a wrong number of choices.
    """

    def __init__(self, spec: str, config: EndpointConfig) -> None:
        address = parse_address(spec)
        self._client = Client(address, config)
        self._config = config
        listed = self._client.listed(address.model)
        self._model = listed.model
        self._interface = self._find_interface(listed)
        chat = self._interface.chat
        self.name = listed.name("chat" if chat else "")
        self._alternatives = 0
        self.no_scores = ""
        """Why the server cannot score; "" if it can."""
        if chat:
            self.no_scores = f"chat gives no log-probabilities of a prompt ({self._interface.why})"
        else:
            try:
                self._alternatives = most_alternatives(self._scores_of)
            except Refused as refusal:
                reason = str(refusal).removesuffix(BREACH)
                self.no_scores = (
                    f"{reason}. Scoring needs log-probabilities of the prompt's own tokens (echo, "
                    "logprobs), as vLLM and SGLang give them"
                )
            except UserError as error:
                self.no_scores = f"{address.base}: {error}"
        self.can_score = not self.no_scores
        length = config.context_length or listed.context_length
        if length is None:
            length = CONTEXT_LENGTH
            log.warning(
                "%s does not say how many tokens %s reads; prompts have at most %s "
                "(--endpoint.context-length)",
                address.base,
                self._model,
                f"{length:,}",
            )
        # servers reserve a position for the next generated token
        self.context_length = length - 1
        lists = self._interface.lists and not chat
        self.at_once: Mapping[str, int] = {
            "score": config.batch if lists else 1,
            "write": config.batch if lists else 1,
        }
        self.in_flight = config.concurrency
        self._tokens = TokenCounter(
            self._client, self._model, config.tokenizer, self._stated_prompt_tokens
        )
        self.ends_itself = chat
        log.info("%s: %s", self.name, self._what_it_does())

    def _find_interface(self, listed: Listed) -> Interface:
        def find() -> Interface:
            return find_interface(self._client, listed.model, self._config.chat)

        try:
            # the list, if there is one, was found under the right path
            return find() if listed.listed else self._client.at_its_path(find)
        except Refused as refusal:
            if not listed.others or refusal.status not in (400, 404):
                raise
            near = difflib.get_close_matches(listed.model, listed.others, n=8, cutoff=0)
            what = f"model of {self._client.base}"
            raise unknown_name(what, listed.model, near, str(refusal)) from None
        except UserError as failure:
            # a server that lists the model but fails at a greeting may still answer real prompts
            if not (self._config.chat and listed.entry):
                raise
            log.warning("%s; chat is asked all the same, because --endpoint.chat says so", failure)
            return Interface("/chat/completions", why="--endpoint.chat")

    def _what_it_does(self) -> str:
        if self.can_score:
            return "/completions gives log-probabilities of prompts: it scores and writes"
        path = self._interface.path
        return f"asked through {path}, it writes and does not score: {self.no_scores}"

    @property
    def key(self) -> str:
        """The name, with the settings that change the lengths of prompts."""
        limits = []
        if self._config.context_length is not None:
            limits.append(f"{self._config.context_length} tokens")
        if self._config.tokenizer is not None:
            limits.append(f"counted by {Path(self._config.tokenizer).name}")
        return ", ".join([self.name, *limits])

    @property
    def tokens_read(self) -> int:
        return self._client.tokens_read

    def each(self, work: Callable[[In], Out], groups: Sequence[In]) -> Iterator[tuple[int, Out]]:
        return self._client.each(work, groups)

    def count_tokens(self, texts: Sequence[str]) -> np.ndarray:
        return np.array(self._tokens.count(texts), dtype=np.int64)

    def write(
        self,
        prompts: Sequence[str],
        limit: int,
        stop: Sequence[str],
        temperature: float,
        seeds: list[int],
    ) -> list[Answer]:
        """Generate texts. Greedy decoding and seeds depend on the server.

        Stop strings are not sent to a chat, because they would end it inside its reasoning or its
        first code fence; `answers` cuts its texts instead.
        """
        written: dict[int, Answer] = {}
        body: dict[str, Any] = {"max_tokens": limit, "temperature": temperature}
        if stop and not self._interface.chat:
            body["stop"] = list(stop)
        for seed in dict.fromkeys(seeds):  # a request has one seed
            rows = [row for row, seed_of_row in enumerate(seeds) if seed_of_row == seed]
            request = {**body, "seed": seed} if temperature else body
            if self._interface.chat:
                texts = [prompts[row] for row in rows]
                read = self._client.map(partial(self._chat, request), texts, "generating")
            else:
                pairs = [(prompts[row], "") for row in rows]
                read = self._completions(pairs, request, "generating", completed_answer)
            written |= zip(rows, read, strict=True)
        return [written[row] for row in range(len(prompts))]

    def scores(self, continuations: Continuations) -> tuple[list[float], list[int]]:
        if not self.can_score:
            raise UserError(f"{self.name} can write, not score or choose: {self.no_scores}")
        pairs = list(zip(continuations.prompts, continuations.texts, strict=True))
        distinct = dict.fromkeys((prompt, text) for prompt, text in pairs if text)
        known = self._scored_together(list(distinct))
        # an empty continuation has no tokens
        log_probs_of_tokens = [known[prompt, text] if text else [] for prompt, text in pairs]
        scores = [sum(log_probs) for log_probs in log_probs_of_tokens]
        token_counts = [len(log_probs) for log_probs in log_probs_of_tokens]
        return scores, token_counts

    def _scored_together(
        self, pairs: Sequence[tuple[str, str]]
    ) -> dict[tuple[str, str], list[float]]:
        """The log-probabilities of each continuation's tokens, by prompt and continuation; the
        pairs are distinct.

        A prompt is sent once with its first continuation. The server also returns the most likely
        other tokens in that position, and continuations among these need no request. The others are
        sent separately after the prompt.
        """
        first_texts: dict[str, str] = {}
        for prompt, text in pairs:
            first_texts.setdefault(prompt, text)
        first_pairs = list(first_texts.items())
        one_each = len(first_pairs) == len(pairs)
        # alternatives are of use only if a prompt has several continuations
        read = self._scored(first_pairs, "scoring", 1 if one_each else self._alternatives)
        known: dict[tuple[str, str], list[float]] = {}
        alternatives: dict[str, Mapping[str, float]] = {}
        for (prompt, text), scored in zip(first_pairs, read, strict=True):
            known[prompt, text] = scored.of_continuation
            alternatives[prompt] = scored.alternatives if self._alternatives else {}
        missing = []
        for prompt, text in pairs:
            if (prompt, text) in known:
                continue
            if text in alternatives[prompt]:
                known[prompt, text] = [alternatives[prompt][text]]
            else:
                missing.append((prompt, text))
        read = self._scored(missing, "scoring", 1)
        for pair, scored in zip(missing, read, strict=True):
            known[pair] = scored.of_continuation
        return known

    def _scores_of(self, prompt: str, continuation: str, *, alternatives: int) -> ScoredText:
        [text] = self._scored([(prompt, continuation)], "probing", alternatives)
        return text

    def _scored(
        self, pairs: Sequence[tuple[str, str]], what: str, alternatives: int
    ) -> list[ScoredText]:
        # SGLang takes logprobs=0 for none; one alternative costs little
        body = {"echo": True, "logprobs": max(1, alternatives), "max_tokens": 0, "temperature": 0.0}
        return self._completions(pairs, body, what, scored_text)

    def _completions(
        self,
        pairs: Sequence[tuple[str, str]],
        body: dict[str, Any],
        what: str,
        read: Callable[[Any, str, str], Out],
    ) -> list[Out]:
        """The result of `read` on the server's choice, for each prompt with its continuation.

        Args:
            pairs: the prompts and continuations, which are sent as one text.
            body: the other fields of the requests.
            what: what is being done, for the progress bar.
            read: (choice of the answer, prompt, continuation) → result.
        """
        size = self._config.batch if self._interface.lists else 1

        def ask(batch: Sequence[tuple[str, str]]) -> list[Out]:
            texts = [prompt + continuation for prompt, continuation in batch]

            def results(answer: Any) -> list[Out]:
                choices = in_order(answer["choices"], len(batch))
                return [
                    read(choice, prompt, continuation)
                    for choice, (prompt, continuation) in zip(choices, batch, strict=True)
                ]

            return self._asked({"prompt": texts if size > 1 else texts[0], **body}, results)

        batches = [pairs[start : start + size] for start in range(0, len(pairs), size)]
        return [value for batch in self._client.map(ask, batches, what) for value in batch]

    def _chat(self, body: dict[str, Any], prompt: str) -> Answer:
        messages = [{"role": "user", "content": prompt}]
        try:
            return self._asked(
                {"messages": messages, **body},
                lambda answer: chat_answer(answer["choices"], prompt),
            )
        except Refused as refusal:
            if refusal.status not in (200, 400, 403, 422, 451) or not FILTERED.search(refusal.said):
                raise
            return Answer("", "refused")

    def _asked(self, body: dict[str, Any], read: Callable[[Any], Out]) -> Out:
        try:
            return self._client.post(self._interface.path, {"model": self._model, **body}, read)
        except Refused as refusal:
            if refusal.status not in (400, 413, 422) or not TOO_LONG.search(refusal.said):
                raise
            raise Refused(f"{refusal}{_SHORTER}", refusal.status) from None

    def _stated_prompt_tokens(self, text: str) -> int:
        """The number of tokens of a text in the server's usage; 0 if it reports none."""
        body: dict[str, Any] = {"prompt": text}
        if self._interface.chat:
            body = {"messages": [{"role": "user", "content": text}]}

        def prompt_tokens(answer: Any) -> int:
            usage = answer.get("usage") or {}
            return whole_number(usage.get("prompt_tokens") or 0, "usage of")

        return self._asked({**body, "max_tokens": FEW_TOKENS}, prompt_tokens)

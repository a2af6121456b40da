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
from ceil_jax.lm.base import Continuations, LanguageModel, check_choices
from ceil_jax.lm.messages import Message, Messages, Rendered, text_of
from ceil_jax.lm.openai.address import parse_address
from ceil_jax.lm.openai.alignment import ScoredText, scored_text
from ceil_jax.lm.openai.chat import chat_answer, completed_answer, held_to, label_in
from ceil_jax.lm.openai.client import BREACH, Client, Refused, count_of, in_order
from ceil_jax.lm.openai.config import EndpointConfig
from ceil_jax.lm.openai.labels import FirstTokens, first_tokens, label_log_probs, label_of
from ceil_jax.lm.openai.probe import (
    FEW_TOKENS,
    MOST_ALTERNATIVES,
    Interface,
    asked_first,
    dictation,
    find_interface,
    most_alternatives,
    most_first_tokens,
)
from ceil_jax.lm.openai.served import Served, served_model
from ceil_jax.lm.openai.tokens import TokenCounter

log = logging.getLogger(__name__)

CONTEXT_LENGTH = 4096
"""The assumed context length if neither the server nor the user states it: Ollama's default."""
AROUND_LABEL = 32
"""The largest number of tokens in the JSON around a label."""
_ENOUGH = 20
"""Number of answers after which a warning is logged if most of them begin with no label."""

In = TypeVar("In")
Out = TypeVar("Out")


class EndpointLM(LanguageModel):
    """An LM on a server. At most a dozen small requests (`probe`) find out what the server can do,
    and a line is logged:

    1. /completions with the log-probabilities of the prompt's own tokens (`echo`, `logprobs`), as
       vLLM and SGLang give them: it scores and generates.
    2. /completions without these: it generates.
    3. only /chat/completions, or if the settings say `chat`: it generates, from messages or with a
       text as the user's message; it writes labels alone, if the server holds an answer to a
       JSON schema; and it gives log P of labels, if the server returns the most likely first tokens
       of an answer (`labels`).

    `tokens_read` is the number of tokens that the server reports.

    Raises:
        UserError: see `Client`; or the server has no such model, or neither interface; or an answer
            has a wrong number of choices.
    """

    def __init__(self, spec: str, config: EndpointConfig) -> None:
        address = parse_address(spec)
        self._client = Client(address.base, config)
        self._config = config
        served = served_model(self._client, address.model)
        self.model = served.model
        """The name of the model on the server."""
        self._interface = self._find_interface(served)
        chat = self._interface.chat
        self._alternatives = 0
        """The number of most likely tokens that the server gives."""
        self._told_apart: dict[tuple[str, ...], bool] = {}
        self._weighed = self._without_label = 0
        self._told = False
        self.no_scores = ""
        """Why the server cannot score; "" if it can."""
        if chat:
            self.no_scores = f"chat gives no log-probabilities of a prompt ({self._interface.why})"
            self._alternatives = most_first_tokens(self._first_tokens_of)
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
        # scores of labels depend on how many first tokens are seen
        interface = f"chat, {self._alternatives} first tokens" if chat else ""
        self.name = served.name(self._client, interface)
        self.can_score = not self.no_scores
        self.can_label = self._interface.labels
        self.can_weigh = chat and self._alternatives > 0
        length = config.context_length or served.context_length
        if length is None:
            length = CONTEXT_LENGTH
            log.warning(
                "%s does not say how many tokens %s reads; prompts have at most %s "
                "(--endpoint.context-length)",
                address.base,
                self.model,
                f"{length:,}",
            )
        # servers reserve a position for the next generated token
        self.context_length = length - 1
        at_once = config.batch if self._interface.lists else 1
        self.at_once: Mapping[str, int] = {"score": at_once, "write": at_once}
        self.in_flight = config.concurrency
        self._tokens = TokenCounter(self.model, config.tokenizer, self._stated_prompt_tokens)
        self.ends_itself = chat
        self.reads_messages = chat
        self.takes_system = self._interface.system
        log.info("%s: %s", self.name, self._what_it_does())

    def _find_interface(self, served: Served) -> Interface:
        try:
            return find_interface(self._client, served.model, self._config.chat)
        except Refused as refusal:
            if not served.others or refusal.status not in (400, 404):
                raise
            near = difflib.get_close_matches(served.model, served.others, n=8, cutoff=0)
            what = f"model of {self._client.base}"
            raise unknown_name(what, served.model, near, str(refusal)) from None

    def _what_it_does(self) -> str:
        if self.can_score:
            return "/completions gives log-probabilities of prompts: it scores and writes"
        path = self._interface.path
        does = ["writes"]
        does += ["constrains answers to labels"] * self.can_label
        does += ["gives the probabilities of labels"] * self.can_weigh
        return f"asked through {path}, it {', '.join(does)} and does not score: {self.no_scores}"

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
        prompts: Sequence[Any],
        limit: int,
        stop: Sequence[str],
        temperature: float,
        seeds: list[int],
    ) -> list[Answer]:
        """Generate a text for each prompt. Greedy decoding and seeds depend on the server.

        Stop strings are not sent to a chat, because they would end it inside its reasoning or its
        first code fence; `answers` cuts its texts instead.
        """
        written: dict[int, Answer] = {}
        body = self._interface.settings(limit, temperature)
        if stop and not self._interface.chat:
            body["stop"] = list(stop)
        for seed in dict.fromkeys(seeds):  # a request has one seed
            rows = [row for row, seed_of_row in enumerate(seeds) if seed_of_row == seed]
            request = {**body, "seed": seed} if temperature else body
            if self._interface.chat:
                read = self._chats([(prompts[row], request) for row in rows])
            else:
                pairs = [(prompts[row], "") for row in rows]
                read = self._completions(pairs, request, "generating", completed_answer)
            written |= zip(rows, read, strict=True)
        return [written[row] for row in range(len(prompts))]

    def write_labels(
        self, prompts: Sequence[Rendered], labels: Sequence[Sequence[str]], limit: int
    ) -> list[Answer]:
        body = self._interface.settings(limit + AROUND_LABEL)
        pairs = zip(prompts, labels, strict=True)
        answers = self._chats([(prompt, body | held_to(names)) for prompt, names in pairs])
        return [label_in(answer) for answer in answers]

    def choice_log_likelihood(
        self,
        prompts: Sequence[Rendered],
        choices: Sequence[Sequence[str]],
        *,
        per_token: bool = False,
    ) -> list[np.ndarray]:
        """Return for each prompt the `log_likelihood` of its choices, as `LanguageModel` does.

        If the LM `can_weigh`, it is log P of labels, which are all choices of a prompt. Each label
        counts as one token then.
        """
        if not self.can_weigh:
            return super().choice_log_likelihood(prompts, choices, per_token=per_token)
        check_choices(choices)
        top = self._first_tokens(prompts, self._alternatives, "scoring")
        self._note_on(top, choices)
        return [
            np.array(label_log_probs(tokens, options))
            for tokens, options in zip(top, choices, strict=True)
        ]

    def tells_apart(self, labels: Sequence[str]) -> bool:
        """Return whether the labels seem to have different first tokens.

        The LM is asked to repeat each label, and its most likely first token must begin that label
        and no other. There may be MOST_ALTERNATIVES labels.
        """
        names = tuple(labels)
        if len(names) > MOST_ALTERNATIVES:
            return False
        if names not in self._told_apart:
            dictated = [dictation(label) for label in names]
            top = self._first_tokens(dictated, self._alternatives, "telling labels apart")
            self._told_apart[names] = all(
                tokens and label_of(tokens[0][0], names) == label
                for tokens, label in zip(top, names, strict=True)
            )
        return self._told_apart[names]

    def _note_on(self, top: Sequence[FirstTokens], choices: Sequence[Sequence[str]]) -> None:
        """Log a line, once, if most answers begin with no label."""
        self._weighed += len(top)
        self._without_label += sum(
            not any(label_of(token, options) for token, _ in tokens)
            for tokens, options in zip(top, choices, strict=True)
        )
        if self._told or self._weighed < _ENOUGH or 2 * self._without_label < self._weighed:
            return
        self._told = True
        log.warning(
            "%s: of %d answers, %d begin with no label, so that their scores say little; an "
            "instruction that names the labels and asks for one alone may help (--system)",
            self.name,
            self._weighed,
            self._without_label,
        )

    def _first_tokens_of(self, prompt: Messages, count: int) -> FirstTokens:
        [tokens] = asked_first(partial(self._first_tokens, [prompt], count, "probing"))
        return tokens

    def _first_tokens(
        self, prompts: Sequence[Rendered], count: int, what: str, attempts: int | None = None
    ) -> list[FirstTokens]:
        """The `count` most likely first tokens of the answer to each prompt."""
        body = {**self._interface.settings(1), "logprobs": True, "top_logprobs": count}
        requests = [
            (
                {"model": self.model, "messages": _messages(prompt), **body},
                lambda answer: first_tokens(answer["choices"]),
            )
            for prompt in prompts
        ]
        return self._client.ask_all(self._interface.path, requests, what, attempts)

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
        """The log-probabilities of each continuation's tokens, by prompt and continuation.

        The pairs are distinct.

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
        """Send each prompt with its continuation, and return the result of `read` for each
        completion.

        Args:
            pairs: the prompts and continuations, which are sent as one text.
            body: the other fields of the requests.
            what: what is being done, for the progress bar.
            read: (choice of the answer, prompt, continuation) → result.
        """
        size = self._config.batch if self._interface.lists else 1
        asked = []
        for start in range(0, len(pairs), size):
            batch = pairs[start : start + size]
            texts = [prompt + continuation for prompt, continuation in batch]
            fields = {"model": self.model, "prompt": texts if size > 1 else texts[0], **body}
            asked.append((fields, partial(_of_each, batch, read)))
        answers = self._client.ask_all("/completions", asked, what)
        return [value for values in answers for value in values]

    def _chats(self, asked: Sequence[tuple[Rendered, Mapping[str, Any]]]) -> list[Answer]:
        """Return the answer to each prompt; each request has further fields of its own."""
        path = self._interface.path
        requests = [
            (
                {"model": self.model, "messages": _messages(prompt), **fields},
                partial(_answered, prompt=prompt),
            )
            for prompt, fields in asked
        ]
        return self._client.ask_all(path, requests, "generating")

    def _stated_prompt_tokens(self, text: str) -> int:
        """The number of tokens of a text in the server's usage; 0 if it reports none."""
        asked = {"messages": _messages(text)} if self._interface.chat else {"prompt": text}
        body = {"model": self.model, **asked, **self._interface.settings(FEW_TOKENS)}
        try:
            return self._client.ask(
                self._interface.path, body, lambda answer: count_of(answer["usage"] or {}, "prompt")
            )
        except Refused:
            return 0


def _messages(prompt: Rendered) -> list[Message]:
    """Return a prompt as the messages of a chat; a text becomes one message of the user."""
    return [{"role": "user", "content": prompt}] if isinstance(prompt, str) else list(prompt)


def _of_each(
    batch: Sequence[tuple[str, str]], read: Callable[[Any, str, str], Out], answer: Any
) -> list[Out]:
    choices = in_order(answer["choices"], len(batch))
    return [
        read(choice, prompt, continuation)
        for choice, (prompt, continuation) in zip(choices, batch, strict=True)
    ]


def _answered(answer: Any, prompt: Rendered) -> Answer:
    return chat_answer(answer["choices"], text_of(prompt))

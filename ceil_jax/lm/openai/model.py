"""A language model behind an OpenAI-compatible server."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from ceil_jax.errors import UserError, unknown_name
from ceil_jax.lm.base import TokenScores
from ceil_jax.lm.openai.address import parse_address
from ceil_jax.lm.openai.alignment import Misaligned, continuation_tokens
from ceil_jax.lm.openai.client import Client
from ceil_jax.lm.openai.config import EndpointConfig
from ceil_jax.lm.openai.probe import probe
from ceil_jax.lm.stopping import check_sampling, cut


class Served(NamedTuple):
    """A model that a server lists."""

    model: str
    name: str
    """The model's and what the server says of it (its owner, its root, how much it reads), not where it is:
    two servers of the same model share results."""
    context_length: int | None
    """Where the server says so."""


class EndpointLM:
    """The `LanguageModel` protocol over /completions, or /chat/completions for generation alone.

    Scoring asks for the log-probabilities of the prompt's own tokens (`echo`, `logprobs`), as vLLM and SGLang
    give them; before the first score the server is probed (`probe`). `tokens_read` is what the server says it
    read and wrote. Counting tokens asks the server's /tokenize, a text at a time, or a tokenizer of one's own.

    Raises:
        UserError: see `Client`; no such model; a server that says nothing of its context length; an answer
            with another number of choices than prompts; a probe that fails.
    """

    def __init__(self, spec: str, config: EndpointConfig, *, client: Client | None = None) -> None:
        address = parse_address(spec)
        self._client = client or Client(address.base, config)
        self._config = config
        served = find_model(self._client, address.model)
        self._model, self.name = served.model, served.name
        length = config.context_length or served.context_length
        if length is None:
            raise UserError(
                f"{address.base} does not say how many tokens {self._model} reads; give --endpoint.context-length"
            )
        # servers want room for the token they would write next
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

    def log_likelihood(self, prompts: Sequence[str], continuations: Sequence[str]) -> np.ndarray:
        scores = self._scores(list(zip(prompts, continuations, strict=True)))
        return np.array([sum(score) for score in scores], dtype=np.float64)

    def choice_log_likelihood(
        self, prompts: Sequence[str], choices: Sequence[Sequence[str]]
    ) -> list[np.ndarray]:
        return [np.array([sum(option) for option in row]) for row in self._choices(prompts, choices)]

    def choose(
        self, prompts: Sequence[str], choices: Sequence[Sequence[str]], *, per_token: bool = False
    ) -> np.ndarray:
        best = []
        for row in self._choices(prompts, choices):
            lengths = [max(len(option), 1) if per_token else 1 for option in row]
            best.append(np.argmax([sum(option) / n for option, n in zip(row, lengths, strict=True)]))
        return np.array(best, dtype=np.int64)

    def generate(
        self,
        prompts: Sequence[str],
        max_new_tokens: int,
        stop: Sequence[str] = (),
        *,
        temperature: float = 0.0,
        seed: int = 0,
    ) -> list[str]:
        """As the protocol says, as far as the server keeps to greedy decoding and to seeds."""
        check_sampling(stop, temperature)
        body: dict[str, Any] = {"max_tokens": max_new_tokens, "temperature": temperature}
        if stop:
            body["stop"] = list(stop)
        if temperature:
            body["seed"] = seed
        if max_new_tokens < 1:
            return [""] * len(prompts)
        if self._config.chat:
            written = self._client.map(partial(self._chat, body), prompts, "generating")
        else:
            answers = self._completions(prompts, body, "generating")
            written = [_field(choice, "text", str, self._client.base) for choice in answers]
        return [cut(text, stop) for text in written]

    def _choices(self, prompts: Sequence[str], choices: Sequence[Sequence[str]]) -> list[list[list[float]]]:
        """Of each prompt's options, the log-probabilities of their tokens."""
        pairs: list[tuple[str, str]] = []
        for row, (prompt, options) in enumerate(zip(prompts, choices, strict=True)):
            if isinstance(options, str) or not options:
                raise UserError(f"prompt {row} has choices {options!r}; give a list of at least one string")
            pairs += [(prompt, option) for option in options]
        rest = iter(self._scores(pairs))
        return [[next(rest) for _ in options] for options in choices]

    def _scores(self, pairs: Sequence[tuple[str, str]]) -> list[list[float]]:
        """Of each prompt and continuation, the log-probabilities of the continuation's tokens."""
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
        """Every token of each text, with its log-probability."""
        # SGLang takes logprobs=0 for no; one alternative costs little
        body = {"echo": True, "logprobs": 1, "max_tokens": 0, "temperature": 0.0}
        answers = self._completions(texts, body, what)
        return [_echoed(choice, text, self._client.base) for choice, text in zip(answers, texts, strict=True)]

    def _completions(self, prompts: Sequence[str], body: dict[str, Any], what: str) -> list[dict[str, Any]]:
        """The choice of each prompt."""

        def ask(some: Sequence[str]) -> list[dict[str, Any]]:
            answer = self._client.post("/completions", {"model": self._model, "prompt": list(some), **body})
            return in_order(answer, "choices", len(some), f"{self._client.base}/completions")

        size = self._config.batch
        batches = [prompts[start : start + size] for start in range(0, len(prompts), size)]
        return [choice for batch in self._client.map(ask, batches, what) for choice in batch]

    def _chat(self, body: dict[str, Any], prompt: str) -> str:
        messages = [{"role": "user", "content": prompt}]
        answer = self._client.post("/chat/completions", {"model": self._model, "messages": messages, **body})
        where = f"{self._client.base}/chat/completions"
        [choice] = in_order(answer, "choices", 1, where)
        return _field(_field(choice, "message", dict, where), "content", str, where)

    @cached_property
    def _tokenizer(self) -> Any:
        """What counts in the server's place."""
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
        answer = self._client.post("/tokenize", body, free=True)
        count = answer.get("count")
        if not isinstance(count, int):
            raise UserError(
                f"{self._client.base}: /tokenize says no count; give the model's tokenizer with --endpoint.tokenizer"
            )
        return count


def find_model(client: Client, model: str | None) -> Served:
    """The model of that name among those a server lists; None is its only one.

    Raises:
        UserError: no such model, or several and none is named.
    """
    listed = client.get("/models").get("data")
    known = {entry["id"]: entry for entry in listed or () if isinstance(entry, dict) and "id" in entry}
    if model is None and len(known) != 1:
        names = ", ".join(sorted(known)[:8]) or "none"
        raise UserError(f"{client.base} serves {names}; name one, as in {client.base}#model-name")
    model = model or next(iter(known))
    if model not in known:
        raise unknown_name(f"model of {client.base}", model, known)
    entry = known[model]
    length = entry.get("max_model_len")
    owner = str(entry.get("owned_by") or "endpoint")
    stated = f"{model} {owner} {entry.get('root')} {length}"
    digits = hashlib.sha256(stated.encode()).hexdigest()[:8]
    return Served(model, f"{model}@{owner}-{digits}", length if isinstance(length, int) else None)


def in_order(answer: dict[str, Any], field: str, count: int, where: str) -> list[dict[str, Any]]:
    """The `count` entries of a field, by their index.

    Raises:
        UserError: another number of them, or an index missing, there twice or no whole number.
    """
    entries = answer.get(field)
    entries = [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
    places = [entry.get("index", place) for place, entry in enumerate(entries)]
    if not all(isinstance(place, int) for place in places) or sorted(places) != list(range(count)):
        raise UserError(
            f"{where}: {len(entries)} {field} with indices {str(places)[:60]} for {count} that were asked for; "
            "the server does not keep to the interface"
        )
    by_place = dict(zip(places, entries, strict=True))
    return [by_place[place] for place in range(count)]


def _field(entry: dict[str, Any], name: str, kind: type, where: str) -> Any:
    value = entry.get(name)
    if not isinstance(value, kind):
        raise UserError(f"{where}: a choice whose {name} is {str(value)[:40]!r}; expected {kind.__name__}")
    return value


def _echoed(choice: dict[str, Any], text: str, where: str) -> TokenScores:
    """The log-probabilities of the text's own tokens; without any, none."""
    found = choice.get("logprobs")
    found = found if isinstance(found, dict) else {}
    tokens, log_probs = found.get("tokens") or [], found.get("token_logprobs") or []
    if len(tokens) != len(log_probs):
        raise UserError(f"{where}: {len(tokens)} tokens with {len(log_probs)} log-probabilities")
    for token, log_prob in zip(tokens, log_probs, strict=True):
        if log_prob is not None and not (math.isfinite(log_prob) and log_prob < 1e-3):
            raise UserError(f"{where}: log-probability {log_prob} of {token[:40]!r}; expected 0 or less")
    # a server may write a token although it was asked for none
    if choice.get("text") not in (text, "", None) and len(tokens) > 1:
        tokens, log_probs = tokens[:-1], log_probs[:-1]
    return TokenScores(list(tokens), list(log_probs))

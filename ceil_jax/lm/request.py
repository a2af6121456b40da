"""A request to a language model, and its result (a reading).

The answer, with the tokens and seconds that it took.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ceil_jax.lm.base import LanguageModel
from ceil_jax.lm.messages import Rendered, text_of
from ceil_jax.store.cost import Cost


class LMRequest(NamedTuple):
    """A request to an LM.

    A prompt, with choices to score, with settings of generation, or with labels, of which the LM
    generates one.
    """

    prompt: Rendered
    choices: tuple[str, ...] = ()
    """The continuations to score; empty to generate."""
    per_token: bool = False
    limit: int = 0
    """The maximum number of tokens to generate."""
    stop: tuple[str, ...] = ()
    temperature: float = 0.0
    seed: int = 0
    labels: tuple[str, ...] = ()
    """The labels, of which the LM generates one."""

    def key(self, lm: str) -> bytes:
        """Return 16 bytes that identify the request to an LM."""
        *others, labels = self
        content: list[Any] = [lm, *others]
        if labels:
            # only where they are set: requests had no labels before, and keep their keys
            content.append(["labels", *labels])
        return hashlib.sha256(json.dumps(content).encode()).digest()[:16]


class Reading(NamedTuple):
    """The result of a request: log-probabilities of choices, or a generated text.

    There is a log-probability in nats for each choice. The text is `Answer.stored`.
    """

    value: Any
    cost: Cost


def read_chunk(lm: LanguageModel, requests: Sequence[LMRequest], sharing: int = 1) -> list[Reading]:
    """Return the readings of some requests.

    The cost is divided among them by their lengths in characters.

    All of them score, or all generate with the same settings except the seed, or all ask for
    labels. `sharing` is the number of chunks that are read at the same time, which share the
    seconds.
    """
    prompts = [request.prompt for request in requests]
    first_request = requests[0]
    began = time.perf_counter()
    before = lm.tokens_read
    values: Sequence[Any]
    if first_request.choices:
        choices = [request.choices for request in requests]
        scores = lm.choice_log_likelihood(prompts, choices, per_token=first_request.per_token)
        values = [row.tolist() for row in scores]
    elif first_request.labels:
        labels = [request.labels for request in requests]
        answers = lm.write_labels(prompts, labels, first_request.limit)
        values = [answer.stored() for answer in answers]
    else:
        seeds = [request.seed for request in requests]
        written = lm.written(
            prompts, first_request.limit, first_request.stop, first_request.temperature, seeds
        )
        values = [answer.stored() for answer in written]
    seconds = (time.perf_counter() - began) / sharing
    tokens = lm.tokens_read - before
    lengths = [
        1 + len(text_of(request.prompt)) + sum(map(len, request.choices)) for request in requests
    ]
    # the share of the cost of all requests up to each one
    shares = np.cumsum([0, *lengths]) / sum(lengths)
    seconds_of_each = np.diff(shares * seconds)
    # whole numbers that add up to the tokens read
    tokens_of_each = np.diff((shares * tokens).round().astype(int))
    return [
        Reading(value, Cost(seconds_of_one, tokens_of_one))
        for value, seconds_of_one, tokens_of_one in zip(
            values, seconds_of_each.tolist(), tokens_of_each.tolist(), strict=True
        )
    ]

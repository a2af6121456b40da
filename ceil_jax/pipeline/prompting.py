"""The prompts of a task for an LM, and the estimated work of reading them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ceil_jax.lm.messages import Rendered
from ceil_jax.lm.prompts import ORDERS, Fit, Prompt, PromptBuilder, answer_reserve
from ceil_jax.lm.request import LMRequest
from ceil_jax.pipeline.models import NamedLM
from ceil_jax.pipeline.run import Run
from ceil_jax.store.kept import FLAT, Work
from ceil_jax.tasks.example import Example
from ceil_jax.training.scoring import read_outputs

SAMPLED = 24
"""Number of queries whose prompts are counted to estimate the tokens of all."""


@dataclass(frozen=True)
class Prompting:
    """The prompts of a task for an LM."""

    lm: NamedLM
    prompt: Prompt = field(metadata=FLAT)
    fit: Fit = "greedy"
    per_token: bool = False
    max_new_tokens: int = 128

    @property
    def registered(self) -> tuple[Any, ...]:
        """The function that orders examples; if a plugin registered it, its code is part of the key."""
        return (ORDERS[self.prompt.order],)

    def builder(self, run: Run, queries: Sequence[Example]) -> PromptBuilder:
        """Return a prompt builder for these queries."""
        lm = run.lm(self.lm)
        reserve = answer_reserve(lm, self.prompt, queries, self.max_new_tokens)
        return PromptBuilder(lm, self.prompt, reserve)

    def scoring_request(self, prompt: Rendered, query: Example, *, all_choices: bool) -> LMRequest:
        """Return the request that scores a query's gold output, or all of its choices.

        See `training.scoring.read_outputs`.
        """
        outputs = read_outputs(query, all_choices)
        return LMRequest(
            prompt,
            tuple(self.prompt.continuation(query, output) for output in outputs),
            # only choices are compared by the mean of their tokens; written outputs by the sum
            self.per_token and bool(query.choices),
        )


def sample(count: int) -> slice:
    """Return a slice that takes about SAMPLED of `count` queries, evenly spaced."""
    return slice(None, None, max(1, count // SAMPLED))


def work_of_reading(
    run: Run,
    lm: NamedLM,
    requests: Sequence[LMRequest],
    times: float,
    answers: Sequence[str] = (),
    *,
    together: bool = False,
) -> Work:
    """Return the work of reading `times` as many prompts as in a sample of requests.

    Prompts that have been read before are not counted. The run's LM may be one that only counts
    tokens.

    Args:
        run: gives the LM and its readings.
        lm: reads the prompts.
        requests: a sample of the prompts with their continuations.
        times: how many times as many prompts there are in all.
        answers: texts that are as long as the generated answers.
        together: whether prompts with the same beginning follow one another, so that a local LM
            reads the beginning once.
    """
    if not requests:
        return Work()
    reader = run.lm(lm)
    counting = run.models.counting(lm)
    unread = reader.missing(requests) / len({request.key(reader.name) for request in requests})
    read, written = counting.count(requests, answers, together=together)
    return Work(times * unread * read, times * unread * written, parameters=counting.parameters)

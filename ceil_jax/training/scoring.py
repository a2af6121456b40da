"""The LM's scores of candidate sets: EPR's single examples and CEIL's sets of k are scored in the same way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from ceil_jax.lm.base import LanguageModel
from ceil_jax.lm.prompts import Fit, PromptBuilder
from ceil_jax.store.rows import Engine, Rows
from ceil_jax.store.shards import Shard
from ceil_jax.store.stage import Stage
from ceil_jax.tasks.example import Example
from ceil_jax.training.candidates import CandidateSets

_CHUNK_PROMPTS = 160
"""Prompts a chunk; a stopped run loses at most one chunk."""


def top_subset_mrr(scores: Float[np.ndarray, "q m"]) -> float:
    """Mean over queries of 1 / rank of set 0, the top-k, among the M scored sets (CEIL, Table 4).

    It is 1 where the LM likes the top-k best for every query. Equal scores share the best rank.
    """
    rank = 1 + (scores > scores[:, :1]).sum(axis=1)
    return float((1 / rank).mean())


def score_sets(
    stage: Stage,
    queries: Sequence[Example],
    bank: Sequence[Example],
    candidates: CandidateSets,
    lm: LanguageModel,
    builder: PromptBuilder,
    *,
    fit: Fit,
    what: str,
    shard: Shard | None = None,
    per_token: bool = False,
    engine: Engine | None = None,
) -> Rows:
    """Score every candidate set with the LM and keep the scores in the stage's journal.

    `set_scorer` describes a row, and `Stage.rows` describes `shard` and `engine`.
    """
    work = set_scorer(queries, bank, candidates, lm, builder, fit, per_token)
    chunk = max(1, _CHUNK_PROMPTS // candidates.subsets.shape[1])
    return stage.rows(
        len(queries), work, chunk=chunk, what=what, cost=lambda: lm.tokens_read, shard=shard, engine=engine
    )


def set_scorer(
    queries: Sequence[Example],
    bank: Sequence[Example],
    candidates: CandidateSets,
    lm: LanguageModel,
    builder: PromptBuilder,
    fit: Fit,
    per_token: bool = False,
) -> Callable[[int, int], list[Any]]:
    """Return a function (start, stop) → the LM's scores of those queries' sets.

    Each query's row is `{"log_prob": [M]}`: Σ log P of the answer's tokens given the set and the query, in nats. On
    tasks with choices it also has `{"choice": [M]}`: log P of the answer less the log of all choices' summed
    probability. With `per_token`, every log P of a choice is divided by its number of tokens, as when it is chosen.
    """
    sets_each = candidates.subsets.shape[1]

    def work(start: int, stop: int) -> list[Any]:
        prompts = [
            _prompt(query, bank, candidates.shortlist[row], subset, builder, fit)
            for row, query in enumerate(queries[start:stop], start)
            for subset in candidates.subsets[row]
        ]
        asked = [query for query in queries[start:stop] for _ in range(sets_each)]
        if queries[0].choices:
            columns = _score_choices(lm, prompts, asked, builder, per_token)
        else:
            answers = [builder.template.continuation(query, query.output) for query in asked]
            columns = {"log_prob": lm.log_likelihood(prompts, answers)}
        return [
            {
                name: [round(float(value), 6) for value in values[i : i + sets_each]]
                for name, values in columns.items()
            }
            for i in range(0, len(prompts), sets_each)
        ]

    return work


def _prompt(
    query: Example,
    bank: Sequence[Example],
    shortlist: np.ndarray,
    subset: np.ndarray,
    builder: PromptBuilder,
    fit: Fit,
) -> str:
    places = [int(place) for place in subset if place >= 0]
    chosen = [bank[shortlist[place]] for place in places]
    # places count from the nearest, so the lower the place, the more similar the example
    return builder.build(query, chosen, [-place for place in places], fit).text


def _score_choices(
    lm: LanguageModel, prompts: list[str], queries: list[Example], builder: PromptBuilder, per_token: bool
) -> dict[str, np.ndarray]:
    options = [[builder.template.continuation(query, c) for c in query.choices] for query in queries]
    log_probs = lm.choice_log_likelihood(prompts, options, per_token=per_token)
    gold = np.array(
        [row[query.choices.index(query.output)] for row, query in zip(log_probs, queries, strict=True)]
    )
    total = np.array([np.logaddexp.reduce(row) for row in log_probs])
    return {"log_prob": gold, "choice": gold - total}

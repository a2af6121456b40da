"""The LM's scores of proposed sets of examples: EPR's of one, CEIL's of k, both in the same way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ceil_jax.lm.base import LanguageModel
from ceil_jax.lm.prompts import Fit, PromptBuilder
from ceil_jax.store.rows import Engine, Rows
from ceil_jax.store.shards import Shard
from ceil_jax.store.stage import Stage
from ceil_jax.tasks.example import Example
from ceil_jax.training.candidates import Proposal

_CHUNK_PROMPTS = 160
"""Prompts the LM is given at a time; what a kill may lose."""


def top_subset_mrr(scores: np.ndarray) -> float:
    """Mean over queries of 1 / rank of subset 0, the top-k, among the M scored ones (Table 4): 1 if the LM
    likes it best everywhere. Of equal scores all have the best rank.

    Args:
        scores: float [Q, M].
    """
    rank = 1 + (scores > scores[:, :1]).sum(axis=1)
    return float((1 / rank).mean())


def score(
    stage: Stage,
    queries: Sequence[Example],
    bank: Sequence[Example],
    proposal: Proposal,
    lm: LanguageModel,
    builder: PromptBuilder,
    *,
    fit: Fit,
    what: str,
    shard: Shard | None = None,
    engine: Engine | None = None,
) -> Rows:
    """The LM's score of every subset, kept in the stage's log; see `scorer` for a row and `Stage.rows` for
    `shard` and `engine`."""
    work = scorer(queries, bank, proposal, lm, builder, fit)
    chunk = max(1, _CHUNK_PROMPTS // proposal.subsets.shape[1])
    return stage.rows(
        len(queries), work, chunk=chunk, what=what, cost=lambda: lm.tokens_read, shard=shard, engine=engine
    )


def scorer(
    queries: Sequence[Example],
    bank: Sequence[Example],
    proposal: Proposal,
    lm: LanguageModel,
    builder: PromptBuilder,
    fit: Fit,
) -> Callable[[int, int], list[Any]]:
    """(start, stop) → the LM's scores of those queries' subsets.

    For each query `{"log_prob": [M]}`, Σ log P of the answer's tokens given subset and query, in nats; on tasks
    with choices also `{"choice": [M]}`, that less the log of the choices' summed probability.
    """
    subsets_each = proposal.subsets.shape[1]

    def work(start: int, stop: int) -> list[Any]:
        prompts = [
            _prompt(query, bank, proposal.shortlist[row], subset, builder, fit)
            for row, query in enumerate(queries[start:stop], start)
            for subset in proposal.subsets[row]
        ]
        asked = [query for query in queries[start:stop] for _ in range(subsets_each)]
        if queries[0].choices:
            columns = _score_choices(lm, prompts, asked, builder)
        else:
            answers = [builder.template.continuation(query, query.output) for query in asked]
            columns = {"log_prob": lm.log_likelihood(prompts, answers)}
        return [
            {
                name: [round(float(value), 6) for value in values[i : i + subsets_each]]
                for name, values in columns.items()
            }
            for i in range(0, len(prompts), subsets_each)
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
    # places count from the nearest, so the lower the place the more similar
    return builder.build(query, chosen, [-place for place in places], fit).text


def _score_choices(
    lm: LanguageModel, prompts: list[str], queries: list[Example], builder: PromptBuilder
) -> dict[str, np.ndarray]:
    options = [[builder.template.continuation(query, c) for c in query.choices] for query in queries]
    log_probs = lm.choice_log_likelihood(prompts, options)
    gold = np.array(
        [row[query.choices.index(query.output)] for row, query in zip(log_probs, queries, strict=True)]
    )
    total = np.array([np.logaddexp.reduce(row) for row in log_probs])
    return {"log_prob": gold, "choice": gold - total}

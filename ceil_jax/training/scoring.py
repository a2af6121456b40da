"""The LM's scores of candidate sets: EPR's single examples and CEIL's sets of k are scored in the
same way."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from ceil_jax.lm.base import LanguageModel
from ceil_jax.lm.prompts import Fit, PromptBuilder
from ceil_jax.tasks.example import Example, Template
from ceil_jax.training.candidates import CandidateSets


def set_prompts(
    queries: Sequence[Example],
    bank: Sequence[Example],
    sets: CandidateSets,
    builder: PromptBuilder,
    fit: Fit,
) -> list[str]:
    """Return the prompt of each candidate set of each query, Q × M; `fit` says which examples to
    drop."""
    prompts = []
    for query, shortlist, subsets in zip(queries, *sets, strict=True):
        for subset in subsets:
            places = [int(place) for place in subset if place >= 0]
            chosen = [bank[shortlist[place]] for place in places]
            # places count from the nearest, so the lower the place, the more similar the example
            prompts.append(builder.build(query, chosen, [-place for place in places], fit).text)
    return prompts


def scored_sets(
    lm: LanguageModel,
    queries: Sequence[Example],
    prompts: Sequence[str],
    template: Template,
    per_token: bool,
) -> dict[str, Float[np.ndarray, "q m"]]:
    """Return the LM's scores of each query's candidate sets (`set_prompts`), float64 [Q, M] by
    name.

    `lm_scores` is Σ log P of the gold output's tokens given the set and the query, in nats. On
    tasks with choices there is also `choice`: log P of the gold choice less the log of all choices'
    summed probability. If `per_token`, every log P of a choice is divided by its number of tokens,
    as when it is chosen.
    """
    sets = len(prompts) // max(1, len(queries))
    asked = [query for query in queries for _ in range(sets)]
    if queries[0].choices:
        options = [
            [template.continuation(query, choice) for choice in query.choices] for query in asked
        ]
        rows = lm.choice_log_likelihood(prompts, options, per_token=per_token)
        gold = np.array(
            [row[q.choices.index(q.output)] for row, q in zip(rows, asked, strict=True)]
        )
        columns = {
            "lm_scores": gold,
            "choice": gold - np.array([np.logaddexp.reduce(row) for row in rows]),
        }
    else:
        outputs = [template.continuation(query, query.output) for query in asked]
        columns = {"lm_scores": lm.log_likelihood(prompts, outputs)}
    return {
        name: np.round(values, 6).reshape(len(queries), sets) for name, values in columns.items()
    }

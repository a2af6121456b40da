"""The LM's scores of candidate sets: EPR's single examples and CEIL's sets of k are scored in the
same way."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int

from ceil_jax.lm.base import LanguageModel
from ceil_jax.lm.lazy import Lazy
from ceil_jax.lm.prompts import Fit, PromptBuilder
from ceil_jax.tasks.example import Example, Template
from ceil_jax.training.candidates import CandidateSets


def set_prompts(
    queries: Sequence[Example],
    bank: Sequence[Example],
    sets: CandidateSets,
    builder: PromptBuilder,
    fit: Fit,
) -> Lazy[str]:
    """Return the prompt of each candidate set of each query, Q × M, those of a query one after
    another. Each is made when it is read: at the papers' size all of them have gigabytes.

    Args:
        queries: Q training queries.
        bank: the examples that the shortlists count.
        sets: M candidate sets of each query.
        builder: puts prompts together under the LM's token budget.
        fit: which examples to drop where not all fit, as in `PromptBuilder.build`.
    """
    count = sets.subsets.shape[1]

    def prompt(number: int) -> str:
        row, set_number = divmod(number, count)
        positions = [int(position) for position in sets.subsets[row, set_number] if position >= 0]
        chosen = [bank[sets.shortlist[row, position]] for position in positions]
        # positions count from the nearest: the lower, the more similar is the example
        relevance = [-position for position in positions]
        return builder.build(queries[row], chosen, relevance, fit).text

    return Lazy(len(queries) * count, prompt)


def by_set(queries: int, sets: int) -> Int[np.ndarray, " n"]:
    """Return the order in which the prompts of sets that all queries share begin alike: numbers of
    Q × M prompts, those of a query one after another, with those of a set one after another.

    >>> by_set(queries=2, sets=3).tolist()
    [0, 3, 1, 4, 2, 5]
    """
    return np.arange(queries * sets).reshape(queries, sets).T.ravel()


def read_outputs(query: Example, all_choices: bool) -> tuple[str, ...]:
    """Return the outputs that an LM reads behind a query's prompt: the gold output alone, or all
    choices of a query that has some."""
    return query.choices if all_choices and query.choices else (query.output,)


def scored_sets(
    lm: LanguageModel,
    queries: Sequence[Example],
    prompts: Sequence[str],
    template: Template,
    per_token: bool,
    all_choices: bool = False,
    order: Int[np.ndarray, " n"] | None = None,
) -> dict[str, Float[np.ndarray, "q m"]]:
    """Return the LM's scores of each query's candidate sets (`set_prompts`), float64 [Q, M] by
    name.

    `lm_scores` is Σ log P of the gold output's tokens given the set and the query, in nats.

    Args:
        lm: reads the prompts.
        queries: Q queries, all with choices or all without.
        prompts: Q × M prompts, those of a query one after another; each is asked for once.
        template: says how an output continues a prompt.
        per_token: on tasks with choices, divide every log P by its number of tokens, as when a
            choice is taken.
        all_choices: on tasks with choices, read all of them and return `choice` too: log P of the
            gold choice less the log of all choices' summed probability. Without it only the gold
            choice is read.
        order: the numbers of the prompts in the order in which the LM is given them; by default as
            they stand. What a local LM reads of prompts that begin alike, it reads once.
    """
    sets = len(prompts) // max(1, len(queries))
    outputs = [read_outputs(query, all_choices) for query in queries]
    texts = [
        [template.continuation(query, output) for output in outputs_of_query]
        for query, outputs_of_query in zip(queries, outputs, strict=True)
    ]
    per_token = per_token and bool(queries[0].choices)
    numbers = np.arange(len(prompts)) if order is None else order
    given = lm.choice_log_likelihood(
        Lazy(len(prompts), lambda position: prompts[numbers[position]]),
        Lazy(len(prompts), lambda position: texts[numbers[position] // sets]),
        per_token=per_token,
    )
    rows = [given[position] for position in np.argsort(numbers)]
    gold_positions = [
        outputs_of_query.index(query.output)
        for query, outputs_of_query in zip(queries, outputs, strict=True)
    ]
    gold = np.array([row[gold_positions[number // sets]] for number, row in enumerate(rows)])
    columns = {"lm_scores": gold}
    if all_choices and queries[0].choices:
        columns["choice"] = gold - np.array([np.logaddexp.reduce(row) for row in rows])
    return {
        name: np.round(values, 6).reshape(len(queries), sets) for name, values in columns.items()
    }

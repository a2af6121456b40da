"""The LM's scores of candidate sets.

EPR's single examples and CEIL's sets are scored in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from ceil_jax.lm.base import LanguageModel
from ceil_jax.lm.messages import Rendered
from ceil_jax.lm.on_access import OnAccess
from ceil_jax.lm.prompts import Fit, Prompt, PromptBuilder
from ceil_jax.tasks.example import Example
from ceil_jax.training.candidates import CandidateSets


def set_prompts(
    queries: Sequence[Example],
    bank: Sequence[Example],
    sets: CandidateSets,
    builder: PromptBuilder,
    fit: Fit,
) -> OnAccess[Rendered]:
    """Return the Q × M prompts of the candidate sets, query by query.

    Each is made when it is read, because at the papers' size all of them take gigabytes.

    Args:
        queries: Q training queries.
        bank: the examples to which the shortlists refer.
        sets: M candidate sets of each query.
        builder: puts prompts together under the LM's token budget.
        fit: which examples to drop if not all fit, as in `PromptBuilder.build`.
    """
    count = sets.subsets.shape[1]

    def prompt(number: int) -> Rendered:
        row, set_number = divmod(number, count)
        positions = [int(position) for position in sets.subsets[row, set_number] if position >= 0]
        chosen = [bank[sets.shortlist[row, position]] for position in positions]
        # the shortlist is sorted: a lower position is a more similar example
        relevance = [-position for position in positions]
        return builder.build(queries[row], chosen, relevance, fit).prompt

    return OnAccess(len(queries) * count, prompt)


def read_outputs(query: Example, all_choices: bool) -> tuple[str, ...]:
    """Return the outputs that an LM scores after a query's prompt.

    The gold output, or with `all_choices` all choices of the query if it has choices.
    """
    return query.choices if all_choices and query.choices else (query.output,)


def score_sets(
    lm: LanguageModel,
    queries: Sequence[Example],
    prompts: Sequence[Rendered],
    prompt: Prompt,
    per_token: bool,
    all_choices: bool = False,
) -> dict[str, Float[np.ndarray, "q m"]]:
    """Return the LM's scores of each query's candidate sets, float64 [Q, M], by name.

    The prompts are those of `set_prompts`.

    `lm_scores` is Σ log P of the gold output's tokens given the set and the query, in nats.

    Args:
        lm: reads the prompts.
        queries: Q queries, all with choices or all without.
        prompts: Q × M prompts, query by query; each is read once.
        prompt: defines how an output continues one.
        per_token: on tasks with choices, whether log P is divided by the number of tokens, as when
            the LM answers.
        all_choices: on tasks with choices, whether all of them are read. `choice` is then also
            returned: log P of the gold choice minus the log of the summed probability of all
            choices.
    """
    sets = len(prompts) // max(1, len(queries))
    outputs = [read_outputs(query, all_choices) for query in queries]
    texts = [
        [prompt.continuation(query, output) for output in outputs_of_query]
        for query, outputs_of_query in zip(queries, outputs, strict=True)
    ]
    per_token = per_token and bool(queries[0].choices)
    rows = lm.choice_log_likelihood(
        prompts,
        OnAccess(len(prompts), lambda number: texts[number // sets]),
        per_token=per_token,
    )
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

"""The step that finds one set of examples for all queries (`methods.fixed`)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int

from ceil_jax.lm.messages import Rendered
from ceil_jax.metrics import METRICS
from ceil_jax.pipeline.prompting import Prompting, work_of_reading
from ceil_jax.pipeline.run import Run
from ceil_jax.pipeline.ways import ask, way_of_answering
from ceil_jax.store.kept import Lazy, Noted, Work, array, kept
from ceil_jax.tasks.bank import BankQueries, Examples
from ceil_jax.tasks.example import Example
from ceil_jax.training.scoring import score_sets

_SET_DRAWS = 12
"""The part of the random key, next to the seed, for the random sets."""

_SAMPLED_SETS = 4
"""Number of sets whose prompts are counted to estimate the tokens of all."""


def random_sets(
    bank: Examples, rounds: Sequence[BankQueries], sets: int, size: int, seed: int
) -> Int[np.ndarray, "m k"]:
    """Return random sets of examples, as bank positions.

    None contains a row of a round, so that no prompt has its own answer.
    """
    held_back = np.concatenate([rows.positions for rows in rounds])
    others = np.setdiff1d(np.arange(len(bank)), held_back)
    generator = np.random.default_rng([seed, _SET_DRAWS])
    return np.array([generator.permutation(others)[:size] for _ in range(sets)])


def _prompts(
    run: Run,
    prompting: Prompting,
    bank: Examples,
    queries: Sequence[Example],
    sets: Int[np.ndarray, "m k"],
) -> tuple[list[Rendered], list[Example]]:
    """The prompts of all sets with their queries, set by set: those of a set begin alike."""
    builder = prompting.builder(run, queries)
    relevance = [-rank for rank in range(1, sets.shape[1] + 1)]
    prompts = [
        builder.build(query, [bank.examples[i] for i in of_set], relevance, prompting.fit).prompt
        for of_set in sets
        for query in queries
    ]
    return prompts, list(queries) * len(sets)


def work_of_search(run: Run, best: Lazy[np.ndarray]) -> Work:
    """Return the work of finding the best set."""
    queries = best.rounds[0].examples
    sets = random_sets(best.bank, best.rounds, best.sets, best.size, best.seed)[:_SAMPLED_SETS]
    prompting = best.prompting
    prompts, asked = _prompts(run, prompting, best.bank, queries, sets)
    if prompting.lm.can_score:
        requests = [
            prompting.scoring_request(prompt, query, all_choices=True)
            for prompt, query in zip(prompts, asked, strict=True)
        ]
    else:
        way = way_of_answering(run.lm(prompting.lm), prompting, best.stop, queries)
        requests = way.requests(prompts, asked)
    read = sum(max(1, best.sets >> number) * len(rows) for number, rows in enumerate(best.rounds))
    golds = [query.output for query in queries]
    times = read / len(requests)
    return work_of_reading(run, prompting.lm, requests, times, golds, together=True)


@kept(
    "bestset",
    files=array("set.npz", "positions"),
    version=2,
    what="searching for the fixed examples",
    work=work_of_search,
    registered=lambda best: (METRICS[best.metric],),
)
def best_set(
    run: Run,
    prompting: Prompting,
    stop: tuple[str, ...],
    metric: str,
    bank: Examples,
    rounds: tuple[BankQueries, ...],
    sets: int,
    size: int,
    seed: int,
) -> np.ndarray | Noted:
    """Return the bank positions of the best of random sets, int32 [k].

    A prompt shows them in reverse order, as when the set was scored.

    Args:
        run: gives the LM.
        prompting: the prompts.
        stop: strings at which an answer ends.
        metric: scores the answers of an LM that gives no log-probabilities.
        bank: the bank.
        rounds: the new rows of each round, after which the worse half of the sets is dropped.
        sets: number of random sets.
        size: number of examples in a set.
        seed: of the sets.
    """
    left = random_sets(bank, rounds, sets, size, seed)
    scores = np.empty((0, len(left)))
    for rows in rounds:
        of_round = _scores(run, prompting, stop, metric, bank, rows.examples, left)
        scores = np.vstack([scores, of_round])
        better = np.argsort(-scores.mean(axis=0), kind="stable")[: max(1, len(left) // 2)]
        left, scores = left[better], scores[:, better]
    return Noted(left[0].astype(np.int32), {"sets": sets, "size": size, "rows": len(scores)})


def _scores(
    run: Run,
    prompting: Prompting,
    stop: tuple[str, ...],
    metric: str,
    bank: Examples,
    queries: Sequence[Example],
    sets: Int[np.ndarray, "m k"],
) -> Float[np.ndarray, "q m"]:
    """P of the right choice, log P of a written output, or the metric of an answer."""
    lm = run.lm(prompting.lm)
    prompts, asked = _prompts(run, prompting, bank, queries, sets)
    if lm.can_score:
        how = (prompting.prompt, prompting.per_token)
        scored = score_sets(lm, asked, prompts, *how, all_choices=True)
        values = np.exp(scored["choice"]) if "choice" in scored else scored["lm_scores"]
    else:
        replies = ask(lm, prompting, stop, prompts, asked)
        answers = [reply.prediction for reply in replies]
        values = np.asarray(METRICS[metric].scored(answers, asked), np.float64)
    return values.reshape(len(sets), len(queries)).T

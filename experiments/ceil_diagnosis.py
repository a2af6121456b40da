"""Why learned sets are better than top-k or not: a few numbers for each task.

They say how reliable the LM's scores are, how much of them training learns, and whether what it learns reaches the
metric.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from ceil_jax.errors import UserError
from ceil_jax.metrics import metric_named
from ceil_jax.metrics.bootstrap import Interval, Sample, bootstrap_interval, by_question, mean
from ceil_jax.pipeline.run import Run
from ceil_jax.retrieval.embedded_bank import unit_rows
from ceil_jax.retrieval.registry import Retrieved
from ceil_jax.tasks.example import Example
from ceil_jax.tasks.words import overlap
from ceil_jax.training.candidates import CandidateSets, ScoredSets, log_probs
from ceil_jax.training.contrastive import output_similarity
from ceil_jax.training.losses import kendall_tau

AGAIN = 64
"""The number of training queries whose sets are scored again with their examples in another order."""

ANSWERED = 100
"""The number of training queries that are answered with their best and with their top-k set."""


class Diagnosis(NamedTuple):
    """The diagnosis of CEIL on one task and one LM. Scores are log P of the answer, in nats."""

    reordered: float
    """Kendall's τ between the scores of a query's sets and the scores of the same sets in random order.
    A model of sets, which does not know the order, cannot be expected to rank better."""
    halves: float
    """Correlation of an example's worth to a query between two halves of the query's sets (`halves`)."""
    outputs: float
    """Kendall's τ between a set's score and its target similarity: the mean cosine of its outputs with the query's
    output, which no retriever knows."""
    nearness: float
    """Kendall's τ between a set's score and the mean place of its examples in the shortlist."""
    learnt: tuple[float, float]
    """Kendall's τ on held-out training queries, before CEIL's training and with the weights that it ended with."""
    sets: Interval
    """Score of CEIL's MAP set minus the score of its encoder's top-k, on validation queries."""
    beyond_topk: Interval
    """Score of CEIL's MAP set minus the score of the untrained encoder's top-k."""
    predicts: float
    """How often the better-answered of two prompts also has the higher LM score."""
    topk: float
    """The metric of training queries answered with their top-k sets, in percent."""
    best: float
    """The metric of training queries answered with their best-scored sets, in percent: an oracle, because
    scoring uses the gold output."""


def diagnose(pipeline: Run, methods: Sequence[str]) -> Diagnosis:
    """Diagnose a run of CEIL.

    Args:
        pipeline: the run; CEIL is trained if it is not on disk.
        methods: the methods whose prompts `predicts` compares, with topk, ceil_topk and ceil among them.

    Raises:
        UserError: the run answers with other prompts than the LM scores, under a token budget.
    """
    if pipeline.config.token_budget is not None:
        raise UserError("the LM scores whole sets: diagnose without --token-budget")
    scored, scores = pipeline.trainer.ceil_scores, log_probs(pipeline.trainer.ceil_scores.rows)
    some = range(min(AGAIN, len(scores)))
    again = _reordered(pipeline, scored.instances[: len(some)], scored.candidates)
    tau = [_tau(scores[i], again[i]) for i in some]
    ending = pipeline.trainer.ending("ceil")
    assert ending is not None  # a dry run diagnoses nothing
    validation = _validation_scores(pipeline, methods)
    right = np.stack([pipeline.evaluate(method).scores for method in methods])
    ceil, ceil_topk, topk = (methods.index(name) for name in ("ceil", "ceil_topk", "topk"))
    shown = range(min(ANSWERED, len(scores)))
    values = [
        _metric_of_subsets(pipeline, scored.instances, scored.candidates, places)
        for places in ([0 for _ in shown], [int(scores[i].argmax()) for i in shown])
    ]
    return Diagnosis(
        reordered=float(np.mean(tau)),
        halves=halves(scores, scored.candidates.subsets, pipeline.config.data_seed),
        outputs=_mean_tau(
            scores, mean_of_subsets(_output_similarity(pipeline, scored), scored.candidates.subsets)
        ),
        nearness=_mean_tau(scores, mean_of_subsets(_nearness(scored.candidates), scored.candidates.subsets)),
        learnt=ending.learnt,
        sets=_difference(pipeline, validation[ceil] - validation[ceil_topk]),
        beyond_topk=_difference(pipeline, validation[ceil] - validation[topk]),
        predicts=agreement(validation, right),
        topk=values[0],
        best=values[1],
    )


def _difference(pipeline: Run, values: np.ndarray) -> Interval:
    questions = overlap(pipeline.task.validation, ()).question
    return bootstrap_interval(*by_question(Sample(values[:, None], mean), questions))


def halves(scores: np.ndarray, subsets: np.ndarray, seed: int = 0) -> float:
    """Return how well an example's worth to a query in one half of its sets predicts its worth in the other half.

    Each query's subsets are drawn into two halves; an example's worth in a half is the mean score of its subsets
    there less that of all of them there. The correlation is over all (query, example) that are in both halves; 0
    where there are none, or nothing varies.

    Args:
        scores: float [Q, M].
        subsets: int [Q, M, k], places in a shortlist, −1 for none.
    """
    rng = np.random.default_rng([seed, 4])
    pairs = []
    for row, sets in zip(scores, subsets, strict=True):
        order = rng.permutation(len(row))
        worth = [_worth(row[half], sets[half]) for half in (order[::2], order[1::2])]
        pairs += [(worth[0][place], worth[1][place]) for place in worth[0].keys() & worth[1].keys()]
    if not pairs or not np.ptp(pairs, axis=0).all():
        return 0.0
    return float(np.corrcoef(np.transpose(pairs))[0, 1])


def mean_of_subsets(values: np.ndarray, subsets: np.ndarray) -> np.ndarray:
    """Return the mean value of each set's examples, float [Q, M].

    Args:
        values: float [Q, n], of the examples in a shortlist.
        subsets: int [Q, M, k], places in it, −1 for none.
    """
    rows = np.arange(len(subsets))[:, None, None]
    return np.average(values[rows, np.maximum(subsets, 0)], axis=2, weights=subsets >= 0)


def _mean_tau(scores: np.ndarray, values: np.ndarray) -> float:
    return float(np.mean([_tau(row, score) for row, score in zip(values, scores, strict=True)]))


def _tau(values: np.ndarray, scores: np.ndarray) -> float:
    return float(kendall_tau(jnp.asarray(values), jnp.asarray(scores)))


def _output_similarity(pipeline: Run, scored: ScoredSets) -> np.ndarray:
    queries, bank = (
        unit_rows(pipeline.embed(pipeline.base, [example.output for example in examples]))
        for examples in (scored.instances, pipeline.task.train)
    )
    return output_similarity(queries, bank, scored.candidates.shortlist)


def _nearness(proposal: CandidateSets) -> np.ndarray:
    return np.broadcast_to(-np.arange(proposal.shortlist.shape[1], dtype=float), proposal.shortlist.shape)


def _worth(scores: np.ndarray, sets: np.ndarray) -> dict[int, float]:
    places = np.unique(sets[sets >= 0])
    mean = scores.mean()
    return {int(place): float(scores[(sets == place).any(axis=1)].mean() - mean) for place in places}


def agreement(scores: np.ndarray, right: np.ndarray) -> float:
    """Return how often, of two methods that differ on a query, the one with the better metric has the higher
    score, equal scores counted half; 1/2 where none differ.

    Args:
        scores: float [methods, Q].
        right: float [methods, Q], the metric of each query.
    """
    better = np.sign(right[:, None] - right[None, :])
    higher = np.sign(scores[:, None] - scores[None, :])
    pairs = np.abs(better).sum()
    return float(0.5 + 0.5 * (better * higher).sum() / pairs) if pairs else 0.5


def _reordered(pipeline: Run, queries: Sequence[Example], proposal: CandidateSets) -> np.ndarray:
    """The scores of the same sets with their examples in random order, float [Q, M]."""
    # prompts are ordered by place in the shortlist, so shuffling the shortlist shuffles the prompts
    rng = np.random.default_rng([pipeline.config.data_seed, 5])
    shortlist, subsets = proposal.shortlist[: len(queries)].copy(), proposal.subsets[: len(queries)].copy()
    for row, places in zip(shortlist, subsets, strict=True):
        new = rng.permutation(len(row))
        row[new] = row.copy()
        places[...] = np.sort(np.append(new, len(row))[places], axis=1)
        places[places == len(row)] = -1
    rows, _ = pipeline.training_data.scores(
        queries, CandidateSets(shortlist, subsets), "subsets in another order"
    )
    return log_probs(rows)


def _validation_scores(pipeline: Run, methods: Sequence[str]) -> np.ndarray:
    """The score of the prompt that each method answers each validation query with, float [methods, Q]."""
    queries, k = pipeline.task.validation, pipeline.config.shots
    shortlist = np.full((len(queries), len(methods) * k), -1, np.int32)
    subsets = np.full((len(queries), len(methods), k), -1, np.int32)
    for at, method in enumerate(methods):
        for row, picks in enumerate(pipeline.retrieve(method, queries)):
            nearest = sorted(picks, key=lambda pick: -pick.relevance)
            shortlist[row, at * k : at * k + len(picks)] = [pick.position for pick in nearest]
            subsets[row, at, : len(picks)] = np.arange(at * k, at * k + len(picks))
    rows, _ = pipeline.training_data.scores(
        queries, CandidateSets(shortlist, subsets), "the methods' prompts"
    )
    return log_probs(rows).T


def _metric_of_subsets(
    pipeline: Run, queries: Sequence[Example], proposal: CandidateSets, chosen: Sequence[int]
) -> float:
    """The metric, in percent, of the first queries, each answered with one of its sets."""
    asked, bank = queries[: len(chosen)], pipeline.task.train
    retrieved = []
    for row, (places, m) in enumerate(zip(proposal.subsets, chosen, strict=False)):
        positions = [int(proposal.shortlist[row, place]) for place in places[m] if place >= 0]
        retrieved.append([Retrieved(bank[p].id, p, -float(rank), 0.0) for rank, p in enumerate(positions)])
    rows, _ = pipeline.answers_with(retrieved, asked, "answering with scored subsets")
    predictions = [row["prediction"] for row in rows]
    return 100 * float(metric_named(pipeline.task.metric).corpus(predictions, asked))


def lines(found: dict[str, Diagnosis]) -> list[list[str]]:
    """Return a table of tasks and their numbers, with the header as the first line."""
    header = ["task", "τ, same sets reordered", "r, halves", "τ with outputs", "τ with nearness"]
    header += ["τ held out, before → after"]
    header += ["log P, MAP − top-k", "… − untrained top-k", "log P picks the better answer"]
    header += ["top-k subset, %", "best-scored subset, % (oracle)"]
    body = [
        [
            *(
                task,
                f"{one.reordered:.2f}",
                f"{one.halves:.2f}",
                f"{one.outputs:.2f}",
                f"{one.nearness:.2f}",
                f"{one.learnt[0]:.3f} → {one.learnt[1]:.3f}",
            ),
            *(f"{i.mean:+.3f} ({i.low:+.3f} to {i.high:+.3f})" for i in (one.sets, one.beyond_topk)),
            *(f"{100 * one.predicts:.0f} %", f"{one.topk:.1f}", f"{one.best:.1f}"),
        ]
        for task, one in found.items()
    ]
    return [header, *body]

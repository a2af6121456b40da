"""Skill-KNN's analyses: measures of the selected examples, recall@N of samples, and t-SNE."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from ceil_jax.retrieval.registry import Retrieved
from ceil_jax.tasks.example import Example


class SelectionMeasures(NamedTuple):
    """Measures of the selected examples, means over queries; NaN where a task has no such measure."""

    overlap: float
    """Jaccard index of the sketches of query and example, in percent; two empty sketches are equal."""
    coverage: float
    """Percentage of a query's sketch that stands in the sketch of at least one of its examples."""
    databases: float
    """Number of different databases among a query's examples (the paper's Table 6)."""
    tables: float
    """Number of tables in an example's database (Figure 5a)."""
    length: float
    """Length of an example's output, split by blanks (Figure 5b)."""


def selected(
    queries: Sequence[Example],
    retrieved: Sequence[Sequence[Retrieved]],
    bank: Sequence[Example],
    *,
    language: str,
    sketch: Callable[[str], frozenset[str]],
) -> SelectionMeasures:
    """Return the measures of the examples retrieved for each query.

    Args:
        queries: the queries.
        retrieved: the examples chosen for each of them.
        bank: the bank they were chosen from.
        language: "sql" or "cogs"; databases and tables are counted for SQL only.
        sketch: an output's sketch.
    """
    chosen = [[bank[pick.position] for pick in picks] for picks in retrieved]
    rows = list(zip(queries, chosen, strict=True))
    pairs = [(query, example) for query, row in rows for example in row]
    overlap = [_jaccard(sketch(query.output), sketch(example.output)) for query, example in pairs]
    covered = [
        _covered(sketch(query.output), frozenset().union(*(sketch(one.output) for one in row))) for query, row in rows
    ]
    nan = float("nan")
    sql = language == "sql"
    return SelectionMeasures(
        100 * float(np.mean(overlap)),
        100 * float(np.mean(covered)),
        float(np.mean([len({example.fields.get("db_id", "") for example in row}) for row in chosen])) if sql else nan,
        float(np.mean([tables_of(example.fields.get("schema", "")) for _, example in pairs])) if sql else nan,
        float(np.mean([len(example.output.split()) for _, example in pairs])),
    )


def tables_of(schema: str) -> int:
    """Return the number of tables in a schema, `singer [Singer_ID, Name], stadium [Stadium_ID]`."""
    return len(re.findall(r"\](?:, |$)", schema))


def mean_selected(measures: Sequence[SelectionMeasures]) -> SelectionMeasures:
    """Return the means over several repeats of one method."""
    return SelectionMeasures(*(float(np.mean(column)) for column in zip(*measures, strict=True)))


def _jaccard(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / len(one | other) if one | other else 1.0


def _covered(wanted: frozenset[str], there: frozenset[str]) -> float:
    return len(wanted & there) / len(wanted) if wanted else 1.0


def by_frequency(samples: Sequence[str]) -> list[str]:
    """Return the distinct samples, the most frequent first; ties keep the order of drawing."""
    return [text for text, _ in Counter(samples).most_common()]


def recall_at(
    samples: Sequence[Sequence[str]],
    right: Callable[[Sequence[str], Sequence[int]], Sequence[bool] | np.ndarray],
    ranks: Sequence[int],
) -> dict[int, float]:
    """Return recall@N: the percentage of queries with a right answer among their N most frequent samples.

    Args:
        samples: for each query, every answer that was drawn.
        right: called once with all answers and the index of the query of each; returns whether each is right.
        ranks: the values of N.
    """
    ranked = [by_frequency(drawn)[: max(ranks)] for drawn in samples]
    owners = [query for query, answers in enumerate(ranked) for _ in answers]
    verdicts = np.asarray(right([answer for answers in ranked for answer in answers], owners), bool)
    first = np.full(len(samples), np.inf)
    places = [place for answers in ranked for place in range(len(answers))]
    for query, place, verdict in zip(owners, places, verdicts, strict=True):
        if verdict:
            first[query] = min(first[query], place)
    return {n: 100 * float(np.mean(first < n)) for n in ranks}


def plane(vectors: np.ndarray, seed: int) -> np.ndarray:
    """Project vectors to the plane by t-SNE with the paper's settings (learning rate auto, perplexity 3).

    Args:
        vectors: float [N, D].
        seed: seed of the random start.

    Returns:
        float [N, 2].
    """
    from sklearn.manifold import TSNE

    return TSNE(n_components=2, learning_rate="auto", init="random", perplexity=3, random_state=seed).fit_transform(
        vectors
    )

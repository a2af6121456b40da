"""What a selection is made of, and how often sampling finds the answer: Skill-KNN's analyses."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from ceil_jax.retrieval.registry import Retrieved
from ceil_jax.skills.sketches import Sketch, sql_tables
from ceil_jax.tasks.example import Example


class Selected(NamedTuple):
    """The mean over queries of what their chosen examples are. nan where a task has no such thing."""

    overlap: float
    """Of the sketches of query and example, |A ∩ B| / |A ∪ B|, in percent; two empty ones are equal."""
    databases: float
    """Different databases among a query's examples."""
    tables: float
    """Tables in an example's SQL."""
    length: float
    """Words and signs of an example's answer."""


def selected(
    queries: Sequence[Example],
    retrieved: Sequence[Sequence[Retrieved]],
    bank: Sequence[Example],
    *,
    language: str,
    sketch: Sketch,
) -> Selected:
    """The measures of what was retrieved for each query; databases and tables for SQL only."""
    chosen = [[bank[pick.position] for pick in picks] for picks in retrieved]
    pairs = [(query, example) for query, row in zip(queries, chosen, strict=True) for example in row]
    overlap = [_jaccard(sketch(query.output), sketch(example.output)) for query, example in pairs]
    nan = float("nan")
    sql = language == "sql"
    return Selected(
        100 * float(np.mean(overlap)),
        float(np.mean([len({example.fields.get("db_id", "") for example in row}) for row in chosen]))
        if sql
        else nan,
        float(np.mean([len(sql_tables(example.output)) for _, example in pairs])) if sql else nan,
        float(np.mean([len(re.findall(r"\w+|[^\w\s]", example.output)) for _, example in pairs])),
    )


def mean_selected(measures: Sequence[Selected]) -> Selected:
    """Of several repeats of one method."""
    return Selected(*(float(np.mean(column)) for column in zip(*measures, strict=True)))


def _jaccard(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / len(one | other) if one | other else 1.0


def by_frequency(samples: Sequence[str]) -> list[str]:
    """The different samples, the most frequent first, of equals the first drawn."""
    return [text for text, _ in Counter(samples).most_common()]


def recall_at(
    samples: Sequence[Sequence[str]],
    right: Callable[[Sequence[str], Sequence[int]], Sequence[bool] | np.ndarray],
    ranks: Sequence[int],
) -> dict[int, float]:
    """recall@N: the percentage of queries with a right answer among their N most frequent samples.

    Args:
        samples: of each query, every answer that was drawn.
        right: answers and the query each is for, to whether they are right; asked once, for all.
        ranks: the N.
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
    """float [N, 2]: t-SNE with the paper's settings (learning rate auto, random start, perplexity 3)."""
    from sklearn.manifold import TSNE

    return TSNE(
        n_components=2, learning_rate="auto", init="random", perplexity=3, random_state=seed
    ).fit_transform(vectors)

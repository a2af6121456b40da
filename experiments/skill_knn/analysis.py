"""Skill-KNN's analyses: recall@N of samples, and t-SNE."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np


def by_frequency(samples: Sequence[str]) -> list[str]:
    """Return the distinct samples, the most frequent first; ties keep the order of drawing."""
    return [text for text, _ in Counter(samples).most_common()]


def recall_at(
    samples: Sequence[Sequence[str]],
    right: Callable[[Sequence[str], Sequence[int]], Sequence[bool] | np.ndarray],
    ranks: Sequence[int],
) -> dict[int, float]:
    """Return recall@N: the percentage of queries with a right answer among their N most frequent
    samples.

    Args:
        samples: for each query, every answer that was drawn.
        right: called once with all answers and the index of the query of each; returns whether each
            is right.
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
    """Project vectors to the plane by t-SNE with the paper's settings (learning rate auto,
    perplexity 3).

    Args:
        vectors: float [N, D].
        seed: seed of the random start.

    Returns:
        float [N, 2].
    """
    from sklearn.manifold import TSNE

    return TSNE(
        n_components=2, learning_rate="auto", init="random", perplexity=3, random_state=seed
    ).fit_transform(vectors)

"""Skill-KNN's retrievers, and the oracles.

Skill-KNN compares skills. Oracles read the queries' gold outputs.
"""

from __future__ import annotations

from functools import partial
from typing import Literal

import numpy as np

from ceil_jax.retrieval.retriever import (
    Choice,
    Needs,
    Queries,
    RetrieverArguments,
    RetrieverKind,
)
from ceil_jax.retrieval.retrievers import NearestVectors, Ranking
from ceil_jax.tasks.draws import text_rng
from ceil_jax.tasks.example import Example


class NearestSkills:
    """Skill-KNN's retriever: the nearest examples by a similarity of skills.

    See `skills.similarity`. Ties are drawn at random.

    Args:
        arguments: the arguments of a retriever, with the vectors of the bank's skills, [N, m, D].
        similarity: the name of the similarity.
    """

    def __init__(
        self,
        arguments: RetrieverArguments,
        similarity: Literal["base", "consistency", "distinctiveness"],
    ) -> None:
        from ceil_jax.skills import similarity as similarities

        assert arguments.vectors is not None, "declared in Needs"
        self.items = arguments.vectors
        self.seed = arguments.seed
        self.score = {
            "base": similarities.base,
            "consistency": similarities.consistency,
            "distinctiveness": similarities.distinctiveness,
        }[similarity]

    def choose(self, queries: Queries, k: int) -> Choice:
        from ceil_jax.dpp.kernel import similarity
        from ceil_jax.retrieval.nearest import nearest_drawn

        cosines, positions = nearest_drawn(queries, self.items, k, self.seed, self.score)
        relevance = similarity(cosines)
        return Choice(positions, relevance, relevance)


class TargetSketch(Ranking):
    """An oracle that takes the largest weighted overlap with the query's gold output.

    It compares keywords, or words and roles.

    Ties go to the example whose other parts weigh less, then to a seeded draw. (The paper does not
    say how ties are broken. There are many, such as all of `SELECT COUNT(*)`, and a draw is needed
    because neighbours in a bank are often paraphrases of one question.)
    """

    def __init__(self, arguments: RetrieverArguments) -> None:
        super().__init__(arguments)
        assert arguments.sketch is not None, "declared in Needs"
        self._sketch = arguments.sketch
        self._parts = [self._sketch(example.output) for example in self.bank]
        self._weights = np.array([sum(parts.values()) for parts in self._parts])

    def rank(self, query: Example, n: int) -> tuple[np.ndarray, np.ndarray]:
        sketch = self._sketch(query.output)
        overlap = np.array(
            [sum(parts[part] for part in parts.keys() & sketch) for parts in self._parts]
        )
        draw = text_rng(query.id, self.arguments.seed).permutation(len(overlap))
        # the largest overlap first, then the fewest other parts, then in random order: lexsort
        # takes the first key last
        order = np.lexsort((draw, self._weights - overlap, -overlap))
        return order[:n], overlap


_ONE = Needs(vectors="skills", skills="one", seeded=True, text=False)
_ALL = Needs(vectors="skills", skills="all", text=False)

SKILL_BASE = RetrieverKind(
    "skill_base", "Skill-KNN", partial(NearestSkills, similarity="base"), _ONE
)
SKILL_CONSISTENCY = RetrieverKind(
    "skill_consistency",
    "Skill-KNN, consistency",
    partial(NearestSkills, similarity="consistency"),
    _ALL,
)
SKILL_DISTINCT = RetrieverKind(
    "skill_distinct",
    "Skill-KNN, distinctiveness",
    partial(NearestSkills, similarity="distinctiveness"),
    _ALL,
)
TARGET_KNN = RetrieverKind(
    "target_knn",
    "target-KNN (oracle)",
    NearestVectors,
    Needs(vectors="outputs", gold_outputs=True, text=False),
)
TARGET_SKETCH = RetrieverKind(
    "target_sketch",
    "target sketch (oracle)",
    TargetSketch,
    Needs(gold_outputs=True, sketch=True, text=False),
)

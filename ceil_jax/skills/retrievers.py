"""Skill-KNN's retrievers, which compare skills, and the oracles, which see the queries' gold
outputs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from ceil_jax.retrieval.embedded_bank import Compared
from ceil_jax.retrieval.registry import Given, Needs, Registered, Retriever
from ceil_jax.retrieval.retrievers import DenseRetriever, RankingRetriever
from ceil_jax.skills.similarity import Similarity, base, consistency, distinctiveness
from ceil_jax.tasks.draws import text_rng
from ceil_jax.tasks.example import Example


def build_skill(similarity: Similarity, bank: Sequence[Example], given: Given) -> Retriever:
    """Build Skill-KNN: the nearest skills by one of its similarities."""
    rewrite = given.rewrite
    assert rewrite is not None, "declared in Needs"
    compared = Compared(lambda examples: list(rewrite(examples)), similarity, shared=True)
    return DenseRetriever(bank, given, compared)


class TargetSketch(RankingRetriever):
    """The largest overlap with the query's gold output in keywords, or in words and roles, by their
    weights (oracle).

    Ties go to the example whose other parts weigh less, then to a seeded draw. (The paper does not
    say how ties are broken. There are many, such as all of `SELECT COUNT(*)`, and neighbours in a
    bank are often paraphrases of one question, hence the draw.)
    """

    def __init__(self, bank: Sequence[Example], given: Given) -> None:
        super().__init__(bank, given)
        assert given.sketch is not None, "declared in Needs"
        self._sketch = given.sketch
        self._parts = [given.sketch(example.output) for example in bank]
        self._weights = np.array([sum(parts.values()) for parts in self._parts])

    def rank(self, query: Example, n: int) -> tuple[np.ndarray, np.ndarray]:
        wanted = self._sketch(query.output)
        overlap = np.array(
            [sum(parts[part] for part in parts.keys() & wanted) for parts in self._parts]
        )
        draw = text_rng(query.id, self.given.seed).permutation(len(overlap))
        return np.lexsort((draw, self._weights - overlap, -overlap))[:n], overlap


_OUTPUTS = Compared(lambda examples: [(example.output,) for example in examples])
_ONE = Needs(encoder=True, skills="one", seeded=True, text=False)
_ALL = Needs(encoder=True, skills="all", text=False)

RETRIEVERS = {
    "skill_base": Registered(partial(build_skill, base), _ONE, "Skill-KNN"),
    "skill_consistency": Registered(
        partial(build_skill, consistency), _ALL, "Skill-KNN, consistency"
    ),
    "skill_distinct": Registered(
        partial(build_skill, distinctiveness), _ALL, "Skill-KNN, distinctiveness"
    ),
    "target_knn": Registered(
        partial(DenseRetriever, compared=_OUTPUTS),
        Needs(encoder=True, gold_outputs=True, text=False),
        "target-KNN (oracle)",
    ),
    "target_sketch": Registered(
        TargetSketch, Needs(gold_outputs=True, sketch=True, text=False), "target sketch (oracle)"
    ),
}
"""The retrievers of this module, for the registry."""

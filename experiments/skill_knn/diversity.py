"""Skills with diversity: DPP-MAP where both relevance and similarity are between skills
(Skill-KNN's appendix A.3).

Many examples have the same skill, which MAP never takes twice: a shortlist of nearest examples
could hold one skill alone. Here it holds the nearest *different* skills, each by one of its
examples, drawn for each query. Where there are fewer different skills than examples asked for, the
nearest of the other examples fill the places.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from ceil_jax.dpp.kernel import similarity
from ceil_jax.retrieval.embedded_bank import Compared, EmbeddedBank
from ceil_jax.retrieval.registry import Given, Needs, Retrieved, register_retriever
from ceil_jax.retrieval.retrievers import check_size
from ceil_jax.retrieval.shortlists import greedy_map_shortlists
from ceil_jax.tasks.example import Example
from skill_knn.gold import gold_skills

SkillOf = Callable[[Given, Sequence[Example]], list[str]]
"""The skill of each example."""


class DiverseSkills:
    """MAP among the nearest different skills.

    Args:
        skill_of: gives the skills that are compared.
        bank: the examples to choose from.
        given: encoder, n and λ.
    """

    def __init__(self, skill_of: SkillOf, bank: Sequence[Example], given: Given) -> None:
        self.bank, self._given = bank, given
        skills = skill_of(given, bank)
        self._kind = np.unique(skills, return_inverse=True)[1]
        compared = Compared(
            lambda examples: [(skill,) for skill in skill_of(given, examples)], shared=True
        )
        self._vectors = EmbeddedBank(bank, given, compared)

    def retrieve(self, queries: Sequence[Example], k: int) -> list[list[Retrieved]]:
        check_size(self.bank, k)
        cosines, order, vectors = self._vectors.nearest(queries, len(self.bank))
        n = max(self._given.shortlist, k)
        shortlists = np.full((len(queries), n), -1, np.int32)
        for row, places in enumerate(order):
            first = np.sort(np.unique(self._kind[places[places >= 0]], return_index=True)[1])[:n]
            shortlists[row, : len(first)] = places[first]
        chosen, gains = greedy_map_shortlists(
            vectors, self._vectors.items, shortlists, k, self._given.trade_off
        )
        return [
            self._filled(items, gain, places, dict(zip(places.tolist(), cosine, strict=True)), k)
            for items, gain, places, cosine in zip(chosen, gains, order, cosines, strict=True)
        ]

    def _filled(
        self,
        items: np.ndarray,
        gains: np.ndarray,
        order: np.ndarray,
        cosines: dict[int, float],
        k: int,
    ) -> list[Retrieved]:
        picks = [(int(i), float(gain)) for i, gain in zip(items, gains, strict=True) if i >= 0]
        taken = {i for i, _ in picks}
        picks += [(int(i), -np.inf) for i in order if i >= 0 and i not in taken][: k - len(picks)]
        return [
            Retrieved(self.bank[i].id, i, float(similarity(cosines[i])), gain) for i, gain in picks
        ]


def rewritten(given: Given, examples: Sequence[Example]) -> list[str]:
    """Return the LM's skills, of one order of the demonstrations."""
    assert given.rewrite is not None, "declared in Needs"
    return [skill for [skill] in given.rewrite(examples)]


_MAP = Needs(encoder=True, trade_off="tunable", shortlist=True, text=False)


def register() -> None:
    """Make `skill_map` and `target_skill_map` known as retrievers."""
    register_retriever(
        "skill_map",
        partial(DiverseSkills, rewritten),
        replace(_MAP, skills="one", seeded=True),
        "Skill-KNN + MAP",
        replace=True,
    )
    register_retriever(
        "target_skill_map",
        partial(DiverseSkills, gold_skills),
        replace(_MAP, gold_outputs=True, sketch=True),
        "gold skills + MAP (oracle)",
        replace=True,
    )

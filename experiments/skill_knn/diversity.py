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
from ceil_jax.dpp.lengths import unit_rows
from ceil_jax.methods.registry import register_retriever
from ceil_jax.retrieval.nearest import nearest_drawn
from ceil_jax.retrieval.retriever import Choice, Needs, Queries, RetrieverArguments, choice_of
from ceil_jax.retrieval.shortlists import greedy_map_shortlists
from ceil_jax.tasks.example import Example
from skill_knn.gold import gold_skills

SkillOf = Callable[[RetrieverArguments, Sequence[Example]], list[str]]
"""The skill of each example."""


class DiverseSkills:
    """MAP among the nearest different skills.

    Args:
        skill_of: gives the skills that are compared.
        arguments: bank, encoder, n and λ.
    """

    def __init__(self, skill_of: SkillOf, arguments: RetrieverArguments) -> None:
        assert arguments.encoder is not None, "declared in Needs"
        self._arguments = arguments
        self._skill_of = skill_of
        self._encoder = arguments.encoder
        skills = skill_of(arguments, arguments.bank)
        self._kind = np.unique(skills, return_inverse=True)[1]
        self._items = unit_rows(self._encoder.bank.encode(skills))

    def choose(self, queries: Queries, k: int) -> Choice:
        arguments = self._arguments
        skills = self._skill_of(arguments, queries.examples)
        vectors = unit_rows(self._encoder.query.encode(skills))
        cosines, order = nearest_drawn(
            queries._replace(vectors=vectors), self._items, len(self._items), arguments.seed
        )
        n = max(arguments.shortlist, k)
        shortlists = np.full((len(order), n), -1, np.int32)
        for row, positions in enumerate(order):
            kinds = self._kind[positions[positions >= 0]]
            first = np.sort(np.unique(kinds, return_index=True)[1])[:n]
            shortlists[row, : len(first)] = positions[first]
        items, gains = greedy_map_shortlists(
            vectors, self._items, shortlists, k, arguments.trade_off
        )
        rows = []
        for chosen, gain, positions, cosine in zip(items, gains, order, cosines, strict=True):
            relevance = dict(zip(positions.tolist(), similarity(cosine).tolist(), strict=True))
            picks = [(int(i), float(g)) for i, g in zip(chosen, gain, strict=True) if i >= 0]
            positions_of_picks = {i for i, _ in picks}
            others = [int(i) for i in positions if i >= 0 and i not in positions_of_picks]
            picks += [(i, -np.inf) for i in others[: k - len(picks)]]
            rows.append([(i, relevance[i], g) for i, g in picks])
        return choice_of(rows)


def rewritten(arguments: RetrieverArguments, examples: Sequence[Example]) -> list[str]:
    """Return the LM's skills, of one order of the demonstrations."""
    assert arguments.rewrite is not None, "declared in Needs"
    return [skill for [skill] in arguments.rewrite(examples)]


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

"""Sets without an LM: greedy cover of the structures that a query's words predict (Cover-LS, Levy et al. 2023)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
from jaxtyping import Float, Int

from ceil_jax.dpp.greedy import MapResult
from ceil_jax.errors import UserError
from ceil_jax.retrieval.registry import Given, Needs, Registered
from ceil_jax.retrieval.retrievers import GreedyRetriever
from ceil_jax.tasks.example import Example
from ceil_jax.training.free.structures import StructureHead


def cover_shortlists(
    queries: Float[np.ndarray, "q d"],
    items: Float[np.ndarray, "bank d"],
    shortlists: Int[np.ndarray, "q n"],
    k: int,
    trade_off: float,
    *,
    width: int,
) -> MapResult:
    """Choose k examples that cover each query's predicted structures, one by one.

    The next example has the greatest share of the predicted probability that no chosen example covers yet, plus λ
    times its relevance. Levy, Bogin and Berant (ACL 2023) predict with a trained parser, count every structure alike
    and start again once all are covered.

    Args:
        queries: vectors of `StructureHead.query`.
        items: vectors of `StructureHead.examples`.
        shortlists: rows of the bank; −1 = empty place.
        k: examples to choose.
        trade_off: λ, above 0: the weight of relevance.
        width: length of the first block of a vector, that of the structures.

    Returns:
        Rows of the bank and gains, [q, k] each; −1 and −inf where none is left.
    """
    chosen = np.full((len(queries), k), -1, np.int32)
    gains = np.full((len(queries), k), -np.inf, np.float32)
    for row, (query, shortlist) in enumerate(zip(queries, shortlists, strict=True)):
        near = items[np.maximum(shortlist, 0)]
        worth = np.where(shortlist >= 0, trade_off * (near @ query), -np.inf)
        expected = query[:width] / max(query[:width].sum(), 1e-6)
        covers = near[:, :width] > 0
        for place in range(min(k, int((shortlist >= 0).sum()))):
            gain = covers @ expected + worth
            best = int(np.argmax(gain))
            chosen[row, place], gains[row, place] = shortlist[best], gain[best]
            expected = np.where(covers[best], 0, expected)
            worth[best] = -np.inf
    return MapResult(chosen, gains)


COVER_TRADE_OFF = 0.3
"""λ of `cover`: the weight of relevance beside the predicted structures that a choice covers."""


class CoverRetriever(GreedyRetriever):
    """Greedy cover of the predicted structures among the n nearest examples (`training.free.cover`)."""

    def __init__(self, bank: Sequence[Example], given: Given) -> None:
        head = getattr(given.encoder, "method", None)
        if not isinstance(head, StructureHead):
            raise UserError("cover chooses by predicted structures: give it an encoder with a structure head")
        choose = partial(cover_shortlists, width=len(head.structures) + 1)
        super().__init__(choose, bank, given)


_NEEDS = Needs(encoder=True, trade_off=COVER_TRADE_OFF, shortlist=True)

RETRIEVERS = {"cover": Registered(CoverRetriever, _NEEDS, "structures, covered")}
"""The retriever of this module, for the registry."""

"""Query to ordered examples: one protocol, every method."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from ceil_jax.errors import UserError, unknown_name
from ceil_jax.lm.prompts import Room
from ceil_jax.retrieval.bm25 import LexicalIndex
from ceil_jax.retrieval.embedded_bank import EmbeddedBank, Rewrite, view_of
from ceil_jax.skills.gold import Describe
from ceil_jax.skills.sketches import Sketch
from ceil_jax.tasks.draws import text_rng
from ceil_jax.tasks.example import Example

if TYPE_CHECKING:
    from ceil_jax.encoders.encoder import Encoder

Embed = Callable[["Encoder", Sequence[str]], np.ndarray]
"""Texts to vectors, float32 [N, D]; a pipeline passes one that remembers."""


class Retrieved(NamedTuple):
    """One chosen example."""

    id: str
    position: int
    """In the bank."""
    relevance: float
    """What orders a prompt: (1 + cos)/2 for vectors, the BM25 score for BM25, 0 for random, the overlap for
    target_sketch."""
    gain: float
    """What ordered the choice: the marginal log-determinant for DPP-MAP, the MMR value, else `relevance`."""


class Retriever(Protocol):
    """A bank, ready to be asked."""

    name: str

    def retrieve(self, queries: Sequence[Example], k: int) -> list[list[Retrieved]]:
        """For each query at most k examples, best first; never the query itself (by id), never one twice.

        Raises:
            UserError: k is larger than the bank.
        """
        ...


def build_retriever(
    name: str,
    bank: Sequence[Example],
    *,
    encoder: Encoder | None = None,
    query_encoder: Encoder | None = None,
    trade_off: float = 0.05,
    shortlist: int = 100,
    seed: int = 0,
    embed: Embed | None = None,
    rewrite: Rewrite | None = None,
    sketch: Sketch | None = None,
    describe: Describe | None = None,
    index: str = "exact",
    room: Room | None = None,
) -> Retriever:
    """A retriever over the bank by its name, one of RETRIEVERS.

    Args:
        encoder: embeds the bank, and the queries too unless `query_encoder` is given; not for random, bm25,
            target_sketch.
        query_encoder: embeds the queries, as in CEIL with a frozen context encoder.
        trade_off: λ of the conditional kernel (dpp), or the weight of relevance against novelty (mmr).
        shortlist: n, the nearest items among which dpp and mmr choose.
        seed: of random, and of which of equal sketches or skills are taken.
        embed: how texts become vectors, `encoder.encode` by default.
        rewrite: gives the skills of the bank's and the queries' inputs; for skill_*.
        sketch: what target_sketch compares of two outputs.
        describe: an output to the skill it shows; for target_skill.
        index: how the nearest vectors are found, "exact" or "approximate" (`ApproximateIndex`).
        room: with it, dpp chooses the set of greatest log det among those that the query's prompt takes
            (`budgeted.budgeted_map_shortlists`).

    Raises:
        UserError: unknown name or index, a λ of 0 or less for dpp, or no encoder, rewrite, sketch or description
            where one is needed.
    """
    if name == "random":
        return _Random(bank, seed)
    if name == "bm25":
        return _BM25(bank)
    if name == "target_sketch":
        if sketch is None:
            raise UserError(
                f"retriever {name!r} needs a sketch, which SQL and COGS tasks have; try target_knn"
            )
        return _TargetSketch(bank, sketch, seed)
    if name not in RETRIEVERS:
        raise unknown_name("retriever", name, RETRIEVERS)
    if encoder is None:
        raise UserError(f"retriever {name!r} compares vectors: give it an encoder")
    if index not in ("exact", "approximate"):
        raise unknown_name("index", index, ("exact", "approximate"))
    view = view_of(name, rewrite, describe)
    if index == "approximate" and view.score is not None:
        raise UserError(f"{name} compares several vectors an example: take --index exact")
    embed = embed or (lambda e, texts: e.encode(texts))
    embed_items, embed_queries = partial(embed, encoder), partial(embed, query_encoder or encoder)
    vectors = EmbeddedBank(bank, view, embed_items, embed_queries, index, seed)
    if name == "dpp" and not trade_off > 0:
        raise UserError(f"trade_off is {trade_off}: λ has to be above 0")
    if name in ("mmr", "dpp"):
        return _Greedy(name, vectors, trade_off, shortlist, room if name == "dpp" else None)
    return _Dense(name, vectors)


RETRIEVERS = (
    *("random", "bm25", "dense", "mmr", "dpp"),
    *("skill_base", "skill_consistency", "skill_distinct"),
    *("target_knn", "target_skill", "target_sketch"),
)
"""Those of the last line are oracles: they look at the queries' gold outputs."""


def _check_size(bank: Sequence[Example], k: int) -> None:
    if not 1 <= k <= len(bank):
        raise UserError(f"{k} examples asked for from a bank of {len(bank)}; ask for 1 to {len(bank)}")


class _Random:
    """Uniform without replacement; a query's draw depends on the seed and its id alone."""

    name = "random"

    def __init__(self, bank: Sequence[Example], seed: int) -> None:
        self.bank, self.seed = bank, seed

    def retrieve(self, queries: Sequence[Example], k: int) -> list[list[Retrieved]]:
        _check_size(self.bank, k)
        chosen = []
        for query in queries:
            generator = text_rng(query.id, self.seed)
            # one more than k, in case the query itself is drawn
            draw = generator.choice(len(self.bank), size=min(k + 1, len(self.bank)), replace=False)
            others = [int(i) for i in draw if self.bank[i].id != query.id]
            chosen.append([Retrieved(self.bank[i].id, i, 0.0, 0.0) for i in others[:k]])
        return chosen


class _BM25:
    name = "bm25"

    def __init__(self, bank: Sequence[Example]) -> None:
        self.bank = bank
        self._index = LexicalIndex([example.input for example in bank])

    def retrieve(self, queries: Sequence[Example], k: int) -> list[list[Retrieved]]:
        _check_size(self.bank, k)
        chosen = []
        for query in queries:
            scores = self._index.scores(query.input)
            best = np.argsort(-scores, kind="stable")[: k + 1]
            others = [int(i) for i in best if self.bank[i].id != query.id]
            chosen.append(
                [Retrieved(self.bank[i].id, i, float(scores[i]), float(scores[i])) for i in others[:k]]
            )
        return chosen


class _TargetSketch:
    """Most of the query's output's sketch; of equals those with least beside it, then in a seeded order.

    The paper names the overlap and no more. Ties are many (all of `SELECT COUNT(*)`), and a bank's
    neighbours are often paraphrases of one question, hence the order.
    """

    name = "target_sketch"

    def __init__(self, bank: Sequence[Example], sketch: Sketch, seed: int) -> None:
        self.bank, self._sketch, self._seed = bank, sketch, seed
        self._sketches = [sketch(example.output) for example in bank]

    def retrieve(self, queries: Sequence[Example], k: int) -> list[list[Retrieved]]:
        _check_size(self.bank, k)
        chosen = []
        for query in queries:
            wanted = self._sketch(query.output)
            overlap = np.array([len(wanted & sketch) for sketch in self._sketches])
            beside = np.array([len(sketch - wanted) for sketch in self._sketches])
            draw = text_rng(query.id, self._seed).permutation(len(overlap))
            best = np.lexsort((draw, beside, -overlap))[: k + 1]
            others = [int(i) for i in best if self.bank[i].id != query.id]
            chosen.append(
                [Retrieved(self.bank[i].id, i, float(overlap[i]), float(overlap[i])) for i in others[:k]]
            )
        return chosen


class _Dense:
    """The nearest by cosine: top-k with any encoder, EPR with a trained one, of inputs, skills or outputs."""

    def __init__(self, name: str, vectors: EmbeddedBank) -> None:
        self.name, self.vectors = name, vectors

    def retrieve(self, queries: Sequence[Example], k: int) -> list[list[Retrieved]]:
        bank = self.vectors.bank
        _check_size(bank, k)
        cosines, positions, _ = self.vectors.nearest(queries, k)
        relevance = (1 + cosines) / 2
        return [
            [
                Retrieved(bank[p].id, int(p), float(r), float(r))
                for p, r in zip(row, rel, strict=True)
                if p >= 0
            ]
            for row, rel in zip(positions, relevance, strict=True)
        ]


class _Greedy:
    """Greedy choice among the n nearest: DPP-MAP (CEIL with trained encoders) or MMR."""

    def __init__(
        self, name: str, vectors: EmbeddedBank, trade_off: float, shortlist: int, room: Room | None
    ) -> None:
        self.name = name
        self.vectors = vectors
        self.trade_off = trade_off
        self.shortlist = shortlist
        self.room = room

    def retrieve(self, queries: Sequence[Example], k: int) -> list[list[Retrieved]]:
        from ceil_jax.dpp.budgeted import budgeted_map_shortlists
        from ceil_jax.dpp.greedy import greedy_map_shortlists
        from ceil_jax.dpp.mmr import mmr_shortlists

        bank, items = self.vectors.bank, self.vectors.items
        _check_size(bank, k)
        _, shortlists, vectors = self.vectors.nearest(queries, max(self.shortlist, k))
        if self.room is not None:
            costs, left = self.room.costs(shortlists), [self.room.left[query.id] for query in queries]
            chosen, gains = budgeted_map_shortlists(
                vectors, items, shortlists, costs, np.array(left), k, self.trade_off
            )
        else:
            choose = greedy_map_shortlists if self.name == "dpp" else mmr_shortlists
            chosen, gains = choose(vectors, items, shortlists, k, self.trade_off)
        return [
            [
                Retrieved(bank[p].id, int(p), float((1 + vector @ items[p]) / 2), float(gain))
                for p, gain in zip(row, row_gains, strict=True)
                if p >= 0
            ]
            for vector, row, row_gains in zip(vectors, chosen, gains, strict=True)
        ]

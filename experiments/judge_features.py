"""Features of a query and an example that mean the same on every task and need no language model.

They read the query's input and the example's input and output, never the query's output: what they
expect of it is the cross-fitted prediction of `free`'s structure head.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from functools import cached_property, partial
from itertools import chain, pairwise
from typing import Any, NamedTuple

import jax
import numpy as np
from flax import nnx
from jaxtyping import Array, Float, Int

from ceil_jax.dpp.lengths import unit_rows
from ceil_jax.encoders.encoder import Encoder
from ceil_jax.encoders.tokenizers import LENGTHS, pad, padded_length
from ceil_jax.encoders.transformer import mean_pool
from ceil_jax.retrieval.bm25 import LexicalIndex
from ceil_jax.retrieval.words import words
from ceil_jax.tasks.example import Example
from ceil_jax.tasks.structures import structure_parser_of
from ceil_jax.training.free.encoder import PARSERS, observe
from ceil_jax.training.free.head import fold_numbers
from ceil_jax.training.free.structures import StructureHead, fit_structure_head

BATCH = 64
"""Texts encoded at once."""
LAYERS = 7
"""The embeddings and the six layers of all-MiniLM-L6-v2; the last is the encoder's own vector."""
HEAD_ROWS = 1_000
"""Examples of the bank that the structure head learns from at most; queries are among them."""
STRUCTURES = 200
"""The most common structures of these, which it predicts."""
HEAD_PENALTY = 0.001
"""The middle of the grid of `free`, which would choose one."""
FOLDS = 3
"""Parts of the cross-fitting."""

NAMES = (
    *(f"cosine, layer {layer}" for layer in range(LAYERS - 1)),
    "cosine",
    "BM25 of inputs",
    "BM25 of outputs",
    "structures: cosine",
    "structures: expected precision",
    "structures: expected recall",
    "structures: expected strangers",
    "words: recall",
    "words: precision",
    "words: recall by idf",
    "pairs of words: recall",
    "same first word",
    "same last word",
    "query's words in the output",
    "length of the input",
    "difference of the inputs' lengths",
    "length of the output",
    "number of structures",
    "difference from the expected number",
    "rarity of the structures",
    "mean cosine with all queries",
    "rank by cosine",
    "rank by BM25",
    "rank by structures",
)
RANKED = ("cosine", "BM25 of inputs", "structures: cosine")
"""The features that the ranks are of, in the order of the last three names."""


class Query(NamedTuple):
    """A query as the features see it: never its output."""

    input: str
    words: Sequence[str]
    expected: np.ndarray
    """float [S]: the probability of each structure."""


class Pairs:
    """The features of a task's queries with any examples of its bank.

    Args:
        encoder: the untrained encoder, a transformer with the mean of tokens as its vector.
        bank: N examples. Unless their outputs are programs, no structures are expected, and the
            features of structures say nothing.
        positions: the bank positions of Q training queries, whose structures are predicted by heads
            that have not seen their outputs.
    """

    def __init__(self, encoder: Encoder, bank: Sequence[Example], positions: np.ndarray) -> None:
        self.bank = bank
        self.positions = positions
        self.encoder = encoder
        self.words = [words(example.input) for example in bank]
        self.output_words = [words(example.output) for example in bank]
        self.input_index = LexicalIndex([example.input for example in bank])
        self.output_index = LexicalIndex([example.output for example in bank])
        documents = Counter(
            word for words_of_example in self.words for word in set(words_of_example)
        )
        self.idf = {word: math.log(1 + len(bank) / n) for word, n in documents.items()}
        self._predict_structures()

    def _predict_structures(self) -> None:
        """P(structure | query), float [Q, S], each without its query's output; the head of all of
        them, for other queries; and which structures every example has, float [N, S]."""
        reader = structure_parser_of(self.bank)
        self.head: StructureHead | None = None
        if reader is None:
            self.expected = np.zeros((len(self.positions), 0), np.float32)
            self.has_structure = np.zeros((len(self.bank), 0), np.float32)
            self.count = np.ones(len(self.bank), np.float32)
            self.rarity = np.zeros(len(self.bank))
            return
        parser = next(name for name, function in PARSERS.items() if function is reader)
        self.parser = parser
        others = np.setdiff1d(np.arange(len(self.bank)), self.positions)
        order = np.random.default_rng(0).permutation(others)
        rows = np.concatenate([self.positions, order])[:HEAD_ROWS]
        observed = observe(self.encoder, [self.bank[row] for row in rows], parser=parser)
        counts = Counter(sorted(chain.from_iterable(observed.structures)))
        common = tuple(sorted(structure for structure, _ in counts.most_common(STRUCTURES)))
        # what fits look at of a head that they are like: its structures and its penalty
        nothing = np.zeros(0, np.float32)
        head = StructureHead(common, (), nothing, nothing[:, None], nothing, HEAD_PENALTY)
        folds = fold_numbers(len(rows), FOLDS)
        queries = np.arange(len(self.positions))
        self.expected = np.empty((len(queries), len(common)), np.float32)
        for fold in np.unique(folds[queries]):
            inside = queries[folds[queries] == fold]
            fitted = fit_structure_head(observed.take(np.flatnonzero(folds != fold)), like=head)
            self.expected[inside] = fitted.probabilities(observed.take(inside))
        self.head = fit_structure_head(observed, like=head)
        structures = [PARSERS[parser](example.output) for example in self.bank]
        column = {structure: i for i, structure in enumerate(common)}
        self.has_structure = np.zeros((len(self.bank), len(column)), np.float32)
        for row, structures_of_example in zip(self.has_structure, structures, strict=True):
            row[
                [column[structure] for structure in structures_of_example if structure in column]
            ] = 1
        self.count = np.array(
            [max(1, len(structures_of_example)) for structures_of_example in structures], np.float32
        )
        frequency = Counter(
            structure for structures_of_example in structures for structure in structures_of_example
        )
        self.rarity = np.array(
            [
                np.mean(
                    [
                        math.log(len(self.bank) / frequency[structure])
                        for structure in structures_of_example
                    ]
                    or [0.0]
                )
                for structures_of_example in structures
            ]
        )

    def features(
        self, shortlist: Int[np.ndarray, "q n"], queries: Sequence[Example] | None = None
    ) -> Float[np.ndarray, "q n f"]:
        """Return the features of each query with the examples of its shortlist, in the order of
        NAMES.

        Args:
            shortlist: bank positions.
            queries: Q examples that are not in the bank; by default the training queries.
        """
        views = self._training_queries() if queries is None else self._new_queries(queries)
        used = np.unique(shortlist)
        vectors = layer_vectors(self.encoder, [self.bank[row].input for row in used])
        query_vectors = layer_vectors(self.encoder, [query.input for query in views])
        features = np.empty((*shortlist.shape, len(NAMES)))
        for row, (query, examples) in enumerate(zip(views, shortlist, strict=True)):
            near = vectors[:, np.searchsorted(used, examples)]
            cosines = np.einsum("ld,lnd->nl", query_vectors[:, row], near)
            words_and_structures = self._words_and_structures(query, examples)
            columns = np.column_stack([cosines, words_and_structures, near[-1] @ self.centre])
            by = columns[:, [NAMES.index(name) for name in RANKED]]
            ranks = np.argsort(np.argsort(-by, axis=0, kind="stable"), axis=0, kind="stable")
            features[row] = np.column_stack([columns, ranks / max(1, len(examples) - 1)])
        return features

    @cached_property
    def centre(self) -> Float[np.ndarray, " d"]:
        """The mean of the training queries' vectors."""
        texts = [self.bank[position].input for position in self.positions]
        return layer_vectors(self.encoder, texts)[-1].mean(axis=0)

    def _training_queries(self) -> list[Query]:
        return [
            Query(self.bank[position].input, self.words[position], expected)
            for position, expected in zip(self.positions, self.expected, strict=True)
        ]

    def _new_queries(self, queries: Sequence[Example]) -> list[Query]:
        if self.head is None:
            nothing = np.zeros(0, np.float32)
            return [Query(query.input, words(query.input), nothing) for query in queries]
        rows = observe(self.encoder, queries, parser=self.parser, outputs=False)
        expected = self.head.probabilities(rows)
        return [
            Query(query.input, words(query.input), probabilities)
            for query, probabilities in zip(queries, expected, strict=True)
        ]

    def _words_and_structures(self, query: Query, examples: np.ndarray) -> np.ndarray:
        """The features between the cosines and the mean cosine, float [n, f]."""
        query_words = query.words
        by_input = self.input_index.scores(query.input)[examples]
        by_output = self.output_index.scores(query.input)[examples]
        expected = query.expected
        overlap = self.has_structure[examples] @ expected
        count = self.count[examples]
        total = max(float(expected.sum()), 1e-6)
        structures = [
            overlap / (max(float(np.linalg.norm(expected)), 1e-6) * np.sqrt(count)),
            overlap / count,
            overlap / total,
            np.log1p(count - overlap),
        ]
        shared = np.array([self._words(query_words, position) for position in examples])
        length = np.log([max(1, len(self.words[position])) for position in examples])
        output = np.log([max(1, len(self.bank[position].output)) for position in examples])
        lengths = [
            length,
            np.abs(length - math.log(max(1, len(query_words)))),
            output,
            np.log(count),
            np.abs(np.log(count) - math.log(max(1.0, total))),
            self.rarity[examples],
        ]
        return np.column_stack([by_input, by_output, *structures, shared, *lengths])

    def _words(self, query_words: Sequence[str], position: int) -> list[float]:
        """Overlap of a query's words with those of an example."""
        example_words = self.words[position]
        common = set(query_words) & set(example_words)
        # a word that no example has is as rare as one of a single example
        rarest = math.log(1 + len(self.bank))
        weight = sum(self.idf.get(word, rarest) for word in set(query_words))
        pairs = set(pairwise(query_words))
        return [
            len(common) / max(1, len(set(query_words))),
            len(common) / max(1, len(set(example_words))),
            sum(self.idf[word] for word in common) / max(weight, 1e-6),
            len(pairs & set(pairwise(example_words))) / max(1, len(pairs)),
            float(query_words[:1] == example_words[:1]),
            float(query_words[-1:] == example_words[-1:]),
            len(set(query_words) & set(self.output_words[position]))
            / max(1, len(set(query_words))),
        ]


@partial(jax.jit, static_argnums=0)
def _pooled(graph: Any, state: Any, ids: Array, mask: Array) -> list[Float[Array, "b d"]]:
    states = nnx.merge(graph, state).hidden_states(ids, mask)
    return [mean_pool(layer, mask) for layer in states]


def layer_vectors(encoder: Encoder, texts: Sequence[str]) -> Float[np.ndarray, "l n d"]:
    """Return the mean of each text's token vectors in every layer, the embeddings first, as unit
    rows."""
    graph, state = nnx.split(encoder.module)
    ids = encoder.tokenizer(list(texts), encoder.max_length)
    order = np.argsort([len(token_ids) for token_ids in ids], kind="stable")
    vectors: np.ndarray | None = None
    for start in range(0, len(order), BATCH):
        rows = order[start : start + BATCH]
        length = padded_length(len(ids[rows[-1]]), encoder.max_length, LENGTHS)
        tokens = pad([ids[row] for row in rows], length, encoder.tokenizer.pad_id, BATCH)
        layers = np.stack(_pooled(graph, state, *tokens))[:, : len(rows)]
        if vectors is None:
            vectors = np.empty((len(layers), len(texts), layers.shape[2]), np.float32)
        vectors[:, rows] = np.stack([unit_rows(layer) for layer in layers])
    assert vectors is not None, "no texts"
    return vectors

"""Set-BSR (Gupta, Gardner and Singh, Findings of EMNLP 2023), as a retriever from outside the
package.

    ceil-jax compare --plugin set_bsr --method topk set_bsr dpp          # in this folder, or with
    it on PYTHONPATH

A set of examples is as good as it covers the query's tokens: the mean over these of the largest
cosine of a token's contextual vector with that of any token of any example (BERTScore's recall,
Zhang et al., ICLR 2020, over a set). It is submodular, so that the set is chosen greedily. All
tokens weigh the same; special tokens are left out.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import numpy as np
from flax import nnx
from jaxtyping import Array, Float

from ceil_jax import Choice, Needs, Queries, RetrieverArguments, choice_of, register_retriever
from ceil_jax.dpp.lengths import unit_rows
from ceil_jax.encoders.tokenizers import LENGTHS, pad, padded_length

BATCH = 64
"""Texts encoded at once."""


@partial(jax.jit, static_argnums=0)
def last_layer(graph: Any, state: Any, ids: Array, mask: Array) -> Float[Array, "b t d"]:
    return nnx.merge(graph, state).hidden_states(ids, mask)[-1]


def token_vectors(encoder: Any, texts: Sequence[str]) -> list[Float[np.ndarray, "t d"]]:
    """Return the unit vectors of each text's tokens in the last layer, without the first and the
    last one, which are the special tokens of BERT's family."""
    graph, state = nnx.split(encoder.module)
    ids = encoder.tokenizer(list(texts), encoder.max_length)
    order = np.argsort([len(token_ids) for token_ids in ids], kind="stable")
    vectors_of_texts = [np.empty(0)] * len(ids)
    for start in range(0, len(order), BATCH):
        rows = order[start : start + BATCH]
        length = padded_length(len(ids[rows[-1]]), encoder.max_length, LENGTHS)
        tokens = pad([ids[row] for row in rows], length, encoder.tokenizer.pad_id, BATCH)
        hidden = np.asarray(last_layer(graph, state, *tokens))
        for row, vectors in zip(rows, hidden, strict=False):  # the last batch is filled up
            inner = vectors[1 : max(2, len(ids[row]) - 1)]
            vectors_of_texts[row] = unit_rows(inner)
    return vectors_of_texts


class SetBSR:
    """Greedy choice of the examples whose tokens cover the query's."""

    def __init__(self, arguments: RetrieverArguments) -> None:
        assert arguments.encoder is not None, "declared in Needs"
        self.bank = arguments.bank
        self.encoder = arguments.encoder
        items = token_vectors(self.encoder.bank, [example.input for example in self.bank])
        self.tokens = np.concatenate(items)
        self.first = np.cumsum([0, *map(len, items[:-1])])

    def choose(self, queries: Queries, k: int) -> Choice:
        texts = [query.input for query in queries.examples]
        tokens = token_vectors(self.encoder.query, texts)
        return choice_of(
            self.cover(query, own_positions, k)
            for query, own_positions in zip(tokens, queries.own_positions, strict=True)
        )

    def cover(
        self, query: Float[np.ndarray, "t d"], own_positions: Sequence[int], k: int
    ) -> list[tuple[int, float, float]]:
        """Return position, relevance and gain of k examples, but for the query's own, in the order
        in which they add most coverage."""
        best = np.maximum.reduceat(query @ self.tokens.T, self.first, axis=1)  # [t, bank]
        best[:, own_positions] = -1
        recall = best.mean(axis=0)
        covered = np.full(len(query), -1.0)
        chosen: list[tuple[int, float, float]] = []
        for _ in range(min(k, len(self.bank) - len(own_positions))):
            total = np.maximum(covered[:, None], best).mean(axis=0)
            total[[*own_positions, *(position for position, _, _ in chosen)]] = -np.inf
            # where the query is covered, as by its own copy, the nearest of the others come next
            position = int(np.lexsort((recall, total.round(6)))[-1])
            gain = float(total[position] - covered.mean())
            covered = np.maximum(covered, best[:, position])
            chosen.append((position, float(recall[position]), gain))
        return chosen


register_retriever("set_bsr", SetBSR, Needs(encoder=True), label="Set-BSR")

"""LangChain's example selectors over its own vector store in memory."""

from __future__ import annotations

from collections.abc import Sequence

from langchain_core.embeddings import Embeddings
from langchain_core.example_selectors import (
    MaxMarginalRelevanceExampleSelector,
    SemanticSimilarityExampleSelector,
)
from langchain_core.vectorstores import InMemoryVectorStore

from ceil_jax.tasks.example import Example
from peers.arena import Arena, Chosen, KeptVectors


class OwnEmbeddings(Embeddings):
    """The encoder that all methods use, with LangChain's interface of embeddings."""

    def __init__(self, encoder: KeptVectors) -> None:
        self._encoder = encoder

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return the vector of each text."""
        return self._encoder.encode(texts).tolist()

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a text."""
        return self.embed_documents([text])[0]


def similarity(arena: Arena) -> Chosen:
    """Choose by SemanticSimilarityExampleSelector."""
    return _chosen(arena, SemanticSimilarityExampleSelector)


def mmr(arena: Arena) -> Chosen:
    """Choose by MaxMarginalRelevanceExampleSelector with its defaults, the 20 nearest and a λ of 0.5."""
    return _chosen(arena, MaxMarginalRelevanceExampleSelector)


def _chosen(
    arena: Arena,
    kind: type[SemanticSimilarityExampleSelector] | type[MaxMarginalRelevanceExampleSelector],
) -> Chosen:
    """Return the selector's choice; its first example comes last, next to the query, as in all of our prompts."""
    selector = kind.from_examples(
        [{"query": row.input, "id": row.id} for row in arena.bank],
        OwnEmbeddings(arena.shared.encoder),
        InMemoryVectorStore,
        k=arena.k,
        input_keys=["query"],
    )
    by_id = {row.id: row for row in arena.bank}

    def prompts(queries: Sequence[Example]) -> list[str]:
        texts = []
        for query in queries:
            near = [
                by_id[example["id"]] for example in selector.select_examples({"query": query.input})
            ]
            texts.append(arena.prompt(query, near[::-1]))
        return texts

    return Chosen(prompts, arena.k)

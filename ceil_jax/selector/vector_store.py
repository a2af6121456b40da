"""A bank that lives in a LangChain vector store: the store gives the shortlist, the DPP chooses from it."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ceil_jax.selector.bank import Shortlist
from ceil_jax.selector.filters import asks_the_same
from ceil_jax.selector.rows import OWN, Keys, read_examples
from ceil_jax.selector.settings import Request
from ceil_jax.selector.vectors import embed
from ceil_jax.tasks.example import Example

KEPT = 50_000
"""The number of documents whose vectors are kept in memory; with 768 numbers each, 150 MB."""


class StoreBank:
    """The documents of a vector store; what is added to the store or removed from it is seen by the next query.

    Stores do not give their vectors away, so the documents of a shortlist are embedded when they are first met.

    Args:
        store: a LangChain `VectorStore`.
        encoder: embeds documents.
        search: further arguments of the store's `similarity_search`.
        input_is_text: whether a document's text is the example's input, which is a metadata field otherwise.

    Raises:
        UserError: no vector store.
    """

    dim = None

    def __init__(self, store: Any, encoder: Any, search: Mapping[str, Any], input_is_text: bool) -> None:
        self.store, self.encoder, self.search = store, encoder, dict(search)
        self.input_is_text = input_is_text
        self._vectors: dict[str, np.ndarray] = {}

    @property
    def view(self) -> StoreBank:
        """The bank itself: a store has no moment of its own."""
        return self

    def shortlists(
        self, queries: Sequence[Example], vectors: np.ndarray, request: Request
    ) -> Iterator[Shortlist]:
        """Yield the nearest examples of each query, as `View.shortlists`; each is a search of the store."""
        search = {"k": request.size, **self.search}
        if request.filter is not None:
            search["filter"] = request.filter
            # such stores filter what they fetched, which is little unless they are told otherwise
            if "fetch_k" in inspect.signature(self.store.similarity_search).parameters:
                search.setdefault("fetch_k", 100 * request.size)
        for query, vector in zip(queries, vectors, strict=True):
            found = self._examples(self.store.similarity_search(query.input, **search), request.keys)
            own = asks_the_same(query, request.template)
            different = {(example.input, example.output): (example, text) for example, text in found}
            kept = [pair for pair in different.values() if request.own_answer or not own(pair[0])]
            documents = self._embedded([text for _, text in kept], len(vector))
            cosines = documents @ vector
            nearest = np.argsort(-cosines, kind="stable")
            examples = [kept[i][0] for i in nearest]
            yield Shortlist(examples, documents[nearest], cosines[nearest], len(different) - len(kept))

    def _examples(self, documents: Sequence[Any], keys: Keys) -> list[tuple[Example, str]]:
        """Each document as an example, with the text that was embedded."""
        rows = []
        for document in documents:
            given = {name: str(value) for name, value in document.metadata.items() if _plain(value)}
            # Qdrant's documents have their ids among their metadata
            id = getattr(document, "id", None) or given.pop("_id", None)
            given.pop("_collection_name", None)
            row = {name: value for name, value in given.items() if name not in OWN or name in keys}
            rows.append(
                {**row, "id": id} | ({keys.input: document.page_content} if self.input_is_text else {})
            )
        examples = read_examples(rows, keys, "documents of the store", "document")
        return [(example, one.page_content) for example, one in zip(examples, documents, strict=True)]

    def _embedded(self, texts: Sequence[str], dim: int) -> np.ndarray:
        """The unit vectors of some documents, float32 [n, dim], embedded if they are not in memory."""
        known = self._vectors
        missing = [text for text in dict.fromkeys(texts) if text not in known]
        if missing:
            # a new dictionary, because other threads may be reading this one
            known = known | dict(zip(missing, embed(self.encoder, missing, dim), strict=True))
            self._vectors = dict(list(known.items())[-KEPT:])
        return np.stack([known[text] for text in texts]) if texts else np.zeros((0, dim), np.float32)


def _plain(value: Any) -> bool:
    """Whether a metadata value can be one of an example; stores may hold lists and mappings too."""
    return value is not None and not isinstance(value, (Mapping, list, tuple, set))

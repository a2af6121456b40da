"""A bank that lives in a LangChain vector store: the store gives the shortlist, the DPP chooses
from it."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ceil_jax.selector.bank import Shortlist, Snapshot
from ceil_jax.selector.rows import OWN, as_examples
from ceil_jax.selector.settings import CallSettings
from ceil_jax.selector.vectors import embed
from ceil_jax.tasks.cells import as_text
from ceil_jax.tasks.example import Example
from ceil_jax.tasks.rows import Columns

KEPT = 50_000
"""The number of documents whose vectors are kept in memory; with 768 numbers each, 150 MB."""


class StoreBank:
    """The documents of a LangChain store; what is added to it or removed from it is seen by the
    next query.

    Stores do not give their vectors away, so the documents of a shortlist are embedded when they
    are first met. `search` are further arguments of the store's `similarity_search`. A document's
    text is the example's input if `input_is_text`; otherwise a metadata field is.
    """

    dim = None

    def __init__(
        self, store: Any, encoder: Any, search: Mapping[str, Any], input_is_text: bool
    ) -> None:
        self.store, self.encoder, self.search = store, encoder, dict(search)
        self.input_is_text = input_is_text
        self._vectors: dict[str, np.ndarray] = {}

    @property
    def snapshot(self) -> StoreBank:
        """The bank itself: a store has no moment of its own."""
        return self

    def shortlists(
        self, queries: Sequence[Example], vectors: np.ndarray, call: CallSettings
    ) -> Iterator[Shortlist]:
        """Yield the nearest examples of each query, as `Snapshot.shortlists`; each is a search of
        the store."""
        # one more, in place of the query's own question
        search = {"k": call.size + (not call.own_answer), **self.search}
        if call.filter is not None:
            search["filter"] = call.filter
            # such stores filter what they fetched, which is little unless they are told otherwise
            if "fetch_k" in inspect.signature(self.store.similarity_search).parameters:
                search.setdefault("fetch_k", 100 * call.size)
        for query, vector in zip(queries, vectors, strict=True):
            documents = self.store.similarity_search(query.input, **search)
            embedded = self._embedded(
                [document.page_content for document in documents], len(vector)
            )
            near = Snapshot(
                self._examples(documents, call.columns), embedded, np.ones(len(documents), bool)
            )
            yield from near.shortlists(
                [query], vector[None], replace(call, filter=None, balance=None)
            )

    def _examples(self, documents: Sequence[Any], columns: Columns) -> list[Example]:
        rows = []
        for document in documents:
            # stores may hold lists and mappings too
            fields = {name: v for name, v in document.metadata.items() if as_text(v) is not None}
            # Qdrant's documents have their ids among their metadata
            id = getattr(document, "id", None) or fields.pop("_id", None)
            fields.pop("_collection_name", None)
            row = {name: fields[name] for name in fields if name not in OWN or name in columns.used}
            if self.input_is_text:
                row[columns.input[0]] = document.page_content
            rows.append({**row, "id": id})
        names = [row["id"] or place for place, row in enumerate(rows, 1)]
        return as_examples(rows, columns, "documents of the store", "document", names=names)

    def _embedded(self, texts: Sequence[str], dim: int) -> np.ndarray:
        """The unit vectors of some documents, float32 [n, dim], embedded if they are not in
        memory."""
        known = self._vectors
        missing = [text for text in dict.fromkeys(texts) if text not in known]
        if missing:
            # a new dictionary, because other threads may be reading this one
            vectors = embed(self.encoder, "bank", missing, dim)
            known = known | dict(zip(missing, vectors, strict=True))
            self._vectors = dict(list(known.items())[-KEPT:])
        return (
            np.stack([known[text] for text in texts]) if texts else np.zeros((0, dim), np.float32)
        )

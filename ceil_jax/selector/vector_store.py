"""A bank that lives in a LangChain vector store: the store gives the shortlist, the DPP chooses from it."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, Unpack

import numpy as np

from ceil_jax.errors import UserError
from ceil_jax.selector.asking import Asking
from ceil_jax.selector.choice import choose_among
from ceil_jax.selector.options import Options, Settings
from ceil_jax.selector.rows import OWN, Row, read_examples, read_queries
from ceil_jax.selector.selection import Selection
from ceil_jax.selector.vectors import Encodes, as_encoders, embed
from ceil_jax.tasks.example import Example

KEPT = 50_000
"""The number of documents whose vectors are kept in memory; with 768 numbers each, 150 MB."""


class VectorStoreSelector(Asking):
    """Chooses among the documents that a vector store finds nearest to the query.

    Stores do not give their vectors away, so the documents of a shortlist are embedded again the first time they
    are met, by the store's own embeddings unless `encoder` is given. What is added to the store or removed from it
    is seen by the next query. A `filter` is passed to the store as it is, in the form that the store takes. Stores
    that look at no more than `fetch_k` documents before they filter, such as FAISS, are told to look at 100 times the
    shortlist.

    Args:
        store: a LangChain `VectorStore`.
        encoder: as in `CeilSelector.from_examples`; by default the store's embeddings.
        search: further arguments of the store's `similarity_search`.
        settings: see `options.Settings`. `output_key` names the metadata field that is an example's output, and
            `input_key` the one that is its input, which is the document's text by default.

    Raises:
        UserError: no vector store; one without embeddings, and no `encoder`; or a setting that does not fit.
    """

    def __init__(
        self,
        store: Any,
        *,
        encoder: Encodes | None = None,
        search: Mapping[str, Any] | None = None,
        **settings: Unpack[Settings],
    ) -> None:
        super().__init__(**settings)
        if not callable(getattr(store, "similarity_search", None)):
            raise UserError(f"store is {store!r:.80}; expected a LangChain VectorStore")
        encoder = getattr(store, "embeddings", None) if encoder is None else encoder
        if encoder is None:
            raise UserError(f"{type(store).__name__} does not say what embeds its documents: give encoder=…")
        self.store, self.search, self.input_is_text = store, dict(search or {}), "input_key" not in settings
        self.encoder, self.query_encoder = as_encoders(encoder)
        self._vectors: dict[str, np.ndarray] = {}

    def select_many(self, queries: Sequence[str | Row], **options: Unpack[Options]) -> list[Selection]:
        """`select` for each query; each is a search of the store."""
        request = self.request(options)
        asked = read_queries(queries, self.settings.keys)
        vectors = embed(self.query_encoder, [query.input for query in asked], None)
        search = {"k": request.size, **self.search}
        if request.filter is not None:
            search["filter"] = request.filter
            if "fetch_k" in inspect.signature(self.store.similarity_search).parameters:
                search.setdefault("fetch_k", 100 * request.size)
        selections = []
        for query, vector in zip(asked, vectors, strict=True):
            found = self.store.similarity_search(query.input, **search)
            different = {
                (example.input, example.output): (example, text) for example, text in self._examples(found)
            }
            kept = [pair for pair in different.values() if not query.id or pair[0].id != query.id]
            documents = self._embedded([text for _, text in kept], len(vector))
            cosines = documents @ vector
            nearest = np.argsort(-cosines, kind="stable")
            shortlist = [kept[i][0] for i in nearest]
            selections.append(choose_among(query, shortlist, documents[nearest], cosines[nearest], request))
        return selections

    def _examples(self, documents: Sequence[Any]) -> list[tuple[Example, str]]:
        """Each document as an example, with the text that was embedded."""
        keys = self.settings.keys
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
        examples = read_examples(rows, keys, lambda i: f"document {i + 1} of the store")
        return [
            (example, document.page_content) for example, document in zip(examples, documents, strict=True)
        ]

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

"""A bank that lives in a LangChain vector store: the store gives the shortlist, the DPP chooses from it."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, Unpack

import numpy as np

from ceil_jax.errors import UserError
from ceil_jax.selector.asking import Asking
from ceil_jax.selector.choice import choose_among
from ceil_jax.selector.options import Options, Settings
from ceil_jax.selector.rows import Row, read_examples, read_queries
from ceil_jax.selector.selection import Selection
from ceil_jax.selector.vectors import Encodes, as_encoders, embed
from ceil_jax.tasks.example import Example

KEPT = 50_000
"""The number of documents whose vectors are kept in memory; with 768 numbers each, 150 MB."""


class VectorStoreSelector(Asking):
    """Chooses among the documents that a vector store finds nearest to the query.

    Stores do not give their vectors away, so the documents of a shortlist are embedded again the first time they
    are met, by the store's own embeddings unless `encoder` is given. What is added to the store or removed from it
    is seen by the next query. A `filter` is passed to the store as it is, in the form that the store takes.

    Args:
        store: a LangChain `VectorStore`.
        encoder: as in `CeilSelector.from_examples`; by default the store's embeddings.
        output_key: the metadata field that is an example's output.
        input_key: the metadata field that is an example's input; by default the document's text.
        settings: see `options.Settings`.

    Raises:
        UserError: no vector store; one without embeddings, and no `encoder`; or a setting that does not fit.
    """

    def __init__(
        self,
        store: Any,
        *,
        encoder: Encodes | None = None,
        output_key: str = "output",
        input_key: str | None = None,
        **settings: Unpack[Settings],
    ) -> None:
        super().__init__(**settings)
        if not callable(getattr(store, "similarity_search", None)):
            raise UserError(f"store is {store!r:.80}; expected a LangChain VectorStore")
        encoder = getattr(store, "embeddings", None) if encoder is None else encoder
        if encoder is None:
            raise UserError(f"{type(store).__name__} does not say what embeds its documents: give encoder=…")
        self.store, self.input_key, self.output_key = store, input_key, output_key
        self.encoder, self.query_encoder = as_encoders(encoder)
        self._vectors: OrderedDict[str, np.ndarray] = OrderedDict()
        self._lock = threading.Lock()

    def select_many(self, queries: Sequence[str | Row], **options: Unpack[Options]) -> list[Selection]:
        """`select` for each query; each is a search of the store."""
        request = self.request(options)
        asked = read_queries(queries, self.keys)
        vectors = embed(self.query_encoder, [query.input for query in asked], None)
        n = max(request.shortlist, request.k or 0)
        wanted = {} if request.filter is None else {"filter": request.filter}
        selections = []
        for query, vector in zip(asked, vectors, strict=True):
            found = self.store.similarity_search(query.input, k=n, **wanted)
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
        rows = []
        for number, document in enumerate(documents, 1):
            metadata = {name: value for name, value in document.metadata.items() if _plain(value)}
            named = {"output_key": self.output_key} | (
                {"input_key": self.input_key} if self.input_key else {}
            )
            for argument, key in named.items():
                if key not in metadata:
                    raise UserError(
                        f"document {number} of the store has no metadata {key!r}; it has "
                        f"{', '.join(metadata) or 'none'}; say which one is meant with {argument}=…"
                    )
            output = str(metadata.pop(self.output_key))
            text = str(metadata.pop(self.input_key)) if self.input_key else document.page_content
            given = {"id": getattr(document, "id", None), "input": text, "output": output}
            own = ("id", "input", "output", "choices", "references")
            rows.append({**{name: value for name, value in metadata.items() if name not in own}, **given})
        examples = read_examples(rows, where=lambda i: f"document {i + 1} of the store")
        return [
            (example, document.page_content) for example, document in zip(examples, documents, strict=True)
        ]

    def _embedded(self, texts: Sequence[str], dim: int) -> np.ndarray:
        """The unit vectors of some documents, float32 [n, dim], embedded if they are not in memory."""
        with self._lock:
            known = {text: self._vectors[text] for text in texts if text in self._vectors}
        missing = [text for text in dict.fromkeys(texts) if text not in known]
        known |= dict(zip(missing, embed(self.encoder, missing, dim), strict=True))
        with self._lock:
            self._vectors |= known
            for text in known:
                self._vectors.move_to_end(text)
            while len(self._vectors) > KEPT:
                self._vectors.popitem(last=False)
        return np.stack([known[text] for text in texts]) if texts else np.zeros((0, dim), np.float32)


def _plain(value: Any) -> bool:
    """Whether a metadata value can be one of an example; stores may hold lists and mappings too."""
    return value is not None and not isinstance(value, (Mapping, list, tuple, set))

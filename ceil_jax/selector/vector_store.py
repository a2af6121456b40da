"""A bank that lives in a LangChain vector store: the store gives the shortlist, the DPP chooses
from it."""

from __future__ import annotations

import copy
import inspect
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ceil_jax.encoders.text_encoder import sides
from ceil_jax.errors import UserError
from ceil_jax.selector.bank import Shortlist, Snapshot
from ceil_jax.selector.rows import OWN, as_examples
from ceil_jax.selector.settings import CallSettings
from ceil_jax.selector.vectors import embed
from ceil_jax.tasks.cells import as_text
from ceil_jax.tasks.example import Example
from ceil_jax.tasks.rows import Columns

log = logging.getLogger(__name__)

KEPT = 50_000
"""The most documents whose vectors are kept in memory; 150 MB for vectors of 768 numbers."""


_PLAIN = (str, int, float)
"""The types of metadata that are compared directly; truth values are integers in Python."""


def _with_ids(store: Any) -> Any:
    """Return LangChain's LanceDB store changed so that its documents carry the ids from their rows,
    which it drops; any other store unchanged."""
    id_key = getattr(store, "_id_key", None)
    if type(store).__name__ != "LanceDB" or id_key is None:
        return store

    def results_to_docs(results: Any, score: bool = False) -> list[Any]:
        documents: list[Any] = store.results_to_docs(results, score)
        if id_key in results.schema.names:
            for document, id in zip(documents, results[id_key].to_pylist(), strict=True):
                (document[0] if score else document).id = id
        return documents

    with_ids = copy.copy(store)
    with_ids.results_to_docs = results_to_docs
    return with_ids


class StoreBank:
    """A bank that is the documents of a LangChain store. The next query sees what has been added to
    it or removed from it.

    Stores do not return their vectors, so the documents of a shortlist are embedded when they are
    first retrieved. `search` are further arguments of the store's `similarity_search`. If
    `input_is_text`, a document's text is the example's input; otherwise a metadata field is.
    `embed_query` is the store's own embedding of queries; with it the store is searched by vector,
    so that no query is embedded twice.
    """

    dim = None

    def __init__(
        self,
        store: Any,
        encoder: Any,
        search: Mapping[str, Any],
        input_is_text: bool,
        embed_query: Callable[[str], Sequence[float]] | None = None,
    ) -> None:
        self.store = _with_ids(store)
        self.encoder = encoder
        self.search = dict(search)
        self.input_is_text = input_is_text
        # stores that are not LangChain's may only search by text
        by_vector = hasattr(store, "similarity_search_by_vector")
        self._embed_query = embed_query if by_vector else None
        self._vectors: dict[str, np.ndarray] = {}
        self._left_out: set[str] = set()
        """The texts of documents that are not examples, for which a warning has been logged."""

    @property
    def snapshot(self) -> StoreBank:
        """The bank itself, because a store has no snapshots."""
        return self

    def shortlists(
        self, queries: Sequence[Example], vectors: np.ndarray, call: CallSettings
    ) -> Iterator[Shortlist]:
        """Yield the shortlist of each query, as `Snapshot.shortlists` does, by a search of the
        store."""
        if call.fixed:
            raise UserError(
                "fixed examples are those of a bank in memory: give CeilSelector.from_examples the "
                "examples"
            )
        most = call.size
        if not call.own_answer:
            most += 1  # the query's own question may be among them
        # what is left to do with the nearest documents, because the store applies the filter
        without_filter = replace(call, filter=None, balance=None)
        for query, vector in zip(queries, vectors, strict=True):
            documents = self._nearest(query.input, most, call.filter, size=call.size)
            if not documents:
                self._check_filter(query.input, call.filter)
            self._check_passed(documents, call.filter)
            documents, examples = self._examples(documents, call.columns)
            embedded = self._embedded(
                [document.page_content for document in documents], len(vector)
            )
            near = Snapshot(examples, embedded, live=np.ones(len(documents), bool))
            yield from near.shortlists([query], vector[None], without_filter)

    def _nearest(self, text: str, k: int, filter: Any = None, size: int = 1) -> list[Any]:
        """The k documents nearest to a text that pass a filter. A UserError if the store fails.

        `size` is the length of the shortlist, on which it depends how many documents are fetched
        before they are filtered.
        """
        by_vector = self._embed_query is not None
        search = self.store.similarity_search
        if by_vector:
            search = self.store.similarity_search_by_vector
        settings: dict[str, Any] = {"k": k, **self.search}
        if filter is not None:
            settings["filter"] = filter
            # such stores filter after fetching, and fetch only few documents by default
            if "fetch_k" in inspect.signature(search).parameters:
                settings.setdefault("fetch_k", 100 * size)
            if type(self.store).__name__ == "LanceDB":
                settings.setdefault("prefilter", True)
        try:
            query = text if self._embed_query is None else self._embed_query(text)
            return list(search(query, **settings))
        except NotImplementedError:
            if not by_vector:
                raise
            # the store only searches by text
            self._embed_query = None
            return self._nearest(text, k, filter, size=size)
        except UserError:
            raise
        except Exception as error:
            reason = " ".join(str(error).split())[:300]
            raise UserError(
                f"the vector store {type(self.store).__name__} failed: "
                f"{type(error).__name__}: {reason}; see that it is running, and that search= and "
                "filter= have the form that it takes"
            ) from error

    def _check_filter(self, text: str, filter: Any) -> None:
        """Raise a UserError for a value in a filter that no document has, as with a bank in
        memory."""
        if not isinstance(filter, Mapping):
            return
        is_empty = not self._nearest(text, 1)
        if is_empty:
            return
        for name, value in filter.items():
            if not self._nearest(text, 1, filter={name: value}):
                raise UserError(f"filter: no document of the store has {name!r} = {value!r:.60}")

    def _check_passed(self, documents: Sequence[Any], filter: Any) -> None:
        """Raise a UserError for a document that does not pass a filter: some stores accept any
        argument and ignore it."""
        if not isinstance(filter, Mapping):
            return
        # other values are in the store's own query language
        plain = {name: value for name, value in filter.items() if isinstance(value, _PLAIN)}
        for document in documents:
            for name, value in plain.items():
                stored = document.metadata.get(name, value)
                if isinstance(stored, _PLAIN) and as_text(stored) != as_text(value):
                    raise UserError(
                        f"filter: the vector store {type(self.store).__name__} gave a document with "
                        f"{name!r} = {stored!r:.60}, so that it ignores filter=; use another class for "
                        "the store, or a bank in memory (CeilSelector.from_examples)"
                    )

    def _examples(
        self, documents: Sequence[Any], columns: Columns
    ) -> tuple[list[Any], list[Example]]:
        """The documents that are examples, and the examples. The others are left out, with one
        warning for all that are new. If none is an example, the error of the first is raised."""
        rows = self._rows(documents, columns)
        names = [row["id"] or number for number, row in enumerate(rows, 1)]
        source = "documents of the store"
        try:
            examples = as_examples(rows, columns, source, "document", names=names)
            return list(documents), examples
        except UserError as trouble:
            good: list[Any] = []
            examples = []
            left_out: dict[str, str] = {}
            for document, row, name in zip(documents, rows, names, strict=True):
                try:
                    examples += as_examples([row], columns, source, "document", names=[name])
                    good.append(document)
                except UserError as error:
                    left_out[document.page_content] = f"document {name} is left out: {error}"
            if not good:
                raise trouble from None
            new = [text for text in left_out if text not in self._left_out]
            self._left_out.update(new)
            if new:
                more = f"; {len(new) - 1:,} more are left out" if len(new) > 1 else ""
                log.warning("%s%s", left_out[new[0]], more)
            return good, examples

    def _rows(self, documents: Sequence[Any], columns: Columns) -> list[dict[str, Any]]:
        rows = []
        for document in documents:
            # stores may also hold lists and mappings; those that are used are checked
            fields = {
                name: value
                for name, value in document.metadata.items()
                if name in columns.used or as_text(value) is not None
            }
            # Qdrant's documents have their ids among their metadata
            id = getattr(document, "id", None) or fields.pop("_id", None)
            fields.pop("_collection_name", None)
            row = {name: fields[name] for name in fields if name not in OWN or name in columns.used}
            if self.input_is_text:
                row[columns.input[0]] = document.page_content
            rows.append({**row, "id": id})
        return rows

    def _embedded(self, texts: Sequence[str], dim: int) -> np.ndarray:
        """The unit vectors of some documents, float32 [n, dim]. Those that are not in memory are
        embedded."""
        known = self._vectors
        missing = [text for text in dict.fromkeys(texts) if text not in known]
        if missing:
            # a new dictionary, because other threads may be reading this one
            encode = sides(self.encoder).bank.encode
            vectors = embed(encode, missing, missing, dim, self.encoder)
            known = known | dict(zip(missing, vectors, strict=True))
            self._vectors = dict(list(known.items())[-KEPT:])
        if not texts:
            return np.zeros((0, dim), np.float32)
        return np.stack([known[text] for text in texts])

"""BM25, the similarity of texts by shared words."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np

from ceil_jax.retrieval.words import words

log = logging.getLogger(__name__)


class LexicalIndex:
    """BM25 over texts, with the library bm25s.

    k1 = 1.5, b = 0.75, and Lucene's inverse document frequency, which is never negative.

    >>> int(LexicalIndex(["a fine film", "a dull play"]).scores("the play").argmax())
    1
    """

    def __init__(self, texts: Sequence[str]) -> None:
        import bm25s

        # importing bm25s sets its logger to DEBUG, so that every index would log a line
        logging.getLogger("bm25s").setLevel(logging.WARNING)
        self._index = bm25s.BM25(method="lucene")
        documents = [words(text) for text in texts]
        self._known = {word for document in documents for word in document}
        if self._known:
            self._index.index(documents, show_progress=False)
        self._size = len(texts)

    def scores(self, text: str) -> np.ndarray:
        """Return the BM25 score of every document for the query `text`, float [N]."""
        query = self._shared(text)
        return self._index.get_scores(query) if query else np.zeros(self._size)

    def warn_without_shared_words(self, queries: Sequence[str]) -> None:
        """Log how many queries share no word with any document and therefore score 0 with all."""
        unmatched = [text for text in queries if not self._shared(text)]
        if unmatched:
            log.warning(
                "BM25: %d of %d queries share no word with the bank, and get its first examples "
                "(%r …); an encoder compares meanings",
                len(unmatched),
                len(queries),
                unmatched[0][:60],
            )

    def _shared(self, text: str) -> list[str]:
        return [word for word in words(text) if word in self._known]

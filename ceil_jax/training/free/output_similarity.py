"""How alike two examples' outputs are: what target similarity tuning learns from, and how free rows are judged."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, Int

from ceil_jax.training.free.rows import Rows

Kind = Literal["label", "vectors", "tokens", "structures"]
"""Equal outputs; cosine of the outputs' vectors; F1 of their different words and signs; F1 of their structures."""


class OutputSimilarity:
    """Similarities in [0, 1] (cosines: [−1, 1]) of the outputs of N rows.

    Args:
        kind: see `Kind`.
        rows: the examples; they need `output_vectors` for "vectors", and `structures` for "structures".
    """

    def __init__(self, kind: Kind, rows: Rows) -> None:
        self.kind = kind
        if kind == "vectors":
            self._held: Any = rows.output_vectors
            return
        sets: Sequence[Iterable[str]] = rows.structures
        if kind == "label":
            sets = [{output} for output in rows.outputs]
        if kind == "tokens":
            sets = [set(re.findall(r"\w+|[^\w\s]", output.lower())) for output in rows.outputs]
        self._held, self._sizes = _indicators(sets)

    def __call__(
        self, queries: Int[np.ndarray, " q"], examples: Int[np.ndarray, " n"]
    ) -> Float[np.ndarray, "q n"]:
        """Return the similarity of each of these rows' outputs to each of those rows'."""
        if self.kind == "vectors":
            return self._held[queries] @ self._held[examples].T
        shared = (self._held[queries] @ self._held[examples].T).toarray()
        return 2 * shared / np.maximum(self._sizes[queries][:, None] + self._sizes[examples], 1)


def _indicators(sets: Sequence[Iterable[str]]) -> tuple[Any, Float[np.ndarray, " n"]]:
    """A sparse matrix with a 1 where a row's set holds a column's member, and the sizes of the sets."""
    from scipy.sparse import csr_matrix

    place: dict[str, int] = {}
    members = [[place.setdefault(one, len(place)) for one in sorted(some)] for some in sets]
    sizes = np.array([len(row) for row in members], np.float32)
    ends = np.cumsum([0, *map(len, members)])
    columns = np.array([column for row in members for column in row], np.int32)
    shape = (len(members), max(len(place), 1))
    return csr_matrix((np.ones(len(columns), np.float32), columns, ends), shape=shape), sizes

"""How alike two examples' outputs are: what target similarity tuning learns from, and how free rows are judged."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np
from jaxtyping import Float, Int

from ceil_jax.training.free.rows import Observed

Kind = Literal["label", "tokens", "structures"]
"""Equal outputs; F1 of their different words and signs; F1 of their structures."""


class OutputComparison:
    """Similarities in [0, 1] of the outputs of N rows.

    Args:
        kind: see `Kind`.
        rows: the examples; they need `structures` for "structures".
    """

    def __init__(self, kind: Kind, rows: Observed) -> None:
        from sklearn.preprocessing import MultiLabelBinarizer

        sets: Sequence[Iterable[str]] = rows.structures
        if kind == "label":
            sets = [{output} for output in rows.outputs]
        if kind == "tokens":
            sets = [set(re.findall(r"\w+|[^\w\s]", output.lower())) for output in rows.outputs]
        self._held = MultiLabelBinarizer(sparse_output=True).fit_transform(sets).astype(np.float32)
        self._sizes = np.asarray(self._held.sum(axis=1)).reshape(-1)

    def __call__(
        self, queries: Int[np.ndarray, " q"], examples: Int[np.ndarray, " n"]
    ) -> Float[np.ndarray, "q n"]:
        """Return the similarity of each of these rows' outputs to each of those rows'."""
        shared = (self._held[queries] @ self._held[examples].T).toarray()
        return 2 * shared / np.maximum(self._sizes[queries][:, None] + self._sizes[examples], 1)

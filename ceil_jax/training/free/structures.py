"""The structure head: an example is as relevant as its structures agree with those predicted from
the query."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from jaxtyping import Float

from ceil_jax.dpp.lengths import unit_rows
from ceil_jax.errors import UserError
from ceil_jax.store.progress import bar
from ceil_jax.training.free.head import COSINE_WEIGHT, fold_numbers
from ceil_jax.training.free.rows import Observations, features

PENALTIES = (0.0001, 0.001, 0.01)
"""The grid for the L2 penalty: half of it times the sum of squared weights is added to the mean log
loss."""

WORDS = 5_000
"""How many words and pairs of words a head uses: the most common ones. On 8,600 programs of
SMCalFlow a fit takes 27 s; with all words and structures it takes 202 s, and the examples of
held-out rows are no better."""

STRUCTURES = 1_000
"""Number of structures that a head predicts, the most common ones."""


@dataclass(frozen=True)
class StructureHead:
    """One logistic regression for each structure, on the TF-IDF of words and pairs of words, and
    the vector.

    Relevance is the cosine between the query's predicted structures and the example's, which ranks
    like the expected F1, plus half the cosine of inputs.
    """

    structures: tuple[str, ...]
    vocabulary: tuple[str, ...]
    idf: Float[np.ndarray, " words"]
    weights: Float[np.ndarray, "words+f structures"]
    bias: Float[np.ndarray, " structures"]
    penalty: float = PENALTIES[0]
    cosine_weight: float = COSINE_WEIGHT

    def probabilities(self, rows: Observations) -> Float[np.ndarray, "n structures"]:
        """Return P(structure | query) for each structure, in the order of `structures`."""
        words = _tf_idf(self.vocabulary, self.idf).transform(list(rows.texts)).astype(np.float32)
        split = len(self.vocabulary)
        logits = words @ self.weights[:split] + features(rows) @ self.weights[split:] + self.bias
        return (1 / (1 + np.exp(-np.clip(logits, -30, 30)))).astype(np.float32)

    def query_block(self, rows: Observations) -> Float[np.ndarray, "n w"]:
        """Return [P / |P|, 0]."""
        p = self.probabilities(rows)
        p = unit_rows(p)
        return np.pad(p, ((0, 0), (0, 1))).astype(np.float32)

    def example_block(self, rows: Observations) -> Float[np.ndarray, "n w"]:
        """Return 1 / √n for each of an example's n structures. Unknown structures share the last
        position, which is 0 for all queries."""
        position = {structure: i for i, structure in enumerate(self.structures)}
        block = np.zeros((len(rows.texts), len(position) + 1), np.float32)
        for row, structures in zip(block, rows.structures, strict=True):
            known = [position[structure] for structure in structures if structure in position]
            row[known] = 1 / np.sqrt(max(len(structures), 1))
            row[-1] = np.sqrt(1 - len(known) / max(len(structures), 1))
        return block


def _tf_idf(vocabulary: Sequence[str] | None = None, idf: np.ndarray | None = None) -> Any:
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(
        ngram_range=(1, 2),
        token_pattern=r"\w+",
        max_features=WORDS,
        sublinear_tf=True,
        vocabulary=vocabulary,
    )
    if idf is not None:
        vectorizer.idf_ = np.asarray(idf, np.float64)
    return vectorizer


def fit_structure_head(rows: Observations, like: StructureHead | None = None) -> StructureHead:
    """Fit a logistic regression for each of the bank's most common structures, all at once.

    The L2 penalty is the value of PENALTIES with the smallest log loss on a held-out fifth of the
    bank. If `like` is given, the structures and the penalty are those of that head.

    Raises:
        UserError: no example has a structure.
    """
    from sklearn.preprocessing import MultiLabelBinarizer

    if like is None and not any(rows.structures):
        raise UserError(
            "structures: no output of the bank has a structure; this method is for outputs that "
            "parse"
        )
    # equally common structures are ordered by name
    counts = Counter(sorted(chain.from_iterable(rows.structures)))
    names = (
        like.structures
        if like
        else tuple(sorted(name for name, _ in counts.most_common(STRUCTURES)))
    )
    known_structures = [structures.intersection(names) for structures in rows.structures]
    y = MultiLabelBinarizer(classes=names).fit_transform(known_structures).astype(np.float32)

    def fitted(rows: Observations, y: np.ndarray, penalty: float) -> StructureHead:
        from scipy.sparse import csr_matrix, hstack

        tf_idf = _tf_idf()
        words = tf_idf.fit_transform(list(rows.texts))
        x = hstack([words, csr_matrix(features(rows))]).tocsr().astype(np.float32)
        vocabulary = tuple(tf_idf.get_feature_names_out())
        idf = tf_idf.idf_.astype(np.float32)
        weights, biases = _logistic_regressions(x, y, penalty)
        return StructureHead(names, vocabulary, idf, weights, biases, penalty)

    penalty = PENALTIES[0] if like is None else like.penalty
    if like is None and len(y) >= 10:
        held_out = fold_numbers(len(y), 5) == 0
        inside = np.flatnonzero(~held_out)
        outside = np.flatnonzero(held_out)

        def log_loss(penalty: float) -> float:
            p = fitted(rows.take(inside), y[inside], penalty).probabilities(rows.take(outside))
            progress.update()
            return float(-np.log(np.clip(np.where(y[outside] > 0, p, 1 - p), 1e-6, 1)).mean())

        with bar(len(PENALTIES), "learning structures") as progress:
            penalty = min(PENALTIES, key=log_loss)
    return fitted(rows, y, penalty)


_FULL_BATCH = 2_000
"""Up to this many rows, L-BFGS on all of them is faster than Adam on batches."""


def _logistic_regressions(x: Any, y: np.ndarray, penalty: float) -> tuple[np.ndarray, np.ndarray]:
    """Weights and biases of a regression for each column of y, fitted as a network without a hidden
    layer."""
    import warnings

    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPClassifier

    is_full_batch = len(y) <= _FULL_BATCH
    solver: dict[str, Any] = {"max_iter": 12, "batch_size": 256}
    if is_full_batch:
        solver = {"solver": "lbfgs", "max_iter": 200}
    # scikit-learn divides alpha by the number of rows in a batch
    alpha = penalty * (len(y) if is_full_batch else 256)
    model = MLPClassifier((), alpha=alpha, learning_rate_init=0.01, random_state=0, **solver)
    count = y.shape[1]
    # scikit-learn would take a single column for class labels, so that it gets a second one
    columns = y if count > 1 else np.pad(y, ((0, 0), (0, 1)))
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        model.fit(x, columns)
    weights = model.coefs_[0][:, :count].astype(np.float32)
    biases = model.intercepts_[0][:count].astype(np.float32)
    return weights, biases

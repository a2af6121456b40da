"""The structure head: relevance is how well a query's predicted structures match an example's.

An example's structures are compared with those predicted from the query.
"""

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

_FEWEST_TO_HOLD_OUT = 10
"""The number of rows below which none are held out to choose the penalty; it is then the first of PENALTIES."""

_FULL_BATCH = 2_000
"""The largest number of rows for which L-BFGS on all of them is faster than Adam on batches."""


@dataclass(frozen=True)
class StructureHead:
    """One logistic regression for each structure of the bank's outputs.

    Its features are the TF-IDF of words and pairs of words, and the vector.

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
        """Return the vector [P / |P|, 0] of each query, from its probabilities P of structures."""
        p = unit_rows(self.probabilities(rows))
        # no query asks for the last position, which unknown structures share
        return np.pad(p, ((0, 0), (0, 1))).astype(np.float32)

    def example_block(self, rows: Observations) -> Float[np.ndarray, "n w"]:
        """Return 1 / √n for each of an example's n structures.

        Unknown structures share the last position, which is 0 for all queries.
        """
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
    bank.

    Args:
        rows: the bank.
        like: a head whose structures and penalty are taken; by default both are chosen.

    Raises:
        UserError: no example has a structure.
    """
    if like is None and not any(rows.structures):
        raise UserError(
            "structures: no output of the bank has a structure; this method is for outputs that "
            "parse"
        )
    names = _most_common(rows.structures) if like is None else like.structures
    y = _indicators(rows.structures, names)
    if like is not None:
        penalty = like.penalty
    elif len(y) < _FEWEST_TO_HOLD_OUT:
        penalty = PENALTIES[0]
    else:
        penalty = _best_penalty(rows, y, names)
    return _fitted(rows, y, names, penalty)


def _most_common(structures: Sequence[frozenset[str]]) -> tuple[str, ...]:
    """The STRUCTURES most common structures of some rows, in order of their names."""
    # a counter orders equally common ones as they come, and sets come in any order
    counts = Counter(sorted(chain.from_iterable(structures)))
    return tuple(sorted(name for name, _ in counts.most_common(STRUCTURES)))


def _indicators(
    structures: Sequence[frozenset[str]], names: Sequence[str]
) -> Float[np.ndarray, "n structures"]:
    """1 where a row has the structure of a column, else 0."""
    from sklearn.preprocessing import MultiLabelBinarizer

    # the binarizer warns of structures that have no column
    with_column = [of_row.intersection(names) for of_row in structures]
    return MultiLabelBinarizer(classes=names).fit_transform(with_column).astype(np.float32)


def _best_penalty(
    rows: Observations, y: Float[np.ndarray, "n structures"], names: tuple[str, ...]
) -> float:
    """The penalty with the smallest log loss on a held-out fifth of the rows."""
    held_out = fold_numbers(len(y), 5) == 0
    inside = np.flatnonzero(~held_out)
    outside = np.flatnonzero(held_out)
    losses: dict[float, float] = {}
    with bar(len(PENALTIES), "learning structures") as progress:
        for penalty in PENALTIES:
            head = _fitted(rows.take(inside), y[inside], names, penalty)
            losses[penalty] = _log_loss(head.probabilities(rows.take(outside)), y[outside])
            progress.update()
    return min(PENALTIES, key=losses.__getitem__)


def _log_loss(p: Float[np.ndarray, "n structures"], y: Float[np.ndarray, "n structures"]) -> float:
    """The mean log loss over rows and structures, where p = P(y = 1)."""
    p_of_what_is_so = np.where(y > 0, p, 1 - p)
    return float(-np.log(np.clip(p_of_what_is_so, 1e-6, 1)).mean())


def _fitted(
    rows: Observations,
    y: Float[np.ndarray, "n structures"],
    names: tuple[str, ...],
    penalty: float,
) -> StructureHead:
    """A head of the structures `names`, fitted to all of the rows."""
    from scipy.sparse import csr_matrix, hstack

    tf_idf = _tf_idf()
    words = tf_idf.fit_transform(list(rows.texts))
    x = hstack([words, csr_matrix(features(rows))]).tocsr().astype(np.float32)
    weights, biases = _logistic_regressions(x, y, penalty)
    return StructureHead(
        structures=names,
        vocabulary=tuple(tf_idf.get_feature_names_out()),
        idf=tf_idf.idf_.astype(np.float32),
        weights=weights,
        bias=biases,
        penalty=penalty,
    )


def _logistic_regressions(x: Any, y: np.ndarray, penalty: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the weights and biases of a regression for each column of y.

    They are fitted as a network without a hidden layer.
    """
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

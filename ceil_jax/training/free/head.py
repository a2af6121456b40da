"""The label head: an example is as relevant as the probability that a classifier gives to its label
for the query."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from scipy.special import softmax

from ceil_jax.training.free.rows import Observations, features, label_positions

COSINE_WEIGHT = 0.5
"""The weight of the inputs' cosine beside the predicted relevance."""

REGULARISATION = (0.1, 0.3, 1.0, 3.0, 10.0)
"""The grid for C, the inverse strength of the L2 penalty."""

_FOLDS = 3


@dataclass(frozen=True)
class LabelHead:
    """Multinomial logistic regression on the bank's labels; relevance is P(example's label | query)
    + ½ cosine."""

    labels: tuple[str, ...]
    weights: Float[np.ndarray, "f labels"]
    bias: Float[np.ndarray, " labels"]
    cosine_weight: float = COSINE_WEIGHT

    def probabilities(self, rows: Observations) -> Float[np.ndarray, "n labels"]:
        """Return P(label | query) for each label, in the order of `labels`."""
        return softmax(features(rows) @ self.weights + self.bias, axis=1)

    def classify(self, rows: Observations) -> list[str]:
        """Return the most probable label of each query, without an LM."""
        return [self.labels[i] for i in self.probabilities(rows).argmax(axis=1)]

    def query_block(self, rows: Observations) -> Float[np.ndarray, "n w"]:
        """Return the vector of each query: P(label | query) for each label, then 0."""
        return np.pad(self.probabilities(rows), ((0, 0), (0, 1))).astype(np.float32)

    def example_block(self, rows: Observations) -> Float[np.ndarray, "n w"]:
        """Return the vector of each example: 1 at its label and 0 elsewhere. Unknown labels share the
        last position, which is 0 in the vectors of queries."""
        one_hot = np.eye(len(self.labels) + 1, dtype=np.float32)
        return one_hot[label_positions(rows, self.labels)]


def fit_label_head(rows: Observations, like: LabelHead | None = None) -> LabelHead:
    """Fit a label head on the bank. C is the value of REGULARISATION with the smallest
    cross-validated log loss.

    If `like` is given, the head has the labels of that head; labels that these rows lack have
    probability 0.
    """
    fold = fold_numbers(len(rows.texts), _FOLDS)

    def log_loss(c: float) -> float:
        total = 0.0
        for part in range(_FOLDS):
            head = _fitted(rows.take(np.flatnonzero(fold != part)), c)
            out = rows.take(np.flatnonzero(fold == part))
            p = np.pad(head.probabilities(out), ((0, 0), (0, 1)))
            p_of_label = p[np.arange(len(p)), label_positions(out, head.labels)]
            # a label that only this fold has counts as one of probability 1e-6
            total -= np.log(np.maximum(p_of_label, 1e-6)).sum()
        return total

    c = REGULARISATION[0]
    if np.bincount(fold).min() >= 2:
        c = min(REGULARISATION, key=log_loss)
    head = _fitted(rows, c)
    return head if like is None else _with_labels(head, like.labels)


def _fitted(rows: Observations, c: float) -> LabelHead:
    """A head by scikit-learn's logistic regression with C = `c`; with a single label, its
    probability is 1."""
    from sklearn.linear_model import LogisticRegression

    labels, y = np.unique(list(rows.outputs), return_inverse=True)
    names = tuple(map(str, labels))
    x = features(rows)
    if len(names) == 1:
        return LabelHead(names, np.zeros((x.shape[1], 1), np.float32), np.zeros(1, np.float32))
    model = LogisticRegression(C=c, tol=1e-3, max_iter=300).fit(x, y)
    weights = model.coef_.T
    bias = model.intercept_
    if len(names) == 2:  # scikit-learn has one row of weights for two classes
        weights = np.hstack([0 * weights, weights])
        bias = np.append(0, bias)
    return LabelHead(names, weights.astype(np.float32), bias.astype(np.float32))


def _with_labels(head: LabelHead, labels: tuple[str, ...]) -> LabelHead:
    """The head with more labels, among which are all of its own; the others have probability 0."""
    if head.labels == labels:
        return head
    positions = [labels.index(label) for label in head.labels]
    weights = np.zeros((len(head.weights), len(labels)), np.float32)
    bias = np.full(len(labels), -np.inf, np.float32)
    weights[:, positions] = head.weights
    bias[positions] = head.bias
    return LabelHead(labels, weights, bias)


def fold_numbers(count: int, folds: int) -> Int[np.ndarray, " n"]:
    """Return a random fold number for each of `count` rows, in folds of equal size, the same in
    every call."""
    return np.random.default_rng([count, folds]).permutation(count) % folds

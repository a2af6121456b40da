"""The label head: relevance is the probability of the example's label for the query.

The probability is that of a classifier.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from jaxtyping import Float, Int
from scipy.special import softmax

from ceil_jax.training.free.rows import Observations, features, label_positions

COSINE_WEIGHT = 0.5
"""The weight of the inputs' cosine, added to the predicted relevance."""

REGULARISATION = (0.1, 0.3, 1.0, 3.0, 10.0)
"""The grid for C, the inverse strength of the L2 penalty."""

FOLDS = 3
"""The number of folds of cross-validation."""


@dataclass(frozen=True)
class LabelHead:
    """Multinomial logistic regression on the bank's labels.

    Relevance is P(example's label | query) + ½ cosine.
    """

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
        """Return the vector of each example: 1 at its label and 0 elsewhere.

        Unknown labels share the last position, which is 0 in the vectors of queries.
        """
        positions = label_positions(rows, self.labels)
        block = np.zeros((len(positions), len(self.labels) + 1), np.float32)
        block[np.arange(len(positions)), positions] = 1
        return block


def fit_label_head(rows: Observations, like: LabelHead | None = None) -> LabelHead:
    """Fit a label head on the bank.

    C is the value of REGULARISATION with the smallest cross-validated log loss.

    If `like` is given, the head has the labels of that head; labels that these rows lack have
    probability 0.
    """
    c = REGULARISATION[0]
    if enough_rows(rows):
        c = min(REGULARISATION, key=lambda c: log_loss(partial(fit_logistic, c=c), rows))
    head = fit_logistic(rows, c)
    return head if like is None else with_labels(head, like.labels)


def enough_rows(rows: Observations) -> bool:
    """Return whether there are two rows or more in every fold of cross-validation."""
    return len(rows.texts) >= 2 * FOLDS


def log_loss(fit: Callable[[Observations], LabelHead], rows: Observations) -> float:
    """Return the cross-validated log loss of a fit, in nats, summed over the rows.

    A label that the other folds do not have counts as one of probability 1e-6.
    """
    fold = fold_numbers(len(rows.texts), FOLDS)
    total = 0.0
    for part in range(FOLDS):
        head = fit(rows.take(np.flatnonzero(fold != part)))
        out = rows.take(np.flatnonzero(fold == part))
        # with a last column of 0 for a label that the head does not know
        p = np.pad(head.probabilities(out), ((0, 0), (0, 1)))
        p_of_label = p[np.arange(len(p)), label_positions(out, head.labels)]
        total -= np.log(np.maximum(p_of_label, 1e-6)).sum()
    return total


def fit_logistic(
    rows: Observations, c: float, x: Float[np.ndarray, "n f"] | None = None
) -> LabelHead:
    """Return a head by scikit-learn's logistic regression; with a single label, its probability is
    1.

    Args:
        rows: the bank, with its outputs.
        c: C, the inverse strength of the L2 penalty.
        x: the features, by default those of the rows.
    """
    from sklearn.linear_model import LogisticRegression

    labels, y = np.unique(list(rows.outputs), return_inverse=True)
    names = tuple(map(str, labels))
    x = features(rows) if x is None else x
    if len(names) == 1:
        return LabelHead(names, np.zeros((x.shape[1], 1), np.float32), np.zeros(1, np.float32))
    model = LogisticRegression(C=c, tol=1e-3, max_iter=300).fit(x, y)
    weights = model.coef_.T
    bias = model.intercept_
    if len(names) == 2:  # scikit-learn has one row of weights for two classes
        weights = np.hstack([0 * weights, weights])
        bias = np.append(0, bias)
    return LabelHead(names, weights.astype(np.float32), bias.astype(np.float32))


def with_labels(head: LabelHead, labels: tuple[str, ...]) -> LabelHead:
    """Return the head with more labels, among which are all of its own; the others have probability 0."""
    if head.labels == labels:
        return head
    positions = [labels.index(label) for label in head.labels]
    weights = np.zeros((len(head.weights), len(labels)), np.float32)
    bias = np.full(len(labels), -np.inf, np.float32)
    weights[:, positions] = head.weights
    bias[positions] = head.bias
    return LabelHead(labels, weights, bias)


def fold_numbers(count: int, folds: int) -> Int[np.ndarray, " n"]:
    """Return a random fold number for each of `count` rows.

    Folds are of equal size, and the same in every call.
    """
    return np.random.default_rng([count, folds]).permutation(count) % folds

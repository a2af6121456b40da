"""Metrics of labels in which all classes have equal weight: macro F1 and balanced accuracy.

Where 95 of 100 rows have one label, answering that label scores 95 % accuracy. These do not reward
it: with two classes its macro F1 is 49 % and its balanced accuracy 50 %.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np

from ceil_jax.metrics.base import Metric
from ceil_jax.tasks.example import Example


class ByClass(Metric):
    """A mean over classes, computed from counts of each class.

    The classes are the gold labels and the choices of the queries. An answer that is not a class
    counts as a miss for the gold class.
    """

    def per_example(self, predictions: Sequence[str], examples: Sequence[Example]) -> np.ndarray:
        """Return whether each answer is the gold label: float64 [N]."""
        pairs = zip(predictions, examples, strict=True)
        return np.array([prediction == example.output for prediction, example in pairs], np.float64)

    def statistics(
        self, scores: np.ndarray, predictions: Sequence[str], examples: Sequence[Example]
    ) -> np.ndarray:
        """Return the counts of each example for each of C classes, float64 [N, 3 C].

        They say whether the class is the gold one, whether it was predicted, and both.
        """
        labels = {label for example in examples for label in (example.output, *example.choices)}
        classes = np.array(sorted(labels))
        gold = np.array([example.output for example in examples])[:, None] == classes
        predicted = np.array(list(predictions))[:, None] == classes
        return np.concatenate([gold, predicted, gold & predicted], axis=1).astype(np.float64)

    def from_sums(self, sums: np.ndarray, count: int | np.ndarray) -> np.ndarray:
        """Return the mean over the classes that occur, float64 [...], from counts [..., 3 C]."""
        gold, predicted, both = np.split(sums, 3, axis=-1)
        values, occurs = self.of_classes(gold, predicted, both)
        return (values * occurs).sum(axis=-1) / np.maximum(1, occurs.sum(axis=-1))

    @abstractmethod
    def of_classes(
        self, gold: np.ndarray, predicted: np.ndarray, both: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the value of each class and whether it counts in the mean, both [..., C].

        Args:
            gold: queries of each class [..., C].
            predicted: answers of each class.
            both: right answers of each class.
        """


class MacroF1(ByClass):
    """The mean of the classes' F1 = 2 · right / (gold + predicted).

    It is over the classes that occur as a gold label or as an answer.

    Examples:
        >>> golds = [Example("1", "q", "a"), Example("2", "q", "a"), Example("3", "q", "b")]
        >>> MacroF1().corpus(["a", "b", "b"], golds) == (2 / 3 + 2 / 3) / 2
        True
    """

    def of_classes(
        self, gold: np.ndarray, predicted: np.ndarray, both: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        counted = gold + predicted
        return 2 * both / np.maximum(1, counted), counted > 0


class BalancedAccuracy(ByClass):
    """The mean of the classes' recall = right / gold, over the classes that occur as a gold label.

    Examples:
        >>> golds = [Example("1", "q", "a"), Example("2", "q", "a"), Example("3", "q", "b")]
        >>> BalancedAccuracy().corpus(["a", "b", "b"], golds)
        0.75
    """

    def of_classes(
        self, gold: np.ndarray, predicted: np.ndarray, both: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        return both / np.maximum(1, gold), gold > 0

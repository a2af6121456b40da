"""The interface of metrics, and the class of metrics that score each prediction separately."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ceil_jax.errors import UserError
from ceil_jax.tasks.example import Example


class Metric(ABC):
    """A function of predictions and of queries with their gold answers, with values in [0, 1].

    Examples:
        >>> class SameLength(Metric):
        ...     def per_example(self, predictions, examples):
        ...         pairs = zip(predictions, examples, strict=True)
        ...         return np.array([float(len(text) == len(gold.output)) for text, gold in pairs])
        >>> golds = [Example("1", "q", "rome"), Example("2", "q", "oslo")]
        >>> SameLength().corpus(["Rome", "Bergen"], golds)
        0.5
    """

    def check(self, examples: Sequence[Example]) -> None:
        """Raise a UserError if a query lacks what the metric needs.

        Called before the LM answers.
        """
        return

    @abstractmethod
    def per_example(self, predictions: Sequence[str], examples: Sequence[Example]) -> np.ndarray:
        """Return the score of each of N predictions for N queries: float64 [N].

        The queries have their gold answers.
        """

    def scored(self, predictions: Sequence[str], examples: Sequence[Example]) -> np.ndarray:
        """Return the scores of `per_example`.

        Raises:
            UserError: they are not a number from 0 to 1 for each example.
        """
        scores = np.asarray(self.per_example(predictions, examples), np.float64)
        if scores.shape != (len(examples),):
            raise UserError(
                f"the metric gave an array of shape {scores.shape} for {len(examples)} answers"
            )
        for score, prediction, example in zip(scores, predictions, examples, strict=True):
            if not 0 <= score <= 1 + 1e-9:
                where = f"{prediction!r:.60} to query {example.id!r}"
                raise UserError(f"the metric of the answer {where} is {score}; expected 0 to 1")
        return scores

    def corpus(self, predictions: Sequence[str], examples: Sequence[Example]) -> float:
        """Return the score of all predictions together; nan if there are none.

        It is `from_sums` of their `statistics`.
        """
        if not predictions:
            return float("nan")
        statistics = self.statistics(self.scored(predictions, examples), predictions, examples)
        return float(self.from_sums(statistics.sum(axis=0), len(statistics)))

    def statistics(
        self, scores: np.ndarray, predictions: Sequence[str], examples: Sequence[Example]
    ) -> np.ndarray:
        """Return numbers for each example; `from_sums` computes `corpus` from their sums.

        float64 [N, s]. With them, examples can be resampled.

        `scores`, float64 [N], are those of `per_example`. They are the statistics themselves if
        `corpus` is their mean.
        """
        return np.asarray(scores, np.float64)[:, None]

    def from_sums(self, sums: np.ndarray, count: int | np.ndarray) -> np.ndarray:
        """Return `corpus` from the sums of the statistics of `count` examples.

        float64 [...], from sums [..., s]; `count` is an int or int [...].
        """
        return sums[..., 0] / count


@dataclass(frozen=True)
class PerExample(Metric):
    """A metric that is a function of one prediction and one example."""

    score: Callable[[str, Example], float]

    def per_example(self, predictions: Sequence[str], examples: Sequence[Example]) -> np.ndarray:
        pairs = zip(predictions, examples, strict=True)
        return np.array(
            [self.score(prediction, example) for prediction, example in pairs], np.float64
        )

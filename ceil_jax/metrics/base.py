"""What a metric is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ceil_jax.tasks.example import Example


class Metric(ABC):
    """Predictions and gold examples to numbers in [0, 1]."""

    name: str

    @abstractmethod
    def per_example(self, predictions: Sequence[str], examples: Sequence[Example]) -> np.ndarray:
        """float64 [N]: each prediction's own score."""

    def corpus(self, predictions: Sequence[str], examples: Sequence[Example]) -> float:
        """The score of all together: the mean, where a metric does not say otherwise. No predictions: nan."""
        scores = self.per_example(predictions, examples)
        return float(scores.mean()) if len(scores) else float("nan")

    def statistics(
        self, scores: np.ndarray, predictions: Sequence[str], examples: Sequence[Example]
    ) -> np.ndarray:
        """float64 [N, s]: of each prediction what `corpus` needs and what adds up over a corpus.

        Args:
            scores: what `per_example` gave; the statistic itself, where `corpus` is their mean.
        """
        return np.asarray(scores, np.float64)[:, None]

    def from_sums(self, sums: np.ndarray, count: int) -> np.ndarray:
        """[...]: `corpus` of `count` examples from the sums [..., s] of their statistics."""
        return sums[..., 0] / count


@dataclass(frozen=True)
class PerExample(Metric):
    """A metric that is a function of one prediction and one example."""

    name: str
    score: Callable[[str, Example], float]

    def per_example(self, predictions: Sequence[str], examples: Sequence[Example]) -> np.ndarray:
        pairs = zip(predictions, examples, strict=True)
        return np.array([self.score(prediction, example) for prediction, example in pairs], np.float64)


def golds(example: Example) -> tuple[str, ...]:
    """Every accepted answer."""
    return example.references or (example.output,)

"""BLEU of commands over characters, as in CEIL's released code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from ceil_jax.metrics.base import Metric
from ceil_jax.tasks.example import Example

ORDER = 4


def character_counts(prediction: str, gold: str) -> list[int]:
    """Return the counts of character n-grams from which BLEU is computed.

    Both texts are taken as sequences of characters, without white space at the ends.

    They are the clipped n-gram matches of orders 1 to 4, the numbers of the prediction's n-grams of
    orders 1 to 4, and the lengths of the prediction and of the gold answer. The counts of a corpus
    are their sums.
    """
    prediction = prediction.strip()
    gold = gold.strip()
    matches = []
    totals = []
    for n in range(1, ORDER + 1):
        predicted = _n_grams(prediction, n)
        matches.append((predicted & _n_grams(gold, n)).total())
        totals.append(predicted.total())
    return [*matches, *totals, len(prediction), len(gold)]


def _n_grams(text: str, n: int) -> Counter[str]:
    return Counter(text[i : i + n] for i in range(len(text) - n + 1))


def bleu(counts: np.ndarray, orders: int | np.ndarray = ORDER) -> np.ndarray:
    """Return BLEU, min(1, exp(1 − r/c)) · (Π p_n)^(1/orders) (Papineni et al. 2002).

    0 if any p_n is 0.

    The counts, float64 [..., 10], are those of `character_counts`; n runs from 1 to `orders`, an
    int or int [...].
    """
    matches = counts[..., :ORDER]
    totals = counts[..., ORDER : 2 * ORDER]
    predicted_length = counts[..., -2]
    gold_length = counts[..., -1]
    orders = np.asarray(orders)
    is_used = np.arange(ORDER) < orders[..., None]
    all_match = np.all((matches > 0) | ~is_used, axis=-1) & (orders > 0)
    # p_n, or 1 where it does not count or is 0
    precisions = np.where(is_used & (matches > 0), matches / np.maximum(totals, 1), 1)
    precision = np.exp(np.log(precisions).sum(axis=-1) / np.maximum(orders, 1))
    brevity = np.minimum(1.0, np.exp(1 - gold_length / np.maximum(predicted_length, 1)))
    return np.where(all_match, precision * brevity, 0.0)


class CharBleu(Metric):
    """Unsmoothed BLEU-4 over characters, as CEIL's released code computes it for NL2Bash.

    The value of a corpus is computed from the sums of its matches and lengths. A single example is
    scored by those orders for which its prediction and its gold answer are long enough, so that
    `ls` for `ls` scores 1.
    """

    def per_example(self, predictions: Sequence[str], examples: Sequence[Example]) -> np.ndarray:
        counts = self.statistics(np.empty(0), predictions, examples)
        return bleu(counts, np.minimum(ORDER, counts[:, -2:].min(axis=1)))

    def statistics(
        self, scores: np.ndarray, predictions: Sequence[str], examples: Sequence[Example]
    ) -> np.ndarray:
        pairs = zip(predictions, examples, strict=True)
        rows = [character_counts(prediction, example.output) for prediction, example in pairs]
        return np.array(rows, np.float64).reshape(len(rows), 2 * ORDER + 2)

    def from_sums(self, sums: np.ndarray, count: int | np.ndarray) -> np.ndarray:
        return bleu(sums)

"""BLEU of commands: over characters, as in CEIL's released code, and over words, by sacrebleu."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ceil_jax.errors import UserError
from ceil_jax.metrics.base import Metric, golds
from ceil_jax.tasks.example import Example

ORDER = 4


@dataclass(frozen=True)
class Overlap:
    """The counts that BLEU is a function of; those of a corpus add up."""

    matches: tuple[int, ...]
    """Clipped n-gram matches, orders 1 to 4."""
    totals: tuple[int, ...]
    """N-grams of the prediction, orders 1 to 4."""
    length: int
    """Tokens of the prediction."""
    gold_length: int
    """Tokens of the gold answer."""

    def __add__(self, other: Overlap) -> Overlap:
        return Overlap(
            tuple(map(sum, zip(self.matches, other.matches, strict=True))),
            tuple(map(sum, zip(self.totals, other.totals, strict=True))),
            self.length + other.length,
            self.gold_length + other.gold_length,
        )

    def bleu(self, orders: int = ORDER) -> float:
        """Return min(1, exp(1 − r/c)) · (Π p_n)^(1/orders) of Papineni et al. 2002; 0 where some p_n is 0."""
        if orders == 0 or not all(self.matches[:orders]):
            return 0.0
        pairs = zip(self.matches[:orders], self.totals[:orders], strict=True)
        precision = math.exp(sum(math.log(match / total) for match, total in pairs) / orders)
        return precision * min(1.0, math.exp(1 - self.gold_length / self.length))


def character_overlap(prediction: str, gold: str) -> Overlap:
    """Return the overlap of two texts as sequences of characters, blanks included."""
    matches, totals = [], []
    for n in range(1, ORDER + 1):
        said, meant = (
            Counter(string[i : i + n] for i in range(len(string) - n + 1)) for string in (prediction, gold)
        )
        matches.append((said & meant).total())
        totals.append(said.total())
    return Overlap(tuple(matches), tuple(totals), len(prediction), len(gold))


class CharBleu(Metric):
    """Character BLEU-4, unsmoothed, which the released code computes for NL2Bash.

    The corpus value adds up matches and lengths over the corpus. A single example is scored with only those orders
    that its prediction and its gold answer are long enough for, so that `ls` for `ls` scores 1.
    """

    name = "char_bleu"

    def per_example(self, predictions: Sequence[str], examples: Sequence[Example]) -> np.ndarray:
        scores = [
            overlap.bleu(min(ORDER, overlap.length, overlap.gold_length))
            for overlap in self._overlaps(predictions, examples)
        ]
        return np.array(scores, np.float64)

    def corpus(self, predictions: Sequence[str], examples: Sequence[Example]) -> float:
        overlaps = self._overlaps(predictions, examples)
        if not overlaps:
            return float("nan")
        return sum(overlaps[1:], overlaps[0]).bleu()

    def statistics(
        self, scores: np.ndarray, predictions: Sequence[str], examples: Sequence[Example]
    ) -> np.ndarray:
        overlaps = self._overlaps(predictions, examples)
        columns = [(*o.matches, *o.totals, o.length, o.gold_length) for o in overlaps]
        return np.array(columns, np.float64).reshape(len(overlaps), 2 * ORDER + 2)

    def from_sums(self, sums: np.ndarray, count: int | np.ndarray) -> np.ndarray:
        matches, totals = sums[..., :ORDER], sums[..., ORDER : 2 * ORDER]
        length, gold_length = sums[..., -2], sums[..., -1]
        some = np.all(matches > 0, axis=-1, keepdims=True)
        precision = np.exp(np.log(np.where(some, matches / np.maximum(totals, 1), 1)).mean(axis=-1))
        brevity = np.minimum(1.0, np.exp(1 - gold_length / np.maximum(length, 1)))
        return np.where(some[..., 0], precision * brevity, 0.0)

    def _overlaps(self, predictions: Sequence[str], examples: Sequence[Example]) -> list[Overlap]:
        pairs = zip(predictions, examples, strict=True)
        return [character_overlap(prediction, example.output) for prediction, example in pairs]


class Bleu(Metric):
    """sacrebleu's BLEU (13a tokens, exponential smoothing) over 100; with effective order for single examples."""

    name = "bleu"

    def per_example(self, predictions: Sequence[str], examples: Sequence[Example]) -> np.ndarray:
        sentence_bleu = _sacrebleu().BLEU(effective_order=True).sentence_score
        pairs = zip(predictions, examples, strict=True)
        scores = [sentence_bleu(prediction, list(golds(example))).score for prediction, example in pairs]
        return np.clip(np.array(scores, np.float64) / 100, 0.0, 1.0)  # a perfect match is 100.00000000000004

    def corpus(self, predictions: Sequence[str], examples: Sequence[Example]) -> float:
        if not predictions:
            return float("nan")
        references = [golds(example) for example in examples]
        streams = [
            [answers[min(i, len(answers) - 1)] for answers in references]
            for i in range(max(map(len, references)))
        ]
        return min(1.0, _sacrebleu().BLEU().corpus_score(list(predictions), streams).score / 100)

    def statistics(
        self, scores: np.ndarray, predictions: Sequence[str], examples: Sequence[Example]
    ) -> np.ndarray:
        sentence_bleu = _sacrebleu().BLEU(effective_order=True).sentence_score
        pairs = zip(predictions, examples, strict=True)
        found = [sentence_bleu(prediction, list(golds(example))) for prediction, example in pairs]
        columns = [(*bleu.counts, *bleu.totals, bleu.sys_len, bleu.ref_len) for bleu in found]
        return np.array(columns, np.float64).reshape(len(found), 2 * ORDER + 2)

    def from_sums(self, sums: np.ndarray, count: int | np.ndarray) -> np.ndarray:
        def one(row: np.ndarray) -> float:
            numbers = [round(number) for number in row]
            bleu = _sacrebleu().BLEU.compute_bleu(
                numbers[:ORDER], numbers[ORDER : 2 * ORDER], *numbers[-2:], smooth_method="exp"
            )
            return min(1.0, bleu.score / 100)

        return np.apply_along_axis(one, -1, sums)


def _sacrebleu():
    try:
        from sacrebleu import metrics
    except ImportError:
        raise UserError("metric 'bleu' needs sacrebleu: pip install ceil-jax[bleu]") from None
    return metrics

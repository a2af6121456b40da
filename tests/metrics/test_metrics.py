"""Every metric on hand-worked answers."""

import math

import numpy as np
import pytest

from ceil_jax.metrics import METRICS, register_metric
from ceil_jax.metrics.base import Metric
from ceil_jax.tasks import TASKS, Example

# metric -> (prediction, gold answers, score)
CASES = [
    ("accuracy", "good", ["good"], 1),
    ("accuracy", "Good", ["good"], 0),
    ("exact_match", " answer(m0)\n", ["answer(m0)"], 1),
    ("exact_match", "answer( m0)", ["answer(m0)"], 0),
    ("exact_match", "b", ["a", "b"], 1),
    ("exact_match", "", ["a"], 0),
    # canonically equal letters, line ends
    ("exact_match", "caf\u00e9", ["cafe\u0301"], 1),
    ("exact_match", "ﬁn", ["fin"], 0),
    ("exact_match", "a\r\nb", ["a\nb"], 1),
    ("squad_em", "caf\u00e9", ["Cafe\u0301"], 1),
    # JSON by value
    ("exact_match", '{"b": [1, true], "a": 1e400}', ['{"a": 1e999, "b": [1.0, true]}'], 1),
    ("exact_match", '{"a": true}', ['{"a": 1}'], 0),
    ("exact_match", '{"a": false}', ['{"a": 0}'], 0),
    ("exact_match", '{"a": 1546130668394913792}', ['{"a": 1546130668394913793}'], 0),
    ("squad_em", "The U.S. of A!", ["us of"], 1),  # punctuation, then articles, then blanks
    ("squad_em", "Theodore", ["odore"], 0),  # an article is a whole word
    ("squad_em", "jamaican english", ["Patois", "Jamaican English"], 1),
    ("squad_em", "Jamaica", ["Patois", "Jamaican English"], 0),
    ("char_bleu", "ls", ["ls"], 1),
    ("char_bleu", "", ["ls"], 0),
    ("char_bleu", "abcd", ["wxyz"], 0),
    # orders 1-4 of "abcde" in "abcdX": 4/5, 3/4, 2/3, 1/2; equal lengths
    ("char_bleu", "abcde", ["abcdX"], (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** (1 / 4)),
    # every n-gram of "abcd" is in "abcdabcd"; brevity exp(1 − 8/4)
    ("char_bleu", "abcd", ["abcdabcd"], math.exp(1 - 8 / 4)),
    # the second "a" is clipped: 1-grams 1/2, no 2-gram; orders up to the gold's length, 1
    ("char_bleu", "aa", ["a"], 1 / 2),
]


def example(*golds: str) -> Example:
    return Example("validation-0", "question", golds[0], references=golds if len(golds) > 1 else ())


@pytest.mark.parametrize(("name", "prediction", "golds", "score"), CASES)
def test_per_example(name, prediction, golds, score):
    found = METRICS[name].per_example([prediction], [example(*golds)])
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, [score], atol=1e-12)


def test_the_mean_is_the_corpus_value():
    golds = [example("a"), example("b"), example("c")]
    assert METRICS["exact_match"].corpus(["a", "x", "c"], golds) == pytest.approx(2 / 3)


def test_character_bleu_of_a_corpus_adds_up_the_counts():
    # "abcde"/"abcdX" as above and "wxyz"/"wxyz": matches 4+4, 3+3, 2+2, 1+1 of 5+4, 4+3, 3+2, 2+1
    found = METRICS["char_bleu"].corpus(["abcde", "wxyz"], [example("abcdX"), example("wxyz")])
    assert found == pytest.approx((8 / 9 * 6 / 7 * 4 / 5 * 2 / 3) ** (1 / 4))


def test_character_bleu_of_a_corpus_is_not_smoothed():
    # no 4-gram in either: the released code's corpus BLEU is 0, the examples' own scores are not
    predictions = ["abc", "ls"]
    golds = [example("abc"), example("ls")]
    assert METRICS["char_bleu"].corpus(predictions, golds) == 0
    assert METRICS["char_bleu"].per_example(predictions, golds).tolist() == [1, 1]


def test_character_bleu_agrees_with_sacrebleus_character_tokens():
    import sacrebleu

    predictions = ["find /home -type f", "grep -rn todo src"]
    golds = ["find /home -type d", "grep -r TODO src"]
    # sacrebleu drops blanks from its character tokens, so compare without any
    bare = (
        [text.replace(" ", "") for text in predictions],
        [text.replace(" ", "") for text in golds],
    )
    expected = (
        sacrebleu.corpus_bleu(bare[0], [bare[1]], tokenize="char", smooth_method="none").score / 100
    )
    found = METRICS["char_bleu"].corpus(bare[0], [example(gold) for gold in bare[1]])
    assert found == pytest.approx(expected)


@pytest.mark.parametrize("name", METRICS)
def test_every_metric(name):
    metric = METRICS[name]
    assert isinstance(metric, Metric)
    assert metric.per_example([], []).shape == (0,)
    assert math.isnan(metric.corpus([], []))
    with pytest.raises(ValueError, match="argument 2 is longer"):
        METRICS["exact_match"].per_example([], [example("a")])


def test_a_metric_from_outside(monkeypatch):
    monkeypatch.setitem(METRICS, "contains", METRICS["accuracy"])
    register_metric(
        "contains", lambda prediction, example: float(example.output in prediction), replace=True
    )
    assert METRICS["contains"].per_example(["a b", "c"], [example("b"), example("b")]).tolist() == [
        1,
        0,
    ]


def test_metrics_of_tasks_exist():
    for spec in TASKS.values():
        for name in (spec.metric, *spec.more_metrics):
            assert name in METRICS


@pytest.mark.parametrize("drawn", [range(6), [0, 0, 3, 4, 5, 5]])
def test_class_metrics_agree_with_scikit_learn(drawn):
    from sklearn.metrics import balanced_accuracy_score, f1_score

    golds = [list("aaabbc")[i] for i in drawn]
    predictions = [list("aabbca")[i] for i in drawn]
    examples = [example(gold) for gold in golds]
    expected = {
        "macro_f1": f1_score(golds, predictions, average="macro", zero_division=0),
        "balanced_accuracy": balanced_accuracy_score(golds, predictions),
    }
    for name, value in expected.items():
        assert METRICS[name].corpus(predictions, examples) == pytest.approx(value), name


def test_class_metrics_of_resamples_come_from_the_sums_of_all_rows():
    # the second resample lacks class b, which then does not count
    examples = [example("a"), example("a"), example("b")]
    predictions = ["a", "b", "nothing"]
    for name in ("macro_f1", "balanced_accuracy"):
        metric = METRICS[name]
        statistics = metric.statistics(np.zeros(3), predictions, examples)
        times = np.array([[1, 1, 1], [2, 1, 0]])
        found = metric.from_sums(times @ statistics, 3)
        # F1 of a: 2·1 / (2 + 1), of b: 0; recalls 1/2 and 0. Then F1 of a: 2·2 / (3 + 2), of b
        # (predicted once): 0; recall of a: 2/3, and no b
        expected = {"macro_f1": [(2 / 3) / 2, (4 / 5) / 2], "balanced_accuracy": [1 / 4, 2 / 3]}
        np.testing.assert_allclose(found, expected[name])

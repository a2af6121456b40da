"""The sentences about differences, worked out by hand."""

from ceil_jax.metrics.bootstrap import Interval
from ceil_jax.report.significance import Difference, significance


def difference(better, worse, mean, low, high):
    return Difference(better, worse, Interval(mean, low, high))


HEAD = difference("head", "topk", 6.8, 2.0, 12.2)
EPR = difference("EPR", "topk", 2.0, -3.0, 5.0)  # half-width 4
WORSE = difference("BM25", "topk", -3.0, -5.0, -1.0)
EQUAL = difference("DPP", "topk", 0.0, 0.0, 0.0)


def test_the_number_of_queries_by_hand():
    assert EPR.needed(600) == 2400  # 600 (4 / 2)²
    assert (
        difference("a", "b", -1.0, -5.0, 2.0).needed(600) == 7400
    )  # 600 · 3.5² = 7350, in two digits
    assert EQUAL.needed(600) is None
    assert difference("a", "b", 0.01, -5.0, 5.0).needed(600) is None  # 150 million


def test_significant_differences_come_first_and_the_best_before_others():
    assert significance([EPR, WORSE, EQUAL, HEAD], 600) == (
        "Significant (the pair's own 95 % interval excludes zero): head − topk +6.8 (+2.0 to +12.2), "
        "topk − BM25 +3.0 (+1.0 to +5.0). "
        "Not significant: EPR − topk +2.0 (about 2,400 queries would settle it), DPP − topk "
        "(equal)."
    )
    assert (
        significance([HEAD], 600)
        == "Significant (the pair's own 95 % interval excludes zero): head − topk +6.8 (+2.0 to +12.2)."
    )
    assert significance([EPR], 600).startswith(
        "No difference is significant. Not significant: EPR − topk +2.0"
    )
    assert significance([], 600) == ""


def test_an_interval_without_a_width_is_not_significant():
    assert not difference("a", "b", 100.0, 100.0, 100.0).significant


def test_a_sentence_names_four_and_counts_the_others():
    many = [difference(f"m{i}", "topk", float(i), 0.5, 2.0 * i) for i in range(1, 8)]
    said = significance(many, 600)
    assert said.startswith(
        "Significant (the pair's own 95 % interval excludes zero): m7 − topk +7.0"
    )
    assert said.endswith("m4 − topk +4.0 (+0.5 to +8.0), and 3 more.")


def test_significant_differences_of_other_pairs_are_named_without_numbers():
    others = [
        difference("random", "free", -20.0, -30.0, -10.0),
        difference("EPR", "random", 9, 2, 12),
    ]
    assert significance([EPR], 600, others).startswith(
        "Significant: free over random; EPR over random. Not significant: EPR − topk +2.0"
    )
    pair = difference("free", "BM25", 20.0, 10.0, 30.0)
    said = significance([HEAD], 600, [*others, pair])
    assert said.endswith(
        "head − topk +6.8 (+2.0 to +12.2). Also significant: free over random and BM25; EPR over "
        "random."
    )

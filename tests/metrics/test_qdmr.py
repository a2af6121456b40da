"""LF-EM on hand-worked decompositions."""

import gzip
import json

import pytest

from ceil_jax.metrics.qdmr import lf_em, steps
from ceil_jax.tasks import Example
from ceil_jax.tasks.families.parsing import numbered_steps

EQUAL = [
    ("itself", "return a ;return number of #1", "return a ;return number of #1"),
    (
        "prompt form and Break's form",
        "1#) return a 2#) return number of #1",
        "return a ;return number of #1",
    ),
    (
        "independent steps in another order, renumbered",
        "cats; dogs; number of #1; number of #2; difference of #3 and #4",
        "dogs; cats; number of #2; number of #1; difference of #3 and #4",
    ),
    ("union in another order", "a; b; #1 , #2", "a; b; #2 , #1"),
    (
        "intersection in another order",
        "a; #1 who run; #1 who sing; #1 in both #2 and #3",
        "a; #1 who sing; #1 who run; #1 in both #2 and #3",
    ),
    ("sum commutes", "a; b; sum of #1 and #2", "a; b; the sum of #2 and #1"),
    ("equality commutes", "a; b; is #1 the same as #2", "a; b; is #2 equal to #1"),
    (
        "synonyms of operators",
        "cars; weights of #1; #1 where #2 is more than 3",
        "cars; weights of #1; #1 where #2 is higher than three",
    ),
    ("articles, plurals and case", "the Students of a school", "student of schools"),
    ("besides", "a; b; #1 besides #2", "a; b; #1 except #2"),
    ("group", "a; b of #1; number of #2 for each #1", "a; b of #1; the count of #2 for each #1"),
]

UNEQUAL = [
    ("changed operator", "a; number of #1", "a; sum of #1"),
    ("changed comparison", "a; #1 where #1 is more than 3", "a; #1 where #1 is less than 3"),
    ("at least is not more than", "a; if #1 is at least 3", "a; if #1 is more than 3"),
    ("another number", "a; if #1 is at least 3", "a; if #1 is at least 4"),
    ("another reference", "a; b; number of #1", "a; b; number of #2"),
    (
        "difference does not commute",
        "a; b; difference of #1 and #2",
        "a; b; difference of #2 and #1",
    ),
    ("discard does not commute", "a; b; #1 besides #2", "a; b; #2 besides #1"),
    ("a step is missing", "a; #1 from b; number of #2", "a; number of #1"),
    ("one step where gold has two", "red cars", "cars; #1 that are red"),
    ("another answer", "a; b of #1", "a"),
    ("a loose step more", "a; b; number of #1", "a; number of #1"),
    ("filters in another order", "a; #1 on b; #2 to c", "a; #1 to c; #2 on b"),
]

MALFORMED = [
    "",
    "   ",
    ";",
    "return a ;; return number of #1",
    "return #1",
    "return a ;return number of #2",
    "return a ;return number of #0",
    "1#) return a 3#) return number of #1",
    "1#) return a 2#)",
    "1#)",
]


@pytest.mark.parametrize("case", [*EQUAL, *UNEQUAL], ids=lambda case: case[0])
def test_two_decompositions(case):
    _, one, other = case
    assert (
        lf_em(one, Example("0", "", other))
        == lf_em(other, Example("0", "", one))
        == (case in EQUAL)
    )


@pytest.mark.parametrize("prediction", MALFORMED)
def test_malformed_counts_wrong_even_against_itself(prediction):
    assert steps(prediction) is None
    assert lf_em(prediction, Example("0", "", prediction)) == 0
    assert lf_em(prediction, Example("0", "", "return a")) == 0


def test_steps_that_double_are_not_expanded():
    # every step refers twice to the one before: 2^2000 paths, 2000 classes
    program = "return a" + "".join(f" ;return #{n} of #{n}" for n in range(1, 2000))
    assert lf_em(program, Example("0", "", program)) == 1


@pytest.mark.data
def test_gold_decompositions_match_themselves(data_dir):
    """All but the few that refer to no earlier step (34 of 7,760 have no operator either)."""
    with gzip.open(data_dir / "break_data" / "validation.jsonl.gz", "rt") as lines:
        golds = [json.loads(line)["decomposition"] for line in lines][::4]
    matched = [lf_em(numbered_steps(gold), Example("0", "", gold)) for gold in golds]
    assert sum(matched) / len(matched) > 0.995

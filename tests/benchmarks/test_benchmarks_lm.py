"""The language-model benchmarks' agreement checks at small size. No test asserts a time."""

import pytest

from benchmarks import harness
from benchmarks.harness import OURS, Settings


@pytest.mark.packages
@pytest.mark.parametrize("subject", ["lm_choice", "lm_reading", "lm_subsets"])
def test_ours_agrees_with_the_released_way(subject):
    for case in harness.load_cases(subject, Settings(small=True, rounds=1)):
        results = {name: run() for name, run in case.contenders.items()}
        assert next(iter(results)) == OURS
        assert case.agree(results)

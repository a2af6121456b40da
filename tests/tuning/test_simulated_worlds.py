"""Races and their ends in worlds whose truth is known: `experiments/tune_worlds.py` prints the same
figures."""

import numpy as np
import pytest
import tune_worlds

from ceil_jax.tuning import verdict


@pytest.mark.parametrize("spread", [0.0, 0.02])
def test_the_end_is_honest(spread):
    """Over 500 worlds 95 % intervals hold the truth as often as they say; chance is rarely called a
    difference."""
    found = tune_worlds.honesty(500, spread, resamples=500)
    assert abs(found.scores - 95) <= 2
    assert abs(found.differences - 95) <= 2
    assert found.false <= 5


def test_what_is_taken_for_cheaper_is_rarely_far_worse_and_equals_are_taken_with_many_rows():
    """The rule of `judge` beside the one that looks at the difference alone."""
    few = tune_worlds.taking(150, 0.02, final=24)
    assert few["at most 2 points below"].far_below > 10
    assert few["expected loss, all rows"].far_below < 2
    assert few["expected loss, all rows"].lost < 0.3
    equal = tune_worlds.taking(60, 0.0, final=500)["expected loss, all rows"]
    assert equal.taken > 50
    assert equal.tokens < 60


def test_the_rule_of_the_table_is_that_of_the_verdict():
    for seed in range(20):
        made = tune_worlds.random_world(seed, 300, 0.02)
        race, finalists, verdict = tune_worlds.play(made, 100, 400_000, resamples=100)
        seen = [
            tune_worlds.evidence(made, race, finalists[0], other, 100) for other in finalists[1:]
        ]
        losses = [losses[0] for losses in verdict.losses[1:]]
        assert [both.all_rows for both in seen] == losses


def test_a_broken_correction_is_noticed(monkeypatch):
    """Without the correction for many comparisons the same worlds show too many false
    differences."""
    monkeypatch.setattr(verdict, "holm", lambda p_values: list(p_values))
    assert tune_worlds.honesty(300, 0.0, resamples=100).false > 7


def test_looking_at_the_tuning_rows_would_be_noticed():
    """The winner's score on the rows that it won by is too high; on the final rows it is not."""
    above = []
    for seed in range(60):
        made = tune_worlds.random_world(seed, 300, spread=0.0)
        played = tune_worlds.play(made, 100, 400_000)
        winner = played.race.winner()
        above.append(played.race.scores[winner].mean() - made.truth[winner])
    assert np.mean(above) > 0.02


def test_the_best_is_rarely_called_worse_and_more_budget_finds_more():
    lost = {}
    for budget in (150_000, 600_000):
        losses = []
        dropped = 0
        for seed in range(150):
            made = tune_worlds.random_world(seed, 220)
            race = tune_worlds.race_in(made, 200, budget).race
            best = int(made.truth.argmax())
            losses.append(made.truth[best] - made.truth[race.winner()])
            dropped += race.states[best] == "worse"
        assert dropped <= 0.05 * 150
        lost[budget] = np.mean(losses)
    assert lost[600_000] < 0.015 < lost[150_000]


def test_the_budget_of_a_race_is_never_exceeded():
    for seed in range(20):
        for budget in (140_000, 333_333):
            assert (
                tune_worlds.race_in(tune_worlds.random_world(seed, 220), 200, budget).spent
                <= budget
            )

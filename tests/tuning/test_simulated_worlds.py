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


def test_a_broken_correction_is_noticed(monkeypatch):
    """Without the correction for many comparisons the same worlds show too many false
    differences."""
    monkeypatch.setattr(verdict, "holm", lambda p_values: list(p_values))
    assert tune_worlds.honesty(300, 0.0, resamples=100).false > 7


def test_looking_at_the_tuning_rows_would_be_noticed():
    """The winner's score on the rows that it won by is too high; on the final rows it is not."""
    above = []
    for seed in range(60):
        made = tune_worlds.world(seed, 300, spread=0.0)
        played = tune_worlds.play(made, 100, 400_000)
        winner = played.race.winner()
        above.append(played.race.scores[winner].mean() - made.truth[winner])
    assert np.mean(above) > 0.02


def test_the_best_is_rarely_called_worse_and_more_budget_finds_more():
    lost = {}
    for budget in (150_000, 600_000):
        losses, dropped = [], 0
        for seed in range(150):
            made = tune_worlds.world(seed, 220)
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
            assert tune_worlds.race_in(tune_worlds.world(seed, 220), 200, budget).spent <= budget

import time

import numpy as np
import pytest

from ceil_jax.metrics.bootstrap import Sample, mean
from ceil_jax.store.cost import Cost
from ceil_jax.tuning.budget import LM_TOKENS, Budget, token_limit
from ceil_jax.tuning.loss import loss_of
from ceil_jax.tuning.paired import chance, chances, holm
from ceil_jax.tuning.race import Race, hold
from ceil_jax.tuning.verdict import judge


def sample(values):
    return Sample(np.asarray(values, float)[:, None], mean)


def test_the_exact_test_is_that_of_coins():
    """Better on 4 rows and worse on 1 of 5 that differ: (5 + 1) / 2⁵ of all swaps give as much."""
    ours = [1, 1, 1, 1, 0, 1]
    theirs = [0, 0, 0, 0, 1, 1]
    assert chance(sample(ours), sample(theirs)) == pytest.approx(6 / 32)
    # with differences of two sizes swaps are drawn; losing the larger one gives less than what was
    # measured
    unequal = np.array(ours) * np.array([1, 1, 1, 1.1, 1, 1])
    assert chance(sample(unequal), sample(theirs)) == pytest.approx(5 / 32, abs=0.01)


def test_swaps_of_a_corpus_metric_use_its_sums():
    """A ratio of sums, as BLEU is one; both statistics of a row are swapped together."""

    def ratio(sums, count):
        return sums[..., 0] / sums[..., 1]

    rng = np.random.default_rng(0)
    theirs = np.stack([rng.uniform(size=40), rng.uniform(1, 2, 40)], axis=1)
    better = theirs + np.array([0.5, 0])
    assert chance(Sample(better, ratio), Sample(theirs, ratio)) < 0.001
    assert chance(Sample(theirs, ratio), Sample(theirs, ratio)) > 0.9


def test_many_tests_at_once_are_each_one():
    rng = np.random.default_rng(0)
    differences = rng.integers(-1, 2, size=(3, 30)).astype(float)
    alone = [chances(row[None])[0] for row in differences]
    assert chances(differences) == pytest.approx(alone)


def test_holm_by_hand():
    assert holm([0.02, 0.01, 0.5]) == pytest.approx([0.04, 0.03, 0.5])


def test_what_is_clearly_worse_answers_no_more():
    rows = 64
    race = Race(np.ones((3, rows)))
    asked = []

    def ask(step):
        asked.append(step.racers)
        right = {0: np.ones(rows), 1: np.arange(rows) % 8 > 0, 2: np.zeros(rows)}
        return {i: right[i][step.start : step.stop].astype(float) for i in step.racers}

    hold(race, ask, lambda: 1e9)
    assert asked == [(0, 1, 2), (0, 1), (0, 1)]
    assert race.states[2] == "worse"
    assert race.winner() == 0


def test_a_late_candidate_catches_up_and_can_win():
    race = Race(np.ones((2, 32)), rivals=3)
    answers = {0: np.tile([1.0, 0], 16), 1: np.tile([0, 1.0], 16), 2: np.ones(32)}
    hold(
        race, lambda step: {i: answers[i][step.start : step.stop] for i in step.racers}, lambda: 1e9
    )
    late = race.join(np.ones(32))
    steps = []

    def ask(step):
        steps.append(step)
        return {i: answers[i][step.start : step.stop] for i in step.racers}

    hold(race, ask, lambda: 1e9)
    assert [(s.racers, s.start, s.stop) for s in steps] == [((late,), 0, 16), ((late,), 16, 32)]
    assert race.winner() == late


def test_a_small_budget_sets_candidates_aside_by_rank():
    rng = np.random.default_rng(0)
    answers = rng.integers(2, size=(8, 64)).astype(float)
    race = Race(np.ones((8, 64)))
    spent = []

    def ask(step):
        spent.append(len(step.racers) * (step.stop - step.start))
        return {i: answers[i, step.start : step.stop] for i in step.racers}

    hold(race, ask, lambda: 8 * 16 + 150 - sum(spent))
    assert sum(spent) <= 8 * 16 + 150
    assert "aside" in race.states
    kept = [answers[i, :16].mean() for i in range(8) if race.states[i] != "aside"]
    assert (
        min(kept)
        >= max(answers[i, :16].mean() for i in range(8) if race.states[i] == "aside") - 0.2
    )


def test_one_that_was_set_aside_goes_on_where_it_stopped():
    """The budget pays for two of three after the first rows, and later for the third."""
    rows = np.arange(32)
    answers = np.stack([rows >= 0, rows % 16 > 0, rows % 8 > 0, rows < 0]).astype(float)
    race = Race(np.ones((4, 32)))

    def ask(step):
        return {i: answers[i, step.start : step.stop] for i in step.racers}

    hold(race, ask, lambda: 32 if len(race.scores[0]) else 64)
    assert race.states == ["racing", "racing", "aside", "worse"]
    assert race.set_aside() == [2]
    race.resume(2)
    hold(race, ask, lambda: 1e9)
    assert [len(scores) for scores in race.scores] == [32, 32, 32, 16]
    assert race.winner() == 0


def test_the_cheapest_that_is_not_significantly_worse_is_recommended():
    right = np.arange(200) % 10 < 7
    samples = [sample(right), sample(np.roll(right, 1)), sample(np.arange(200) % 10 < 2)]
    found = judge(samples, [900, 300, 40])
    assert found.recommended == 1
    assert found.significantly_better(0, 2)
    assert not found.significantly_better(2, 0)
    assert not found.significantly_better(0, 1)
    assert not found.significantly_better(1, 0)
    # all equally good: nothing is significant, and the cheapest will do
    assert judge(3 * samples[:1], [900, 300, 40]).recommended == 2


def test_a_cheaper_one_needs_rows_that_prove_it():
    """Both are right on 70 % of the rows, and on a fifth of them one alone is."""
    first = np.arange(1000) % 10 < 7
    second = np.arange(1000) % 10 >= 3
    third = np.arange(1000) % 10 < 6
    for rows, recommended in ((20, 0), (1000, 1)):
        samples = [sample(first[:rows]), sample(second[:rows])]
        assert judge(samples, [900, 300]).recommended == recommended
    # rows of the race count, as far as both have answered them
    samples = [sample(first[:20]), sample(second[:20])]
    raced = [first[20:], second[20:400]]
    verdict = judge(samples, [900, 300], raced=[row.astype(float) for row in raced])
    assert verdict.losses[1][0].rows == 400
    assert verdict.recommended == 1
    # ten points behind is not noise on a thousand rows
    assert judge([sample(first), sample(third)], [900, 300], 0.02).recommended == 0
    # a winner that is significantly worse is not what the others are measured against
    samples = [sample(third), sample(first), sample(second)]
    verdict = judge(samples, [100, 900, 300])
    assert verdict.significantly_worse(0)
    assert verdict.reference == verdict.recommended == 2


def test_the_expected_loss_is_a_mean_over_what_may_be():
    """E[max(δ, 0)] by draws of δ; half a row each way and one equal row stand beside the others."""
    ahead = np.r_[np.ones(30), -np.ones(20), np.zeros(50)]
    loss = loss_of(ahead)
    rows = np.r_[ahead, np.sqrt(0.5), -np.sqrt(0.5)]
    assert loss.ahead == pytest.approx(10 / 102)
    assert loss.error == pytest.approx(
        np.sqrt((rows**2).sum() / 102 - (10 / 102) ** 2) / np.sqrt(102)
    )
    draws = np.random.default_rng(0).normal(loss.ahead, loss.error, 200_000)
    assert loss.expected == pytest.approx(np.maximum(draws, 0).mean(), rel=0.01)
    # rows that all agree are not significance
    assert loss_of(np.zeros(8)).expected > 0.02 > loss_of(np.zeros(50)).expected > 0


def test_a_loss_counts_rows_of_one_program_as_one():
    """Ten programs, each in ten rows that all differ alike: the error is that of ten rows."""
    by_program = np.r_[np.ones(5), -np.ones(5)]
    ahead = np.repeat(by_program, 10)
    loss = loss_of(ahead, np.repeat(np.arange(10), 10))
    # 10 sums of ±10 and the added rows, over 102 rows
    assert loss.error == pytest.approx(np.sqrt(10 * 10**2 + 1) / 102)
    assert loss.error > 3 * loss_of(ahead).error
    final = np.arange(10) % 2
    verdict = judge([sample(by_program > 0), sample(by_program < 0)], [2, 1], groups=final)
    assert verdict.losses[0][1] == loss_of(-by_program, final)


def test_rows_of_one_program_are_no_more_evidence_than_one():
    # 40 rows, of which 30 have one program: one finalist has these right, the other none of them
    program = np.r_[np.zeros(30, int), np.arange(1, 11)]
    both = [sample(program == 0), sample(program == 11)], [1, 1]
    [by_row] = judge(*both).differences
    [by_program] = judge(*both, groups=program).differences
    assert by_row.significant
    assert by_row.interval.low > 0.5
    assert not by_program.significant
    assert by_program.interval.low == 0
    assert by_program.interval.mean == by_row.interval.mean == 0.75


def test_a_budget_learns_what_estimates_are_worth(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    budget = Budget(1000, minutes=1)
    budget.spend(Cost(5.0, 200), estimated=100)
    assert budget.ratio == 2
    assert budget.left() == (1000 - 200) / 2
    budget.spend(Cost(15.0), estimated=100)
    assert budget.ratio == 1
    now[0] = 30.0
    # nine tenths of the minutes are planned
    assert budget.left() == pytest.approx((54 - 30) / (20 / 200))
    assert not budget.out_of_time()
    assert budget.out_of_time(reserve=300)
    assert budget.remaining() == "about 24 s left"
    now[0] = 55.0
    assert budget.out_of_time()
    assert budget.left() == 0


@pytest.mark.parametrize(
    ("missed", "flags"),
    [
        ([], ""),
        # 200 tokens are spent and 100 missed; 30 seconds have passed, and 100 tokens take 10
        ([{"tokens": 100}], "--lm-tokens 300 --minutes 0.8"),
        ([{"tokens": 1000}], "--lm-tokens 1200 --minutes 3"),
        # all that was missed has one hint, which names the limits that are too low
        ([{"tokens": 60}, {"tokens": 40, "seconds": 60}], "--minutes 2"),
        # preparation takes a third of the minutes
        ([{"preparing": 60}, {"preparing": 40}], "--minutes 3"),
    ],
)
def test_one_hint_names_a_budget_that_pays_for_all(monkeypatch, missed, flags):
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    budget = Budget(1000, minutes=1)
    budget.spend(Cost(20.0, 200), estimated=200)
    now[0] = 30.0
    for work in missed:
        budget.miss(**work)
    assert budget.hint() == flags


def test_what_is_kept_for_later_is_kept_at_the_tokens_that_answers_take():
    budget = Budget(1000, minutes=1)
    budget.spend(Cost(10.0, 100), estimated=400)
    assert budget.expected == 0.25
    assert budget.left(reserve=800) == 900 - 0.25 * 800


def test_the_first_prompts_do_not_say_how_fast_an_lm_is():
    budget = Budget(1000)
    budget.spend(Cost(60.0, 100), estimated=10, measured=False)
    assert budget.pace == 0
    assert budget.ratio == 1
    assert budget.tokens == 100
    budget.spend(Cost(1.0, 100), estimated=100)
    assert budget.pace == 0.01


def test_a_search_without_limits_has_one_and_so_has_one_that_pays_a_server():
    assert token_limit(None, None, "tiny") == LM_TOKENS
    assert token_limit(None, 5.0, "tiny") is None
    assert token_limit(None, 5.0, "https://host/v1#model") == LM_TOKENS
    assert token_limit(7, 5.0, "https://host/v1#model") == 7
    assert Budget(minutes=1).left() == float("inf")


def test_a_fast_lm_reads_as_many_tokens_as_the_limit_and_not_as_the_time_allows():
    """The time that is kept for other work would be more tokens than the limit has."""
    budget = Budget(100_000, minutes=6)
    budget.spend(Cost(1.0, 10_000_000), 10_000_000)
    budget.tokens = 0
    assert budget.left(reserve=10_000) == 90_000
    assert not budget.out_of_time(10_000, 18)
    assert budget.out_of_time(10_000, 360)

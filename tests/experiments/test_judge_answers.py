"""experiments/judge_answers.py: the examples that learnt weights prefer, and their table."""

import judge
import judge_answers
import numpy as np
import pytest

F = len(judge.NAMES)


class PlantedPairs:
    """Features of examples that are their places in the bank, for one name."""

    def features(self, shortlist, queries):
        found = np.zeros((*shortlist.shape, F))
        found[:, :, judge.NAMES.index("cosine")] = shortlist
        return found


def test_the_best_of_a_shortlist_are_chosen_best_first():
    shortlist = np.array([[4, 9, 2, 7], [1, 0, 5, 3]])
    none = np.zeros((0, 1))
    part = judge.Scored(none, none, none, np.full(F, 2.0))
    chosen = judge_answers.best(
        PlantedPairs(), [], shortlist, part, judge.alone("cosine"), 2
    ).choice
    assert chosen.positions.tolist() == [[9, 7], [5, 3]]
    # features less their mean, in the units in which the weights were learnt
    assert chosen.relevance.tolist() == [[1.75, 0.75], [1.375, 0.375]]


def test_other_examples_are_another_stage():
    ones = np.ones((1, 2))
    keys = {judge_answers.given(np.array([positions]), ones).key for positions in ([0, 1], [1, 0])}
    assert len(keys) == 2


def test_recorded_rows_are_compared_on_the_same_queries():
    where = np.arange(400) % 2 == 0
    nothing = np.zeros(200)
    table = judge_answers.compared(
        {judge_answers.TOP_K: nothing, judge_answers.OWN: nothing + 1}, "mtop", where
    )
    by_name = {row[0]: row[1:] for row in table.rows}
    assert by_name[judge_answers.OWN][1].value == pytest.approx(100)
    recorded, more, less = by_name["dense top-k (recorded)"]
    assert recorded.value == more.value == pytest.approx(100 - less.value)
    assert 10 < recorded.value < 40

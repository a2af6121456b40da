"""experiments/judge_answers.py: the examples that learnt weights prefer."""

import judge
import judge_answers
import numpy as np

F = len(judge.NAMES)


def test_the_best_of_a_shortlist_are_chosen_best_first():
    shortlist = np.array([[4, 9, 2, 7], [1, 0, 5, 3]])
    features = np.zeros((*shortlist.shape, F))
    features[:, :, judge.NAMES.index("cosine")] = shortlist
    positions, scores = judge_answers.best(
        features, shortlist, np.full(F, 2.0), judge.alone("cosine"), 2
    )
    assert positions.tolist() == [[9, 7], [5, 3]]
    # features less their mean, in the units in which the weights were learnt
    assert scores.tolist() == [[1.75, 0.75], [1.375, 0.375]]


def test_other_examples_are_another_stage():
    ones = np.ones((1, 2))
    keys = {judge_answers.given(np.array([positions]), ones).key for positions in ([0, 1], [1, 0])}
    assert len(keys) == 2


def planted(name, seed):
    """Candidates that the LM scores by one feature."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(30, 8, F))
    none = np.zeros((0, 1))
    return judge.Scored(features, features @ judge.alone(name), none, np.ones(F))


def test_a_judge_learns_from_other_families_and_without_programs_where_there_are_none():
    stored = {
        "geoquery": planted("cosine", 0),
        "geoquery.template": planted("cosine", 1),
        "mtop": planted("structures: expected recall", 2),
    }

    def heaviest(w):
        return judge.NAMES[int(np.abs(w).argmax())]

    split = judge_answers.weights(stored, "geoquery.template", programs=True)
    assert heaviest(split[judge_answers.JUDGE]) == "structures: expected recall"
    assert heaviest(split[judge_answers.OWN]) == "cosine"
    text = judge_answers.weights(stored, "webqs", programs=False)
    assert set(text) == {judge_answers.JUDGE}
    assert not text[judge_answers.JUDGE][~judge.WITHOUT_PROGRAMS].any()
    assert heaviest(text[judge_answers.JUDGE]) == "cosine"

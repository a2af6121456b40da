"""The rule that picks a free method, and shortlists that have not seen the query's output."""

import numpy as np
import pytest
from planted_rows import planted

from ceil_jax.training.free.choice import (
    agreement,
    best_free,
    cross_fitted_shortlists,
    measured_by,
    nearest,
)
from ceil_jax.training.free.head import fit_label_head
from ceil_jax.training.free.rows import Cosine, Observed


def test_rule_takes_the_head_where_it_wins_and_cosine_where_labels_are_noise():
    fits = {
        "cosine": lambda rows: Cosine(),
        "label head": lambda rows: fit_label_head(rows, grid=(1.0, 30.0)),
    }
    assert best_free(agreement(fits, planted(300, 0), "label", k=4)) == "label head"
    # the label has no direction of its own
    assert best_free(agreement(fits, planted(300, 0, label_at=0), "label", k=4)) == "cosine"


def test_tasks_are_judged_by_what_their_outputs_are():
    rows = Observed(["q"], np.eye(1), outputs=["f(x)"])
    assert measured_by(rows, same_choices=True) == "label"
    assert measured_by(rows._replace(structures=[frozenset("f")]), same_choices=False) == "structures"
    assert measured_by(rows, same_choices=False) == "tokens"


def test_nearest_by_hand():
    bank = Observed([*"abc"], np.array([[1.0, 0], [0, 1], [0.6, 0.8]]))
    assert nearest(Cosine(), bank, Observed(["q"], np.array([[0.0, 1.0]])), 2).tolist() == [[1, 2]]


def test_cross_fitted_shortlists_leave_out_the_row_and_do_not_see_its_output():
    rows, seen = planted(60, 0), []

    def fit(part):
        seen.append(set(part.texts))
        return Cosine()

    found = cross_fitted_shortlists(fit, rows, 3, folds=5)
    cosines = rows.vectors @ rows.vectors.T - 2 * np.eye(60)
    assert found == pytest.approx(np.argsort(-cosines, axis=1)[:, :3])
    # every row is left out of one of the trainings
    assert [len(part) for part in seen] == [48] * 5
    assert set.intersection(*seen) == set()

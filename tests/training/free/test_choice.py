"""The rule that picks a free method, and queries of the bank that have not taught their own
output."""

import numpy as np
import pytest
from planted_rows import planted

from ceil_jax.training.free.choice import (
    agreement,
    best_head,
    cross_fitted_blocks,
    nearest,
    with_cosine,
)
from ceil_jax.training.free.head import fit_label_head
from ceil_jax.training.free.rows import Cosine, Observations
from ceil_jax.training.free.structures import fit_structure_head


def test_rule_takes_the_head_where_it_wins_and_cosine_where_labels_are_noise():
    fits = with_cosine({"label head": fit_label_head, "the same": fit_label_head})
    assert best_head(agreement(fits, planted(300, 0), "label", k=4)) == "label head"
    # the label has no direction of its own
    assert best_head(agreement(fits, planted(300, 0, label_at=0), "label", k=4)) == "cosine"


def test_nearest_by_hand():
    bank = Observations([*"abc"], np.array([[1.0, 0], [0, 1], [0.6, 0.8]]))
    assert nearest(Cosine(), bank, Observations(["q"], np.array([[0.0, 1.0]])), 2).tolist() == [
        [1, 2]
    ]


def test_cross_fitted_queries_do_not_see_their_own_output():
    rows = planted(60, 0)
    head = fit_label_head(rows)
    before = cross_fitted_blocks(fit_label_head, head, rows)
    # 48 rows a training; the rows of another fold have learnt from row 7, row 7 has not
    outputs = list(rows.outputs)
    outputs[7] = "good" if outputs[7] == "bad" else "bad"
    after = cross_fitted_blocks(fit_label_head, head, rows._replace(outputs=outputs))
    assert after[7] == pytest.approx(before[7], abs=1e-6)
    assert np.abs(after - before).max() > 1e-3


def test_a_training_that_lacks_a_label_or_a_structure_maps_queries_into_the_space_of_one_that_has_it():
    rows = planted(30, 0)
    rows = rows._replace(
        outputs=[*rows.outputs[:-1], "odd"],
        structures=[
            *[frozenset({output, "f"}) for output in rows.outputs[:-1]],
            frozenset({"odd"}),
        ],
    )
    without = rows.take(np.arange(29))
    for fit in (fit_label_head, fit_structure_head):
        method = fit(rows)
        less = fit(without, like=method)
        odd = method.example_block(rows)[-1]
        assert less.query_block(rows).shape == method.query_block(rows).shape
        # what it has not seen it does not predict
        assert np.abs(less.query_block(rows)[:, :3] @ odd[:3]).max() < 0.05


def test_a_bank_with_a_label_that_one_row_has_is_cross_fitted():
    rows = planted(12, 0)
    rows = rows._replace(
        outputs=["good"] * 11 + ["bad"], structures=[frozenset()] * 11 + [frozenset("f")]
    )
    for fit in (fit_label_head, fit_structure_head):
        found = cross_fitted_blocks(fit, fit(rows), rows)
        assert np.isfinite(found).all()
        assert found.shape == fit(rows).query_block(rows).shape

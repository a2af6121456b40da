"""experiments/determinant.py: what MAP covers beyond the nearest examples, and how it is drawn."""

import determinant
import numpy as np
import pytest
from harness.results_file import RESULTS, read_results

from ceil_jax.dpp.lengths import unit_rows
from ceil_jax.tasks.example import Example, Task, Template

PARTS = np.eye(4)


def planted_bank(copies):
    """A bank in which the program f(a,b) has as many copies as are asked for, and g(c) has one;
    the query asks for both, and is a little nearer to the copies."""
    train = [Example(str(i), f"copy {i}", "f(a,b)") for i in range(copies)]
    train += [Example("other", "other", "g(c)"), Example("far", "far", "h(d)")]
    query = Example("query", "query", "f(a,g(c))")
    nearly_one = PARTS[0] + 0.01 * np.random.default_rng(0).normal(size=(copies, 4))
    examples = np.vstack([nearly_one, PARTS[1:3]])
    task = Task("geoquery", train, [query], Template("{input}\t{output}"), "exact_match")
    asked = 1.1 * PARTS[0] + PARTS[1]
    return determinant.Bank(task, "", unit_rows(asked[None]), unit_rows(examples))


def test_a_determinant_covers_what_copies_crowd_out(monkeypatch):
    monkeypatch.setattr(determinant, "COUNTS", (2,))
    gains = list(determinant.coverage_gains(planted_bank(copies=3)))
    # the query's parts are f, a, f>a, g, f>g, c and g>c: the copies hold f, a and f>a
    assert gains[0].nearest == pytest.approx(100 * 3 / 7)
    assert gains[0].points.mean == pytest.approx(0)  # λ = 0.001 takes the nearest
    assert gains[-1].points.mean == pytest.approx(100 * 3 / 7)  # λ = 0.1 takes g(c) for a copy


def test_a_bank_with_near_copies_has_every_wording_of_an_example():
    task = determinant.with_near_copies(planted_bank(copies=1).task)
    assert len({one.id for one in task.train}) == len(task.train) == 3 * len(determinant.WORDINGS)
    assert {one.output for one in task.train} == {"f(a,b)", "g(c)", "h(d)"}


def test_the_figure_has_a_panel_for_each_bank_and_a_line_for_each_count():
    gains = list(determinant.coverage_gains(planted_bank(copies=3)))
    drawn = determinant.drawing(gains)
    assert drawn.count("<polyline") == len({one.shots for one in gains}) == len(determinant.COUNTS)
    assert drawn.count(">coverage<") == drawn.count(">GeoQuery<") == 1
    printed = determinant.table(gains).splitlines()
    assert len(printed) == 2 + len(determinant.COUNTS)
    assert "λ = 0.05" in printed[0]


def test_recorded_answers_stand_beside_as_many_nearest_examples_and_beside_the_best_number():
    records = [one for one in read_results(RESULTS) if one.experiment == "determinant"]
    template = [one for one in records if one.task == "geoquery.template"]
    own = [one for one in template if "near-copies" not in one.column]
    nearest = {one.config["shots"]: one.value for one in own if one.row == determinant.NEAREST}
    best = max(nearest, key=nearest.get)
    mine = [gain for gain in determinant.answer_gains(own) if gain.shots != best]
    assert mine
    assert all(gain.nearest == nearest[gain.shots] for gain in mine)
    for gain in determinant.answer_gains(template, best=True):
        if "near-copies" not in gain.panel:
            assert gain.panel == f"exact match, template split less the nearest {best}"
            assert gain.nearest == nearest[best]
            [map_row] = [
                one
                for one in own
                if (one.trade_off, one.config["shots"]) == (gain.trade_off, gain.shots)
            ]
            assert gain.points.mean == pytest.approx(map_row.value - nearest[best], abs=0.01)

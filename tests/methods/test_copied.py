"""The nearest example's output as the answer."""

import pytest

from ceil_jax.errors import UserError
from ceil_jax.methods.copied import Copied
from ceil_jax.methods.registry import ROWS, applicable
from ceil_jax.pipeline import row_stages
from ceil_jax.pipeline.config import COMPARED, RunConfig
from ceil_jax.pipeline.run import lms_of
from ceil_jax.pipeline.setup import open_run
from ceil_jax.pipeline.steps import StepsOf
from ceil_jax.tasks.load import load_task

REPAIRS = load_task("repairs", limit=5, bank_limit=40)
FILMS = load_task("movie_reviews", limit=5, bank_limit=40)


def opened(task, tmp_path, **settings):
    return open_run(RunConfig(encoder="tiny", lm="tiny", out=tmp_path, **settings), task)


@pytest.mark.parametrize("shots", [0, 4])
def test_each_query_gets_the_output_of_its_nearest_example(tmp_path, shots):
    run, setup = opened(REPAIRS, tmp_path, shots=shots)
    answers = run.get(row_stages.predictions(setup, setup.row("copied")))
    steps = StepsOf(setup)
    nearest = run.get(steps.nearest(steps.learnt(Copied()), setup.queries, 1)).positions[:, 0]
    expected = [REPAIRS.train[position].output for position in nearest]
    assert [row["prediction"] for row in answers] == expected


def test_it_asks_no_lm(tmp_path):
    run, setup = opened(REPAIRS, tmp_path)
    metric = row_stages.metric(setup, setup.row("copied"))
    run.get(metric)
    assert run.cost([metric]).tokens == 0
    assert lms_of(metric.predictions) == []


def test_a_query_without_a_near_example_gets_no_answer(tmp_path):
    run, setup = opened(REPAIRS, tmp_path, min_relevance=1.0)
    answers = run.get(row_stages.predictions(setup, setup.row("copied")))
    assert {row["prediction"] for row in answers} == {""}


def test_where_there_are_options_it_is_left_out(tmp_path):
    assert "copied" in COMPARED
    rows, why = applicable(FILMS, [ROWS["copied"], ROWS["topk"]])
    assert [row.name for row in rows] == ["topk"]
    assert "has options to choose from" in why
    _, setup = opened(FILMS, tmp_path)
    with pytest.raises(UserError, match="--method copied: movie_reviews has options"):
        row_stages.metric(setup, setup.row("copied"))


def test_no_training_starts_from_it():
    with pytest.raises(UserError, match="no encoder to start from"):
        Copied().as_start("epr")

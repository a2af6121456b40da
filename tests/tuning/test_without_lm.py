"""The answers that need no LM, beside the prompts."""

from dataclasses import replace

import pytest

from ceil_jax.metrics.bootstrap import Interval
from ceil_jax.pipeline.config import TUNE
from ceil_jax.tasks.load import load_task
from ceil_jax.tuning.advice import advice
from ceil_jax.tuning.config import TuneConfig
from ceil_jax.tuning.finals_table import finals_table
from ceil_jax.tuning.loss import Loss
from ceil_jax.tuning.search import Search
from ceil_jax.tuning.without_lm import row_without_lm

REPAIRS = load_task("repairs", limit=30, bank_limit=60)
FILMS = load_task("movie_reviews", limit=5, bank_limit=40)


def test_labels_are_classified_and_written_outputs_copied():
    assert row_without_lm(FILMS).name == "classifier"
    assert row_without_lm(REPAIRS).name == "copied"


def test_options_of_a_query_are_answered_by_nothing_but_an_lm():
    own = [
        replace(row, choices=(f"{row.id} yes", f"{row.id} no"), output=f"{row.id} yes")
        for row in FILMS.train
    ]
    assert row_without_lm(replace(FILMS, train=own, validation=own[:5])) is None


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    out = tmp_path_factory.mktemp("copied")
    config = replace(TUNE, encoder="tiny", lm="tiny", out=out)
    options = TuneConfig(lm_tokens=200_000, ks=(2,), method=("topk",), minutes=None)
    return Search(config, REPAIRS, options).run()


def test_the_nearest_output_stands_beside_the_prompts(outcome):
    result = outcome.finals.without_lm
    assert result.label == "nearest output, copied"
    line = next(line for line in finals_table(outcome.finals).lines() if line[0] == result.label)
    assert line[-1].endswith("no LM calls")
    assert outcome.data()["without_lm"]["label"] == result.label


def test_it_is_recommended_where_it_does_as_well(outcome):
    same = Interval(0.0, 0.0, 0.0)
    result = outcome.finals.without_lm._replace(minus=same, loss=Loss(0.0, 0.001, 200))
    sentence = advice(replace(outcome.finals, without_lm=result))[0]
    assert sentence.startswith(
        "Recommended: copying the nearest example's output does as well without LM calls: it scores"
    )
    worse = result._replace(minus=Interval(-0.3, -0.4, -0.2), loss=Loss(0.3, 0.05, 200))
    finals = replace(outcome.finals, without_lm=worse)
    assert not advice(finals)[0].startswith("Recommended: copying")
    assert any("Without an LM, nearest output, copied minus" in text for text in advice(finals))

"""experiments/defaults.py: every setting is measured on the same queries."""

import defaults
import pytest
from defaults import WAYS, main, with_queries_of_train
from harness.results_file import read_results

from ceil_jax.tasks.load import load_task


def test_queries_from_train_are_not_in_the_bank():
    task = load_task("movie_reviews", limit=5, bank_limit=60)
    drawn = with_queries_of_train(task, 10)
    assert len(drawn.validation) == 10
    assert len(drawn.train) == 50
    assert not {row.id for row in drawn.train} & {row.id for row in drawn.validation}


@pytest.mark.packages
def test_each_row_is_recorded(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(defaults, "BANK", 60)
    file = tmp_path / "defaults.jsonl"
    arguments = ["--tasks", "movie_reviews", "--limit", "4", "--lm", "tiny"]
    main([*arguments, "--out", str(tmp_path), "--record", str(file)])
    records = read_results(file)
    assert [record.row for record in records] == [way.name for way in WAYS]
    assert [record.examples for record in records] == [way.k for way in WAYS]
    assert len({record.texts for record in records}) == 1
    assert "with a near-duplicate" in capsys.readouterr().out

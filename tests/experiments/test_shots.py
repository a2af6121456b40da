"""experiments/shots.py chooses K on training queries."""

import runpy
from dataclasses import replace
from pathlib import Path

from films import SMALL, TASK

from ceil_jax.pipeline.models import Models

SHOTS = runpy.run_path(str(Path(__file__).parents[2] / "experiments" / "shots.py"))


def test_every_k_answers_the_same_training_queries_without_their_own_example(tmp_path, monkeypatch):
    asked = []
    right = SHOTS["open_run"]

    def watched(config, task, models):
        run = right(config, task, models)
        answer = run.answers_with

        def answers_with(retrieved, queries, what):
            asked.append((queries, retrieved))
            return answer(retrieved, queries, what)

        run.answers_with = answers_with
        return run

    monkeypatch.setitem(SHOTS["by_count"].__globals__, "open_run", watched)
    config = replace(SMALL, out=tmp_path)
    values = SHOTS["by_count"](config, TASK, [1, 3], 10, Models())
    assert set(values) == {1, 3} and all(0 <= value <= 100 for value in values.values())
    (queries, one), (same, three) = asked
    assert queries == same and len(queries) == 10 and {len(picks) for picks in one} == {1}
    assert {len(picks) for picks in three} == {3}
    assert all(
        query.id not in {pick.id for pick in picks} for query, picks in zip(queries, three, strict=True)
    )
    trained = right(config, TASK).training_data.instances(SMALL.epr.instances)
    assert not {query.id for query in queries} & {query.id for query in trained}


def test_of_equals_the_smallest_k_is_taken():
    assert SHOTS["best"]({8: 50.0, 2: 50.0, 1: 49.0}) == 2
    assert SHOTS["best"]({1: 10.0, 4: 50.0, 8: 49.0}) == 4


def test_the_table_names_the_chosen_k(tmp_path, monkeypatch, capsys):
    main = SHOTS["main"]
    monkeypatch.setitem(main.__globals__, "load_task", lambda name, folder: replace(TASK, name=name))
    monkeypatch.setitem(main.__globals__, "by_count", lambda *_: {1: 20.0, 2: 40.0})
    main(["--tasks", "films", "--counts", "1", "2", "--lm", "tiny", "--out", str(tmp_path)])
    assert "| films | 20.0 | 40.0 | 2 |" in capsys.readouterr().out

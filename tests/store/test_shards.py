"""Rows made in parts are the rows made in one go, or an error that says what is missing."""

import json
from dataclasses import replace

import pytest

from ceil_jax.errors import UserError
from ceil_jax.store.journal import Journal
from ceil_jax.store.shards import Shard, parse_shard
from ceil_jax.store.store import Store

TOTAL, CHUNK = 23, 4  # chunks at 0, 4, 8, 12, 16 and, of three rows, 20


def make(root, shard=None, value=lambda row: row * row):
    """The stage's rows; how many were worked on now."""
    worked = []

    def work(start, stop):
        worked.extend(range(start, stop))
        return [{"row": row, "square": value(row)} for row in range(start, stop)]

    with Store(root).stage("scores", {"n": TOTAL}, shard) as stage:
        rows = stage.rows(
            TOTAL, work, chunk=CHUNK, what="scoring", cost=lambda: 10 * len(worked), shard=shard
        )
    return rows, worked


@pytest.mark.parametrize("of", [1, 2, 5, 9])
def test_all_shards_together_are_the_whole(tmp_path, of):
    whole, _ = make(tmp_path / "whole")
    made = [make(tmp_path / "parts", Shard(number, of))[1] for number in range(1, of + 1)]
    assert sorted(row for rows in made for row in rows) == list(range(TOTAL))
    merged, worked = make(tmp_path / "parts")
    assert merged == whole
    assert worked == []
    assert merged.tokens == whole.tokens == 10 * TOTAL


def test_a_shard_goes_on_where_it_was_killed(tmp_path):
    shard = Shard(1, 2)

    def dies(row):
        if row == 9:
            raise KeyboardInterrupt
        return row * row

    with pytest.raises(KeyboardInterrupt):
        make(tmp_path, shard, dies)
    assert make(tmp_path, shard)[1] == [8, 9, 10, 11, 16, 17, 18, 19]


def test_what_is_missing_is_named(tmp_path):
    make(tmp_path, Shard(1, 3))
    make(tmp_path, Shard(3, 3))
    # chunks 1 and 4: rows 4 to 7 and 16 to 19
    with pytest.raises(
        UserError, match=r"8 of 23 rows are missing, row 4 the first; run again --shard 2/3, or"
    ):
        make(tmp_path)
    make(tmp_path, Shard(2, 3))
    assert len(make(tmp_path)[0]) == TOTAL


def test_shards_of_different_numbers_may_overlap(tmp_path):
    for shard in (Shard(1, 2), Shard(1, 3), Shard(2, 3), Shard(3, 3)):
        make(tmp_path, shard)
    rows, worked = make(tmp_path)
    assert [row["row"] for row in rows] == list(range(TOTAL))
    assert worked == []


def test_a_damaged_line_is_missing(tmp_path):
    for number in (1, 2):
        make(tmp_path, Shard(number, 2))
    [file] = tmp_path.glob("scores-*/shards/2-of-2.jsonl")
    text = file.read_bytes()
    file.write_bytes(text.replace(b'"square":16}', b'"square":17}'))
    with pytest.raises(UserError, match=r"4 of 23 rows are missing, row 4 the first; run again --shard 2/2"):
        make(tmp_path)


def test_shards_that_disagree_are_refused(tmp_path):
    make(tmp_path, Shard(1, 1))
    make(tmp_path, Shard(1, 2), lambda row: row + 1)
    with pytest.raises(UserError, match=r"1-of-2.jsonl: rows 0 to 3 differ from another shard's"):
        make(tmp_path)


def test_chunks_of_another_size_are_refused(tmp_path):
    make(tmp_path, Shard(1, 1))
    [file] = tmp_path.glob("scores-*/shards/*.jsonl")
    Journal(file.with_name("2-of-2.jsonl"), "start").append(
        [{"start": 4, "rows": [1, 2], "seconds": 0, "tokens": 0}]
    )
    with pytest.raises(UserError, match="2 rows from row 4 on are no chunk of this stage"):
        make(tmp_path)


def test_shards_may_work_at_the_same_time(tmp_path):
    with Store(tmp_path).stage("scores", {"n": TOTAL}, Shard(1, 2)):
        assert make(tmp_path, Shard(2, 2))[1]


ARRAY = {
    "SLURM_ARRAY_TASK_ID": "30",
    "SLURM_ARRAY_TASK_MIN": "10",
    "SLURM_ARRAY_TASK_MAX": "40",
    "SLURM_ARRAY_TASK_COUNT": "4",
}


@pytest.mark.parametrize(
    "text, environment, shard",
    [
        ("3/16", {}, Shard(3, 16)),
        ("1/1", {}, Shard(1, 1)),
        ("slurm", ARRAY, Shard(3, 4)),  # --array=10-40:10
        ("slurm", dict.fromkeys(ARRAY, "0") | {"SLURM_ARRAY_TASK_COUNT": "1"}, Shard(1, 1)),
    ],
)
def test_which_shard(text, environment, shard):
    assert parse_shard(text, environment) == shard


@pytest.mark.parametrize("text", ["0/4", "5/4", "3", "a/b", "-1/4", "1/0", ""])
def test_no_such_shard(text):
    with pytest.raises(UserError, match=r"expected i/n with i from 1 to n, as in 3/16, or slurm"):
        parse_shard(text, {})


def test_not_in_an_array():
    with pytest.raises(UserError, match="not in a SLURM array"):
        parse_shard("slurm", {"SLURM_JOB_ID": "1"})
    with pytest.raises(UserError, match="not evenly spaced"):
        parse_shard("slurm", ARRAY | {"SLURM_ARRAY_TASK_COUNT": "3", "SLURM_ARRAY_TASK_MAX": "41"})


def test_a_sharded_run_gives_the_same_scores(tmp_path):
    from films import SMALL, TASK

    from ceil_jax.pipeline.compose import open_run

    # four queries of 40 candidates are a chunk: 24 of them make six
    config = replace(SMALL, epr=replace(SMALL.epr, candidates=40))
    whole = open_run(replace(config, out=tmp_path / "whole"), TASK).score("epr")
    for number in (2, 1):
        part = open_run(replace(config, out=tmp_path / "parts"), TASK).score("epr", Shard(number, 2))
        assert len(part) == 12
    pipeline = open_run(replace(config, out=tmp_path / "parts"), TASK)
    pipeline.lm.choice_log_likelihood = lambda *_: pytest.fail("asked again")
    assert json.dumps(pipeline.score("epr")) == json.dumps(whole)
    with pytest.raises(UserError, match="unknown scores 'dpp'"):
        pipeline.score("dpp")

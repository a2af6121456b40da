"""A comparison cut to a time: the order of the cuts, the smallest one, what is said, and that it
ends in time."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from films import SMALL, One, films, metric_of

from ceil_jax.lm import request
from ceil_jax.lm.tiny import TinyLM
from ceil_jax.methods.ceil import CEIL
from ceil_jax.methods.epr import EPR
from ceil_jax.methods.registry import RANDOM_ROW
from ceil_jax.methods.tst import TST
from ceil_jax.pipeline import minutes as minutes_module
from ceil_jax.pipeline.evaluate import lineup_of
from ceil_jax.pipeline.minutes import FEWEST_QUERIES, cut_to_fit, cuts
from ceil_jax.pipeline.setup import open_run
from ceil_jax.pipeline.speed import Machine

TASK = films(60, 200)
ROWS = ("majority", "random", "epr", "epr_map", "ceil")
CONFIG = (
    SMALL.with_method(EPR, instances=400)
    .with_method(CEIL, instances=60)
    .with_method(TST, instances=300)
)


def cuts_of(names):
    setup = open_run(CONFIG, TASK).setup
    return list(cuts(setup, [setup.row(name) for name in names]))


def fitting(session, names, minutes):
    rows = [session.setup.row(name) for name in names]
    return cut_to_fit(lineup_of(*session, rows), minutes)


def names_of(rows):
    return tuple(row.name for row in rows)


def summary(cut):
    setup, rows = cut
    config = setup.config
    instances = (config.method(EPR).instances, config.method(CEIL).instances)
    return *instances, rows[-1].name, len(setup.queries)


def test_training_queries_are_cut_first_then_rows_then_queries():
    found = list(map(summary, cuts_of(ROWS)))
    learnt = ((400, 60), (300, 45), (200, 40), (100, 40))  # never below 40
    assert found[:4] == [(n, c, "ceil", 200) for n, c in learnt]
    # sets first; the rest's training queries are back
    assert found[4:8] == [(n, c, "epr_map", 200) for n, c in learnt]
    assert [one[2] for one in found[8:12]] == ["epr"] * 4
    # without a training no share is tried; queries last, and never below 150
    assert found[12:] == [(400, 60, "random", n) for n in (200, 180, 162, FEWEST_QUERIES)]
    # no LM taught TST
    assert all(less.config.method(TST).instances == 300 for less, _ in cuts_of(ROWS))


def test_rows_have_the_training_queries_that_are_left():
    for setup, rows in cuts_of(ROWS):
        for row in rows:
            assert row == setup.row(row.name)


def test_rows_without_lm_tokens_to_prepare_are_kept_longest():
    asked = ("random", "free", "epr", "free_map")
    found = [(names_of(rows), len(less.queries)) for less, rows in cuts_of(asked)]
    assert found[3][0] == asked
    both = ("random", "free", "free_map")
    assert found[4:] == [
        *((both, n) for n in (200, 180, 162, 150)),
        (both[:2], 150),
        (both[:1], 150),
    ]


@pytest.fixture
def planted(monkeypatch):
    """One minute for each row, two for EPR's and ten for CEIL's training on all queries."""

    def seconds(run, setup, rows, machine):
        queries = len(setup.queries)
        epr, ceil = (setup.config.method(kind).instances for kind in (EPR, CEIL))
        names = names_of(rows)
        training = 2 * (epr / 400) * any(name.startswith("epr") for name in names)
        training += 10 * (ceil / 60) * ("ceil" in names)
        return 60 * (len(rows) * queries / 200 + training)

    monkeypatch.setattr(minutes_module, "seconds_of", seconds)
    monkeypatch.setattr(
        minutes_module, "measured_machine", lambda run, setup, rows: Machine("", 100.0, 1.0, 1.0)
    )
    monkeypatch.setattr(minutes_module, "SHARE", 1.0)


@pytest.mark.parametrize(
    ("minutes", "rows", "said"),
    [
        # 5 rows + 2 + 10
        (
            17,
            ROWS,
            "200 queries, EPR on 400 training queries, CEIL on 60 training queries, about 17 min",
        ),
        # 5 rows + 2/2 + 10 · 40/60
        (
            13,
            ROWS,
            "200 queries, EPR on 200 training queries, CEIL on 40 training queries, about 13 min; "
            "--minutes 17 for all of it",
        ),
        (
            6,
            ROWS[:-1],
            "200 queries, EPR on 400 training queries, no CEIL, about 6 min; --minutes 17",
        ),
        (
            1.5,
            ROWS[:2],
            "150 queries, no EPR and no EPR + MAP and no CEIL, about 90 s; --minutes 17",
        ),
    ],
)
def test_the_line_says_what_was_cut(planted, tmp_path, minutes, rows, said):
    found = fitting(open_run(replace(CONFIG, out=tmp_path), TASK), ROWS, minutes)
    assert names_of(found.lineup.rows) == rows
    assert found.message.startswith(f"this machine reads 100 LM tokens a second: {said}")
    assert len(found.lineup.setup.queries) == int(said.split()[0])


def test_where_nothing_fits_the_smallest_is_taken(planted, tmp_path):
    found = fitting(open_run(replace(CONFIG, out=tmp_path), TASK), ROWS, 1)
    assert names_of(found.lineup.rows) == ROWS[:2]
    assert len(found.lineup.setup.queries) == 150
    said = "for all of it. That is more than --minutes 1: fewer queries would show nothing"
    assert found.message.endswith(said)


def test_the_same_command_keeps_its_cut(planted, tmp_path, monkeypatch):
    config = replace(CONFIG, out=tmp_path)
    first = fitting(open_run(config, TASK), ROWS, 6)
    # what is on disk by now leaves less to do
    monkeypatch.setattr(minutes_module, "seconds_of", lambda *_: 0.0)
    again = fitting(open_run(config, TASK), ROWS, 6)
    assert (again.lineup.rows, again.message) == (first.lineup.rows, first.message)
    assert again.lineup.setup.config == first.lineup.setup.config
    assert names_of(fitting(open_run(config, TASK), ROWS, 7).lineup.rows) == ROWS


class Slow(TinyLM):
    """An LM that takes its time, on a clock of its own."""

    def __init__(self, speed, clock):
        super().__init__()
        self.speed = speed
        self.clock = clock

    def choice_log_likelihood(self, prompts, choices, *, per_token=False):
        before = self.tokens_read
        found = super().choice_log_likelihood(prompts, choices, per_token=per_token)
        self.clock[0] += (self.tokens_read - before) / self.speed
        return found


@pytest.mark.parametrize("speed", [260, 1150, 4600])
@pytest.mark.parametrize("lm", ["tiny", "http://nowhere/v1#counts-nothing", "module:function"])
def test_it_ends_in_time_at_every_speed(tmp_path, monkeypatch, speed, lm):
    """Two rows of 400 queries of 44 tokens each; a third of that has to be left out."""
    clock = [0.0]
    monkeypatch.setattr(request, "time", SimpleNamespace(perf_counter=lambda: clock[0]))
    asked = 2 / 3 * 2 * 400 * 44 / speed
    config = replace(SMALL, lm=lm, out=tmp_path)
    rows = ("majority", "random", "bm25")
    opened = open_run(config, films(60, 400), One(Slow(speed, clock)))
    found = fitting(opened, rows, asked / 60)
    assert names_of(found.lineup.rows) == rows
    for name in rows:
        found.lineup.run.get(metric_of(found.lineup.setup, name))
    assert 150 <= len(found.lineup.setup.queries) < 400
    assert clock[0] == pytest.approx(asked, rel=0.25)
    if lm == "tiny":
        # the plan counts 42 tokens where this LM reads 44
        said = float(found.message.split()[3].replace(",", ""))
        assert said == pytest.approx(speed * 42 / 44, rel=0.02)


def test_the_speed_of_an_lm_that_has_answered_before_is_what_it_was(tmp_path, monkeypatch):
    """A second command in the folder finds the probe on disk: its time then says nothing."""
    monkeypatch.setattr(minutes_module, "this_machine", lambda: Machine("", 1.0, 1.0, 1.0))
    config = replace(SMALL, out=tmp_path)
    first = minutes_module.measured_machine(*open_run(config, TASK), [RANDOM_ROW])
    again = minutes_module.measured_machine(*open_run(config, TASK), [RANDOM_ROW])
    assert first.lm > 1
    assert again.lm > 1

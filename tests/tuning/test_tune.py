"""The whole search on the test LM and the test encoder: what it finds, spends, writes and
refuses."""

import io
import json
import re
import time
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from films import SMALL, One, choice_of_row, choose
from html_parts import Parts
from refusing import refused

from ceil_jax import (
    CeilSelector,
    Example,
    LabelClassifier,
    Needs,
    Task,
    Template,
    register_retriever,
)
from ceil_jax.cli.main import main
from ceil_jax.lm.price import Price, Usage
from ceil_jax.lm.tiny import TinyLM
from ceil_jax.methods.fixed import FixedPrompt
from ceil_jax.methods.registry import ROWS as ROWS_BY_NAME
from ceil_jax.methods.registry import TOPK_ROW, usable_with
from ceil_jax.metrics.bootstrap import Interval
from ceil_jax.pipeline import row_stages
from ceil_jax.pipeline.run import lms_of
from ceil_jax.retrieval.retrievers import BM25Ranking, NearestVectors
from ceil_jax.tasks.bank import Examples
from ceil_jax.tasks.identity import question_key
from ceil_jax.tuning.advice import advice
from ceil_jax.tuning.candidates import ZERO, Candidate, candidates, possible_ks, searched
from ceil_jax.tuning.config import TuneConfig
from ceil_jax.tuning.field import Field
from ceil_jax.tuning.finals_table import finals_table
from ceil_jax.tuning.loss import Loss
from ceil_jax.tuning.outcome import ShownRow
from ceil_jax.tuning.page import page
from ceil_jax.tuning.race import Race
from ceil_jax.tuning.rows import split_rows
from ceil_jax.tuning.search import Search
from ceil_jax.tuning.verdict import PairedTest
from ceil_jax.tuning.write import write_outcome

GOOD = ["bright", "warm", "clever", "funny", "lively", "tender"]
BAD = ["dull", "slow", "empty", "loud", "messy", "cold"]
THINGS = ["film", "plot", "cast", "score", "ending", "story"]


def film(i):
    words, label = (GOOD, "good") if i % 2 else (BAD, "bad")
    text = (
        f"the {THINGS[i // 12 % 6]} of number{i} was {words[i // 2 % 6]} and "
        f"{words[(i // 2 + 1 + i // 12) % 6]}"
    )
    return Example(f"train-{i}", text, label, ("bad", "good"))


ROWS = [film(i) for i in range(200)]
TASK = Task("films", ROWS[:160], ROWS[160:], Template("{input} It is {output}"), "accuracy")
SEARCH = TuneConfig(method=("zero", "free", "topk", "dpp"), ks=(2, 8), lm_tokens=2_000_000)


def search(out, *, task=TASK, models=None, **settings):
    return Search(replace(SMALL, out=out), task, replace(SEARCH, **settings), models)


class Recording(TinyLM):
    """Notes the prompts, and stops after some calls."""

    def __init__(self, calls=10**9):
        super().__init__()
        self.asked = []
        self.calls = calls

    def choice_log_likelihood(self, prompts, choices, *, per_token=False):
        if not self.calls:
            raise KeyboardInterrupt
        self.calls -= 1
        self.asked += prompts
        return super().choice_log_likelihood(prompts, choices, per_token=per_token)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    out = tmp_path_factory.mktemp("tune")
    lm = Recording()
    made = search(out, models=One(lm))
    return made, made.run(), lm


def test_it_finds_what_helps_and_which_differences_are_significant(finished):
    _, outcome, _ = finished
    assert outcome.recommended.candidate.row.name != "zero"
    finals = outcome.finals
    assert finals.verdict.significantly_better(finals.verdict.recommended, number_of_zero(finals))
    sentences = advice(finals)
    assert any("is significantly better than zero examples" in sentence for sentence in sentences)
    cheaper = [
        i
        for i, standing in enumerate(finals.standings)
        if standing.tokens < outcome.recommended.tokens
    ]
    losing = {test.worse for test in finals.verdict.differences if test.significant}
    losses = [losses[0].expected for losses in finals.verdict.losses]
    assert all(i in losing or losses[i] > 0.02 for i in cheaper)


def number_of_zero(finals):
    """The number of the finalist without examples."""
    candidates_of_finals = [standing.candidate for standing in finals.standings]
    return candidates_of_finals.index(ZERO)


def methods_of(standings):
    """The names of the methods of some candidates."""
    return {standing.candidate.row.name for standing in standings}


def with_verdict(finals, **changes):
    """The finals with changes to the verdict."""
    return replace(finals, verdict=finals.verdict._replace(**changes))


def classifier_of(made):
    base = made.field.base
    return row_stages.predictions(base, base.row("classifier"), Examples(made.final))


def test_the_classifier_stands_beside_the_prompts(finished):
    made, outcome, _ = finished
    answers = {row["id"]: row for row in made.field.run.get(classifier_of(made))}
    rows = made.final[: outcome.finals.rows]
    right = [answers[row.id]["prediction"] == row.output for row in rows]
    finals = outcome.finals
    assert finals.without_lm.score.mean == pytest.approx(np.mean(right))
    prompt = finals.verdict.scores[finals.verdict.recommended].mean
    assert finals.without_lm.minus.mean == pytest.approx(np.mean(right) - prompt)
    assert finals.without_lm.loss.rows == finals.rows
    assert finals.needs_no_lm
    assert finals.label == "classifier alone"
    first = finals_table(finals).lines()[1]
    assert (first[0], first[-1]) == ("classifier alone", "recommended, no LM calls")
    assert "a classifier alone does as well without LM calls" in advice(finals)[0]
    assert lms_of(classifier_of(made)) == []


@pytest.mark.parametrize(
    ("minus", "rows", "first"),
    [
        (Interval(0.0, -0.02, 0.02), 200, "Recommended: a classifier alone does as well"),
        (Interval(-0.01, -0.03, 0.02), 200, "Recommended: a classifier alone does as well"),
        (Interval(-0.01, -0.015, -0.005), 200, "Recommended: dense top-k"),
        (Interval(-0.05, -0.12, 0.02), 200, "Recommended: dense top-k"),
        # 20 rows say nothing of 2 points: the expected loss is 0.4 standard errors of 9 points
        (Interval(0.0, -0.18, 0.18), 20, "Recommended: dense top-k"),
    ],
)
def test_what_is_cheaper_and_as_good_is_what_the_first_line_recommends(
    finished, minus, rows, first
):
    _, outcome, _ = finished
    finals = outcome.finals
    names = [standing.candidate.row.name for standing in finals.standings]
    loss = Loss(-minus.mean, (minus.high - minus.low) / 3.92, rows)
    alone = finals.without_lm._replace(minus=minus, loss=loss, then_lm=None)
    finals = with_verdict(replace(finals, without_lm=alone), recommended=names.index("topk"))
    assert advice(finals)[0].startswith(first)
    cells = finals_table(finals).lines()[1]
    assert cells[-1].startswith("recommended")
    assert finals.label == cells[0]


def test_the_page_says_first_what_is_recommended_and_shows_its_prompt_and_its_mistakes(
    finished, tmp_path
):
    made, outcome, _ = finished
    finals = with_verdict(outcome.finals, recommended=number_of_zero(outcome.finals))
    mistake = ShownRow("a <b>query</b>", "its prompt It is", "<i>bad</i>", "good", right=False)
    outcome = replace(
        outcome,
        finals=replace(finals, without_lm=None),
        example=mistake,
        wrong=(mistake,),
    )
    text = write_outcome(made, outcome, tmp_path / "page").page.read_text()
    body = text.partition("<body>")[2]
    assert body.index("Recommended:") < body.index("<svg") < body.index("<table")
    assert "its prompt It is" in body
    assert "&lt;i&gt;bad&lt;/i&gt;" in body
    assert "<i>" not in body
    for word in ("K", "λ", "MMR"):
        assert f"<dt>{word}</dt>" in body
    assert Parts(text).elements >= {"svg", "table", "pre"}


def test_the_first_final_row_is_shown_with_its_prompt(finished):
    made, outcome, lm = finished
    assert outcome.example.prompt in lm.asked
    assert outcome.example.query == made.final[0].input
    assert all(not row.right and row.answer != row.gold for row in outcome.wrong)
    assert len(outcome.wrong) <= 5


def test_troubled_answers_are_columns_of_the_final_table_and_said_on_the_page(finished, tmp_path):
    made, outcome, _ = finished
    assert "unmatched" not in finals_table(outcome.finals).header
    *others, last = outcome.finals.standings
    troubled = last._replace(troubles={"no option": 12, "length": 3})
    finals = replace(outcome.finals, standings=(*others, troubled))
    outcome = replace(outcome, finals=finals)
    header, *lines = finals_table(finals).lines()
    assert header[-3:] == ["unmatched", "cut off", "is"]
    cells = {line[0]: line[-3:-1] for line in lines}
    assert cells.pop(troubled.label) == ["12", "3"]
    assert set(map(tuple, cells.values())) == {("", "")}
    text = write_outcome(made, outcome, tmp_path / "page").page.read_text()
    assert "12 answers unmatched; 3 answers cut off</small>" in text
    [data] = [finalist for finalist in outcome.data()["finals"] if "troubles" in finalist]
    assert data["troubles"] == {"no option": 12, "length": 3}


def test_zero_examples_are_recommended_in_the_first_line(finished):
    _, outcome, _ = finished
    zero = number_of_zero(outcome.finals)
    finals = with_verdict(outcome.finals, recommended=zero, differences=())
    first = advice(replace(finals, without_lm=None))[0]
    assert first.startswith("Recommended: zero examples do as well, 50.0")


def standing(outcome, name, tokens, beginning=0.0, mean=0.8, preparing=0):
    """A finalist of `outcome` in other words: so many tokens a prompt, and so high a score."""
    return outcome.finals.standings[0]._replace(
        candidate=Candidate(ROWS_BY_NAME[name], 8 if name != "zero" else 0),
        score=Interval(mean, mean - 0.1, mean + 0.1),
        usage=Usage(tokens, beginning, 1.0),
        preparing=preparing,
        remark="",
    )


def with_finals(outcome, *standings, recommended, price=None, error=0.02):
    """An outcome of other finalists, whose differences are known to ±2 `error`."""
    losses = tuple(
        tuple(Loss(dear.score.mean - cheap.score.mean, error, 100) for dear in standings)
        for cheap in standings
    )
    verdict = outcome.finals.verdict._replace(
        recommended=recommended, differences=(), losses=losses, reference=0
    )
    finals = replace(
        outcome.finals, without_lm=None, standings=standings, verdict=verdict, price=price
    )
    return replace(outcome, finals=finals)


def test_the_first_line_says_what_the_recommended_prompt_saves(finished):
    _, outcome, _ = finished
    winner = standing(outcome, "topk", 900.0)
    zero = standing(outcome, "zero", 20.0, mean=0.5)

    def first(cheap, price=None, recommended=1):
        priced = with_finals(outcome, winner, cheap, zero, recommended=recommended, price=price)
        return advice(priced.finals)[0]

    fixed = standing(outcome, "fixed", 310.0)
    assert first(fixed).endswith(
        "with 310 tokens a prompt: it costs a third of dense top-k, K = 8 and does as well "
        "(expected loss: 0.8 points)."
    )
    assert "it costs 100 tokens less than dense top-k, K = 8" in first(
        standing(outcome, "fixed", 800.0)
    )
    clear = with_finals(outcome, winner, fixed, zero, recommended=1)
    verdict = clear.finals.verdict._replace(
        differences=(PairedTest(1, 0, Interval(0.1, 0.05, 0.15), 0.001),)
    )
    assert advice(replace(clear.finals, verdict=verdict))[0].endswith(
        "it costs a third of dense top-k, K = 8 and is significantly better."
    )
    # a prompt that is three points worse is not as good, and the winner saves nothing
    worse = standing(outcome, "fixed", 310.0, mean=0.77)
    assert first(worse).endswith("with 310 tokens a prompt.")
    assert first(fixed, recommended=0).endswith("with 900 tokens a prompt.")
    # as long as the winner's, but nearly all of it in the cache: 10 % of 800 and 100 new tokens
    cached = standing(outcome, "fixed", 900.0, beginning=800.0)
    price = Price(1.0, 0.0, cached=0.1)
    assert first(cached).endswith("with 900 tokens a prompt.")
    assert first(cached, price).endswith(
        "with 900 tokens a prompt, $0.18 a thousand queries: it costs a fifth of dense top-k, "
        "K = 8 and does as well (expected loss: 0.8 points)."
    )


def test_where_every_prompt_scores_nothing_none_is_recommended(finished):
    _, outcome, _ = finished
    standings = [standing(outcome, name, 90.0, mean=0.0) for name in ("topk", "zero")]
    first = advice(with_finals(outcome, *standings, recommended=1).finals)[0]
    assert first.startswith("Recommended: none of these prompts. All score 0")


def test_what_looks_as_good_on_too_few_rows_is_said_and_not_recommended(finished):
    """Equal scores whose difference is known to ±18 points: 0.4 · 9 points may be lost, and 0.02
    needs (3.6 / 2)² as many rows."""
    _, outcome, _ = finished
    winner = standing(outcome, "topk", 900.0)
    fixed = standing(outcome, "fixed", 310.0)
    zero = standing(outcome, "zero", 20.0, mean=0.5)
    sentence = (
        "fixed, K = 8 costs a third of dense top-k, K = 8 and looks as good, but 100 rows are "
        "too few to tell: the expected loss is 3.6 points, more than --tolerance 2. About 330 rows "
        "would do, if it is as good."
    )
    few = with_finals(outcome, winner, fixed, zero, recommended=0, error=0.09)
    assert sentence in advice(few.finals)
    losses = {loss["label"]: loss["points"] for loss in few.data()["expected_losses"]}
    assert losses["fixed, K = 8"] == pytest.approx(100 * 0.09 / np.sqrt(2 * np.pi), abs=0.01)
    # no number of rows brings the expected loss of equals down to 0
    assert not any("cannot tell" in text for text in advice(replace(few.finals, tolerance=0.0)))
    enough = with_finals(outcome, winner, fixed, zero, recommended=1)
    assert not any("cannot tell" in sentence for sentence in advice(enough.finals))


def test_money_stands_in_the_tables_and_on_the_page(finished):
    _, outcome, _ = finished
    winner = standing(outcome, "topk", 900.0)
    fixed = standing(outcome, "fixed", 900.0, beginning=800.0, preparing=2_000_000)
    zero = standing(outcome, "zero", 20.0, mean=0.5)
    price = Price(1.0, 5.0, cached=0.1, currency="EUR")
    priced = with_finals(outcome, winner, fixed, zero, recommended=1, price=price)
    finals = replace(priced.finals, without_lm=outcome.finals.without_lm)
    priced = replace(priced, finals=finals)
    header, *lines = finals_table(finals).lines()
    assert header[4:7] == ["tokens a prompt", "EUR a thousand queries", "EUR to prepare"]
    cells = {line[0]: line[4:7] for line in lines}
    # 100 new and 800 cached tokens, and an answer of one token
    assert cells["fixed, K = 8"] == ["900", "0.185", "2.00"]
    assert cells["dense top-k, K = 8"] == ["900", "0.905", "0"]
    assert cells["classifier alone"] == ["0", "0", "0"]
    assert priced.data()["money"]["finals"][1]["price_of_thousand"] == pytest.approx(0.185)
    assert priced.text().splitlines()[-1 - len(priced.notes)].endswith(" EUR")
    assert "0.185 EUR a thousand queries" in page(priced, program="", note="")
    assert outcome.data()["money"] is None


class NeedsFour(TinyLM):
    """Knows no answer from fewer than four examples."""

    def choice_log_likelihood(self, prompts, choices, *, per_token=False):
        scores = super().choice_log_likelihood(prompts, choices, per_token=per_token)
        return [
            values if prompt.count("It is") > 4 else np.zeros_like(values)
            for prompt, values in zip(prompts, scores, strict=True)
        ]


def test_a_larger_k_races_where_tokens_are_left(tmp_path):
    settings = {"method": ("zero", "topk"), "ks": (2, 4, 8)}
    outcome = search(tmp_path / "a", lm_tokens=20_000, models=One(NeedsFour()), **settings).run()
    assert outcome.recommended.candidate.shots == 4
    assert outcome.tokens <= 20_000
    poor = search(tmp_path / "b", lm_tokens=4_000, models=One(NeedsFour()), **settings).run()
    assert 8 not in {one.candidate.shots for one in poor.race}
    assert poor.tokens <= 4_000


def test_the_cheapest_answer_first_and_what_was_not_tried_is_said(tmp_path):
    whole = search(tmp_path / "whole").run()
    assert not any("not tried" in note for note in whole.notes)
    small = search(tmp_path / "small", lm_tokens=12_000)
    outcome = small.run()
    assert outcome.tokens <= 12_000
    [note] = [note for note in outcome.notes if "were not tried" in note]
    assert re.search(r"prompts were not tried for the budget \(.*\)\.", note)
    tried = {one.candidate for one in outcome.race}
    untried = {one.candidate for one in whole.race} - tried
    assert untried
    own = {ZERO, small.standard}
    dearest = max(one.tokens for one in outcome.race if one.candidate not in own)
    assert dearest <= min(one.tokens for one in whole.race if one.candidate in untried) + 1
    # the budget that it names pays for more
    enough = int(re.search(r"--lm-tokens (\d+) pays for what was left out", outcome.notes[-1])[1])
    again = search(tmp_path / "again", lm_tokens=enough).run()
    assert len(again.race) > len(outcome.race)


@pytest.mark.parametrize(
    "budget", [{"lm_tokens": 1}, {"lm_tokens": None, "minutes": 1e-6}, {"lm_tokens": 800}]
)
def test_every_budget_ends_with_a_table(tmp_path, budget):
    made = search(tmp_path, **budget)
    outcome = made.run()
    assert len(outcome.finals.standings) >= 2
    assert outcome.finals.rows >= 8
    assert "prove little" in " ".join(outcome.notes)
    files = write_outcome(made, outcome, tmp_path / "out")
    assert files.page.is_file()
    assert files.selector is not None


def encoding_takes(seconds):
    """Make encoding all texts of a search take so many seconds."""
    return lambda self, queries: seconds / (len(self.task.train) + len(queries))


def test_of_a_bank_that_takes_too_long_to_encode_a_part_is_chosen_from(tmp_path, monkeypatch):
    monkeypatch.setattr(Field, "encoding", encoding_takes(400.0))
    monkeypatch.setattr(time, "perf_counter", lambda: 0.0)
    made = search(tmp_path, lm_tokens=None, minutes=5)
    bank = len(made.task.train)
    assert 96 <= bank < 128
    outcome = made.run()
    assert outcome.bank_rows == bank
    assert outcome.finals.without_lm is not None
    assert any(f"a random {bank} of 128 examples" in note for note in outcome.notes)
    # 200 texts of 2.5 seconds each; twice that is a third of the minutes
    assert outcome.notes[-1] == "--minutes 50 pays for what was left out."
    files = write_outcome(made, outcome, tmp_path / "out")
    assert len(CeilSelector.from_pretrained(files.selector)) == bank


def test_what_an_earlier_search_has_encoded_takes_no_time(tmp_path, monkeypatch):
    search(tmp_path).run()
    monkeypatch.setattr(Field, "encoding", encoding_takes(3600.0))
    assert len(search(tmp_path, lm_tokens=None, minutes=5).task.train) == 128


def test_the_cheapest_within_noise_is_the_one_of_the_lowest_price(finished, tmp_path):
    """Where a beginning is cached for nothing, a fixed prompt costs less than the shortest other."""
    settings = {"method": ("zero", "topk", "fixed"), "ks": (3,), "lm_tokens": 400_000}
    dear = Search(
        replace(SMALL, out=tmp_path), TASK, replace(SEARCH, **settings), price=Price(1.0, 1.0, 0.0)
    )
    outcome = dear.run()
    finals = outcome.finals
    costs = [finals.cost(standing) for standing in finals.standings]
    reference = finals.verdict.reference
    assert finals.cost(finals.recommended) == min(
        cost
        for cost, losses in zip(costs, finals.verdict.losses, strict=True)
        if losses[reference].expected <= 0.02 or cost == costs[reference]
    )
    fixed = [standing for standing in outcome.race if standing.candidate.row.name == "fixed"]
    assert fixed[0].preparing > 0
    assert fixed[0].usage.beginning > 0.5 * fixed[0].usage.prompt


def test_final_rows_are_looked_at_once_and_last(finished):
    made, outcome, lm = finished
    final = {TASK.template.query(row) for row in made.final}
    queries = [prompt.rsplit("\n", 1)[-1] for prompt in lm.asked]
    first = next(i for i, query in enumerate(queries) if query in final)
    assert all(query in final for query in queries[first:])
    assert len(queries) - first <= len(outcome.finals.standings) * len(final)
    # and no row has two uses
    ids = [{row.id for row in rows} for rows in (made.task.train, made.tuning, made.final)]
    assert not (ids[0] & ids[1])
    assert not (ids[0] & ids[2])
    assert not (ids[1] & ids[2])


def test_a_stopped_search_goes_on_to_the_same_end(finished, tmp_path):
    _, outcome, lm = finished
    stopped = Recording(calls=7)
    with pytest.raises(KeyboardInterrupt):
        search(tmp_path, models=One(stopped)).run()
    rest = Recording()
    again = search(tmp_path, models=One(rest)).run()
    assert len(stopped.asked) + len(rest.asked) == len(lm.asked)
    assert again.tokens == outcome.tokens
    assert {**again.data(), "spent": ""} == {**outcome.data(), "spent": ""}


@pytest.mark.parametrize("tokens", [8_000, 20_000, 60_000])
def test_the_budget_is_never_exceeded(tmp_path, tokens):
    lm = Recording()
    outcome = search(tmp_path, lm_tokens=tokens, models=One(lm)).run()
    assert outcome.tokens == lm.tokens_read <= tokens


def test_what_was_set_aside_goes_on_while_the_budget_pays(tmp_path, monkeypatch):
    resumed = []
    resume = Race.resume
    monkeypatch.setattr(Race, "resume", lambda race, one: resumed.append(one) or resume(race, one))
    made = search(tmp_path, lm_tokens=30_000)
    outcome = made.run()
    assert resumed
    assert {one.rows for one in outcome.race} == {len(made.tuning)}
    assert outcome.tokens <= 30_000


def test_final_rows_are_in_no_order_of_the_file():
    rows = [replace(row, id=f"row-{i:03}") for i, row in enumerate(TASK.validation)]
    task, _, _ = split_rows(replace(TASK, validation=rows), None, None, 0)
    ids = [row.id for row in task.validation]
    assert ids != sorted(ids)


def test_a_moment_of_other_work_does_not_make_encoding_look_slow(tmp_path, monkeypatch):
    field = search(tmp_path, lm_tokens=None, minutes=5).field
    encoder = field.base.untrained_encoder.get()
    took = [9.0, 0.5, 4.0, 0.5]  # the first compiles
    clock = [0.0]

    def encode(texts):
        clock[0] += took.pop(0)

    monkeypatch.setattr(type(encoder), "encode", lambda self, texts: encode(texts))
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])
    assert field.encoding(field.task.validation[:10]) == pytest.approx(0.5 / 32)


class Slow(TinyLM):
    """An LM that takes so many seconds for each prompt, by a clock of its own."""

    def __init__(self, seconds):
        super().__init__()
        self.seconds = seconds
        self.now = 0.0

    def choice_log_likelihood(self, prompts, choices, *, per_token=False):
        self.now += self.seconds * len(prompts)
        return super().choice_log_likelihood(prompts, choices, per_token=per_token)


@pytest.mark.parametrize("seconds", [0.1, 0.5, 2.0])
def test_a_slow_lm_ends_in_time_and_most_of_it_goes_into_answers(tmp_path, monkeypatch, seconds):
    lm = Slow(seconds)
    monkeypatch.setattr(time, "perf_counter", lambda: lm.now)
    made = search(tmp_path, lm_tokens=None, minutes=6, models=One(lm))
    outcome = made.run()
    assert lm.now < 60 * 6
    assert outcome.race
    assert outcome.finals.rows >= 20
    # what the race has not spent is spent on final rows
    assert lm.now > 60 * 4 or outcome.finals.rows == len(made.final)


def test_slow_preparation_leaves_half_of_the_minutes_for_answers(tmp_path, monkeypatch):
    """Each candidate takes 30 seconds to prepare; all would take more than the minutes."""
    lm = Slow(0.5)
    monkeypatch.setattr(time, "perf_counter", lambda: lm.now)
    enter = Field.enter

    def slowly(field, candidate, queries):
        lm.now += 30 * (len(queries) == 32)  # the tuning rows
        return enter(field, candidate, queries)

    monkeypatch.setattr(Field, "enter", slowly)
    outcome = search(tmp_path / "a", lm_tokens=None, minutes=6, models=One(lm)).run()
    assert lm.now < 60 * 6
    # four began within two minutes, the first two of them before the others were looked at
    assert methods_of(outcome.race) == {"zero", "topk"}
    assert outcome.finals.rows == 40
    assert sum("--minutes" in note for note in outcome.notes) == 1
    [late] = [note for note in outcome.notes if "in the first third of the minutes" in note]
    assert late.endswith("left out: free, K = 2, free, K = 8, DPP-MAP, K = 2, λ = 0.01 and 5 more.")
    # the minutes that it names suffice
    enough = float(re.search(r"--minutes (\d+) pays for what was left out", outcome.notes[-1])[1])
    lm = Slow(0.5)
    again = search(tmp_path / "b", lm_tokens=None, minutes=enough, models=One(lm)).run()
    assert methods_of(again.race) == {"zero", "topk", "free", "dpp"}
    assert not any("--minutes" in note for note in again.notes)


def test_reading_stops_when_the_minutes_are_over(tmp_path, monkeypatch):
    made = search(tmp_path, lm_tokens=None, minutes=10)
    monkeypatch.setattr(type(made.field.budget), "elapsed", 11.0)
    outcome = made.run()
    assert outcome.finals.rows == 8
    assert len(outcome.finals.standings) <= 4
    assert any(
        note.startswith("The budget ended after 8 of 40 final rows") for note in outcome.notes
    )
    assert outcome.tokens < 5000


def test_rows_that_repeat_others_are_no_final_rows(tmp_path):
    known = [replace(row, id=f"again-{i}") for i, row in enumerate((*ROWS[:9], *ROWS[160:165]))]
    made = search(tmp_path, task=replace(TASK, validation=[*ROWS[160:], *known]))
    assert {row.id for row in made.final} == {row.id for row in ROWS[160:]}
    assert made.notes == [
        "14 held-out rows were left out, because they repeat others or are in the bank."
    ]


def test_no_row_finds_its_own_text_in_the_bank(tmp_path):
    """A task made in Python may have a text twice. Otherwise the twin's output would answer a row
    of the race, or a final one."""
    twins = [
        replace(row, id=f"twin-{row.id}", input=row.input.replace(" ", "  ")) for row in ROWS[:160]
    ]
    task = replace(TASK, train=[row for pair in zip(ROWS, twins, strict=False) for row in pair])
    made = search(tmp_path, task=task)
    nearest = made.field.enter(Candidate(TOPK_ROW, 8), made.tuning)
    for query, prompt in zip(made.tuning, nearest.prompts, strict=True):
        assert question_key(prompt).count(question_key(query.input)) == 1

    # the field alone does not rely on the split
    field = Field(made.config, replace(task, validation=twins[:40]), made.field.budget)
    setup = field.setup(Candidate(TOPK_ROW, 8))
    assert len(setup.bank) == 120
    of_queries = {question_key(row.input) for row in twins[:40]}
    assert not of_queries & {question_key(row.input) for row in setup.bank.examples}
    assert field.task is setup.task


def test_where_nothing_helps_it_says_so(tmp_path):
    rng = np.random.default_rng(0)
    labels = rng.permutation(["bad", "good"] * 100)
    rows = [replace(row, output=str(label)) for row, label in zip(ROWS, labels, strict=True)]
    outcome = search(tmp_path, task=replace(TASK, train=rows[:160], validation=rows[160:])).run()
    first, *_ = advice(outcome.finals)
    assert "a classifier alone does as well" in first or "is significantly better" in first
    assert not any(test.significant for test in outcome.finals.verdict.differences)


def test_trained_methods_join_as_far_as_the_budget_pays(tmp_path, moved_for_trained):
    made = search(tmp_path, lm_tokens=20_000, method=("zero", "topk", "epr", "ceil"), ks=(3,))
    outcome = made.run()
    assert methods_of(outcome.race) == {"zero", "topk", "epr"}
    assert any("Not tried for the budget: CEIL, K = 4 (" in note for note in outcome.notes)
    assert outcome.notes[-1].startswith("--lm-tokens ")
    epr = choice_of_row(made.field.setup(Candidate(ROWS_BY_NAME["epr"], 4)), "epr")
    assert outcome.tokens > made.field.run.cost([epr]).tokens > 0


def test_a_fixed_prompt_joins_and_takes_half_the_rows_where_the_budget_is_small(tmp_path):
    settings = {"method": ("zero", "topk", "fixed", "fixed_near"), "ks": (3,)}
    made = search(tmp_path / "whole", lm_tokens=400_000, **settings)
    outcome = made.run()
    raced = {one.candidate.row.name: one.candidate.shots for one in outcome.race}
    # both share the four fixed examples, which are paid for once
    assert raced == {"zero": 0, "topk": 4, "fixed": 4, "fixed_near": 6}
    assert made.field.config.method(FixedPrompt).rows == 16
    choices = [
        choice_of_row(made.field.setup(one.candidate), one.candidate.row.name)
        for one in outcome.race
        if one.candidate.prepared
    ]
    alone = made.field.run.cost(choices[:1]).tokens
    shared = made.field.run.cost(choices).tokens
    assert alone == shared > 0
    lm = Recording()
    smaller = search(tmp_path / "small", lm_tokens=60_000, models=One(lm), **settings)
    outcome = smaller.run()
    assert methods_of(outcome.race) >= {"zero", "topk", "fixed"}
    assert smaller.field.config.method(FixedPrompt).rows < 16
    assert outcome.tokens == lm.tokens_read <= 60_000
    # a search that was stopped while it looked for the prompt decides alike
    calls = 10**9 - lm.calls
    for share in (0.5, 0.7):
        out = tmp_path / f"stopped at {share}"
        stopped = Recording(calls=int(share * calls))
        with pytest.raises(KeyboardInterrupt):
            search(out, lm_tokens=60_000, models=One(stopped), **settings).run()
        rest = search(out, lm_tokens=60_000, **settings)
        assert {**rest.run().data(), "spent": ""} == {**outcome.data(), "spent": ""}
    tiny = search(tmp_path / "tiny", lm_tokens=12_000, **settings).run()
    assert any("Not tried for the budget: fixed, K = 4 (" in note for note in tiny.notes)


def test_what_another_search_has_prepared_is_paid_for_too(tmp_path, moved_for_trained):
    settings = {"method": ("zero", "topk", "epr"), "ks": (3,)}
    search(tmp_path / "a", lm_tokens=40_000, **settings).run()
    again, first = (search(tmp_path / one, lm_tokens=9_000, **settings).run() for one in "ab")
    assert [one.candidate.row.name for one in again.race] == [
        one.candidate.row.name for one in first.race
    ]
    assert again.tokens == pytest.approx(first.tokens, rel=0.01)


def test_a_trade_off_of_nothing_is_no_default():
    with refused(r"--trade-off 0\.0: expected"):
        Candidate(ROWS_BY_NAME["dpp"], 2, 0.0).config(SMALL)


def test_a_small_bank_is_not_trained_on(tmp_path):
    task = replace(TASK, train=ROWS[:100])
    outcome = search(tmp_path, task=task, method=("zero", "topk", "epr"), ks=(3,)).run()
    assert methods_of(outcome.race) == {"zero", "topk"}
    assert "A bank of 80 examples is too small to train on." in outcome.notes


def test_what_a_selector_can_hold_is_searched():
    near = Needs(vectors="inputs", ends_in_nearest=True, trade_off="tunable")
    register_retriever("mine", NearestVectors, near, label="Mine")
    register_retriever("words", BM25Ranking)
    wide = TuneConfig(ks=(2, 400), trade_offs=(0.1,))
    rows = searched(wide, SMALL, TASK)
    ks = possible_ks(wide, TASK)
    found = [one for one in candidates(rows, ks, wide) if not one.prepared]
    assert Candidate(ROWS_BY_NAME["mine"], 2, 0.1) in found
    expected = {"zero", "topk", "dpp", "free", "free_map", "mine"}
    assert {one.row.name for one in found} == expected
    assert all(one.shots in (0, 2) for one in found)
    with refused("did you mean 'topk'"):
        searched(TuneConfig(method=("topp",)), SMALL, TASK)
    with refused(
        "--method bm25: tune recommends only what a selector can hold, which BM25 is not; use compare"
    ):
        searched(TuneConfig(method=("zero", "bm25")), SMALL, TASK)


def names_of(rows):
    return [row.name for row in rows]


def test_an_lm_that_cannot_score_teaches_nothing(caplog):
    chat = TinyLM()
    rows = tuple(ROWS_BY_NAME[name] for name in ("topk", "free", "epr", "ceil"))
    assert usable_with(chat, rows, TASK) == (rows, "")
    assert not caplog.text
    chat.can_score = False
    kept, left_out = usable_with(chat, rows, TASK)
    assert kept == rows[:2]
    said = "tiny gives no log-probabilities, on which EPR, CEIL would be trained; free"
    assert said in caplog.text
    assert said in left_out
    with refused("free and free_map learn from the bank's outputs"):
        usable_with(chat, rows[2:3], TASK)


def test_bad_input_is_named(tmp_path):
    alike = [replace(row, output="good") for row in ROWS]
    with refused("every row of the bank has the output 'good'"):
        search(tmp_path, task=replace(TASK, train=alike))
    with refused("at least 20 of each"):
        search(tmp_path, task=replace(TASK, train=ROWS[:30]))

    class Silent(TinyLM):
        def write(self, prompts, *_):
            return ["nothing"] * len(prompts)

    free = [replace(row, choices=()) for row in ROWS]
    task = replace(TASK, train=free[:160], validation=free[160:], metric="exact_match")
    outcome = search(tmp_path, task=task, models=One(Silent())).run()
    assert "it answered 'nothing': try another --lm" in outcome.notes[0]
    assert outcome.finals.rows == 40
    assert outcome.finals.standings
    # the race ended after its first rows, and the outcome says how many answered them
    assert len(outcome.race) > 2
    assert {(one.rows, one.score.mean) for one in outcome.race} == {(16, 0.0)}
    assert f"{len(outcome.race)} candidates in the race" in outcome.text()
    assert "does not pay" not in outcome.text()


def test_a_recommended_classifier_is_written_and_answers_as_it_was_judged(finished, tmp_path):
    made, outcome, _ = finished
    assert outcome.finals.needs_no_lm
    files = write_outcome(made, outcome, tmp_path / "tune")
    assert files.note.startswith("selector/ holds ")
    expected = {row["id"]: row["prediction"] for row in made.field.run.get(classifier_of(made))}
    classifier = LabelClassifier.from_pretrained(files.classifier)
    predicted = classifier.predict([row.input for row in made.final]).labels
    assert predicted == [expected[row.id] for row in made.final]
    out = io.StringIO()
    with redirect_stdout(out):
        exec(files.program, {})
    assert out.getvalue().strip() in {f"['{label}']" for label in classifier.classes}
    assert len([line for line in files.program.splitlines() if line]) == 3
    # a recommended prompt has none
    prompt = replace(outcome, finals=replace(outcome.finals, without_lm=None))
    assert write_outcome(made, prompt, tmp_path / "prompt").classifier is None
    assert not (tmp_path / "prompt" / "classifier").exists()


def test_what_is_written_works(finished, tmp_path):
    """The page holds what was found; the program prints a prompt; the selector chooses as the run
    does."""
    made, outcome, _ = finished
    finals = replace(outcome.finals, without_lm=None)
    outcome = replace(outcome, finals=finals)
    files = write_outcome(made, outcome, tmp_path / "tune")
    assert outcome.recommended.label in files.page.read_text()
    numbers = json.loads((tmp_path / "tune" / "tune.json").read_text())
    assert numbers["prompt"] == outcome.recommended.label
    candidate_of = {standing.candidate.row.name: standing.candidate for standing in outcome.race}
    first, *others = finals.standings
    for method in ("topk", "zero"):
        best = first._replace(candidate=candidate_of[method])
        finals = replace(with_verdict(finals, recommended=0), standings=(best, *others))
        files = write_outcome(made, replace(outcome, finals=finals), tmp_path / method)
        assert not files.note
        out = io.StringIO()
        names = {}
        with redirect_stdout(out):
            exec(files.program, names)
        assert names["chosen"].prompt.endswith("a new text It is")
        assert len(names["chosen"]) == candidate_of[method].shots
        [answer] = TinyLM().generate([names["chosen"].prompt], TASK.max_new_tokens, TASK.stop)
        assert out.getvalue() == f"{answer}\n"
    selector = CeilSelector.from_pretrained(tmp_path / "topk" / "selector")
    shots = candidate_of["topk"].shots
    setup = made.field.setup(Candidate(TOPK_ROW, shots))
    for query, picks in zip(
        made.final, choose(made.field.run, setup, "topk", made.final), strict=True
    ):
        chosen = {example.id for example in selector.select(query, k=shots)}
        assert len(chosen & {pick.id for pick in picks}) >= shots - 1  # copies and ties apart
    assert "ceil-jax tune" in selector.card.notes
    assert f"(percent of {outcome.finals.rows} final rows" in next(iter(selector.card.metrics))


def test_the_command(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = ["ticket,team", *(f"{row.input},{row.output}" for row in ROWS)]
    Path("tickets.csv").write_text("\n".join(lines))
    data = (
        "--data tickets.csv --input ticket --output team --metric accuracy --lm tiny --encoder tiny"
    )
    arguments = ["tune", *data.split(), "--template", "{ticket} Team: {team}", "--quiet"]
    arguments += ["--method", "zero", "topk", "dpp", "--ks", "2", "4", "--token-budget", "100"]
    assert main([*arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert Path(found["page"]).is_file()
    assert Path(found["selector"], "README.md").is_file()
    assert max(one["tokens"] for one in found["race"]) <= 100
    # other rows or another price are another search, and leave its page and selector alone
    lines[-1] = f"{ROWS[-1].input} indeed,{ROWS[-1].output}"
    folders = [Path(found["page"]).parent]
    for changed in ([], ["--price", "1,2"]):
        Path("tickets.csv").write_text("\n".join(lines))
        assert main([*arguments, *changed, "--json"]) == 0
        folders.append(Path(json.loads(capsys.readouterr().out)["page"]).parent)
    assert len({*folders}) == 3
    for small in (["--lm-tokens", "500"], ["--minutes", "0.00001"]):
        assert main([*arguments, *small]) == 0
        assert capsys.readouterr().out.lstrip().startswith("Recommended: ")
    for wrong, said in (
        (["--method", "topq"], "unknown method 'topq'"),
        (["--tuning-rows", "150"], "rows make"),
        (["--ks", "0"], "--ks"),
    ):
        assert main([*arguments, *wrong]) == 2
        assert said in capsys.readouterr().err.strip().splitlines()[-1]
    with pytest.raises(SystemExit) as ended:  # tyro's own refusal: K is searched
        main([*arguments, "--shots", "4"])
    assert ended.value.code == 2

"""A label head on the LM's hidden states, as a row."""

from dataclasses import replace

import numpy as np
import pytest
from films import SMALL, TASK, evaluated, metric_of

from ceil_jax.errors import UserError
from ceil_jax.lm import TinyLM
from ceil_jax.methods.hidden import HiddenStateLabels
from ceil_jax.methods.registry import ROWS, applicable, usable_with
from ceil_jax.pipeline import row_stages
from ceil_jax.pipeline.export import export_row
from ceil_jax.pipeline.models import CountingModels
from ceil_jax.pipeline.plan import plan
from ceil_jax.pipeline.setup import open_run
from ceil_jax.pipeline.stage import Run
from ceil_jax.pipeline.usage import PromptTokens
from ceil_jax.tasks.example import Example, Task, Template
from ceil_jax.tasks.load import load_task
from ceil_jax.tuning.budget import Budget
from ceil_jax.tuning.candidates import Candidate
from ceil_jax.tuning.field import Field

NAMES = ("hidden", "hidden_classifier")


def opened(tmp_path, task=TASK, **settings):
    return open_run(replace(SMALL, out=tmp_path, **settings), task)


def test_labels_are_read_off_the_state_after_the_query_as_the_template_shows_it(tmp_path):
    run, setup = opened(tmp_path)
    answers = row_stages.predictions(setup, setup.row("hidden_classifier"))
    texts = [TASK.template.query(query) for query in TASK.validation]
    assert texts[0].endswith(" It is")
    assert (run.get(answers.rows).states == TinyLM().states(texts)).all()
    head = run.get(answers.head)
    states = TinyLM().states(texts).reshape(len(texts), -1)
    best = (states @ head.weights + head.bias).argmax(axis=1)
    predictions = [row["prediction"] for row in run.get(answers)]
    assert predictions == [head.labels[i] for i in best]
    # "dull grey" and "bright funny" are in the states
    assert predictions == [query.output for query in TASK.validation]


def test_the_bank_is_read_once_and_each_query_once(tmp_path):
    run, setup = opened(tmp_path)
    record = evaluated(run, setup, "hidden_classifier")
    tokens = TinyLM().count_tokens
    bank = [TASK.template.query(example) for example in TASK.train]
    queries = [TASK.template.query(example) for example in TASK.validation]
    assert record.preparing.tokens == tokens(bank).sum()
    assert record.answering.tokens == tokens(queries).sum()
    usage = run.get(PromptTokens(metric_of(setup, "hidden_classifier").predictions))
    assert usage.prompt == pytest.approx(tokens(queries).mean())
    assert usage.answer == 0
    # the other row has the same head, and asks the LM for the answer besides
    prompts = evaluated(run, setup, "hidden")
    assert prompts.preparing.tokens == record.preparing.tokens
    assert prompts.answering.tokens > record.answering.tokens


def test_a_dry_run_counts_what_is_read(tmp_path):
    config = replace(SMALL, out=tmp_path)
    _, counting = open_run(config, TASK, CountingModels())
    before = plan(Run(tmp_path, counting.models), [metric_of(counting, "hidden_classifier")]).tokens
    run, setup = opened(tmp_path)
    target = metric_of(setup, "hidden_classifier")
    run.get(target)
    assert before == pytest.approx(run.cost([target]).tokens, rel=0.02)


def test_two_texts_are_read_together(tmp_path):
    """Whether they are alike is in no word of either; here the LM sees the first of both."""
    seen = []

    class Watching(TinyLM):
        def states(self, texts):
            seen.extend(texts)
            return super().states(texts)

    def pair(i):
        first = f"film {i}"
        second = f"film {i + i % 2}"
        return Example(str(i), f"{first} {second}", ("same", "other")[i % 2], parts=(first, second))

    rows = [pair(i) for i in range(50)]
    task = Task("pairs", rows[:40], rows[40:], Template("{input} Alike? {output}"), "exact_match")
    config = replace(SMALL, out=tmp_path)
    run, setup = open_run(config, task)
    setup.models.load_lm = lambda *_: Watching()
    run.get(row_stages.predictions(setup, setup.row("hidden_classifier")))
    assert "film 3 film 4 Alike?" in seen
    # an encoder has no need to read the two texts apart
    assert row_stages.predictions(setup, setup.row("hidden_classifier")).rows.parts is None
    assert len(seen) == len(rows)


def test_where_outputs_are_no_labels_it_is_left_out():
    task = load_task("assistant", limit=5, bank_limit=40)
    rows, why = applicable(task, [ROWS[name] for name in (*NAMES, "topk")])
    assert [row.name for row in rows] == ["topk"]
    assert "are no labels that many examples share" in why


def test_an_lm_without_hidden_states_is_refused():
    chat = TinyLM()
    rows = tuple(ROWS[name] for name in ("topk", *NAMES))
    assert usable_with(chat, rows).rows == rows
    chat.has_states = False
    kept, left_out = usable_with(chat, rows)
    assert [row.name for row in kept] == ["topk"]
    assert (
        "tiny gives no hidden states, which label head on hidden states, classifier on" in left_out
    )
    with pytest.raises(UserError, match="free and classifier read an encoder's vectors instead"):
        usable_with(chat, rows[1:])


def test_it_is_no_selector_and_no_start(tmp_path):
    run, setup = opened(tmp_path / "runs")
    for name in NAMES:
        with pytest.raises(UserError, match=f"{name} "):
            export_row(run, setup, setup.row(name), tmp_path / "selector")
    with pytest.raises(UserError, match="no encoder to start from"):
        HiddenStateLabels().as_start("--epr.start")


def test_examples_with_the_likely_label_are_chosen(tmp_path):
    run, setup = opened(tmp_path)
    choice = run.get(row_stages.choice(setup, setup.row("hidden")))
    labels = np.array([example.output for example in TASK.train])[choice.positions]
    assert (labels == np.array([[query.output] for query in TASK.validation])).all()


def test_tune_pays_for_what_is_read_of_the_bank_and_of_each_query(tmp_path):
    budget = Budget(10**6, None)
    field = Field(replace(SMALL, out=tmp_path), TASK, budget)
    tokens = TinyLM().count_tokens
    queries = TASK.validation[:20]
    of_query = tokens([TASK.template.query(query) for query in queries])
    of_bank = tokens([TASK.template.query(example) for example in TASK.train])
    candidate = Candidate(ROWS["hidden"], 2)
    assert candidate.prepared
    entrant = field.enter(candidate, queries)
    assert budget.tokens == of_bank.sum() + of_query.sum() == entrant.preparing
    assert entrant.usage.prompt == pytest.approx(entrant.lengths.mean() + of_query.mean())
    plain = field.enter(Candidate(ROWS["topk"], 2), queries)
    assert plain.usage.prompt == pytest.approx(plain.lengths.mean())

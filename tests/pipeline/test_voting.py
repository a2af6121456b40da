"""Self-consistency: several answers to a query, of which the most frequent one is taken."""

from collections import Counter
from dataclasses import replace

import pytest
from films import SMALL, TASK
from harness.grid import Cell, Entry, plan

from ceil_jax.errors import UserError
from ceil_jax.lm import TinyLM
from ceil_jax.pipeline.compose import open_run
from ceil_jax.report.compare import compare
from ceil_jax.tasks.load import load_task

OPEN = replace(
    TASK,
    train=[replace(example, choices=()) for example in TASK.train],
    validation=[replace(example, choices=()) for example in TASK.validation[:8]],
    metric="exact_match",
    max_new_tokens=2,
)


@pytest.fixture
def config(tmp_path):
    return replace(SMALL, out=tmp_path)


def test_samples_are_voted_on_and_read_once(config, monkeypatch):
    greedy = open_run(config, OPEN).evaluate("topk")
    run = open_run(replace(config, answers=5), OPEN)
    before = run.lm.tokens_read
    table = compare(run, ["topk"])
    voted = table.evaluations["topk"]
    assert all("answers" not in row for row in greedy.rows)
    for row, alone in zip(voted.rows, greedy.rows, strict=True):
        assert len(row["answers"]) == 5
        counts = Counter(row["answers"])
        first = next(text for text in row["answers"] if counts[text] == max(counts.values()))
        assert row["prediction"] == first
        assert row["examples"] == alone["examples"]
    assert len({text for row in voted.rows for text in row["answers"]}) > 1
    read = run.lm.tokens_read - before
    assert read == table.rows[0].record.answering.tokens
    # five answers, of at most two tokens, to prompts that are read once
    assert read <= greedy.rows.tokens + 4 * 2 * len(OPEN.validation)
    assert "most frequent one of 5 samples at temperature 0.7" in table.text()
    # found again, and never taken for greedy answers
    monkeypatch.setattr(TinyLM, "generate", None)
    assert open_run(replace(config, answers=5), OPEN).evaluate("topk").rows == voted.rows
    assert open_run(config, OPEN).evaluate("topk").rows == greedy.rows
    with pytest.raises(TypeError):
        open_run(replace(config, answers=5, temperature=0.1), OPEN).evaluate("topk")


def test_a_vote_that_was_stopped_goes_on(config, monkeypatch):
    whole = open_run(replace(config, answers=16, out=config.out / "whole"), OPEN).evaluate("random").rows
    generate, calls = TinyLM.generate, []

    def once(self, prompts, *rest, **options):
        calls.append(len(prompts))
        if len(calls) == 2:
            raise KeyboardInterrupt
        return generate(self, prompts, *rest, **options)

    monkeypatch.setattr(TinyLM, "generate", once)
    with pytest.raises(KeyboardInterrupt):
        open_run(replace(config, answers=16), OPEN).evaluate("random")
    assert open_run(replace(config, answers=16), OPEN).evaluate("random").rows == whole
    # two queries at a time: one call was lost
    assert calls == [32] * (1 + len(OPEN.validation) // 2)


def test_orders_of_the_examples_are_voted_on(config, monkeypatch):
    seen, choose = [], TinyLM.choose

    def watched(self, prompts, *rest, **options):
        seen.extend(prompts)
        return choose(self, prompts, *rest, **options)

    monkeypatch.setattr(TinyLM, "choose", watched)
    few = replace(TASK, validation=TASK.validation[:4])
    open_run(config, few).evaluate("topk")
    alone, seen[:] = list(seen), []
    rows = open_run(replace(config, answers=4, answers_by="orders"), few).evaluate("topk").rows
    assert seen[::4] == alone
    for i, row in enumerate(rows):
        prompts = seen[4 * i : 4 * i + 4]
        assert len(set(prompts)) == 4
        assert len({tuple(sorted(prompt.split())) for prompt in prompts}) == 1
        assert len(row["answers"]) == 4 and row["prediction"] in row["answers"]


def test_given_answers_are_not_sampled(config):
    with pytest.raises(UserError, match=r"--answers 3: films chooses .* take --answers-by orders"):
        open_run(replace(config, answers=3), TASK)


def test_a_dry_run_counts_every_answer(config):
    task = load_task("scan.simple", limit=6, bank_limit=50)
    config = replace(config, task="scan.simple", limit=6, bank_limit=50)
    assert len(task.validation) == 6
    spent = []
    for votes in (replace(config, temperature=0.2), replace(config, answers=4)):
        [work] = plan([Entry("r", "c", Cell(votes, "random"))], (0,)).stages.values()
        spent.append(work)
    assert spent[1].read == spent[0].read
    assert spent[1].written == pytest.approx(4 * spent[0].written, rel=0.05)
    # settings of voting change nothing without it
    same = [Cell(one, "random").essential() for one in (config, replace(config, temperature=0.2))]
    assert same[0] == same[1]

"""Self-consistency: several answers to a query, of which the most frequent one is taken."""

from collections import Counter
from dataclasses import replace

import pytest
from films import SMALL, TASK

from ceil_jax.lm import TinyLM
from ceil_jax.pipeline.evaluate import evaluate
from ceil_jax.pipeline.graph import open_run
from ceil_jax.pipeline.plan import plan
from ceil_jax.report.compare import compare

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
    greedy = evaluate(*open_run(config, OPEN), "topk")
    run, graph = open_run(replace(config, answers=5), OPEN)
    table = compare(run, graph, ["topk"])
    voted = evaluate(run, graph, "topk")
    assert all("answers" not in row for row in greedy.rows)
    for row, alone in zip(voted.rows, greedy.rows, strict=True):
        counts = Counter(row["answers"])
        first = next(text for text in row["answers"] if counts[text] == max(counts.values()))
        assert len(row["answers"]) == 5 and row["prediction"] == first
        assert row["examples"] == alone["examples"]
    assert len({text for row in voted.rows for text in row["answers"]}) > 1
    assert "most frequent one of 5 samples at temperature 0.7" in table.text()
    # found again, and never taken for greedy answers
    monkeypatch.setattr(TinyLM, "generate", None)
    assert evaluate(*open_run(replace(config, answers=5), OPEN), "topk").rows == voted.rows
    assert evaluate(*open_run(config, OPEN), "topk").rows == greedy.rows
    with pytest.raises(TypeError):
        evaluate(*open_run(replace(config, answers=5, temperature=0.1), OPEN), "topk")
    # of more samples the first are those that are there
    monkeypatch.undo()
    more = evaluate(*open_run(replace(config, answers=7), OPEN), "topk").rows
    assert [row["answers"][:5] for row in more] == [row["answers"] for row in voted.rows]


def test_orders_of_the_examples_are_voted_on(config, monkeypatch):
    seen, read = [], TinyLM.choice_log_likelihood

    def watched(self, prompts, *rest, **options):
        seen.extend(prompts)
        return read(self, prompts, *rest, **options)

    monkeypatch.setattr(TinyLM, "choice_log_likelihood", watched)
    few = replace(TASK, validation=TASK.validation[:4])
    evaluate(*open_run(config, few), "topk")
    alone, seen[:] = list(seen), []
    rows = evaluate(*open_run(replace(config, answers=4, answers_by="orders"), few), "topk").rows
    # the order by relevance has been read already
    assert len(alone) == 4 and len(set(seen)) == len(seen) == 3 * 4 and not set(seen) & set(alone)
    kinds = [tuple(sorted(prompt.split())) for prompt in (*alone, *seen)]
    assert set(Counter(kinds).values()) == {4}
    assert all(len(row["answers"]) == 4 and row["prediction"] in row["answers"] for row in rows)


def test_a_plan_counts_every_answer(config):
    spent = []
    for votes in (replace(config, temperature=0.2), replace(config, answers=4)):
        run, graph = open_run(votes, OPEN)
        [work] = [step.work for step in plan(run, [graph.metric("random")]).missing if step.work.read]
        spent.append(work)
    assert spent[0].read > 0 and spent[1].written == pytest.approx(4 * spent[0].written)
    # settings of voting change nothing without it
    same = [open_run(one, OPEN).graph.metric("random") for one in (config, replace(config, temperature=0.2))]
    assert same[0] == same[1]

"""One query of a comparison, explained."""

from dataclasses import replace

import pytest
from films import SMALL, TASK
from refusing import refused

from ceil_jax.methods.epr import EPR
from ceil_jax.pipeline.setup import open_run
from ceil_jax.pipeline.steps import StepsOf
from ceil_jax.report.compare import compare
from ceil_jax.report.show import explanation


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    run, setup = open_run(replace(SMALL, out=tmp_path_factory.mktemp("runs")), TASK)
    compare(run, setup, ["topk", "epr"])
    return run, setup


def test_a_held_out_query_has_its_prompt_and_its_answer(compared):
    run, setup = compared
    query = TASK.validation[3]
    text = explanation(run, setup, setup.row("topk"), query.id)
    assert f"dense top-k, query {query.id}: {query.input}" in text
    prompt = text[text.index("prompt:") : text.index("answer:")]
    assert prompt.count(" It is ") == 3
    assert prompt.rstrip().endswith(f"{query.input} It is")
    assert f"gold:   {query.output}" in text
    assert "candidate sets" not in text


def test_a_training_query_has_its_candidates_with_the_lms_scores(compared):
    run, setup = compared
    epr = setup.config.method(EPR)
    steps = StepsOf(setup)
    queries = steps.training_queries(epr.instances)
    candidates, scores = run.get(steps.learnt(epr).training.scored)
    text = explanation(run, setup, setup.row("epr"), queries.examples[5].id)
    assert "6 candidate sets, by log P of the gold output by the LM" in text
    lines = text[text.index("the best and the worst:") :].splitlines()[1:7]
    best = scores[5].argmax()
    [item] = candidates.subsets[5, best]
    example = setup.bank.examples[candidates.shortlist[5, item]]
    assert lines[0].split() == [f"{scores[5, best]:.3f}", example.id, "→", example.output]
    assert [float(line.split()[0]) for line in lines] == sorted(
        (round(float(score), 3) for score in scores[5]), reverse=True
    )


def test_a_row_that_is_not_computed_and_an_unknown_query_are_refused(compared, tmp_path):
    run, setup = compared
    with refused("CEIL is not computed yet .* run ceil-jax compare with the same flags first"):
        explanation(run, setup, setup.row("ceil"), TASK.validation[3].id)
    with refused("unknown query 'nothing'"):
        explanation(run, setup, setup.row("topk"), "nothing")

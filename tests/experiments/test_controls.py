"""Controls that ask no LM."""

from dataclasses import replace

import controls
from films import SMALL, TASK

from ceil_jax.pipeline.setup import open_run
from ceil_jax.pipeline.steps import StepsOf


def test_labels_are_voted_and_classified_from_as_many_answers_as_are_scored(tmp_path):
    run, setup = open_run(replace(SMALL, out=tmp_path), TASK)
    vote, classifier = controls.controls(setup).items()
    label, answers = vote
    assert label == "vote of 16 nearest"
    for row, positions in zip(run.get(answers), run.get(answers.choice).positions, strict=True):
        outputs = [setup.task.train[position].output for position in positions]
        assert outputs.count(row["prediction"]) == max(map(outputs.count, outputs))
    label, answers = classifier
    scored = len(StepsOf(setup).training_queries(controls.scored(setup)).positions)
    assert label == f"classifier, {scored} answers"
    assert len(answers.bank) == scored


def test_a_record_has_the_metric_of_its_answers(tmp_path):
    run, setup = open_run(replace(SMALL, out=tmp_path), TASK)
    label, answers = next(iter(controls.controls(setup).items()))
    record = controls.measured(setup, run, label, answers)
    right = [row["prediction"] == row["gold"] for row in run.get(answers)]
    assert record.value == 100 * sum(right) / len(right)
    assert record.cost.tokens == 0

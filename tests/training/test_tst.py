"""Target similarity tuning: outputs in place of an LM."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from films import SMALL, WORDS, choice_of_row, choose, networks_of

from ceil_jax.encoders.registry import load_encoder
from ceil_jax.methods.ceil import CEIL
from ceil_jax.methods.tst import TST
from ceil_jax.pipeline.export import selector_of
from ceil_jax.pipeline.setup import open_run
from ceil_jax.store.kept import closure
from ceil_jax.tasks.example import Example, Task, Template
from ceil_jax.training import contrastive as epr
from ceil_jax.training.candidates import CandidateSets, TrainingData
from ceil_jax.training.contrastive import output_similarity, train_epr
from ceil_jax.training.loop import Ending, Trained


def film(split, i):
    """The mood is one word of eight, so that a bag of words sees little of it."""
    mood = ("grey", "funny")[i % 2]
    others = np.random.default_rng([i, len(split)]).integers(6, size=7)
    return Example(
        f"{split}-{i}", " ".join([mood, *(f"w{n}" for n in others)]), WORDS[i % 2], WORDS
    )


TASK = Task(
    "films",
    [film("train", i) for i in range(80)],
    [film("validation", i) for i in range(40)],
    Template("{input} It is {output}"),
    "accuracy",
)


def same_answer(run, setup, method):
    """The share of the chosen examples that have their query's answer."""
    chosen = choose(run, setup, method, TASK.validation)
    pairs = [
        (query, pick)
        for query, picks in zip(TASK.validation, chosen, strict=True)
        for pick in picks
    ]
    return float(
        np.mean([TASK.train[pick.position].output == query.output for query, pick in pairs])
    )


def test_output_similarity_is_the_cosine_with_each_candidate():
    bank = np.array([[1, 0], [0, 1], [0.6, 0.8]])
    queries = np.array([[0, 1], [1, 0]])
    candidates = np.array([[0, 2], [2, 1]])
    assert output_similarity(queries, bank, candidates) == pytest.approx(
        np.array([[0, 0.8], [0.6, 0]])
    )


def test_examples_of_a_group_are_not_each_others_negatives(monkeypatch):
    batches = {}

    def fit(problem, config, *, seed, folder):
        batches["batch"] = problem.batch
        return Trained(problem.start, [], Ending("start", {}))

    monkeypatch.setattr(epr, "fit", fit)
    shortlist = np.array([[i, 40 + i] for i in range(20)], np.int32)
    candidates = CandidateSets(
        shortlist, np.tile(np.arange(2, dtype=np.int32)[:, None], (20, 1, 1))
    )
    data = TrainingData(TASK.train[:20], TASK.train, candidates, np.tile([1.0, 0.0], (20, 1)))
    groups = np.arange(80) % 2
    config = replace(SMALL.method(TST), positives=1)
    train_epr(load_encoder("tiny"), data, config, seed=0, folder=Path(), groups=groups)
    _, (_, positive, negative) = batches["batch"](0, np.arange(8))
    assert set(positive.tolist()) == {0, 1}
    assert (positive == negative).all()
    train_epr(load_encoder("tiny"), data, config, seed=0, folder=Path())
    _, (_, positive, negative) = batches["batch"](0, np.arange(8))
    assert (negative == positive + 40).all()


def test_the_lm_is_asked_for_nothing_and_neighbours_answer_alike(tmp_path):
    settings = {"instances": 72, "candidates": 10, "epochs": 20, "learning_rate": 1e-2}
    config = replace(SMALL, out=tmp_path, lm="nowhere").with_method(TST, **settings)
    run, setup = open_run(config, TASK)
    assert same_answer(run, setup, "topk") < 0.9 < 0.97 < same_answer(run, setup, "tst")
    assert run.cost([choice_of_row(setup, "tst")]).tokens == 0


def test_ceil_starts_where_it_is_told(tmp_path, moved_for_trained):
    config = replace(SMALL, out=tmp_path).with_method(CEIL, start=TST())
    run, setup = open_run(config, TASK)
    kinds = {stage.kind for stage in closure([networks_of(setup, CEIL)])}
    assert {"tst", "scores", "ceil"} <= kinds
    assert "epr" not in kinds
    training = selector_of(run, setup, setup.row("ceil")).card.training_data
    assert (
        "TST: 24 queries × 6 examples by their outputs; then CEIL: 24 queries × 5 sets of 3"
        in training
    )

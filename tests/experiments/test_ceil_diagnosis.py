"""The numbers that say which stage fails."""

from dataclasses import replace

import numpy as np
import pytest
from ceil_diagnosis import _reordered, agreement, diagnose, halves, mean_of_subsets
from films import SMALL, TASK, WORDS

from ceil_jax.errors import UserError
from ceil_jax.lm.tiny import TinyLM
from ceil_jax.pipeline.compose import open_run
from ceil_jax.store.rows import Rows
from ceil_jax.tasks.example import Task
from ceil_jax.training.candidates import CandidateSets, log_probs


def subsets(rng, queries=40, m=20, n=12, k=4):
    return np.array([[np.sort(rng.permutation(n)[:k]) for _ in range(m)] for _ in range(queries)])


def test_halves_of_scores_that_are_sums_of_worths_agree():
    rng = np.random.default_rng(0)
    sets = subsets(rng)
    worth = rng.standard_normal((40, 12))
    additive = np.array([[row[s].sum() for s in several] for row, several in zip(worth, sets, strict=True)])
    noise = rng.standard_normal(additive.shape)
    assert halves(additive, sets) > 0.3
    # 40 queries × 12 places: the sd of a correlation of nothing is about 1 / √480 = 0.05
    assert abs(halves(noise, sets)) < 0.15
    assert halves(noise, sets) < halves(additive + 2 * noise, sets) < halves(additive, sets)
    assert halves(np.ones_like(noise), sets) == 0


def test_mean_of_subsets_leaves_out_empty_places():
    values = np.array([[1.0, 3.0, 8.0], [2.0, 4.0, 6.0]])
    subsets = np.array([[[0, 1], [2, -1]], [[0, 2], [1, 2]]])
    assert mean_of_subsets(values, subsets) == pytest.approx(np.array([[2.0, 8.0], [4.0, 5.0]]))


def test_agreement_by_hand():
    scores = np.array([[-1.0, -3.0, -2.0, -1.0], [-2.0, -1.0, -2.0, -5.0]])
    right = np.array([[1.0, 1.0, 1.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
    # they differ on three queries: higher, lower, equal score; on the fourth neither is right
    assert agreement(scores, right) == pytest.approx((1 + 0 + 0.5) / 3)
    assert agreement(scores, np.zeros_like(right)) == 0.5


def test_prompts_that_the_lm_does_not_score_are_not_diagnosed():
    with pytest.raises(UserError, match="diagnose without --token-budget"):
        diagnose(open_run(replace(SMALL, token_budget=200), TASK), ["topk", "ceil_topk", "ceil"])


def test_reordering_changes_prompts_and_not_sets(tmp_path, monkeypatch):
    pipeline = open_run(SMALL, TASK)
    shortlist = np.arange(12, dtype=np.int32).reshape(2, 6) % len(TASK.train)
    sets = np.array([[[0, 1, 2], [3, 5, -1]], [[1, 3, 4], [0, 2, 5]]], np.int32)
    seen = []

    def scores(queries, proposal, what):
        seen.append(proposal)
        return Rows([{"log_prob": [0.0, 0.0]}] * 2, []), what

    monkeypatch.setattr(pipeline.training_data, "scores", scores)
    _reordered(pipeline, TASK.train[:2], CandidateSets(shortlist, sets))
    [new] = seen
    for row in range(2):
        for before, after in zip(sets[row], new.subsets[row], strict=True):
            bank = [int(shortlist[row, p]) for p in before if p >= 0]
            there = [int(new.shortlist[row, p]) for p in after if p >= 0]
            assert sorted(bank) == sorted(there)
            assert (after >= 0).sum() == (before >= 0).sum() and (np.diff(after[after >= 0]) > 0).all()
    assert (new.shortlist != shortlist).any()


def with_wrong_labels() -> Task:
    """Every third film of the bank is labelled wrongly, so that no set is sure to be right."""
    bank = [
        replace(example, output=WORDS[WORDS.index(example.output) ^ (i % 3 == 0)])
        for i, example in enumerate(TASK.train)
    ]
    return replace(TASK, train=bank)


def test_the_ceiling_and_the_prompts_are_those_of_the_run(tmp_path, monkeypatch):
    answered, scored = [], []
    choose, score = TinyLM.choose, TinyLM.choice_log_likelihood

    def choosing(self, prompts, choices, **how):
        answered.extend(prompts)
        return choose(self, prompts, choices, **how)

    def scoring(self, prompts, choices, **how):
        scored.extend(prompts)
        return score(self, prompts, choices, **how)

    monkeypatch.setattr(TinyLM, "choose", choosing)
    monkeypatch.setattr(TinyLM, "choice_log_likelihood", scoring)
    pipeline = open_run(replace(SMALL, out=tmp_path), with_wrong_labels())
    methods = ("topk", "ceil_topk", "ceil")
    for method in methods:
        pipeline.evaluate(method)
    of_validation = set(answered)
    pipeline.trainer.history("ceil")
    scored.clear()
    found = diagnose(pipeline, methods)
    # what is scored for the methods' sets is what they were answered with, to the letter
    assert len(of_validation) > len(TASK.validation) and of_validation <= set(scored)
    before = pipeline.trainer.history("ceil")[0]["kendall_tau"]
    ending = pipeline.trainer.ending("ceil")
    assert found.learnt == (pytest.approx(before), ending.quality[ending.kept])
    # the tiny LM counts the words it reads, so that its scores are of how often the answer stands in the prompt
    assert found.outputs > 0.5 > abs(found.nearness)
    # subset 0 is the top-k; with two options the LM is right where the gold one has more than half
    shares = np.exp([row["choice"] for row in pipeline.trainer.ceil_scores.rows])
    best = log_probs(pipeline.trainer.ceil_scores.rows).argmax(axis=1)
    assert found.topk == pytest.approx(100 * (shares[:, 0] > 0.5).mean())
    assert found.best == pytest.approx(100 * (shares[np.arange(len(best)), best] > 0.5).mean())
    assert found.best > found.topk

"""Candidate sets: EPR's, the samplers of CEIL's, the LM's scores of them, and the λ that scores
choose."""

from dataclasses import replace

import numpy as np
import pytest

from ceil_jax.lm import TinyLM
from ceil_jax.lm.prompts import Prompt, PromptBuilder
from ceil_jax.tasks.example import Example, Template
from ceil_jax.training.samplers import bank_sets, epr_candidates, k_dpp_sets, uniform_sets
from ceil_jax.training.scoring import score_sets, set_prompts
from ceil_jax.training.trade_offs import best_trade_off

WORDS = ("bad", "good")
TEMPLATE = Template("{input} It is {output}")


def labelled(i):
    return Example(f"train-{i}", f"film {i % 7} was number{i}", WORDS[i % 2], WORDS)


BANK = [labelled(i) for i in range(30)]
COMMANDS = [Example(f"train-{i}", f"do thing {i}", f"cmd{i % 5} -x {i}") for i in range(20)]


def test_options_shared_by_all_are_stratified_and_exclude_the_query():
    candidates = epr_candidates(BANK[:4], BANK, 6)
    assert candidates.shortlist.shape == (4, 6)
    assert candidates.subsets.shape == (4, 6, 1)
    for query, row in zip(BANK, candidates.shortlist, strict=False):
        assert query.id not in {BANK[i].id for i in row}
        assert sorted(BANK[i].output for i in row) == ["bad"] * 3 + ["good"] * 3
        # the nearest of each answer share the query's film number
        assert any(BANK[i].input.split()[1] == query.input.split()[1] for i in row[:2])


def test_free_answers_are_matched_with_answers():
    candidates = epr_candidates(COMMANDS[:1], COMMANDS, 3)
    assert {COMMANDS[i].output.split()[0] for i in candidates.shortlist[0]} == {"cmd0"}


def test_random_subsets_begin_with_the_top_k_and_are_sorted_sets():
    shortlist = np.arange(20, dtype=np.int32).reshape(2, 10)
    candidates = uniform_sets(BANK[:2], shortlist, count=5, size=4, seed=0)
    assert candidates.subsets.shape == (2, 5, 4)
    assert (candidates.subsets[:, 0] == np.arange(4)).all()
    assert (np.diff(candidates.subsets, axis=2) > 0).all()
    again = uniform_sets(BANK[1:2], shortlist[1:], count=5, size=4, seed=0)
    assert (again.subsets[0] == candidates.subsets[1]).all()


@pytest.mark.parametrize("sampler", ["random", "bank", "k_dpp"])
def test_a_querys_sets_are_all_different(sampler):
    # of the C(5, 2) = 10 sets of the shortlist all are asked for; of the bank's C(5, 2) the same
    bank = BANK[:6]
    rng = np.random.default_rng(3)
    vectors = rng.normal(size=(6, 4)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    similar = vectors[:3] @ vectors.T
    similar[np.arange(3), np.arange(3)] = -np.inf
    shortlist = np.argsort(-similar, axis=1)[:, :5].astype(np.int32)
    relevance = np.take_along_axis(similar, shortlist, axis=1)
    found = {
        "random": lambda: uniform_sets(bank[:3], shortlist, 10, 2, 0),
        "bank": lambda: bank_sets(bank[:3], bank, shortlist, vectors[:3], vectors, 10, 2, 0),
        "k_dpp": lambda: k_dpp_sets(shortlist, vectors, relevance, 10, 2, 0.001, 0),
    }[sampler]()
    for row in range(3):
        assert len(np.unique(found.subsets[row], axis=0)) == 10
        first = found.shortlist[row][found.subsets[row, 0]]
        assert first.tolist() == shortlist[row, :2].tolist()


@pytest.mark.parametrize("trade_off", [0.01, 0.001])
def test_k_dpp_subsets_are_whole_where_lambda_is_small(trade_off):
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(30, 16)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    relevance = np.linspace(0.95, 0.75, 30, dtype=np.float32)[None]
    shortlist = np.arange(30, dtype=np.int32)[None]
    subsets = k_dpp_sets(shortlist, vectors, relevance, 20, 8, trade_off, 0).subsets[0]
    assert (subsets >= 0).all()
    assert (np.diff(subsets) > 0).all()
    # a small λ prefers the nearest: at random the mean place is 14.5
    assert subsets[1:].mean() < 9
    assert len(np.unique(subsets, axis=0)) == 20


def test_subsets_of_the_whole_bank_are_uniform_and_nearest_first():
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(len(BANK), 8)).astype(np.float32)
    similar = vectors @ vectors[:3].T
    similar[np.arange(3), np.arange(3)] = -np.inf
    shortlist = np.argsort(-similar, axis=0)[:10].T.astype(np.int32)
    one = bank_sets(BANK[:3], BANK, shortlist, vectors[:3], vectors, 200, 4, seed=0)
    assert one.subsets.shape == (3, 200, 4)
    for row in range(3):
        chosen = one.shortlist[row][one.subsets[row]]
        assert chosen[0].tolist() == shortlist[row, :4].tolist()
        assert (np.diff(similar[chosen, row], axis=1) < 0).all()
        # 199 draws of 4 of the 29 others: each is expected 27.4 times, with a standard deviation of
        # 4.9
        times = np.bincount(chosen[1:].ravel(), minlength=len(BANK))
        assert times[row] == 0
        assert np.abs(np.delete(times, row) - 27.4).max() < 4 * 4.9
    again = bank_sets(BANK[1:2], BANK, shortlist[1:2], vectors[1:2], vectors, 200, 4, seed=0)
    assert (again.subsets[0] == one.subsets[1]).all()


def test_the_trade_off_is_that_with_the_most_probable_answers():
    # half of the answers all but sure and half hopeless, or none of them either
    scores = np.log([[0.4, 0.9, 0.4, 0.4, 0.4], [0.3, 1e-9, 0.3, 0.3, 0.3]])
    assert best_trade_off(scores) == 0.005
    assert best_trade_off(scores[:, [0, 0, 0, 0, 0]]) == 0.001


def score(queries, bank, candidates, per_token=False, all_choices=True):
    lm = TinyLM()
    prompts = set_prompts(
        queries, bank, candidates, PromptBuilder(lm, Prompt(TEMPLATE), reserve=8), "greedy"
    )
    return lm, score_sets(lm, queries, prompts, Prompt(TEMPLATE), per_token, all_choices)


def test_scores_are_the_log_likelihoods_of_the_prompts():
    shortlist = np.array([[5, 9, 2], [4, 8, 11]], np.int32)
    candidates = uniform_sets(BANK[:2], shortlist, count=3, size=2, seed=0)
    lm, found = score(BANK[:2], BANK, candidates)
    for q in range(2):
        for m, subset in enumerate(candidates.subsets[q]):
            # least similar first: places count from the nearest
            shown = [BANK[shortlist[q, place]] for place in subset[::-1]]
            text = (
                "".join(f"{e.input} It is {e.output}\n" for e in shown) + f"{BANK[q].input} It is"
            )
            options = lm.choice_log_likelihood([text], [[" bad", " good"]])[0]
            gold = options[WORDS.index(BANK[q].output)]
            assert found["lm_scores"][q, m] == pytest.approx(gold, abs=1e-5)
            assert found["choice"][q, m] == pytest.approx(
                gold - np.log(np.exp(options).sum()), abs=1e-5
            )


def test_an_example_with_the_answer_scores_higher_than_one_without():
    # EPR's signal, on the test LM
    candidates = epr_candidates(BANK[:6], BANK, 6)
    _, found = score(BANK[:6], BANK, candidates)
    for query, row, shortlist in zip(BANK, found["choice"], candidates.shortlist, strict=False):
        alike = np.array([BANK[i].output == query.output for i in shortlist])
        assert row[alike].min() > row[~alike].max()


def test_choices_of_different_lengths_are_scored_per_token():
    choices = ("bad", "good in its own way")
    bank = [
        replace(example, output=choices[i % 2], choices=choices) for i, example in enumerate(BANK)
    ]
    candidates = epr_candidates(bank[1:2], bank, 4)
    (_, total), (_, mean) = (
        score(bank[1:2], bank, candidates, per_token) for per_token in (False, True)
    )
    assert mean["lm_scores"] == pytest.approx(total["lm_scores"] / 5, abs=1e-5)
    # log P of the other choice, of one token, is what the sum's share leaves
    other = np.log(
        np.exp(np.subtract(total["lm_scores"], total["choice"])) - np.exp(total["lm_scores"])
    )
    assert mean["choice"] == pytest.approx(
        mean["lm_scores"] - np.logaddexp(mean["lm_scores"], other), abs=1e-3
    )


def test_free_answers_have_no_choice_column():
    candidates = epr_candidates(COMMANDS[:2], COMMANDS, 4)
    _, found = score(COMMANDS[:2], COMMANDS, candidates)
    assert set(found) == {"lm_scores"}
    assert found["lm_scores"].shape == (2, 4)


def test_the_gold_choice_has_one_score_whether_the_others_are_read_or_not():
    choices = ("bad", "good in its own way")
    bank = [
        replace(example, output=choices[i % 2], choices=choices) for i, example in enumerate(BANK)
    ]
    candidates = epr_candidates(bank[:3], bank, 4)
    for per_token in (False, True):
        (_, alone), (_, beside) = (
            score(bank[:3], bank, candidates, per_token, all_choices)
            for all_choices in (False, True)
        )
        assert set(alone) == {"lm_scores"}
        assert set(beside) == {"lm_scores", "choice"}
        assert alone["lm_scores"] == pytest.approx(beside["lm_scores"], abs=1e-5)

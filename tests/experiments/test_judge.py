"""experiments/judge.py: a head learnt from scores of some tasks, on another."""

from dataclasses import replace

import judge
import judge_features
import numpy as np
import pytest

from ceil_jax import load_encoder
from ceil_jax.dpp.lengths import unit_rows
from ceil_jax.tasks.example import Example, Task, Template

F = len(judge.NAMES)


def planted(seed, weights, queries=30, candidates=8, noise=0.0):
    """Candidates whose scores are a linear function of their features."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(queries, candidates, F))
    scores = features @ weights + noise * rng.normal(size=(queries, candidates))
    examples = rng.integers(20, size=(queries, candidates, 1))
    return judge.Scored(features, scores, examples, np.ones(F))


def stored(name, seed, weights):
    part = planted(seed, weights)
    halves = np.split(np.arange(len(part.lm_scores)), 2)
    kinds = dict.fromkeys(judge.KINDS, part)
    rise = judge.Rise(0.0, 0.4)
    task = Task(name, [], [], Template("{input}\t{output}"), "exact_match")
    return judge.Stored(replace(judge.SMALL, task=name), task, kinds, [tuple(halves)], [rise])


def test_the_head_finds_planted_weights_and_orders_new_candidates():
    weights = 2 * judge.alone("cosine") - judge.alone("length of the output")
    learnt = judge.fit([planted(0, weights)])
    of_all_pairs = judge.tau(planted(1, weights), learnt).mean()
    assert of_all_pairs > 0.9
    assert learnt[judge.NAMES.index("length of the output")] < 0
    # the best and the worst alone are fewer pairs, which teach less where there is no noise
    of_extremes = judge.tau(
        planted(1, weights), judge.fit([planted(0, weights)], extremes=True)
    ).mean()
    assert 0.5 < of_extremes < of_all_pairs


def test_the_gradient_is_that_of_the_loss(monkeypatch):
    found = {}

    def kept(loss, start, **_):
        found["loss"] = loss
        return type("Result", (), {"x": start})

    monkeypatch.setattr(judge, "minimize", kept)
    judge.fit([planted(0, judge.alone("cosine"), noise=1.0), planted(1, judge.alone("cosine"))])
    w = np.random.default_rng(2).normal(size=F)
    _, gradient = found["loss"](w)
    step = 1e-5
    for i in (0, F - 1):
        change = step * np.eye(F)[i]
        slope = (found["loss"](w + change)[0] - found["loss"](w - change)[0]) / (2 * step)
        assert gradient[i] == pytest.approx(slope, abs=1e-6)


def test_a_task_is_judged_by_tasks_of_other_families_alone():
    good = judge.alone("cosine")
    tasks = [
        stored("cogs.ps", 0, good),
        stored("mtop", 1, good),
        stored("geoquery", 2, -good),
        stored("geoquery.template", 3, -good),
    ]
    rule, everywhere = judge.transfer(tasks)
    met = {row[0]: row[-1] for row in rule.rows}
    # each split of GeoQuery would teach the other what no other family does
    assert met["geoquery"] == met["geoquery.template"] == "no"
    reached = {row[0]: row[2].value for row in everywhere.rows}
    assert reached[f"geoquery, {judge.EPRS}"] < -0.8


def test_the_candidate_that_comes_first_is_between_any_and_the_best():
    tasks = [stored(name, seed, judge.alone("cosine")) for seed, name in enumerate(("mtop", "geo"))]
    table = judge.picked(tasks)
    row = dict(zip(table.header, table.rows[0], strict=True))
    # the cosine is what the LM scores by
    assert row["the best"].value == pytest.approx(0)
    assert row["judge"].value == pytest.approx(0, abs=0.1)
    assert row["any"].value < -1
    assert row["words: recall"].value < -0.5


def test_half_of_the_scores_are_half_in_every_way():
    part = planted(0, judge.alone("cosine"), queries=40, candidates=13)
    spent = {
        way: sum(one.lm_scores.size for one in parts)
        for way, parts in judge._halved(part, np.random.default_rng(0)).items()
    }
    half = 40 * 13 // 2
    assert all(half - 45 <= scores <= half for scores in spent.values())
    wide, rest = judge._halved(part, np.random.default_rng(0))["wide"]
    first = judge.FIRST
    narrowest = np.ptp(wide.lm_scores[:, :first], axis=1).min()
    assert narrowest >= np.ptp(rest.lm_scores, axis=1).max()
    assert judge.tau(part, judge.fit_queries([wide, rest])).mean() > 0.8


def test_halves_of_the_scores_agree_where_examples_differ_in_worth():
    rng = np.random.default_rng(0)
    examples = rng.integers(20, size=(200, 10, 1))
    worth = rng.normal(size=20)[examples[:, :, 0]]
    noise = rng.normal(size=worth.shape)
    part = planted(0, judge.alone("cosine"), queries=200, candidates=10)
    r, _ = judge._halves(part._replace(lm_scores=worth, examples=examples)).split()
    assert float(r) > 0.9
    r, _ = judge._halves(part._replace(lm_scores=noise, examples=examples)).split()
    assert abs(float(r)) < 0.4


def test_features_do_not_read_the_output_of_the_query(monkeypatch):
    monkeypatch.setattr(judge_features, "FOLDS", 2)
    encoder = load_encoder("all-MiniLM-L6-v2")
    bank = [
        Example(f"{word}{verb}{place}", f"{word}{verb} the {place}", f"answer({verb}({place}))")
        for word in ("", "please ")
        for verb in ("count", "name", "draw")
        for place in ("river", "lake", "city", "state")
    ]
    positions = np.array([0, 5])
    shortlist = np.array([[1, 2, 3], [6, 7, 1]])
    found = judge_features.Pairs(encoder, bank, positions).features(shortlist)
    assert found.shape == (2, 3, len(judge_features.NAMES))
    column = dict(zip(judge_features.NAMES, np.moveaxis(found, 2, 0), strict=True))
    vectors = unit_rows(encoder.encode([one.input for one in bank]))
    expected = np.einsum("qd,qnd->qn", vectors[positions], vectors[shortlist])
    np.testing.assert_allclose(column["cosine"], expected, atol=1e-5)
    assert column["same first word"].tolist() == [[1, 1, 1], [1, 1, 0]]
    assert column["words: recall"][0].tolist() == pytest.approx([2 / 3] * 3)
    # another output of a query changes what the bank teaches of others, and nothing of its own
    folds = judge_features.fold_numbers(len(bank), 2)
    assert folds[0] != folds[5]
    changed = [replace(bank[0], output="answer(count(city))"), *bank[1:]]
    other = judge_features.Pairs(encoder, changed, positions).features(shortlist)
    kept = [i for i, name in enumerate(judge_features.NAMES) if name != "rarity of the structures"]
    np.testing.assert_allclose(other[0][:, kept], found[0][:, kept], atol=1e-5)
    assert np.abs(other[1] - found[1]).max() > 1e-3


def test_outputs_that_are_no_programs_leave_the_features_of_structures_without_a_say():
    encoder = load_encoder("all-MiniLM-L6-v2")
    questions = ("who wrote it", "who sang it", "where is it", "when was it")
    bank = [Example(str(i), text, f"answer {i}", choices=()) for i, text in enumerate(questions)]
    pairs = judge_features.Pairs(encoder, bank, np.array([0, 1]))
    shortlist = np.array([[2, 3], [3, 2]])
    of_bank = pairs.features(shortlist)
    others = pairs.features(shortlist, [replace(bank[0], id="a query"), bank[1]])
    unseen = pairs.features(shortlist, [replace(bank[0], input="what are ferries"), bank[1]])
    recall = judge.NAMES.index("words: recall by idf")
    assert unseen[0, :, recall].tolist() == [0, 0]
    np.testing.assert_allclose(others, of_bank, atol=1e-5)
    assert np.isfinite(of_bank).all()
    said = judge.centred(of_bank)[0][:, :, ~judge.WITHOUT_PROGRAMS]
    ranks = [judge.NAMES[i] for i in np.flatnonzero(~judge.WITHOUT_PROGRAMS)].index(
        "rank by structures"
    )
    assert not np.delete(said, ranks, axis=2).any()

"""The benchmarks' agreement checks at small size. No test asserts a time."""

import json
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import lm_models
import numpy as np
import pytest
from folders_of_encoders import make_folder

from benchmarks import harness, lm_workloads
from benchmarks.harness import OURS, Case, Disagreement, Settings
from benchmarks.peers import numpy_map
from benchmarks.subjects import encoding, epr_step, greedy_map, k_dpp, nearest, training_step

ROOT = Path(__file__).parents[2]
SMALL = Settings(small=True, rounds=1)


QUICK = ("greedy_map", "k_dpp", "lifted_map", "nearest", "selection", "training_step")
FETCHING = ("encoding", "epr_step", "lm_choice", "lm_reading", "lm_subsets")


@pytest.fixture(scope="module", autouse=True)
def small_models(tmp_path_factory):
    """An encoder and an LM of two layers in place of the packaged ones."""
    encoder = make_folder(tmp_path_factory.mktemp("encoder"))
    lm = tmp_path_factory.mktemp("lm")
    lm_models.model("llama", context=4096).save_pretrained(lm)
    lm_models.tokenizer().save_pretrained(lm)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lm_workloads, "SMALL_MODELS", ((str(lm), "float32"),))
        patch.setattr(lm_workloads, "converted", Path)
        for subject in (encoding, epr_step):
            patch.setattr(subject, "ENCODER", encoder)
            patch.setattr(subject, "fetch", Path)
        yield


@pytest.mark.parametrize(
    "subject", [*QUICK, *(pytest.param(name, marks=pytest.mark.packages) for name in FETCHING)]
)
def test_ours_agrees_with_the_peers(subject):
    for case in harness.load_cases(subject, SMALL):
        results = {name: harness.finished(run()) for name, run in case.contenders.items()}
        assert next(iter(results)) == OURS
        assert case.agree(results)


def test_the_harness_reports_ratios_targets_and_every_round(tmp_path):
    calls = []
    case = Case(
        "count",
        {OURS: lambda: calls.append("ours"), "peer": lambda: calls.append("peer")},
        lambda results: "agree",
        at_least={"peer": 1e9},
        at_most=0.0,
        work={"calls": 1},
    )
    measured = harness.measure("none", case, Settings(rounds=3, small=True))
    assert calls == ["ours", "peer"] * (1 + 3)
    assert len(measured.timings["peer"].seconds) == 3
    assert measured.timings[OURS].ratio is None
    assert len(measured.missed) == 2
    assert "calls/s" in harness.table(measured)
    file = harness.write(tmp_path, "none", {"cores": 1}, Settings(rounds=3, small=True), [measured])
    [written] = json.loads(file.read_text())["cases"]
    assert written["timings"]["peer"]["seconds"] == measured.timings["peer"].seconds


def test_short_calls_are_repeated_and_the_first_is_not_the_round(monkeypatch):
    ticks = iter([0.0, 9.0, 9.0, 10.0, 10.0, 11.0, 11.0, 13.0, 13.0, 14.0])
    monkeypatch.setattr(harness.time, "perf_counter", lambda: next(ticks))
    assert harness.call_seconds(lambda: None, at_least=13.5) == 1.0  # of 9, 1, 1, 2 and 1
    monkeypatch.undo()
    calls = []
    harness.call_seconds(lambda: calls.append(1), at_least=0)
    assert len(calls) == 1


def test_nothing_is_timed_after_a_disagreement():
    calls = []

    def disagree(results):
        raise Disagreement("1 is not 2")

    case = Case("count", {OURS: lambda: calls.append(1)}, disagree)
    with pytest.raises(Disagreement, match="1 is not 2"):
        harness.measure("none", case, Settings(rounds=3))
    assert calls == [1]


def test_greedy_map_notices_another_set():
    rng = np.random.default_rng(0)
    items = rng.standard_normal((9, 4)).astype(np.float32)
    items /= np.linalg.norm(items, axis=1, keepdims=True)
    good = numpy_map.from_embeddings(items[:1], items, np.arange(9)[None], 3, 0.05)
    other = np.setdiff1d(np.arange(9), good[0])[None, :3]
    assert greedy_map.same_sets(items[:1], items, {OURS: good, "numpy": good[:, ::-1]}).startswith(
        "same"
    )
    with pytest.raises(Disagreement):
        greedy_map.same_sets(items[:1], items, {OURS: good, "numpy": other})


def test_marginals_of_a_k_dpp_by_enumeration():
    from itertools import combinations

    rng = np.random.default_rng(1)
    features = rng.standard_normal((6, 6))
    kernel = features @ features.T
    weights = {S: np.linalg.det(kernel[np.ix_(S, S)]) for S in combinations(range(6), 3)}
    expected = [
        sum(w for S, w in weights.items() if i in S) / sum(weights.values()) for i in range(6)
    ]
    np.testing.assert_allclose(k_dpp.marginals(kernel, 3), expected, rtol=1e-9)


def test_k_dpp_notices_samples_of_another_kernel():
    samples = np.stack([np.random.default_rng(i).permutation(6)[:3] for i in range(500)])
    kernel = np.diag([1.0, 1, 1, 1, 1, 9])
    with pytest.raises(Disagreement, match="sigma"):
        k_dpp.same_distribution(kernel, 3, {OURS: samples})


def test_nearest_and_training_notice_other_numbers():
    scores = np.array([[0.9, 0.8]], np.float32)
    items = np.array([[3, 1]])
    assert nearest.same_neighbours({OURS: (scores, items), "peer": (scores, items[:, ::-1])})
    with pytest.raises(Disagreement):
        nearest.same_neighbours({OURS: (scores, items), "peer": (scores - 0.1, items)})
    gradient = {"loss": np.float32(1), "queries": np.ones((2, 2), np.float32)}
    with pytest.raises(Disagreement):
        training_step.same_gradients({OURS: gradient, "peer": gradient | {"loss": 1.1}})


def test_compilations_are_counted_and_missed_in_the_rounds():
    sizes = iter(range(3, 100))
    case = Case(
        "grows", {OURS: lambda: jax.jit(jnp.cos)(jnp.ones(next(sizes)))}, lambda results: "fine"
    )
    measured = harness.measure("none", case, Settings(rounds=2))
    assert measured.compilations[OURS] >= 1
    assert "compilations during the rounds" in measured.missed[0]


def test_the_tests_of_the_gpu_check_are_there():
    folders = re.findall(r"tests/[\w/]+", (ROOT / "Makefile").read_text("utf-8"))
    assert len(folders) > 4
    assert all((ROOT / folder).is_dir() for folder in folders)

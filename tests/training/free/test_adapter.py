"""Adapters on vectors, trained on outputs and on planted scores of an LM."""

import numpy as np
import pytest
from planted_rows import planted

from ceil_jax.training.candidates import CandidateSets, TrainingData
from ceil_jax.training.free.adapter import Adapter
from ceil_jax.training.free.choice import nearest
from ceil_jax.training.free.fitting import fit_adapter
from ceil_jax.training.free.objectives import ceil, epr, tst
from ceil_jax.training.free.rows import Cosine, Observed, OutputComparison
from ceil_jax.training.losses import ceil_loss

LABELS = ("bad", "good")
QUICK = {"width": 4, "epochs": 20, "batch_size": 64, "learning_rate": 0.03}
BANK = planted(400, 0)


def right(method, queries=None):
    queries = planted(60, 1) if queries is None else queries
    rows = zip(nearest(method, BANK, queries, 4), queries.outputs, strict=True)
    return np.mean([BANK.outputs[place] == label for row, label in rows for place in row])


def test_output_similarities_by_hand():
    rows = Observed(
        [*"ab"],
        np.eye(2),
        outputs=["find . -name x", "find . -type d"],
        structures=[frozenset("ab"), frozenset("bcd")],
    )
    both = np.array([0]), np.array([0, 1])
    assert OutputComparison("label", rows)(*both)[0] == pytest.approx([1, 0])
    # {find . - name x} and {find . - type d} share three of five
    assert OutputComparison("tokens", rows)(*both)[0] == pytest.approx([1, 2 * 3 / 10])
    assert OutputComparison("structures", rows)(*both)[0] == pytest.approx([1, 2 * 1 / 5])


def test_maps_by_hand():
    query_map, example_map = np.array([[3.0], [0]]), np.array([[0.0], [0], [2], [-2], [0]])
    adapter = Adapter(LABELS, query_map, np.zeros(1), example_map, np.zeros(1), 0.25, 1)
    query = adapter.query(Observed(["q"], np.array([[0.6, 0.8]])))
    examples = adapter.examples(Observed([*"ab"], np.array([[0.6, 0.8]] * 2), outputs=["bad", "good"]))
    assert (query @ examples.T)[0] == pytest.approx([1 + 0.25, -1 + 0.25])


@pytest.fixture(scope="module")
def on_outputs():
    return fit_adapter(BANK, tst(BANK, "label", at_once=256), labels=LABELS, **QUICK)


def test_outputs_teach_labels_that_cosines_do_not_show(on_outputs):
    assert right(Cosine()) < 0.65
    assert right(on_outputs) > 0.9


def test_a_query_is_not_its_own_example():
    _, similar = tst(BANK, "label").draw(np.random.default_rng(0), np.array([3, 7]))
    assert np.argwhere(np.isneginf(similar)).tolist() == [[0, 3], [1, 7]]


def scored(count=300, n=8):
    """Candidates of the first rows of the bank; the LM likes examples of the query's label."""
    generator = np.random.default_rng(3)
    shortlist = np.stack([generator.choice(400, n, replace=False) for _ in range(count)]).astype(np.int32)
    same = OutputComparison("label", BANK)(np.arange(count), np.arange(400))
    return shortlist, np.take_along_axis(same, shortlist, 1) + generator.normal(scale=0.1, size=(count, n))


def test_singles_teach_an_lms_preference():
    shortlist, scores = scored()
    data = TrainingData([], [], CandidateSets(shortlist, np.zeros((300, 8, 1), np.int32)), scores)
    objective = epr(np.arange(300), data, pool=4)
    adapter = fit_adapter(BANK, objective, labels=LABELS, **{**QUICK, "epochs": 60})
    assert right(adapter) > 0.8


def test_sets_teach_an_lms_preference():
    """The LM likes sets by their share of the query's label."""
    shortlist, scores = scored()
    places = np.tile(np.arange(8), (300, 6, 1))
    subsets = np.random.default_rng(4).permuted(places, axis=2)[..., :3].astype(np.int32)
    liked = np.take_along_axis(scores[:, None], subsets, 2).sum(axis=2).astype(np.float32)
    data = TrainingData([], [], CandidateSets(shortlist, subsets), liked)
    objective = ceil(np.arange(300), data, ceil_loss("pairwise"), 0.1)
    assert right(fit_adapter(BANK, objective, labels=LABELS, **QUICK)) > 0.8


def test_training_goes_on_from_an_adapter(on_outputs):
    objective = tst(BANK, "label")
    same = fit_adapter(BANK, objective, labels=LABELS, initial=on_outputs, epochs=0)
    assert same.query_kernel == pytest.approx(on_outputs.query_kernel)
    assert (same.cosine_weight, same.scale) == pytest.approx((on_outputs.cosine_weight, on_outputs.scale))

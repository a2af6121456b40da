"""experiments/planted.py trains without an LM and says how τ rose."""

import json

import numpy as np
import planted
import pytest
from films import TASK

from ceil_jax.errors import UserError

SIZES = (
    "--encoder tiny --queries 24 --independent 12 --sets 5 --size 3 --shortlist 45 --epochs 2 "
    "--batch-size 8"
)


def test_a_run_of_ceil_after_epr_prints_a_line_and_appends_it(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(planted, "load_task", lambda *arguments, **limits: TASK)
    given = {"train_epr": [], "train_ceil": []}
    for name, calls in given.items():
        train = getattr(planted, name)
        monkeypatch.setattr(
            planted,
            name,
            lambda *args, train=train, calls=calls, **others: (
                calls.append(args) or train(*args, **others)
            ),
        )
    file = tmp_path / "runs" / "planted.jsonl"
    planted.main(
        [*SIZES.split(), "--candidates", "6", "--learning-rate", "3e-3", "--out", str(file)]
    )
    assert given["train_epr"][0][1].scores.shape == (24, 6)
    [call] = given["train_ceil"]
    assert call[1].used_by_start.sum() == 18, "CEIL holds out what EPR held out"
    [row] = map(json.loads, file.read_text().splitlines())
    assert (
        f"independent {row['tau_before']:.3f} → {row['tau_after']:.3f}" in capsys.readouterr().out
    )
    assert row["size"] == 3
    assert row["candidates"] == 6
    assert row["held_out_after"] >= row["held_out_before"]
    assert row["tau_before"] == row["tau_without_noise_before"] != row["tau_after"]


def test_more_queries_than_the_bank_has():
    options = planted.Options(encoder="tiny", queries=50, independent=20)
    with pytest.raises(UserError, match="has 60 examples: --queries and --independent take 70"):
        planted.run(options, TASK)


def test_noise_is_relative_to_the_spread_within_a_query():
    similar = np.random.default_rng(0).normal(size=(200, 10))
    subsets = np.random.default_rng(1).integers(10, size=(200, 30, 2))
    for kind in ("mean", "max"):
        noisy, clean = planted.planted_scores(similar, subsets, 2.0, 0, kind)
        np.testing.assert_allclose(
            clean[3, 4], getattr(similar[3, subsets[3, 4]], kind)(), rtol=1e-6
        )
        assert (noisy - clean).std() == pytest.approx(2 * clean.std(axis=1).mean(), rel=0.05)

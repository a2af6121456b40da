import shutil

import jax.numpy as jnp
import numpy as np
import pytest

from ceil_jax.encoders.registry import load_encoder
from ceil_jax.errors import UserError
from ceil_jax.store.store import Store
from ceil_jax.training.gradient_cache import TokenTable
from ceil_jax.training.loop import _rows, ending, fit, gradient_of, split_held_out

TARGET = np.linspace(-1, 1, 6).astype(np.float32)


def run(stage, *, loss=None, quality=None, epochs=4, as_used=None):
    """Least squares: the parameters go towards TARGET."""

    def squares(params, batch, key):
        return jnp.mean((params["w"][batch] - jnp.asarray(TARGET)[batch]) ** 2)

    def closeness(params):
        return {"kendall_tau": np.full(3, -np.sum((np.asarray(params["w"]) - TARGET) ** 2))}

    return fit(
        stage,
        {"w": jnp.zeros(6)},
        gradient_of(loss or squares),
        lambda step, rows: rows,
        quality or closeness,
        instances=6,
        epochs=epochs,
        batch_size=3,
        learning_rate=0.05,
        seed=0,
        what="training",
        as_used=as_used,
    )


def test_training_comes_closer_and_keeps_a_history(tmp_path):
    with Store(tmp_path).stage("t", {}) as stage:
        trained = run(stage)
    assert trained.history[0]["step"] == 0
    assert trained.history[-1]["step"] == 8
    qualities = [row["kendall_tau"] for row in trained.history]
    assert qualities == sorted(qualities)
    assert np.sum((np.asarray(trained.params["w"]) - TARGET) ** 2) < np.sum(TARGET**2)


def test_the_weights_of_the_last_quarter_of_the_steps_are_averaged(tmp_path):
    seen = []

    def measured(params):
        seen.append(np.asarray(params["w"]))
        return {"kendall_tau": np.full(3, float(np.any(params["w"])))}

    with Store(tmp_path).stage("t", {}) as stage:
        trained = run(stage, quality=measured)
    # 8 steps, each with an evaluation, and the start; then the average and the start again
    np.testing.assert_allclose(trained.params["w"], (seen[7] + seen[8]) / 2, atol=1e-6)
    assert trained.ending.kept == "average"


def ended(average, best, start):
    held_out = {"a": average, "b": best, "s": start}
    return ending("a", "b", "s", lambda name: {"kendall_tau": np.array(held_out[name])}, "training")


@pytest.mark.parametrize(
    ("average", "best", "start", "kept"),
    [
        # the best less the average +0.03, with a standard error of 0.07
        ([0.2, 0.3, 0.4], [0.3, 0.2, 0.5], [0.1, 0.2, 0.1], "average"),
        ([0.2, 0.3, 0.4], [0.3, 0.4, 0.6], [0.1, 0.2, 0.1], "best"),
        ([0.2, 0.3, 0.4], [0.3, 0.2, 0.5], [0.3, 0.5, 0.6], "start"),
        ([0.2, 0.3, 0.4], [0.2, 0.4, 0.4], [0.3, 0.3, 0.3], "start"),
        ([0.2, 0.3, 0.4], [0.4, 0.4, 0.5], [0.3, 0.3, 0.3], "best"),
        ([0.3], [0.9], [0.2], "average"),
    ],
)
def test_trained_weights_are_kept_only_where_they_rank_better(average, best, start, kept):
    weights, how = ended(average, best, start)
    assert (weights, how.kept) == (kept[0], kept)
    assert how.learnt == pytest.approx(
        (np.mean(start), np.mean({"a": average, "b": best, "s": start}[kept[0]]))
    )


def test_training_ends_with_what_is_best_as_it_will_be_used(tmp_path):
    def moved(params):
        return {"kendall_tau": np.full(3, float(np.any(params["w"])))}

    def unmoved(params):
        return {"kendall_tau": 1 - moved(params)["kendall_tau"]}

    with Store(tmp_path).stage("t", {}) as stage:
        trained = run(stage, quality=moved, as_used=unmoved)
    assert [trained.history[at]["kendall_tau"] for at in (0, -1)] == [0, 1]
    assert trained.ending.kept == "start" and not np.any(trained.params["w"])


@pytest.mark.parametrize("stop", [1, 4, 7])
def test_a_killed_run_ends_with_the_same_weights(tmp_path, stop):
    with Store(tmp_path / "whole").stage("t", {}) as stage:
        whole = run(stage)
    calls = [0]

    def dies(params):
        calls[0] += 1
        if calls[0] == stop + 1:
            raise KeyboardInterrupt
        return {"kendall_tau": np.full(3, -np.sum((np.asarray(params["w"]) - TARGET) ** 2))}

    with pytest.raises(KeyboardInterrupt), Store(tmp_path / "cut").stage("t", {}) as stage:
        run(stage, quality=dies)
    with Store(tmp_path / "cut").stage("t", {}) as stage:
        resumed = run(stage)
    assert np.array_equal(resumed.params["w"], whole.params["w"])
    assert resumed.history == whole.history


def test_a_full_disk_is_met_before_a_checkpoint_is_written(tmp_path, monkeypatch):
    usage = shutil.disk_usage(tmp_path)
    with Store(tmp_path).stage("t", {}) as stage:
        whole = run(stage)
    # parameters and Adam's two moments, of 6 float32 each, and its step counts
    monkeypatch.setattr("shutil.disk_usage", lambda folder: usage._replace(free=3 * 6 * 4))
    with (
        pytest.raises(UserError, match=r"No space left on device.*run the same command again"),
        Store(tmp_path).stage("t", {"again": 1}) as stage,
    ):
        run(stage)
    monkeypatch.undo()
    with Store(tmp_path).stage("t", {"again": 1}) as stage:
        assert np.array_equal(run(stage).params["w"], whole.params["w"])


def test_a_damaged_checkpoint_or_history_starts_training_again(tmp_path, caplog):
    with Store(tmp_path).stage("t", {}) as stage:
        whole = run(stage)
        latest = max(stage.scratch.glob("checkpoints/[0-9]*"), key=lambda folder: int(folder.name))
        file = max((f for f in latest.rglob("*") if f.is_file()), key=lambda f: f.stat().st_size)
        for harmed in (file, stage.scratch / "history.jsonl"):
            content = bytearray(harmed.read_bytes())
            content[len(content) // 2] ^= 1
            harmed.write_bytes(content)
            caplog.clear()
            again = run(stage)
            assert "a checkpoint is damaged; training again from the start" in caplog.text
            assert np.array_equal(again.params["w"], whole.params["w"])
            assert again.history == whole.history


def test_checkpoints_of_another_stage_or_without_a_seal_are_not_used(tmp_path, caplog):
    """Another stage's whole scratch folder, then its checkpoints alone: training begins again."""
    with Store(tmp_path).stage("t", {"epochs": 8}) as other:
        run(other, epochs=8)
        foreign = shutil.copytree(other.scratch, tmp_path / "foreign")
    with Store(tmp_path).stage("t", {}) as stage:
        whole = run(stage)
        for copied in (foreign, foreign / "checkpoints"):
            target = stage.scratch if copied is foreign else stage.scratch / "checkpoints"
            shutil.rmtree(target)
            shutil.copytree(copied, target)
            again = run(stage)
            assert np.array_equal(again.params["w"], whole.params["w"])
            assert again.history == whole.history


def test_a_lost_best_checkpoint_starts_training_again(tmp_path, caplog):
    def worsens(params):
        return {"kendall_tau": np.array([-np.abs(np.asarray(params["w"])).sum()])}

    with Store(tmp_path).stage("t", {}) as stage:
        whole = run(stage, quality=worsens)
        assert max(whole.history, key=lambda row: row["kendall_tau"])["step"] == 0  # the start is the best
        shutil.rmtree(stage.scratch / "checkpoints" / "0")
        again = run(stage, quality=worsens)
    assert "a checkpoint is damaged" in caplog.text
    assert np.array_equal(again.params["w"], whole.params["w"])


@pytest.mark.parametrize("improves", [True, False])
def test_killed_between_a_checkpoint_and_its_seal_goes_on_from_the_one_before(tmp_path, improves):
    def quality(params):
        distance = float(np.sum((np.asarray(params["w"]) - TARGET) ** 2))
        return {"kendall_tau": np.array([-distance if improves else distance])}

    with Store(tmp_path).stage("t", {}) as stage:
        whole = run(stage, quality=quality)
        seals = stage.scratch / "checkpoints.jsonl"
        seals.write_bytes(b"".join(seals.read_bytes().splitlines(keepends=True)[:-1]))
        measured = []
        again = run(stage, quality=lambda params: measured.append(1) or quality(params))
    # the last step, and at the end the average, the start, and the best where that is not the start
    assert len(measured) == (4 if improves else 3)
    assert np.array_equal(again.params["w"], whole.params["w"])
    assert again.history == whole.history


def test_a_loss_that_is_not_finite_stops_with_the_remedy(tmp_path):
    def bad(params, batch, key):
        return jnp.sum(params["w"]) / 0.0 + jnp.nan

    with (
        pytest.raises(UserError, match="the loss is nan at step 0; lower the learning rate"),
        Store(tmp_path).stage("t", {}) as stage,
    ):
        run(stage, loss=bad)


def test_every_instance_comes_once_an_epoch():
    rows = np.concatenate([_rows(step, 10, 4, seed=0) for step in range(5)])
    assert sorted(rows[:10]) == sorted(rows[10:]) == list(range(10))
    assert list(rows[:10]) != list(rows[10:])


def test_held_out_instances_are_apart():
    training, held_out = split_held_out(30, seed=0)
    assert len(held_out) == 7
    assert sorted([*training, *held_out]) == list(range(30))
    counts = {2: 1, 4: 1, 200: 50, 390: 97, 900: 100, 5000: 500, 44_000: 1000}
    assert {count: len(split_held_out(count, 0)[1]) for count in counts} == counts
    with pytest.raises(UserError, match="at least 2 scored instances"):
        split_held_out(1, seed=0)


def test_what_the_starting_weights_saw_is_not_held_out():
    first, first_out = split_held_out(40, seed=3)
    seen = np.isin(np.arange(20), first)  # the later stage has half of the earlier one's queries
    training, held_out = split_held_out(20, seed=3, seen=seen)
    assert len(held_out) and set(held_out) <= set(first_out)
    assert sorted([*training, *held_out]) == list(range(20))
    # the same queries: the same split
    assert [list(part) for part in split_held_out(40, 3, np.isin(np.arange(40), first))] == [
        list(first),
        list(first_out),
    ]
    assert len(split_held_out(20, 3, np.ones(20, bool))[1]) == 5


def test_token_table_is_the_encoders_tokens():
    encoder = load_encoder("tiny")
    texts = ["a short one", "one that has a few more words", ""]
    table = TokenTable(encoder, texts)
    rows = np.array([[1, 0], [2, 1]])
    tokens = table[rows]
    expected = encoder.tokenize([texts[i] for i in rows.reshape(-1)], 16)
    assert tokens.ids.shape == (2, 2, 16)
    assert np.array_equal(tokens.ids.reshape(4, 16), expected.ids)
    assert np.array_equal(tokens.mask.reshape(4, 16), expected.mask)


def test_each_text_once_with_those_of_like_length():
    encoder = load_encoder("tiny")
    texts = ["a " * n for n in (60, 3, 40, 5, 2)]
    table = TokenTable(encoder, texts)
    rows = np.array([[4, 0, 1], [2, 0, 4]])
    found = table.once(rows, 3)
    assert [chunk.ids.shape for chunk in found.chunks] == [(3, 48), (3, 64)]
    ids = np.concatenate([chunk.ids[..., :32] for chunk in found.chunks])
    np.testing.assert_array_equal(ids[found.place], table[rows].ids[..., :32])
    assert found.place.tolist() == [[0, 3, 1], [2, 3, 0]]
    assert (ids[3:] == ids[3]).all()
    [only] = table.once(np.array([1, 4]), 64).chunks
    assert only.ids.shape == (8, 16)  # rows are a multiple of eight

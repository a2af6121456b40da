"""The training loop: a killed training resumes, and the weights that it ends with."""

import shutil
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from ceil_jax.errors import UserError
from ceil_jax.training import loop
from ceil_jax.training.checkpoints import Checkpoint, Checkpoints
from ceil_jax.training.config import LoopSettings
from ceil_jax.training.held_out import split_held_out
from ceil_jax.training.loop import _rows, choose_weights, fit

TARGET = np.linspace(-1, 1, 6).astype(np.float32)


def closeness(params):
    return np.full(3, -np.sum((np.asarray(params["w"]) - TARGET) ** 2))


class LeastSquares:
    """The parameters go towards TARGET."""

    title = "squares"
    training_positions = np.arange(6)

    def __init__(self, loss=None, quality=closeness, as_used=None):
        self.start = {"w": jnp.zeros(6)}
        self._gradient = jax.jit(jax.value_and_grad(loss or self.squares))
        self._quality = quality
        self._as_used = as_used or quality

    @staticmethod
    def squares(params, batch, key):
        return jnp.mean((params["w"][batch] - jnp.asarray(TARGET)[batch]) ** 2)

    def batch(self, step, rows):
        return rows

    def gradient(self, params, batch, key):
        return self._gradient(params, batch, key)

    def quality(self, params):
        return self._quality(params)

    def quality_as_used(self, params):
        return self._as_used(params)


def run(folder, *, epochs=4, checkpoint_seconds=0.0, **problem):
    return fit(
        LeastSquares(**problem),
        LoopSettings(epochs=epochs, batch_size=3, learning_rate=0.05),
        seed=0,
        folder=folder,
        checkpoint_seconds=checkpoint_seconds,
    )


def test_the_weights_of_the_last_quarter_of_the_steps_are_averaged(tmp_path):
    seen = []

    def measured(params):
        seen.append(np.asarray(params["w"]))
        return np.full(3, float(np.any(params["w"])))

    trained = run(tmp_path, quality=measured)
    # 8 steps, each with an evaluation, and the start; then the average and the start again
    np.testing.assert_allclose(trained.params["w"], (seen[7] + seen[8]) / 2, atol=1e-6)
    assert trained.ending.kept == "average"


def ended(average, best, start):
    held_out = {"a": average, "b": best, "s": start}
    return choose_weights("a", "b", "s", lambda name: np.array(held_out[name]), "training")


@pytest.mark.parametrize(
    ("average", "best", "start", "kept"),
    [
        # the best less the average +0.03, with a standard error of 0.07
        ([0.2, 0.3, 0.4], [0.3, 0.2, 0.5], [0.1, 0.2, 0.1], "average"),
        ([0.2, 0.3, 0.4], [0.3, 0.4, 0.6], [0.1, 0.2, 0.1], "best"),
        ([0.2, 0.3, 0.4], [0.3, 0.2, 0.5], [0.3, 0.5, 0.6], "start"),
        ([0.3], [0.9], [0.2], "average"),
    ],
)
def test_trained_weights_are_kept_only_where_they_rank_better(average, best, start, kept):
    weights, how = ended(average, best, start)
    assert (weights, how.kept) == (kept[0], kept)
    final = {"average": average, "best": best, "start": start}[kept]
    assert (how.quality["start"], how.quality[kept]) == pytest.approx(
        (np.mean(start), np.mean(final))
    )


def test_training_ends_with_what_is_best_as_it_will_be_used(tmp_path):
    def moved(params):
        return np.full(3, float(np.any(params["w"])))

    def unmoved(params):
        return 1 - moved(params)

    trained = run(tmp_path, quality=moved, as_used=unmoved)
    assert [trained.history[at]["kendall_tau"] for at in (0, -1)] == [0, 1]
    assert trained.ending.kept == "start"
    assert not np.any(trained.params["w"])


class Killed(BaseException):
    """The end of a process, in the middle of a step."""


class KilledAt(LeastSquares):
    """A training that is killed when it asks for the batch of a step; it keeps the steps asked
    for."""

    def __init__(self, step, **others):
        super().__init__(**others)
        self.steps = []
        self._killed_at = step

    def batch(self, step, rows):
        if step == self._killed_at:
            raise Killed
        self.steps.append(step)
        return rows


def sixteen_steps(folder, problem, checkpoint_seconds=0.0):
    config = LoopSettings(epochs=8, batch_size=3, learning_rate=0.05)
    return fit(problem, config, seed=0, folder=folder, checkpoint_seconds=checkpoint_seconds)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A training that nothing interrupts."""
    return sixteen_steps(tmp_path_factory.mktemp("whole"), LeastSquares())


@pytest.mark.parametrize("step", [1, 4, 15])
def test_a_killed_run_ends_with_the_same_weights_and_history(tmp_path, whole, step):
    """16 steps, of which every second one is followed by an evaluation."""
    with pytest.raises(Killed):
        sixteen_steps(tmp_path / "cut", KilledAt(step))
    problem = KilledAt(None)
    resumed = sixteen_steps(tmp_path / "cut", problem)
    assert problem.steps == list(range(step, 16))
    assert np.array_equal(resumed.params["w"], whole.params["w"])
    assert resumed.history == whole.history
    assert resumed.ending == whole.ending


def test_checkpoints_are_written_by_the_clock(tmp_path, monkeypatch):
    """A step takes two minutes, evaluations nothing: with a checkpoint every five minutes, at most
    the three steps after the last one are done again."""
    clock = [0.0]
    monkeypatch.setattr(loop, "time", SimpleNamespace(monotonic=lambda: clock[0]))

    class Slow(KilledAt):
        def batch(self, step, rows):
            clock[0] += 120
            return super().batch(step, rows)

    with pytest.raises(Killed):
        sixteen_steps(tmp_path, Slow(11), checkpoint_seconds=300.0)
    problem = Slow(None)
    sixteen_steps(tmp_path, problem, checkpoint_seconds=300.0)
    # checkpoints after steps 3, 6 and 9
    assert problem.steps == list(range(9, 16))


def test_a_short_training_writes_no_checkpoint(tmp_path):
    sixteen_steps(tmp_path, LeastSquares(), checkpoint_seconds=300.0)
    assert not list((tmp_path / "checkpoints").iterdir())


def test_a_full_disk_is_met_before_a_checkpoint_is_written(tmp_path, monkeypatch):
    usage = shutil.disk_usage(tmp_path)
    whole = run(tmp_path / "whole")
    # parameters and Adam's two moments, of 6 float32 each
    monkeypatch.setattr("shutil.disk_usage", lambda folder: usage._replace(free=3 * 6 * 4))
    with pytest.raises(UserError, match=r"No space left on device.*run the same command again"):
        run(tmp_path / "full")
    monkeypatch.undo()
    assert np.array_equal(run(tmp_path / "full").params["w"], whole.params["w"])


@pytest.mark.parametrize("part", ["weights", "progress"])
def test_a_checkpoint_that_cannot_be_read_starts_training_again(tmp_path, caplog, part):
    whole = run(tmp_path)
    last = max(int(folder.name) for folder in (tmp_path / "checkpoints").glob("[0-9]*"))
    files = (
        one for one in (tmp_path / "checkpoints" / str(last) / part).rglob("*") if one.is_file()
    )
    file = max(files, key=lambda one: (not one.name.startswith("commit"), one.stat().st_size))
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    again = run(tmp_path)
    assert "training again from the start" in caplog.text
    assert np.array_equal(again.params["w"], whole.params["w"])
    assert again.history == whole.history


@pytest.mark.parametrize("part", ["weights", "progress"])
def test_a_checkpoint_that_is_not_the_one_written_starts_training_again(tmp_path, caplog, part):
    """Its files are whole, but a part of it is that of another training."""
    like = {"w": np.zeros((4, 2), np.float32)}
    for name, value in (("this", 0.5), ("other", 0.25)):
        with Checkpoints(tmp_path / name, like) as checkpoints:
            weights = {"w": np.full((4, 2), value, np.float32)}
            checkpoints.save(Checkpoint(2, weights, [{"step": 1.0, "loss": value}], [value]))
    with Checkpoints(tmp_path / "this", like) as checkpoints:
        assert checkpoints.last.losses == [0.5]
        assert (checkpoints.last.weights["w"] == 0.5).all()
    ours, others = (tmp_path / name / "checkpoints" / "2" / part for name in ("this", "other"))
    shutil.rmtree(ours)
    shutil.copytree(others, ours)
    with Checkpoints(tmp_path / "this", like) as checkpoints:
        assert checkpoints.last is None
    assert "(its checksum is wrong); training again from the start" in caplog.text


def test_a_loss_that_is_not_finite_stops_with_the_remedy(tmp_path):
    def bad(params, batch, key):
        return jnp.sum(params["w"]) / 0.0 + jnp.nan

    with pytest.raises(UserError, match="the loss is nan at step 0; lower the learning rate"):
        run(tmp_path, loss=bad)


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
    training, held_out = split_held_out(20, seed=3, used_by_start=seen)
    assert len(held_out)
    assert set(held_out) <= set(first_out)
    assert sorted([*training, *held_out]) == list(range(20))
    # the same queries: the same split
    again, again_out = split_held_out(40, 3, np.isin(np.arange(40), first))
    assert (list(again), list(again_out)) == (list(first), list(first_out))
    assert len(split_held_out(20, 3, np.ones(20, bool))[1]) == 5


GRADIENTS = np.array([[3.0, 4.0], [0.3, 0.4], [0.0, -5.0], [0.6, 0.0]], np.float32)


class Given:
    """Gradients that do not depend on the weights."""

    title = "gradients"
    training_positions = np.arange(4)

    def __init__(self):
        self.start = {"w": jnp.zeros(2)}

    def batch(self, step, rows):
        return GRADIENTS[step]

    def gradient(self, params, batch, key):
        return jnp.zeros(()), {"w": jnp.asarray(batch)}

    def quality(self, params):
        return np.full(3, float(np.any(params["w"])))

    quality_as_used = quality


def weights(folder, clip):
    """The averaged weights: those after the fourth of four steps with these gradients."""
    config = LoopSettings(epochs=1, batch_size=1, learning_rate=0.1, clip=clip)
    return fit(Given(), config, seed=0, folder=folder).params["w"]


@pytest.mark.parametrize("clip", [None, 1.0])
def test_a_gradient_longer_than_the_norm_is_shortened_to_it(tmp_path, clip):
    # lengths 5, 0.5, 5, 0.6
    divisors = [1, 1, 1, 1] if clip is None else [5, 1, 5, 1]
    # warm-up of one step, then down to 0: rates 0, 0.1, 0.2/3, 0.1/3
    rates = jnp.array([0, 0.1, 0.1 * 2 / 3, 0.1 / 3])
    adam = optax.adam(lambda step: rates[step])
    expected = jnp.zeros(2)
    state = adam.init(jnp.zeros(2))
    for gradient, divisor in zip(GRADIENTS, divisors, strict=True):
        change, state = adam.update(jnp.asarray(gradient / divisor), state)
        expected = expected + change
    np.testing.assert_allclose(weights(tmp_path, clip), expected, rtol=1e-4)

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ceil_jax.distributed.devices import device_mesh, map_batches


def scaled_sums(rows, scale, *, power):
    """Row by row; the scan's start is a constant, as in greedy MAP."""

    def step(total, column):
        return total + column**power, total

    total, _ = jax.lax.scan(step, jnp.zeros(rows.shape[0], rows.dtype), rows.T)
    return {"sum": scale * total, "rows": rows}


def test_there_are_several_devices():
    assert device_mesh().size == jax.device_count() > 1


@pytest.mark.parametrize("total", [1, 3, 8, 21])  # 4 devices × at most 2 rows each: 1, 1, 1 and 3 batches
@pytest.mark.parametrize("make", [np.asarray, jnp.asarray])
def test_every_row_once_and_in_order(total, make):
    rows = np.arange(3.0 * total, dtype=np.float32).reshape(total, 3)
    result = map_batches(scaled_sums, (make(rows),), (np.float32(10),), batch_size=2, power=2)
    np.testing.assert_array_equal(result["rows"], rows)
    np.testing.assert_allclose(result["sum"], 10 * (rows**2).sum(axis=1), rtol=1e-6)


def test_the_work_is_on_every_device():
    result = map_batches(scaled_sums, (np.ones((8, 3), np.float32),), (np.float32(1),), batch_size=2, power=1)
    assert result["rows"].sharding.device_set == set(jax.devices())


def test_one_compilation_for_many_sizes():
    traced = []

    def function(rows):
        traced.append(rows.shape)
        return rows

    for total in (8, 9, 15, 100):
        map_batches(function, (np.zeros((total, 2), np.float32),), batch_size=2)
    assert set(traced) == {(2, 2)}
    assert len(traced) == 1


@pytest.mark.parametrize("devices", [1, 2])
def test_fewer_devices_give_the_same(monkeypatch, devices):
    """With one CPU device the batches run in threads."""
    some = jax.devices()[:devices]
    monkeypatch.setattr(jax, "devices", lambda: some)
    rows = np.arange(60.0, dtype=np.float32).reshape(20, 3)
    result = map_batches(scaled_sums, (rows,), (np.float32(1),), batch_size=2, power=1)
    np.testing.assert_array_equal(result["sum"], rows.sum(axis=1))


def test_no_rows():
    with pytest.raises(ValueError, match="at least one row"):
        map_batches(scaled_sums, (np.zeros((0, 3), np.float32),), (np.float32(1),), batch_size=2, power=1)

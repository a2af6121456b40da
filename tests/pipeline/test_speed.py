"""The speed of this machine: measured once, and kept in the cache folder."""

from ceil_jax.pipeline.speed import Machine, this_machine


def test_a_machine_is_measured_once_and_the_speed_is_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("CEIL_JAX_CACHE", str(tmp_path))
    measurements = []

    def measure():
        measurements.append(1)
        return Machine("m", 3.0, 2.0, 1.0)

    monkeypatch.setattr("ceil_jax.pipeline.speed.measured", measure)
    speeds = []
    for _ in range(2):
        this_machine.cache_clear()  # as in another process
        machine = this_machine()
        speeds.append((machine.lm, machine.encode, machine.train))
    assert speeds == [(3.0, 2.0, 1.0)] * 2
    assert len(measurements) == 1
    [file] = tmp_path.glob("machine-*.json")
    file.write_text("{")
    this_machine.cache_clear()
    assert this_machine().lm == 3.0
    assert len(measurements) == 2
    this_machine.cache_clear()


def test_a_machine_without_a_cache_is_measured_and_kept_nowhere(monkeypatch):
    """A container may have a user without a home folder."""
    monkeypatch.setattr("ceil_jax.pipeline.speed.has_cache", lambda: False)
    monkeypatch.setattr("ceil_jax.pipeline.speed.measured", lambda: Machine("here", 1.0, 2.0, 3.0))
    this_machine.cache_clear()
    assert this_machine().name == "here"
    this_machine.cache_clear()

"""A store that only looks reads what is there, guesses what is not, and writes nothing."""

import pytest

from ceil_jax.store.looking import LookingStore
from ceil_jax.store.store import Store


def looking(root, spent):
    """The store, and what it noted by stage: (what, amounts)."""
    noted = {}
    store = LookingStore(
        root,
        lambda stage, what, **amounts: noted.setdefault(stage.name, (what, amounts)),
        lambda: dict(spent),
    )
    return store, noted


def test_what_is_missing_is_estimated_from_a_sample(tmp_path):
    spent = {"read": 7}
    store, noted = looking(tmp_path / "none", spent)

    def work(start, stop):
        spent["read"] += 10 * (stop - start)
        return [f"row {i}" for i in range(start, stop)]

    with store.stage("scores", {"a": 1}) as stage:
        assert stage.summary is None
        rows = stage.rows(100, work, chunk=10, what="scoring")
    assert len(rows) == 100 and set(rows) <= {f"row {i}" for i in range(100)}
    assert spent["read"] == 7 + 3 * 10 * 10  # three chunks of ten
    assert noted == {stage.name: ("scoring", {"read": pytest.approx(1000)})}
    assert not (tmp_path / "none").exists()


def test_what_is_on_disk_is_read(tmp_path):
    with Store(tmp_path).stage("scores", {"a": 1}) as stage:
        stage.rows(4, lambda start, stop: list(range(start, stop)), chunk=2, what="scoring")
        stage.finish({"value": 1})
    before = {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*")}
    store, noted = looking(tmp_path, {})
    with store.stage("scores", {"a": 1}) as stage:
        assert stage.summary == {"value": 1}
        rows = stage.rows(4, lambda *_: pytest.fail("computed again"), chunk=2, what="scoring")
    assert list(rows) == [0, 1, 2, 3] and noted == {stage.name: ("scoring", {"done": True})}
    assert {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*")} == before


def test_rows_by_key_are_estimated_from_those_that_are_missing(tmp_path):
    with Store(tmp_path).stage("skills", {}) as stage:
        stage.keyed_rows(["a"], lambda keys: keys, chunk=2, what="rewriting")
    spent = {"read": 0}
    store, noted = looking(tmp_path, spent)

    def work(keys):
        spent["read"] += len(keys)
        return keys

    with store.stage("skills", {}) as stage:
        assert len(stage.keyed_rows([*"abcde"], work, chunk=2, what="rewriting")) == 5
    assert noted[stage.name] == ("rewriting", {"read": pytest.approx(4)})

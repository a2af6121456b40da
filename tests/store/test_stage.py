import errno
import logging
import threading
import time

import numpy as np
import pytest

from ceil_jax.errors import UserError
from ceil_jax.store.hashing import canonical, digest
from ceil_jax.store.store import Store
from ceil_jax.tasks.example import Example


def squares(start, stop):
    return [{"n": n, "square": n * n} for n in range(start, stop)]


def collect(tmp_path, work=squares, total=10, chunk=3):
    with Store(tmp_path).stage("squares", {"total": total}) as stage:
        return list(stage.rows(total, work, chunk=chunk, what="squares"))


def log_file(tmp_path):
    [file] = tmp_path.glob("squares-*/rows.jsonl")
    return file


def test_digest_depends_on_content_and_not_on_the_order_of_keys():
    assert digest({"a": 1, "b": [2.5]}) == digest({"b": [2.5], "a": 1})
    assert digest({"a": 1}) != digest({"a": 2})
    ones = np.ones(4, np.float32)
    assert digest({"x": ones}) != digest({"x": ones.reshape(2, 2)})
    assert digest({"x": ones}) != digest({"x": ones.view(np.int32)})
    example = Example("train-0", "a", "b", ("b", "c"))
    assert digest(example) != digest(Example("train-0", "a", "c", ("b", "c")))
    assert '"fields":{}' in canonical(example)


def test_a_key_must_be_plain():
    with pytest.raises(TypeError, match="cannot be part"):
        digest({"x": object()})


def test_rows_come_back_without_working_again(tmp_path):
    first = collect(tmp_path)
    assert first == squares(0, 10)
    assert collect(tmp_path, work=lambda start, stop: pytest.fail("worked again")) == first


def test_a_stopped_stage_goes_on_where_it_was_with_the_same_chunks(tmp_path):
    asked = []

    def stops(start, stop):
        if start == 6:
            raise KeyboardInterrupt
        return squares(start, stop)

    with pytest.raises(KeyboardInterrupt):
        collect(tmp_path, work=stops)

    def goes_on(start, stop):
        asked.append((start, stop))
        return squares(start, stop)

    assert collect(tmp_path, work=goes_on) == squares(0, 10)
    assert asked == [(6, 9), (9, 10)]


@pytest.mark.parametrize(
    "harm",
    [
        lambda text: text[:-7],  # killed while writing
        lambda text: text.replace('"square":9', '"square":8'),
        lambda text: text.replace('"start":3', '"start":0'),
        lambda text: b"\xff\xfe".decode("latin-1") + text,
    ],
    ids=["torn", "changed", "misplaced", "garbage"],
)
def test_a_damaged_chunk_is_computed_again_and_said(tmp_path, caplog, harm):
    whole = collect(tmp_path)
    file = log_file(tmp_path)
    file.write_text(harm(file.read_text()), encoding="latin-1")
    asked = []

    def work(start, stop):
        asked.append(start)
        return squares(start, stop)

    with caplog.at_level(logging.WARNING):
        assert collect(tmp_path, work=work) == whole
    assert len(asked) == 1
    assert "1 damaged or half-written chunk(s)" in caplog.text


def test_costs_add_up_over_processes(tmp_path):
    read = [0]

    def work(start, stop):
        read[0] += 100 * (stop - start)
        return squares(start, stop)

    for total in (7, 7):
        with Store(tmp_path).stage("squares", {}) as stage:
            rows = stage.rows(total, work, chunk=3, what="squares", cost=lambda: read[0])
    assert rows.tokens == 700
    assert rows.seconds >= 0


def test_a_damaged_file_makes_a_stage_unfinished(tmp_path, caplog):
    store, key = Store(tmp_path), {"a": 1}
    with store.stage("vectors", key) as stage:
        assert stage.summary is None
        stage.save("vectors.npy", np.arange(4.0))
        stage.finish({"texts": 4}, ("vectors.npy",))
        assert stage.summary == {"texts": 4}
        assert stage.load("vectors.npy").tolist() == [0, 1, 2, 3]
    [file] = tmp_path.glob("vectors-*/vectors.npy")
    file.write_bytes(file.read_bytes()[:-1] + b"\x01")
    with store.stage("vectors", key) as stage, caplog.at_level(logging.WARNING):
        assert stage.summary is None
    assert "is damaged" in caplog.text


def test_a_full_disk_is_one_line_and_loses_nothing(tmp_path):
    def full(start, stop):
        if start == 6:
            raise OSError(errno.ENOSPC, "No space left on device")
        return squares(start, stop)

    with pytest.raises(UserError, match=r"No space left on device.*run the same command again"):
        collect(tmp_path, work=full)
    asked = []
    collect(tmp_path, work=lambda start, stop: asked.append(start) or squares(start, stop))
    assert asked == [6, 9]


def test_other_os_errors_are_not_taken_for_the_disk(tmp_path):
    def refused(start, stop):
        raise ConnectionRefusedError(errno.ECONNREFUSED, "refused")

    with pytest.raises(ConnectionRefusedError):
        collect(tmp_path, work=refused)


def test_a_second_process_waits(tmp_path, caplog):
    order = []
    inside = threading.Event()

    def holder():
        with Store(tmp_path).stage("s", {}):
            inside.set()
            time.sleep(0.3)
            order.append("first")

    thread = threading.Thread(target=holder)
    thread.start()
    inside.wait()
    with caplog.at_level(logging.WARNING), Store(tmp_path).stage("s", {}):
        order.append("second")
    thread.join()
    assert order == ["first", "second"]
    assert "waiting for it" in caplog.text

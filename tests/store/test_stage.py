import errno
import json
import logging
import shutil
import threading
import time
import zlib

import numpy as np
import pytest

from ceil_jax.errors import UserError
from ceil_jax.store.hashing import canonical, digest
from ceil_jax.store.shards import Shard
from ceil_jax.store.stage import Stage
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


def test_a_line_that_stands_twice_makes_a_stage_unfinished(tmp_path):
    store, key = Store(tmp_path), {"a": 1}
    with store.stage("vectors", key) as stage:
        stage.finish({"texts": 4})
    [done] = tmp_path.glob("vectors-*/done.json")
    whole = done.read_bytes()
    done.write_bytes(whole.replace(b'  "texts": 4\n', b'  "texts": 4,\n  "texts": 4\n'))
    assert done.read_bytes() != whole
    with store.stage("vectors", key) as stage:
        assert stage.summary is None
        stage.finish({"texts": 4})
    assert done.read_bytes() == whole


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


def cubes(start, stop):
    return [{"n": n, "square": n**3} for n in range(start, stop)]


def make(root, kind, work, total=10):
    """Rows and a finished summary that depend on `work`; what was worked on now."""
    asked = []

    def working(start, stop):
        asked.append(start)
        return work(start, stop)

    with Store(root).stage(kind, {"work": work.__name__}) as stage:
        rows = list(stage.rows(total, working, chunk=3, what=kind))
        if stage.summary is None:
            asked.append("summary")
            stage.save("scores.npy", np.array([row["square"] for row in rows]))
            stage.finish({"value": sum(row["square"] for row in rows)}, ("scores.npy",))
        return rows, stage.summary["value"], asked


def line(content):
    body = json.dumps(content, separators=(",", ":"))
    return f"{zlib.crc32(body.encode()):08x} {body}\n"


def test_rows_of_another_stage_are_computed_again(tmp_path, caplog):
    """A journal copied from another folder; every line of it is whole."""
    ours = make(tmp_path, "rows", squares)
    make(tmp_path, "rows", cubes)
    other, one = (tmp_path / f"rows-{digest({'work': name})}" for name in ("cubes", "squares"))
    shutil.copy(other / "rows.jsonl", one / "rows.jsonl")
    with caplog.at_level(logging.WARNING):
        rows, value, asked = make(tmp_path, "rows", squares)
    assert (rows, value) == ours[:2]
    assert asked == [0, 3, 6, 9]
    assert "4 chunk(s) of another stage or of another length; computing them again" in caplog.text
    assert make(tmp_path, "rows", squares)[2] == []  # the file holds none of them any more


@pytest.mark.parametrize("what", ["folders", "done.json and files"])
def test_two_stages_swapped_are_computed_again(tmp_path, caplog, what):
    ours, theirs = make(tmp_path, "metrics", squares), make(tmp_path, "metrics", cubes)
    one, other = (tmp_path / f"metrics-{digest({'work': name})}" for name in ("squares", "cubes"))
    if what == "folders":
        one.rename(tmp_path / "held")
        other.rename(one)
        (tmp_path / "held").rename(other)
    else:
        for file in ("done.json", "scores.npy"):
            held = (one / file).read_bytes()
            (one / file).write_bytes((other / file).read_bytes())
            (other / file).write_bytes(held)
    assert Stage(one).peek() is None
    with caplog.at_level(logging.WARNING):
        assert make(tmp_path, "metrics", squares)[:2] == ours[:2]
        assert make(tmp_path, "metrics", cubes)[:2] == theirs[:2]
    assert "is damaged" in caplog.text
    assert Stage(one).peek() == {"value": ours[1]}


def test_a_chunk_one_row_short_is_computed_again(tmp_path, caplog):
    ours = make(tmp_path, "rows", squares)
    [file] = tmp_path.glob("rows-*/rows.jsonl")
    chunks = [json.loads(text.partition(" ")[2]) for text in file.read_text().splitlines()]
    chunks[1]["rows"].pop()
    file.write_text("".join(map(line, chunks)))
    assert Stage(file.parent).missing_rows(10, 3) == [3]
    with caplog.at_level(logging.WARNING):
        rows, _, asked = make(tmp_path, "rows", squares)
    assert (rows, asked) == (ours[0], [3])
    assert "1 chunk(s) of another stage or of another length" in caplog.text


def older(folder):
    """Write a stage's files as versions did that wrote no stage's name into them."""
    for name in ("rows.jsonl",):
        chunks = [json.loads(text.partition(" ")[2]) for text in (folder / name).read_text().splitlines()]
        (folder / name).write_text(
            "".join(line({k: v for k, v in c.items() if k != "stage"}) for c in chunks)
        )
    record = json.loads((folder / "done.json").read_text())
    record = {"summary": record["summary"], "files": record["files"]}
    (folder / "done.json").write_text(json.dumps({**record, "checksum": digest(list(record.values()))}))


def test_stages_of_before_are_taken_while_their_key_is_whole(tmp_path, caplog):
    ours = make(tmp_path, "rows", squares)
    [folder] = tmp_path.iterdir()
    older(folder)
    assert make(tmp_path, "rows", squares) == (*ours[:2], [])
    key = folder / "key.json"
    key.write_text(key.read_text().replace("squares", "squarez"))
    with caplog.at_level(logging.WARNING):
        assert make(tmp_path, "rows", squares) == (*ours[:2], [0, 3, 6, 9, "summary"])
    assert "key.json is damaged" in caplog.text


def test_a_damaged_key_costs_nothing_where_the_content_names_its_stage(tmp_path, caplog):
    ours = make(tmp_path, "rows", squares)
    [key] = tmp_path.glob("rows-*/key.json")
    whole = key.read_bytes()
    key.write_bytes(whole[:-5])
    assert Stage(key.parent).peek() is None
    assert make(tmp_path, "rows", squares) == (*ours[:2], [])
    assert key.read_bytes() == whole
    assert "key.json is damaged" in caplog.text


def test_the_line_for_a_checksum_cannot_be_renamed_away(tmp_path):
    make(tmp_path, "rows", squares)
    [done] = tmp_path.glob("rows-*/done.json")
    record = done.read_text()
    for name in ("stage", "checksum"):
        done.write_text(
            record.replace(f'"{name}"', f'"{name[:-1]}~"').replace('"value": 285', '"value": 999')
        )
        assert Stage(done.parent).peek() is None


def test_shards_that_begin_together_write_the_key_apart(tmp_path):
    """One is killed in the middle of it: the other's file is its own."""
    folder = tmp_path / f"rows-{digest({})}"
    folder.mkdir()
    (folder / "key.json.part-1-of-2").mkdir()  # nothing can be written there
    with Store(tmp_path).stage("rows", {}, Shard(2, 2)) as stage:
        assert (stage.folder / "key.json").read_text() == "{}\n"


@pytest.mark.parametrize(
    ("out", "why"),
    [
        ("file/runs", "Not a directory"),
        ("file", "File exists|Not a directory"),
        ("x" * 300, "File name too long"),
        ("/proc/runs", "No such file"),
    ],
)
def test_a_folder_that_takes_no_files_is_one_line(tmp_path, out, why):
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(UserError, match=rf"^cannot write to .*({why}).*run the same command again$") as said,
        Store(tmp_path / out).stage("rows", {}),
    ):
        pass
    assert len(str(said.value)) < 400

"""Folders that are finished or not, files that appear whole, and the hashes that name both."""

import json
import multiprocessing
import os
import shutil

import numpy as np
import pytest

from ceil_jax.store.folder import (
    complete,
    finish,
    finished,
    load_arrays,
    read_json,
    read_key,
    save_arrays,
    write_json,
)
from ceil_jax.store.hashing import canonical, digest
from ceil_jax.store.locking import appearing, write
from ceil_jax.tasks.example import Example

CONTENT = {"k": 3, "task": "films"}
KEY = canonical(CONTENT)
NAME = f"scores-{digest(CONTENT)}"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A finished folder, which no process has compared yet."""
    monkeypatch.setattr("ceil_jax.store.folder._checked", {})
    made = tmp_path / NAME

    def fill():
        save_arrays(made / "a.npz", x=np.arange(3.0))
        write_json(made / "sub" / "rows.json", [{"π": 1}])
        (made / "scratch").mkdir()
        (made / "left.json.123.part").touch()
        return {"value": 1.5, "by": {2: 3}}

    complete(made, KEY, fill)
    return made


def test_a_finished_folder_has_its_summary_and_its_files(folder, tmp_path):
    assert finished(folder) == {"value": 1.5, "by": {"2": 3}}
    assert load_arrays(folder / "a.npz")["x"].tolist() == [0, 1, 2]
    assert read_json(folder / "sub" / "rows.json") == [{"π": 1}]
    assert not (folder / "scratch").exists()
    assert list(folder.rglob("*.part")) == []
    assert read_key(folder) == CONTENT
    assert sorted(json.loads((folder / "done.json").read_bytes())["files"]) == [
        "a.npz",
        "sub/rows.json",
    ]
    (tmp_path / "scores-1").mkdir()
    assert finished(tmp_path / "scores-1") is None
    assert finished(tmp_path / "none") is None


def flipped(file):
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


@pytest.mark.parametrize(
    ("name", "harm"),
    [
        ("a.npz", flipped),
        ("sub/rows.json", lambda file: file.unlink()),
        ("done.json", lambda file: file.write_text(file.read_text()[:20])),
        ("done.json", lambda file: file.write_text(file.read_text().replace("1.5", "2.5"))),
        (
            "done.json",
            lambda file: file.write_text(file.read_text().replace('"checksum"', '"checksun"')),
        ),
        ("done.json", lambda file: file.write_text("[]")),
        ("key.json", flipped),
        ("key.json", lambda file: file.unlink()),
        ("key.json", lambda file: file.write_text('{"k":3,"task":"foods"}\n')),
    ],
)
def test_a_damaged_folder_is_unfinished_and_said(folder, caplog, name, harm):
    harm(folder / name)
    assert finished(folder) is None
    assert f"{folder / name} is damaged; computing {NAME} again" in caplog.text


def test_a_pipe_in_place_of_a_file_is_not_waited_for(folder):
    for name in ("done.json", "key.json"):
        (folder / name).unlink()
        os.mkfifo(folder / name)
    assert finished(folder) is None
    assert read_key(folder) is None


def test_a_folder_under_another_name_is_unfinished(folder, tmp_path):
    """Two folders that were swapped, or one that was copied to the place of another."""
    shutil.copytree(folder, tmp_path / "scores-1")
    assert finished(tmp_path / "scores-1") is None
    assert finished(folder) is not None


def test_a_folder_is_compared_again_after_it_was_finished_anew(folder):
    assert finished(folder) == {"value": 1.5, "by": {"2": 3}}
    finish(folder, {"value": 2})
    assert finished(folder) == {"value": 2}


def test_a_file_appears_whole_or_not_at_all(tmp_path):
    write(tmp_path / "new" / "file", b"old")
    with pytest.raises(KeyboardInterrupt), appearing(tmp_path / "new" / "file") as out:
        out.write(b"half of the n")
        raise KeyboardInterrupt
    assert [file.read_bytes() for file in (tmp_path / "new").iterdir()] == [b"old"]


def test_every_bit_of_a_key_is_compared_with_the_folders_name(folder):
    file = folder / "key.json"
    whole = file.read_bytes()
    for bit in range(8 * len(whole)):
        changed = bytearray(whole)
        changed[bit // 8] ^= 1 << bit % 8
        file.write_bytes(changed)
        assert read_key(folder) is None, bytes(changed)


def test_what_killed_processes_left_of_a_file_goes_with_the_next_write(tmp_path):
    dead = multiprocessing.get_context("spawn").Process()
    dead.start()
    dead.join()
    left = [f"a.npz.{dead.pid}.part", "a.npz.99999999999999999999.part"]
    others = [f"a.npz.{os.getppid()}.part", "a.npz.part", f"b.npz.{dead.pid}.part", "notes.part"]
    for name in left + others:
        (tmp_path / name).write_text("half")
    save_arrays(tmp_path / "a.npz", x=np.zeros(1))
    assert {file.name for file in tmp_path.iterdir()} == {"a.npz", *others}


def test_a_damaged_folder_is_kept_aside_under_a_new_name_each_time(folder, tmp_path):
    whole = {file.name for file in folder.iterdir()} - {".lock"}
    assert whole == {"a.npz", "sub", "key.json", "done.json"}
    found = []
    for _ in range(2):
        flipped(folder / "done.json")
        complete(folder, KEY, lambda: found.append(os.listdir(folder)) or {"value": 2})
        assert finished(folder) == {"value": 2}
    assert list(map(sorted, found)) == [[".lock", "key.json"]] * 2
    first, second = sorted((tmp_path / "damaged").iterdir())
    assert {file.name for file in first.iterdir()} == whole
    assert {file.name for file in second.iterdir()} == {"key.json", "done.json"}


def test_a_finished_folder_is_not_filled_again_and_an_unfinished_one_keeps_its_files(folder):
    complete(folder, KEY, lambda: pytest.fail("filled again"))
    (folder / "done.json").unlink()
    (folder / "scratch").mkdir()
    complete(folder, KEY, lambda: {"there": sorted(os.listdir(folder))})
    assert finished(folder)["there"] == [".lock", "a.npz", "key.json", "scratch", "sub"]


def test_a_digest_depends_on_content_and_not_on_the_order_of_keys():
    assert (
        digest({"a": 1, "b": [2.5]}) == digest({"b": [2.5], "a": 1}) != digest({"a": 2, "b": [2.5]})
    )
    ones = np.ones(4, np.float32)
    assert len({digest(one) for one in (ones, ones.reshape(2, 2), ones.view(np.int32))}) == 3
    example = Example("train-0", "a", "b", ("b", "c"))
    assert digest(example) != digest(Example("train-0", "a", "c", ("b", "c")))
    assert '"fields":{}' in canonical(example)
    with pytest.raises(TypeError, match="object cannot be part of a stage's key"):
        digest({"x": object()})

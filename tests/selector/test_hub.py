"""A selector to the hub and back; what comes from there is data and never code."""

import json
import shutil
import sys
from fnmatch import fnmatch
from types import SimpleNamespace

import pytest
from selector_words import ROWS

from ceil_jax import CeilSelector, Encoder, UserError
from ceil_jax.selector import folder as folders


class Hub:
    """Stands in for the hub: repositories are folders."""

    def __init__(self, root):
        self.root, self.private = root, {}

    def api(self, token=None):
        return self

    def create_repo(self, repo_id, *, private, exist_ok):
        assert exist_ok
        self.private[repo_id] = private

    def upload_folder(self, *, repo_id, folder_path, commit_message, ignore_patterns, delete_patterns):
        there = self.root / repo_id
        for file in [file for file in there.rglob("*") if file.is_file()]:
            if any(fnmatch(str(file.relative_to(there)), pattern) for pattern in delete_patterns):
                file.unlink()
        ignore = shutil.ignore_patterns(*ignore_patterns)
        shutil.copytree(folder_path, there, dirs_exist_ok=True, ignore=ignore)
        return SimpleNamespace(commit_url=f"commit of {repo_id}: {commit_message}")

    def snapshot_download(self, repo_id, allow_patterns):
        if not (self.root / repo_id).is_dir():
            raise ConnectionError("no such repository")
        snapshot = self.root / "cache" / repo_id
        shutil.rmtree(snapshot, ignore_errors=True)
        snapshot.mkdir(parents=True)
        for file in (self.root / repo_id).rglob("*"):
            path = file.relative_to(self.root / repo_id)
            if file.is_file() and any(fnmatch(str(path), pattern) for pattern in allow_patterns):
                (snapshot / path).parent.mkdir(parents=True, exist_ok=True)
                (snapshot / path).symlink_to(file)  # as the hub's cache does
        return str(snapshot)


@pytest.fixture
def hub(tmp_path, monkeypatch):
    stand_in = Hub(tmp_path)
    monkeypatch.setattr("huggingface_hub.HfApi", stand_in.api)
    monkeypatch.setattr("huggingface_hub.snapshot_download", stand_in.snapshot_download)
    return stand_in


def test_to_the_hub_and_back(hub, saved):
    selector, _ = saved
    assert selector.push_to_hub("me/films") == "commit of me/films: Selector of 60 examples"
    assert hub.private == {"me/films": True}
    again = CeilSelector.from_pretrained("me/films")
    assert again.examples == selector.examples
    page = (hub.root / "me/films/README.md").read_text()
    head = page.split("---")[1]
    assert 'license: "mit"' in head
    assert "| accuracy | 0.5 |" in page
    assert '| training data | "quoted": text |' in page
    assert "60 examples with 2 different outputs" in page
    with pytest.raises(UserError, match="'me/other' is not a folder here, and no hub id"):
        CeilSelector.from_pretrained("me/other")


def test_what_is_pushed_takes_the_place_of_what_was_there(hub, saved, tiny):
    other = tiny.with_params({name: 2 * value for name, value in tiny.params.items()})
    CeilSelector.from_examples(ROWS[:9], encoder=tiny, query_encoder=other).push_to_hub("me/films")
    assert (hub.root / "me/films/content-1/query_encoder").is_dir()
    saved[0].push_to_hub("me/films")
    assert CeilSelector.from_pretrained("me/films").examples == saved[0].examples
    assert not (hub.root / "me/films/.lock").exists()


@pytest.mark.parametrize("depth", ["encoder", "encoder/x", "encoder/x/y"])
def test_a_download_imports_nothing_at_any_depth(hub, saved, tiny, depth, tmp_path, monkeypatch):
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "strangers_code.py").write_text("def build():\n    raise SystemExit('it ran')\n")
    monkeypatch.chdir(tmp_path / "code")
    saved[0].push_to_hub("me/films")
    folder = hub.root / "me/films"
    files = folder / "content-1"
    shutil.rmtree(files / "encoder")
    stranger = Encoder(tiny.module, tiny.tokenizer, max_length=128, factory="strangers_code:build")
    stranger.save_pretrained(files / depth)
    (files / depth / "config.json").write_text(json.dumps({"model_type": "bert"}))
    record = folders.read_manifest(folder / "selector.json")
    (folder / "selector.json").write_text(folders._text({**record, "files": folders._files(files)}))
    for given in ({}, {"allow_import": ("strangers_code",)}):
        with pytest.raises(UserError, match=r"asks to import .strangers_code:build.|config.json is missing"):
            CeilSelector.from_pretrained("me/films", **given)
    assert "strangers_code" not in sys.modules


def test_the_hub_says_no(hub, saved, monkeypatch):
    def refuse(*args, **kwargs):
        raise OSError("no token found\nmore")

    monkeypatch.setattr(hub, "create_repo", refuse)
    with pytest.raises(
        UserError, match=r"cannot push to 'me/films': no token found; log in with `hf auth login`"
    ):
        saved[0].push_to_hub("me/films")

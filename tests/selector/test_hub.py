"""A selector from the hub; what comes from there is data and never code."""

import json
import shutil
import sys
from fnmatch import fnmatch

import pytest

from ceil_jax import CeilSelector, Encoder, UserError
from ceil_jax.store.hashing import file_hashes


class Hub:
    """Stands in for the hub: repositories are folders."""

    def __init__(self, root):
        self.root = root

    def snapshot_download(self, repo_id, allow_patterns):
        if not (self.root / repo_id).is_dir():
            raise ConnectionError("no such repository")
        cache = self.root / "cache" / f"models--{repo_id.replace('/', '--')}"
        shutil.rmtree(cache, ignore_errors=True)
        snapshot = cache / "snapshots" / "c0ffee"
        (cache / "blobs").mkdir(parents=True)
        for number, file in enumerate((self.root / repo_id).rglob("*")):
            path = file.relative_to(self.root / repo_id)
            if file.is_file() and any(fnmatch(str(path), pattern) for pattern in allow_patterns):
                (snapshot / path).parent.mkdir(parents=True, exist_ok=True)
                blob = shutil.copy(file, cache / "blobs" / str(number))
                (snapshot / path).symlink_to(blob)  # as the hub's cache does
        return str(snapshot)


@pytest.fixture
def hub(tmp_path, monkeypatch):
    stand_in = Hub(tmp_path)
    monkeypatch.setattr("huggingface_hub.snapshot_download", stand_in.snapshot_download)
    return stand_in


def test_from_the_hub(hub, saved):
    selector, folder = saved
    shutil.copytree(folder, hub.root / "me/films")
    again = CeilSelector.from_pretrained("me/films")
    assert again.examples == selector.examples
    page = (hub.root / "me/films/README.md").read_text()
    head = page.split("---")[1]
    assert 'license: "mit"' in head
    assert "| accuracy | 0.5 |" in page
    assert '| training data | "quoted": text |' in page
    assert "60 examples with 2 different outputs" in page
    with pytest.raises(UserError, match="'me/other' is neither a folder nor a hub id"):
        CeilSelector.from_pretrained("me/other")


@pytest.mark.parametrize("depth", ["encoder", "encoder/x", "encoder/x/y"])
def test_a_download_imports_nothing_at_any_depth(hub, saved, tiny, depth, tmp_path, monkeypatch):
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "strangers_code.py").write_text(
        "def build():\n    raise SystemExit('it ran')\n"
    )
    monkeypatch.chdir(tmp_path / "code")
    folder = hub.root / "me/films"
    saved[0].save_pretrained(folder)
    files = folder / "content-1"
    shutil.rmtree(files / "encoder")
    stranger = Encoder(tiny.module, tiny.tokenizer, max_length=128, factory="strangers_code:build")
    stranger.save_pretrained(files / depth)
    (files / depth / "config.json").write_text(json.dumps({"model_type": "bert"}))
    record = json.loads((folder / "selector.json").read_text())
    (folder / "selector.json").write_text(json.dumps({**record, "files": file_hashes(files)}))
    with pytest.raises(
        UserError, match=r"is made by .strangers_code:build.|config.json is missing"
    ):
        CeilSelector.from_pretrained("me/films")
    assert "strangers_code" not in sys.modules

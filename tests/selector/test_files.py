"""A selector as a folder: everything comes back, or one line says what is wrong with it."""

import hashlib
import json
import shutil
import sys
from dataclasses import asdict, replace

import numpy as np
import pytest
from selector_words import QUERY, ROWS, Words, words

from ceil_jax import CeilSelector, Encoder, UserError, load_encoder, register_encoder
from ceil_jax.selector.folder.card import Card
from ceil_jax.selector.folder.manifest import FORMAT, manifest_text, read_manifest


def content(folder):
    """The folder of the current version."""
    return folder / read_manifest(folder / "selector.json").content


def test_a_folder_brings_everything_back(saved):
    selector, folder = saved
    again = CeilSelector.from_pretrained(folder)
    assert again.examples == selector.examples
    assert (again.trade_off, again.shortlist, again.template) == (0.2, 30, selector.template)
    assert again.card == selector.card
    assert again.encoder.fingerprint == selector.encoder.fingerprint
    [vectors] = again.bank.view.blocks
    assert isinstance(vectors.base, np.memmap)
    query = {"input": QUERY, "town": "town9"}
    assert again.select(query, k=5) == selector.select(query, k=5)
    assert again.select(query, k=1).prompt.endswith(f"\ntown9: {QUERY} =")
    assert not [file for file in folder.rglob("*") if file.suffix in (".pkl", ".pickle", ".bin", ".pt")]
    assert CeilSelector.from_pretrained(folder, trade_off=0.7, count_tokens=words).trade_off == 0.7


def test_a_mapped_bank_lives_on_and_saves_over_itself(saved, tmp_path):
    selector, _ = saved
    selector.save_pretrained(tmp_path)
    live = CeilSelector.from_pretrained(tmp_path)
    live.remove([row["id"] for row in ROWS[:5]])
    added = live.add([{"input": QUERY, "output": "light", "town": "town1", "new": "yes"}])
    live.save_pretrained(tmp_path)
    again = CeilSelector.from_pretrained(tmp_path)
    assert again.examples == live.examples
    assert len(again) == 60 - 5 + 1
    query = {"input": QUERY, "town": "town1"}
    assert again.select(query, k=4) == live.select(query, k=4)
    assert again.examples[-1].fields == {"town": "town1", "new": "yes"}
    assert added == ["bank-0"]
    assert again.add([{"input": "more", "output": "dark"}]) == ["bank-1"]
    # one version is left, and nothing of the save itself
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        ".lock",
        "README.md",
        "content-2",
        "selector.json",
    ]


def test_two_encoders_and_an_empty_bank(tiny, tmp_path):
    key = "embeddings.word.embedding"
    other = tiny.with_params({**tiny.params, key: tiny.params[key][::-1]})
    selector = CeilSelector.from_examples([], encoder=tiny, query_encoder=other)
    selector.save_pretrained(tmp_path)
    again = CeilSelector.from_pretrained(tmp_path)
    assert again.encoder.fingerprint == tiny.fingerprint
    assert again.query_encoder.fingerprint == other.fingerprint
    again.add(ROWS[:3])
    assert len(again.select(QUERY, k=2).picks) == 2


def test_damaged_folders(saved, tiny, tmp_path):
    selector, _ = saved
    selector.save_pretrained(tmp_path)
    files = content(tmp_path)
    vectors = (files / "vectors.npy").read_bytes()
    (files / "vectors.npy").write_bytes(vectors[:-1] + bytes([vectors[-1] ^ 1]))
    with pytest.raises(UserError, match=r"vectors.npy is not what selector.json names"):
        CeilSelector.from_pretrained(tmp_path)
    assert len(CeilSelector.from_pretrained(tmp_path, verify=False)) == 60
    (files / "vectors.npy").write_bytes(vectors[:-400])
    with pytest.raises(UserError, match=r"vectors.npy is not what selector.json names"):
        CeilSelector.from_pretrained(tmp_path, verify=False)
    (files / "vectors.npy").write_bytes(bytes(len(vectors)))
    with pytest.raises(UserError, match=r"cannot read .*vectors.npy"):
        CeilSelector.from_pretrained(tmp_path, verify=False)
    (files / "vectors.npy").write_bytes(vectors)
    size = (files / "examples.parquet").stat().st_size
    (files / "examples.parquet").write_bytes(b"no" * (size // 2) + b"!" * (size % 2))
    with pytest.raises(UserError, match=r"cannot read .*examples.parquet"):
        CeilSelector.from_pretrained(tmp_path, verify=False)
    (files / "examples.parquet").unlink()
    with pytest.raises(UserError, match=r"examples.parquet is missing"):
        CeilSelector.from_pretrained(tmp_path)

    selector.save_pretrained(tmp_path)
    (content(tmp_path) / "encoder" / "more.json").write_text("{}")
    with pytest.raises(UserError, match=r"more.json is not named in selector.json"):
        CeilSelector.from_pretrained(tmp_path, verify=False)
    (content(tmp_path) / "encoder" / "more.json").unlink()
    key = "embeddings.word.embedding"
    tiny.with_params({**tiny.params, key: 2 * tiny.params[key]}).save_pretrained(
        content(tmp_path) / "encoder"
    )
    with pytest.raises(UserError, match=r"is not the encoder that selector.json names"):
        CeilSelector.from_pretrained(tmp_path, verify=False)
    shutil.rmtree(content(tmp_path))
    with pytest.raises(UserError, match=r"content-2 is missing"):
        CeilSelector.from_pretrained(tmp_path)
    (tmp_path / "selector.json").unlink()
    with pytest.raises(UserError, match=r"holds no selector.json"):
        CeilSelector.from_pretrained(tmp_path)
    with pytest.raises(UserError, match="encoder is a Words; only what load_encoder gives can be saved"):
        CeilSelector.from_examples(ROWS, encoder=Words()).save_pretrained(tmp_path)


def test_settings_of_a_wrong_type_or_range_are_refused(saved, tmp_path):
    saved[0].save_pretrained(tmp_path)
    file = tmp_path / "selector.json"
    text = file.read_text()
    for old, new in (('"trade_off": 0.2', '"trade_off": 8.2'), ("content-1", "content-3"), ("\n", "\n ")):
        assert old in text
        file.write_text(text.replace(old, new, 1))
        with pytest.raises(UserError, match=r"selector\.json is damaged; save or fetch the selector again"):
            CeilSelector.from_pretrained(tmp_path)
    for damaged in (b"", b"[]", b"{}", b"\xff\xfe", b"[" * 10**5, text[:-9].encode()):
        file.write_bytes(damaged)
        with pytest.raises(UserError, match=r"selector\.json"):
            CeilSelector.from_pretrained(tmp_path)
    file.write_text(text)
    whole = read_manifest(file)

    def refused(said, **changed):
        """A file that says of itself that it is whole, with other settings or fields."""
        record = {key: value for key, value in json.loads(text).items() if key != "sha256"}
        record |= {key: value for key, value in changed.items() if key in record}
        record["settings"] |= {key: value for key, value in changed.items() if key not in record}
        body = json.dumps(record, indent=1) + "\n"
        record["sha256"] = hashlib.sha256(body.encode()).hexdigest()
        file.write_text(json.dumps(record, indent=1) + "\n")
        with pytest.raises(UserError, match=said):
            CeilSelector.from_pretrained(tmp_path)

    for value in (0, -1, "0.2", None, True, [0.2]):
        refused("trade_off is .*expected a number above 0", trade_off=value)
    for value in (0, 2.5, "30", True):
        refused("shortlist is .*whole number from 1", shortlist=value)
    refused("unknown context 'inptu'; did you mean 'input'", context="inptu")
    refused("next_id is -1; expected a whole number from 0", next_id=-1)
    refused("card, notes is 7; expected a text", card={"notes": 7})
    for path in ("../elsewhere", "/etc", "", "a/../../b", "C:\\x"):
        refused("is not a path inside the folder", content=path)
    refused("expected encoder, and perhaps query_encoder", encoders={})
    with pytest.raises(UserError, match="the model card cannot be saved"):
        manifest_text(
            replace(whole, settings=replace(whole.settings, card=Card(metrics={"accuracy": float("nan")})))
        )
    file.write_text(text.replace(f'"format": {FORMAT}', f'"format": {FORMAT + 1}'))
    with pytest.raises(UserError, match="is not of format 1 or 2"):
        CeilSelector.from_pretrained(tmp_path)


def as_format_1(folder):
    """Make of a folder what an earlier version of ceil_jax would have written."""
    manifest = read_manifest(folder / "selector.json")
    for path in (folder / manifest.content).iterdir():
        path.rename(folder / path.name)
    (folder / manifest.content).rmdir()
    settings = asdict(manifest.settings)
    record = {
        "format": 1,
        "diversity": settings.pop("trade_off"),
        **{key: settings[key] for key in ("shortlist", "template", "context", "card")},
        "next_id": manifest.next_id,
        "encoders": {name: asdict(encoder) for name, encoder in manifest.encoders.items()},
        "sha256": {file: manifest.files[file][0] for file in ("examples.parquet", "vectors.npy")},
    }
    (folder / "selector.json").write_text(json.dumps(record, indent=2) + "\n")


def test_folders_of_format_1_still_load(saved, tmp_path):
    saved[0].save_pretrained(tmp_path)
    as_format_1(tmp_path)
    again = CeilSelector.from_pretrained(tmp_path)
    assert (again.examples, again.trade_off, again.card) == (saved[0].examples, 0.2, saved[0].card)
    again.save_pretrained(tmp_path)
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        ".lock",
        "README.md",
        "content-1",
        "selector.json",
    ]
    assert CeilSelector.from_pretrained(tmp_path).examples == saved[0].examples


@pytest.fixture
def imported(tmp_path, monkeypatch):
    """A module that can be imported from here, and says so when it is."""
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "users_own_encoder.py").write_text(
        "from ceil_jax import load_encoder\n\n\ndef build():\n    return load_encoder('tiny')\n"
    )
    monkeypatch.syspath_prepend(tmp_path / "modules")
    yield lambda: "users_own_encoder" in sys.modules
    sys.modules.pop("users_own_encoder", None)


@pytest.fixture
def asks_to_import(imported, tiny, tmp_path):
    """The folder of a selector whose encoder's folder names that module."""
    encoder = Encoder(tiny.module, tiny.tokenizer, max_length=128, factory="users_own_encoder:build")
    folder = tmp_path / "selector"
    CeilSelector.from_examples(ROWS[:5], encoder=encoder).save_pretrained(folder)
    return folder


def test_local_folders_import_what_the_caller_allows(asks_to_import, imported):
    for allowed in ((), ("another",), ("users_own_encoder:other",)):
        with pytest.raises(UserError, match="asks to import 'users_own_encoder:build'"):
            CeilSelector.from_pretrained(asks_to_import, allow_import=allowed)
    assert not imported()
    again = CeilSelector.from_pretrained(asks_to_import, allow_import=("users_own_encoder",))
    assert imported()
    assert len(again.select(QUERY, k=2).picks) == 2


def test_a_registered_name_needs_no_import(asks_to_import, imported, registrations_undone):
    register_encoder("users_own_encoder:build", lambda: load_encoder("tiny"))
    assert len(CeilSelector.from_pretrained(asks_to_import)) == 5
    assert not imported()

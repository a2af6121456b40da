"""A selector as a folder: everything comes back, or one line says what is wrong with it."""

import json
import os
import shutil
import sys
import threading

import numpy as np
import pytest
from refusing import refused
from selector_words import QUERY, ROWS, Words, words

from ceil_jax import CeilSelector, Encoder, Example, load_encoder, register_encoder
from ceil_jax.selector.folder import check_target, read_manifest


def content(folder):
    """The folder of the current version."""
    return folder / read_manifest(folder / "selector.json")["content"]


def test_a_folder_brings_everything_back(saved):
    selector, folder = saved
    again = CeilSelector.from_pretrained(folder)
    assert again.examples == selector.examples
    assert (again.trade_off, again.shortlist, again.template) == (0.2, 30, selector.template)
    assert again.card == selector.card
    assert again.encoder.fingerprint == selector.encoder.fingerprint
    assert isinstance(again.bank.snapshot.vectors.base, np.memmap)
    query = {"input": QUERY, "town": "town9"}
    assert again.select(query, k=5) == selector.select(query, k=5)
    assert again.select(query, k=1).prompt.endswith(f"\ntown9: {QUERY} =")
    assert not [
        file for file in folder.rglob("*") if file.suffix in (".pkl", ".pickle", ".bin", ".pt")
    ]
    assert CeilSelector.from_pretrained(folder, trade_off=0.7, count_tokens=words).trade_off == 0.7


def test_a_mapped_bank_lives_on_and_saves_over_itself(saved, tmp_path):
    selector, _ = saved
    selector.save_pretrained(tmp_path)
    live = CeilSelector.from_pretrained(tmp_path)
    live.remove([row["id"] for row in ROWS[:5]])
    pair = Example("pair", "rain falls it is dry", "no", parts=("rain falls", "it is dry"))
    added = live.add([pair, {"input": QUERY, "output": "light", "town": "town1", "new": "yes"}])
    live.save_pretrained(tmp_path)
    again = CeilSelector.from_pretrained(tmp_path)
    assert again.examples == live.examples
    assert len(again) == 60 - 5 + 2
    query = {"input": QUERY, "town": "town1"}
    assert again.select(query, k=4) == live.select(query, k=4)
    assert again.examples[-1].fields == {"town": "town1", "new": "yes"}
    assert added == ["pair", "bank-0"]
    assert again.add([{"input": "more", "output": "dark"}]) == ["bank-1"]
    # one version is left, and nothing of the save itself
    left = {file.name for file in tmp_path.iterdir()}
    assert left == {".lock", "README.md", "content-2", "selector.json"}


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


def test_damaged_folders(saved, tmp_path):
    selector, _ = saved
    selector.save_pretrained(tmp_path)
    files = content(tmp_path)
    for name in ("vectors.npy", "examples.jsonl", "encoder/model.safetensors"):
        whole = (files / name).read_bytes()
        for damaged in (whole[:-1] + bytes([whole[-1] ^ 1]), whole[:-400], None):
            (files / name).unlink() if damaged is None else (files / name).write_bytes(damaged)
            with refused(f"{name} is missing, damaged, or of another save"):
                CeilSelector.from_pretrained(tmp_path)
        (files / name).write_bytes(whole)
    (files / "encoder" / "more.json").write_text("{}")
    with refused(r"more.json is missing, damaged, or of another save"):
        CeilSelector.from_pretrained(tmp_path)
    shutil.rmtree(files)
    with refused(r"content-1/\S* is missing"):
        CeilSelector.from_pretrained(tmp_path)
    (tmp_path / "selector.json").unlink()
    with refused(r"holds no selector.json"):
        CeilSelector.from_pretrained(tmp_path)
    with refused("encoder is a Words, which does not say how to save it"):
        CeilSelector.from_examples(ROWS, encoder=Words()).save_pretrained(tmp_path)


def test_settings_of_a_wrong_type_or_range_are_refused(saved, tmp_path):
    saved[0].save_pretrained(tmp_path)
    file = tmp_path / "selector.json"
    text = file.read_text()
    for damaged in (b"", b"[]", b"{}", b"\xff\xfe", b"[" * 10**5, text[:-9].encode()):
        file.write_bytes(damaged)
        with refused(r"selector\.json is damaged"):
            CeilSelector.from_pretrained(tmp_path)
    record = json.loads(text)

    def check(said, **changed):
        """A file with other settings or fields."""
        changes = {**record, **{key: value for key, value in changed.items() if key in record}}
        own = {key: value for key, value in changed.items() if key not in record}
        file.write_text(json.dumps({**changes, "settings": {**record["settings"], **own}}))
        with refused(said):
            CeilSelector.from_pretrained(tmp_path)

    check("trade_off is .*expected a number above 0", trade_off="0.2")
    check("shortlist is .*whole number from 1", shortlist=2.5)
    check("context is 'inptu'; expected 'input' or 'example'", context="inptu")
    check("cannot be read .*unexpected keyword argument 'trade'", trade=1)
    check("cannot be read", template={"pattern": 7})
    check(r"selector\.json is damaged, or of another version", format=2)
    for path in ("../elsewhere", "/etc", "", "content-1/../../b", "content-0"):
        check(r"selector\.json is damaged", content=path)


class Killed(BaseException):
    """Raised at each event of a process that is dead."""


@pytest.fixture(scope="session")
def killer():
    """Counts what Python opens for writing, makes, renames or removes in a folder; dead from the
    n-th on."""
    state = {"folder": None, "events": [], "kill": None}

    def hook(event, arguments):
        if state["folder"] is None or event not in (
            "open",
            "os.rename",
            "os.remove",
            "os.rmdir",
            "os.mkdir",
        ):
            return
        writes = event != "open" or (
            isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        )
        path = str(arguments[0])
        if writes and path.startswith(f"{state['folder']}/") and not path.endswith(".lock"):
            state["events"].append(f"{event} {path[len(state['folder']) + 1 :]}")
            if state["kill"] and len(state["events"]) >= state["kill"]:
                raise Killed

    sys.addaudithook(hook)

    def save(selector, folder, kill=None):
        state.update(folder=str(folder), events=[], kill=kill)
        try:
            selector.save_pretrained(folder)
        except Killed:
            pass
        finally:
            state["folder"] = None
        return state["events"]

    return save


def test_a_save_killed_at_any_event_leaves_the_old_selector_or_the_new_one(killer, saved, tmp_path):
    old = saved[0]
    new = CeilSelector.from_examples(ROWS[:7], encoder=old.encoder)
    shutil.copytree(saved[1], tmp_path / "whole")
    events = killer(new, tmp_path / "whole")
    pointer = events.index(f"os.rename selector.json.{os.getpid()}.part") + 1
    assert len(events) > 12
    for kill in range(1, len(events) + 1):
        folder = tmp_path / f"killed-{kill}"
        shutil.copytree(saved[1], folder)
        killer(new, folder, kill)
        # the rename is the moment: it was killed before it happened
        assert len(CeilSelector.from_pretrained(folder)) == (60 if kill <= pointer else 7), events[
            kill - 1
        ]
        if kill % 4 == 0:  # and the next save cleans up
            old.save_pretrained(folder)
            assert CeilSelector.from_pretrained(folder).examples == old.examples
            assert len(list(folder.glob("content-*"))) == 1
    for kill in (1, 5, pointer):  # a first save leaves nothing that is in the way of the next
        killer(new, tmp_path / f"first-{kill}", kill)
        check_target(tmp_path / f"first-{kill}")


def test_a_function_is_not_saved_and_never_copied(tiny, tmp_path):
    """What counts tokens may belong to an LM that cannot be copied, as a lock cannot."""

    class LM:
        lock = threading.Lock()

        def __init__(self):
            self.own = threading.local()

        def count_tokens(self, texts):
            return [len(text) for text in texts]

    selector = CeilSelector.from_examples(ROWS[:3], encoder=tiny, count_tokens=LM().count_tokens)
    selector.save_pretrained(tmp_path)
    again = CeilSelector.from_pretrained(tmp_path)
    assert again.count_tokens is None and again.examples == selector.examples


def test_an_encoder_of_ones_own_is_registered_and_never_imported(
    tiny, tmp_path, registrations_undone
):
    encoder = Encoder(tiny.module, tiny.tokenizer, max_length=128, factory="json:loads")
    CeilSelector.from_examples(ROWS[:5], encoder=encoder).save_pretrained(tmp_path)
    with refused("is made by 'json:loads', which nobody has named here"):
        CeilSelector.from_pretrained(tmp_path)
    register_encoder("json:loads", lambda: load_encoder("tiny"))
    assert len(CeilSelector.from_pretrained(tmp_path).select(QUERY, k=2)) == 2

"""A selector as a folder: everything comes back, or one line says what is wrong with it."""

import os
import random
import shutil
import sys
import threading

import numpy as np
import pytest
from selector_words import QUERY, ROWS, Words, words

from ceil_jax import CeilSelector, Encoder, Example, UserError, load_encoder, register_encoder
from ceil_jax.selector import folder as folders
from ceil_jax.selector.card import Card
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


def test_the_texts_of_a_pair_come_back(tiny, tmp_path):
    pair = Example("1", "rain falls it is dry", "no", parts=("rain falls", "it is dry"))
    CeilSelector.from_examples([pair, ROWS[0]], encoder=tiny).save_pretrained(tmp_path)
    first, second = CeilSelector.from_pretrained(tmp_path).examples
    assert first.texts == ("rain falls", "it is dry")
    assert second.parts == ()


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
    with pytest.raises(UserError, match="encoder is a Words, which does not say how to save it"):
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
    record = read_manifest(file)

    def refused(said, **changed):
        """A file that says of itself that it is whole, with other settings or fields."""
        other = {**record, **{key: value for key, value in changed.items() if key in record}}
        own = {key: value for key, value in changed.items() if key not in record}
        file.write_text(folders._text({**other, "settings": {**record["settings"], **own}}))
        with pytest.raises(UserError, match=said):
            CeilSelector.from_pretrained(tmp_path)

    for value in (0, -1, "0.2", None, True, [0.2]):
        refused("trade_off is .*expected a number above 0", trade_off=value)
    for value in (0, 2.5, "30", True):
        refused("shortlist is .*whole number from 1", shortlist=value)
    refused("unknown context 'inptu'; did you mean 'input'", context="inptu")
    refused("wrong or missing field .*'trade'", trade=1)
    refused("wrong or missing field .*endswith", template={"pattern": 7})
    refused("wrong or missing field .*encoder", encoders={})
    refused("wrong or missing field .*'../x'", encoders={"../x": record["encoders"]["encoder"]})
    refused("is not of format 3, the only one that this version reads", format=2)
    for path in ("../elsewhere", "/etc", "", "content-1/../../b", "content-0"):
        refused(r"selector\.json is damaged", content=path)
    with pytest.raises(UserError, match="the model card cannot be saved"):
        CeilSelector.from_examples(
            ROWS[:2], encoder=saved[0].encoder, card=Card(metrics={"accuracy": float("nan")})
        ).save_pretrained(tmp_path / "nan")


def test_every_flipped_bit_is_found(saved, tmp_path):
    """The model card is for readers of the page; every other file is bound by its checksum."""
    shutil.copytree(saved[1], tmp_path / "copy")
    draw = random.Random(7)
    for file in [path for path in (tmp_path / "copy").rglob("*") if path.is_file()]:
        whole = file.read_bytes()
        for _ in range(8 if whole else 0):
            place = draw.randrange(len(whole))
            file.write_bytes(
                whole[:place] + bytes([whole[place] ^ 1 << draw.randrange(8)]) + whole[place + 1 :]
            )
            if file.name == "README.md":
                assert CeilSelector.from_pretrained(tmp_path / "copy").examples == saved[0].examples
                continue
            with pytest.raises(UserError) as refused:
                CeilSelector.from_pretrained(tmp_path / "copy")
            assert "\n" not in str(refused.value)
        file.write_bytes(whole)


class Killed(BaseException):
    """Raised at each event of a process that is dead."""


@pytest.fixture(scope="session")
def killer():
    """Counts what Python opens for writing, makes, renames or removes in a folder; dead from the n-th on."""
    state = {"folder": None, "events": [], "kill": None}

    def hook(event, arguments):
        if state["folder"] is None or event not in ("open", "os.rename", "os.remove", "os.rmdir", "os.mkdir"):
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
        assert len(CeilSelector.from_pretrained(folder)) == (60 if kill <= pointer else 7), events[kill - 1]
        if kill % 4 == 0:  # and the next save cleans up
            old.save_pretrained(folder)
            assert CeilSelector.from_pretrained(folder).examples == old.examples
            assert len(list(folder.glob("content-*"))) == 1
    for kill in (1, 5, pointer):  # a first save leaves nothing that is in the way of the next
        killer(new, tmp_path / f"first-{kill}", kill)
        check_target(tmp_path / f"first-{kill}")
    (tmp_path / "whole" / "letter").write_text("dear")
    check_target(tmp_path / "whole")
    (tmp_path / "whole" / "selector.json").unlink()
    with pytest.raises(UserError, match="is no selector"):
        check_target(tmp_path / "whole")


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

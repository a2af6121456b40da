"""A selector as a folder: everything comes back, or one line says what is wrong with it."""

import json
import os
import shutil
import struct
import subprocess
import sys
import threading
from dataclasses import is_dataclass
from typing import get_args, get_type_hints

import numpy as np
import pytest
from refusing import refused
from selector_words import QUERY, ROWS, Words, words

from ceil_jax import CeilSelector, Encoder, Example, load_encoder, register_encoder
from ceil_jax.selector.folder import MANIFEST
from ceil_jax.selector.saved import check_target
from ceil_jax.selector.settings import Settings
from ceil_jax.store.hashing import file_hashes
from ceil_jax.store.opened import Files


def content(folder):
    """The folder of the current version."""
    return folder / json.loads((folder / MANIFEST).read_text())["content"]


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


@pytest.mark.packages
def test_a_selector_opens_and_selects_without_torch(tmp_path):
    rows = [{"input": text, "output": text} for text in ("a slow river", "the old bridge")]
    selector = CeilSelector.from_examples(rows, encoder="all-MiniLM-L6-v2")
    selector.save_pretrained(tmp_path)
    program = (
        "import sys; from ceil_jax import CeilSelector; "
        f"selector = CeilSelector.from_pretrained({str(tmp_path)!r}); "
        "print(selector.select('a slow bridge', k=1).prompt, "
        "{'torch', 'transformers'} & sys.modules.keys())"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (ran.returncode, ran.stdout.split()[-1]) == (0, "set()"), ran


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


def test_a_clone_without_lfs_says_so(saved, tmp_path):
    selector, _ = saved
    selector.save_pretrained(tmp_path)
    (content(tmp_path) / "vectors.npy").write_text("version https://git-lfs.github.com/spec/v1\n")
    with refused("vectors.npy is a Git LFS pointer.*git lfs pull"):
        CeilSelector.from_pretrained(tmp_path)


def test_line_ends_that_git_has_changed_are_told(saved, tmp_path):
    _, folder = saved
    folder = shutil.copytree(folder, tmp_path / "clone")
    [file] = folder.glob("content-*/examples.jsonl")
    file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    with refused("examples.jsonl has other line ends than were saved, as git writes on Windows"):
        CeilSelector.from_pretrained(folder)


def test_damaged_folders(saved, tmp_path):
    selector, _ = saved
    selector.save_pretrained(tmp_path)
    files = content(tmp_path)
    for name in ("vectors.npy", "examples.jsonl", "encoder/model.safetensors"):
        whole = (files / name).read_bytes()
        for damaged in (whole[:-1] + bytes([whole[-1] ^ 1]), whole[:-400], None):
            (files / name).unlink() if damaged is None else (files / name).write_bytes(damaged)
            with refused(rf"{name} is missing(, damaged, or of another save)?; save or fetch"):
                CeilSelector.from_pretrained(tmp_path)
        (files / name).write_bytes(whole)
    shutil.rmtree(files)
    with refused(r"content-1/\S* is missing"):
        CeilSelector.from_pretrained(tmp_path)
    (tmp_path / "selector.json").unlink()
    with refused(r"holds no selector.json"):
        CeilSelector.from_pretrained(tmp_path)


def test_settings_of_a_wrong_type_or_range_are_refused(saved, tmp_path):
    saved[0].save_pretrained(tmp_path)
    file = tmp_path / "selector.json"
    text = file.read_text()
    for damaged in (b"", b"[]", b"{}", b"\xff\xfe", b"[" * 10**5, text[:-9].encode()):
        file.write_bytes(damaged)
        with refused(r"selector\.json"):
            CeilSelector.from_pretrained(tmp_path)
    record = json.loads(text)

    def check(said, **changed):
        """A file with other settings or fields."""
        changes = {**record, **{key: value for key, value in changed.items() if key in record}}
        own = {key: value for key, value in changed.items() if key not in record}
        file.write_text(json.dumps({**changes, "settings": {**record["settings"], **own}}))
        with refused(said):
            CeilSelector.from_pretrained(tmp_path)

    check("settings, 'trade_off': expected a valid number", trade_off="0.2")
    check("settings, 'shortlist': expected a valid integer", shortlist=2.5)
    check("settings, 'context': expected 'input' or 'example', found 'inptu'", context="inptu")
    check("settings, 'trade': Unexpected keyword argument, found 1", trade=1)
    check("settings, 'template.pattern': expected a valid string, found 7", template={"pattern": 7})
    check("settings, 'template.pattern': Field required", template={})
    check("settings, 'card.metrics.a': expected a valid number", card={"metrics": {"a": "b"}})
    check("trade_off is 0.0; expected a number above 0", trade_off=0)
    check("'next_id': expected greater than or equal to 0, found -1", next_id=-1)
    check("'next_id': expected less than", next_id=2**70)
    check("'encoders.*': ", encoders={"../encoder": "x"})
    check("'files.*': expected a path inside the folder", files={**record["files"], "../../x": "0"})
    check("examples.jsonl is missing, damaged", files={"examples.jsonl": "0"})
    check("'files': expected an object", files=["a"])
    check("settings, 'trade_off': expected a finite number", trade_off=10**400)
    check("settings, 'trade_off': expected a finite number", trade_off=float("nan"))
    check(r"selector\.json, 'format': expected 5, found 2", format=2)
    for path in ("../elsewhere", "/etc", "", "content-1/../../b", "content-0"):
        check(r"selector\.json, 'content': ", content=path)


@pytest.mark.parametrize("setting", ["template", "system"])
def test_a_prompt_that_fills_the_memory_is_refused(saved, tmp_path, setting):
    """A pattern of 100 kB that names a long text again and again."""
    folder = shutil.copytree(saved[1], tmp_path / "s")
    record = json.loads((folder / "selector.json").read_text())
    if setting == "template":
        record["settings"]["template"]["pattern"] = "{input}" * 15_000 + "{output}"
    else:
        record["settings"]["system"] = "{labels}" * 15_000
    (folder / "selector.json").write_text(json.dumps(record))
    with refused("expected at most 100 names in braces") as refusal:
        CeilSelector.from_pretrained(folder)
    assert len(str(refusal.value)) < 600


def rewritten(saved, folder, change):
    """A copy of the saved selector with other content and right checksums."""
    shutil.copytree(saved[1], folder)
    change(folder / "content-1")
    record = json.loads((folder / "selector.json").read_text())
    record["files"] = file_hashes(folder / "content-1")
    (folder / "selector.json").write_text(json.dumps(record))
    return folder


def with_vectors(change):
    def write(content):
        np.save(content / "vectors.npy", change(np.load(content / "vectors.npy")))

    return write


def with_row(change):
    """Change the third row of the examples."""

    def write(content):
        lines = (content / "examples.jsonl").read_text().splitlines()
        changed = change(json.loads(lines[2]))
        lines[2] = changed if isinstance(changed, str) else json.dumps(changed)
        (content / "examples.jsonl").write_text("\n".join(lines) + "\n")

    return write


def with_bytes(vectors):
    return lambda content: (content / "vectors.npy").write_bytes(vectors)


def header(text, version=1):
    size = struct.pack("<H" if version == 1 else "<I", len(text))
    return b"\x93NUMPY" + bytes([version, 0]) + size + text


def nan_in_the_third(vectors):
    vectors[2, 5] = np.nan
    return vectors


VECTORS = r"vectors.npy: expected float32 vectors \[60, D\]"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (with_vectors(lambda v: v[:30]), VECTORS),
        (with_vectors(lambda v: np.vstack([v, v])), VECTORS),
        (with_vectors(np.ravel), VECTORS),
        (with_vectors(lambda v: v[0, 0]), VECTORS),
        (with_vectors(lambda v: v[:, :16]), "vectors of 16 numbers, .* of the encoder have 32"),
        (with_vectors(nan_in_the_third), "vector 3: expected unit length, found nan"),
        (with_vectors(lambda v: v * np.inf), "vector 1: expected unit length, found"),
        (with_vectors(lambda v: v * 0), "all vectors are zero"),
        (with_vectors(lambda v: v * 100), "vector 1: expected unit length, found 100"),
        (with_vectors(lambda v: v > 0), VECTORS),
        (with_vectors(lambda v: v.astype(np.float64)), VECTORS),
        (with_vectors(lambda v: v.astype(np.float16)), VECTORS),
        (with_vectors(lambda v: v.astype(">f4")), VECTORS),
        (with_vectors(lambda v: v.astype(complex)), VECTORS),
        (with_vectors(lambda v: v.astype(str)), VECTORS),
        (with_vectors(lambda v: v.astype(object)), VECTORS),
        (with_bytes(b""), VECTORS),
        (with_bytes(b"PK\x03\x04" + bytes(30)), VECTORS),
        (with_bytes(header(b"(" * 8999 + b"\n", 2)), VECTORS),
        (
            with_bytes(header(b"{'descr':'<f4','fortran_order':False,'shape':(-60,32)}\n")),
            VECTORS,
        ),
        (
            with_bytes(header(b"{'descr':'<f4','fortran_order':False,'shape':(2**62,32)}\n")),
            VECTORS,
        ),
        (
            with_bytes(header(b"{'descr':'<f4','fortran_order':False,'shape':(60,32)}\n")),
            VECTORS,
        ),
        (with_row(lambda row: {**row, "id": ROWS[0]["id"]}), "line 1, 'id': .*no other example"),
        (with_row(lambda row: {**row, "id": ""}), "line 3, 'id': .*no other example"),
        (with_row(lambda row: {**row, "id": 7}), "line 3, 'id': expected a valid string, found 7"),
        (
            with_row(lambda row: {**row, "input": None}),
            "line 3, 'input': expected a valid string, found None",
        ),
        (with_row(lambda row: {**row, "input": " "}), "line 3.*'input'"),
        (
            with_row(lambda row: {**row, "output": ["a"]}),
            "line 3, 'output': expected a valid string",
        ),
        (with_row(lambda row: {**row, "choices": "abc"}), "'choices': expected a valid array"),
        (
            with_row(lambda row: {**row, "references": [1]}),
            "'references.0': expected a valid string",
        ),
        (with_row(lambda row: {**row, "parts": {}}), "'parts': expected a valid array"),
        (
            with_row(lambda row: {**row, "fields": {"a": 1.5}}),
            "'fields.a': expected a valid string",
        ),
        (with_row(lambda row: {**row, "more": ""}), "line 3, 'more': Unexpected keyword"),
        (with_row(lambda row: {"id": "a"}), "line 3, 'input': Field required"),
        (with_row(lambda row: [row]), "line 3: expected an object"),
        (with_row(lambda row: "[" * 100_000), "line 3 is not JSON"),
        (with_row(lambda row: '{"id": ' + "9" * 5000 + "}"), "line 3 is not JSON"),
        (with_row(lambda row: {**row, "input": "\ud83d"}), "line 3 is not JSON"),
        (with_row(lambda row: ""), "line 3 is not JSON"),
        (
            lambda content: (content / "examples.jsonl").write_bytes(b"\xff\xfe\n"),
            "line 1 is not JSON",
        ),
    ],
)
def test_right_checksums_and_wrong_content_are_one_line(saved, tmp_path, change, said):
    folder = rewritten(saved, tmp_path / "s", change)
    with refused(said) as refusal:
        CeilSelector.from_pretrained(folder)
    assert "\n" not in str(refusal.value)
    assert len(str(refusal.value)) < 600


SIDECARS = [
    "._examples.jsonl",
    "desktop.ini",
    "Thumbs.db",
    "THUMBS.DB",
    ".nfs0000012",
    ".ipynb_checkpoints/x",
    ".DS_Store",
    "Icon\r",
    "@eaDir/examples.jsonl",
    "__MACOSX/._vectors.npy",
    ".gitattributes",
    "examples.jsonl~",
]


@pytest.mark.parametrize("name", SIDECARS)
@pytest.mark.parametrize("at", ["", "encoder"])
def test_files_of_file_managers_are_ignored(saved, tmp_path, name, at):
    folder = tmp_path / "s"
    shutil.copytree(saved[1], folder)
    for place in (folder, folder / "content-1"):
        file = place / at / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"\0\5\x16\7")
    selector = CeilSelector.from_pretrained(folder)
    assert selector.examples == saved[0].examples
    selector.save_pretrained(folder)
    assert len(CeilSelector.from_pretrained(folder)) == 60


def test_only_what_the_manifest_names_is_read(saved, tmp_path):
    shutil.copytree(saved[1], tmp_path / "s")
    (tmp_path / "s" / "content-1" / "notes.txt").write_text("mine")
    # the encoder's loader looks for files by their names
    (tmp_path / "s" / "content-1" / "encoder" / "modules.json").write_text("[")
    os.mkfifo(tmp_path / "s" / "content-1" / "encoder" / "config.json")
    assert len(CeilSelector.from_pretrained(tmp_path / "s")) == 60


def test_an_encoder_without_a_folder_is_given_when_the_selector_is_loaded(tiny, tmp_path):
    selector = CeilSelector.from_examples(ROWS, encoder=Words())
    selector.save_pretrained(tmp_path)
    with refused("its encoder, 'words', is not saved with it; give it: from_pretrained"):
        CeilSelector.from_pretrained(tmp_path)
    again = CeilSelector.from_pretrained(tmp_path, encoder=Words())
    assert again.select(QUERY, k=4) == selector.select(QUERY, k=4)
    with refused("encoder tiny: vectors of shape|gives another vector|those of the encoder have"):
        CeilSelector.from_pretrained(tmp_path, encoder=tiny)


def test_a_given_encoder_is_the_one_that_embedded_the_bank(saved, tiny):
    key = "embeddings.word.embedding"
    other = tiny.with_params({**tiny.params, key: tiny.params[key][::-1]})
    with refused("encoder tiny gives another vector of 'row-0' than was saved"):
        CeilSelector.from_pretrained(saved[1], encoder=other)
    assert len(CeilSelector.from_pretrained(saved[1], encoder="tiny").select(QUERY, k=2)) == 2


LINKS = {
    "a pipe": (os.mkfifo, "is not a regular file"),
    "a device": (lambda file: file.symlink_to("/dev/zero"), "leads out of its folder"),
    "itself": (lambda file: file.symlink_to(file), "cannot be read"),
    "a folder": (lambda file: file.mkdir(), "is not a regular file"),
    "nothing": (lambda file: file.symlink_to("nothing"), "is missing"),
    "a file elsewhere": (lambda file: file.symlink_to(__file__), "leads out of its folder"),
    "a sparse terabyte": (
        lambda file: sparse(file, 2**40),
        "has 1,099,511,627,776 bytes, which are holes",
    ),
}


def sparse(file, size):
    with file.open("wb") as out:
        out.truncate(size)


@pytest.mark.parametrize("name", ["vectors.npy", "examples.jsonl", "encoder/model.safetensors"])
@pytest.mark.parametrize("link", LINKS)
def test_what_stands_for_a_file_is_not_opened(saved, tmp_path, link, name):
    put, said = LINKS[link]
    folder = shutil.copytree(saved[1], tmp_path / "s")
    (folder / "content-1" / name).unlink()
    put(folder / "content-1" / name)
    with refused(f"{name} {said}"):
        CeilSelector.from_pretrained(folder)


def test_links_of_the_hubs_cache_are_followed(saved, tmp_path):
    snapshot = tmp_path / "models--a--b" / "snapshots" / "c0"
    blobs = tmp_path / "models--a--b" / "blobs"
    blobs.mkdir(parents=True)
    for number, file in enumerate(file for file in saved[1].rglob("*") if file.is_file()):
        link = snapshot / file.relative_to(saved[1])
        link.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, blobs / str(number))
        link.symlink_to(blobs / str(number))
    assert CeilSelector.from_pretrained(snapshot).examples == saved[0].examples


def test_a_file_of_more_than_the_most_names(saved, tmp_path):
    folder = shutil.copytree(saved[1], tmp_path / "s")
    record = json.loads((folder / "selector.json").read_text())
    record["files"] |= {f"f{i}": "0" for i in range(300)}
    (folder / "selector.json").write_text(json.dumps(record))
    with refused("'files': Dictionary should have at most 200 items"):
        CeilSelector.from_pretrained(folder)


def test_a_reader_keeps_its_files_while_another_process_saves(saved, tmp_path, monkeypatch):
    """Each time that a file is opened or read, the folder is replaced once."""
    folder = shutil.copytree(saved[1], tmp_path / "s")
    other = CeilSelector.from_examples(ROWS[:7], encoder=saved[0].encoder)
    state = {}

    class Replacing(Files):
        def stream(self, name):
            state["left"] -= 1
            if state["left"] == 0:
                other.save_pretrained(folder)
            return super().stream(name)

    for event in range(1, 40, 3):
        state["left"] = event
        saved[0].save_pretrained(folder)
        monkeypatch.setattr("ceil_jax.selector.saved.Files", Replacing)
        selector = CeilSelector.from_pretrained(folder)
        monkeypatch.undo()
        assert len(selector) in (7, 60)
        assert selector.select(QUERY, k=3) == (other if len(selector) == 7 else saved[0]).select(
            QUERY, k=3
        )


def dataclasses_in(kind):
    """The dataclasses of which a dataclass is made, itself first."""
    yield kind
    for hint in get_type_hints(kind).values():
        for part in (hint, *get_args(hint)):
            if is_dataclass(part):
                yield from dataclasses_in(part)


@pytest.mark.parametrize("kind", [Settings, Example])
def test_no_key_of_a_saved_value_is_ignored(kind):
    parts = list(dataclasses_in(kind))
    assert parts
    assert {part.__pydantic_config__["extra"] for part in parts} == {"forbid"}


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
        check_target(tmp_path / f"first-{kill}", MANIFEST)


def test_a_function_is_not_saved_and_never_copied(tiny, tmp_path):
    """A function that counts tokens may belong to an LM that cannot be copied, as a lock cannot."""

    class LM:
        lock = threading.Lock()

        def __init__(self):
            self.own = threading.local()

        def count_tokens(self, texts):
            return [len(text) for text in texts]

    selector = CeilSelector.from_examples(ROWS[:3], encoder=tiny, count_tokens=LM().count_tokens)
    selector.save_pretrained(tmp_path)
    again = CeilSelector.from_pretrained(tmp_path)
    assert again.count_tokens is None
    assert again.examples == selector.examples


def test_an_encoder_of_ones_own_is_registered_and_never_imported(tiny, tmp_path):
    encoder = Encoder(tiny.module, tiny.tokenizer, max_length=128, factory="json:loads")
    CeilSelector.from_examples(ROWS[:5], encoder=encoder).save_pretrained(tmp_path)
    with refused("is made by 'json:loads', which is not registered"):
        CeilSelector.from_pretrained(tmp_path)
    register_encoder("json:loads", lambda: load_encoder("tiny"))
    assert len(CeilSelector.from_pretrained(tmp_path).select(QUERY, k=2)) == 2

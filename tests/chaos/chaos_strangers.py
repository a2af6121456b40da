"""Folders of strangers with right checksums, readers beside a writer, and servers with odd answers:
a result or one line."""

import faulthandler
import json
import logging
import multiprocessing
import os
import shutil
import tempfile
import time
from collections import Counter
from dataclasses import replace
from itertools import cycle
from pathlib import Path

import numpy as np
import pytest
from chaos.generators import cases, harm, harms, mutated, mutations
from folders_of_encoders import make_folder
from hypothesis import given
from hypothesis import strategies as st
from lm_server import QUICK, Server, listening

from ceil_jax import CeilSelector, LabelClassifier, UserError, load_encoder, load_lm
from ceil_jax.store.hashing import file_hashes

ROWS = [{"input": f"film {i} was fun", "output": "good", "town": f"t{i % 3}"} for i in range(12)]
KEY = "sk-chaos-0123456789abcdef"


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved") / "selector"
    CeilSelector.from_examples(ROWS, encoder="tiny").save_pretrained(folder)
    return folder


def outcome(work):
    """The result of some work, and the one line of a refusal."""
    try:
        return work(), ""
    except UserError as error:
        message = str(error)
        assert message.strip()
        assert "\n" not in message
        assert len(message) < 5000
        return None, message


def load_and_select(folder):
    selector = CeilSelector.from_pretrained(folder)
    chosen = [example.id for example in selector.select("film 3 was dull", k=4)]
    assert len(chosen) == len(set(chosen)) <= 4
    return chosen


def with_right_checksums(folder, change):
    content = folder / "content-1"
    change(content)
    record = json.loads((folder / "selector.json").read_text())
    record["files"] = file_hashes(content)
    (folder / "selector.json").write_text(json.dumps(record))


@cases(0.08)
@given(mutations, st.sampled_from(["manifest", "row"]))
def chaos_of_selectors_json(saved, mutation, which):
    """JSON of any other kind in a selector's folder: it loads and selects, or one line."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "s"
        shutil.copytree(saved, folder)
        if which == "manifest":
            file = folder / "selector.json"
            file.write_text(json.dumps(mutated(json.loads(file.read_text()), *mutation)))
        else:

            def change(content):
                lines = (content / "examples.jsonl").read_text().splitlines()
                lines[2] = json.dumps(mutated(json.loads(lines[2]), *mutation))
                (content / "examples.jsonl").write_text("\n".join(lines) + "\n")

            with_right_checksums(folder, change)
        outcome(lambda: load_and_select(folder))


TYPES = ["<f4", ">f4", "<f2", "<f8", "<i4", "?", "<c8", "<U3", "S2", "<M8[s]"]
arrays = st.tuples(
    st.sampled_from(TYPES),
    st.lists(st.sampled_from([0, 1, 11, 12, 13, 31, 32, 33]), max_size=3),
    st.sampled_from([0, 1, 1e20, 1e-8, float("nan"), float("inf"), -1]),
    st.integers(0, 2000),
)


@cases(0.05)
@given(arrays)
def chaos_of_selectors_vectors(saved, array):
    """Arrays of any other kind in a selector's folder are one line."""
    dtype, shape, value, _ = array
    with tempfile.TemporaryDirectory() as scratch, np.errstate(all="ignore"):
        folder = Path(scratch) / "s"
        shutil.copytree(saved, folder)
        made = np.full(shape, value).astype(dtype) if dtype != "<M8[s]" else np.zeros(shape, dtype)
        with_right_checksums(folder, lambda content: np.save(content / "vectors.npy", made))
        _, message = outcome(lambda: load_and_select(folder))
        assert "vectors.npy" in message


@pytest.fixture(scope="module")
def headed(tmp_path_factory):
    """A selector and a classifier with a head over a BERT, as Hugging Face writes it."""
    base = load_encoder(make_folder(tmp_path_factory.mktemp("bert") / "bert"))
    rows = [
        {"input": f"the {word} river {i}", "output": label}
        for i in range(6)
        for word, label in (("slow", "yes"), ("old", "no"))
    ]
    folder = tmp_path_factory.mktemp("headed")
    classifier = LabelClassifier.from_examples(rows, encoder=base)
    classifier.save_pretrained(folder / "classifier")
    CeilSelector.from_examples(rows, encoder=classifier.encoder).save_pretrained(
        folder / "selector"
    )
    return folder


def sparse(file):
    with file.open("wb") as out:
        out.truncate(2**40)


STANDS_FOR_IT = {
    "a pipe": os.mkfifo,
    "a device": lambda file: file.symlink_to("/dev/zero"),
    "itself": lambda file: file.symlink_to(file),
    "a file elsewhere": lambda file: file.symlink_to(__file__),
    "a folder": lambda file: file.mkdir(),
    "a terabyte": sparse,
    "nothing": lambda file: None,
}


def opened(kind, folder):
    if kind == "selector":
        selector = CeilSelector.from_pretrained(folder)
        return [example.id for example in selector.select("the slow duck", k=2)]
    predicted = LabelClassifier.from_pretrained(folder).predict(["the slow duck"])
    assert np.isfinite(predicted.probabilities).all()
    return predicted.labels


@cases(0.12)
@given(
    st.sampled_from(["selector", "classifier"]),
    st.integers(0, 10**6),
    st.sampled_from(["json", "bytes", *STANDS_FOR_IT]),
    mutations,
    harms,
)
def chaos_of_strangers_encoders(headed, kind, number, how, mutation, harming):
    """Any file of a head and of the encoder below it is another: it is used, or one line."""
    manifest = f"{kind}.json"
    with tempfile.TemporaryDirectory() as scratch, np.errstate(all="ignore"):
        folder = shutil.copytree(headed / kind, Path(scratch) / "s")
        content = folder / "content-1"
        files = sorted(file for file in content.rglob("*") if file.is_file())
        if how == "json":
            files = [file for file in files if file.suffix == ".json"]
        file = files[number % len(files)]
        if how == "json":
            file.write_text(json.dumps(mutated(json.loads(file.read_text()), *mutation)))
        elif how == "bytes":
            harm([file], harming)
        else:
            file.unlink()
            STANDS_FOR_IT[how](file)
        if how in ("json", "bytes"):
            record = json.loads((folder / manifest).read_text())
            record["files"] = file_hashes(content)
            (folder / manifest).write_text(json.dumps(record))
        faulthandler.dump_traceback_later(300, exit=True)  # nothing may wait for ever
        _, message = outcome(lambda: opened(kind, folder))
        faulthandler.cancel_dump_traceback_later()
        if how in STANDS_FOR_IT:
            assert file.name in message


def saves(folder, sizes, ready, stop):
    """Save selectors of two sizes, one after the other, as fast as can be."""
    banks = [
        [{"input": f"film {size} {i}", "output": f"of {size}"} for i in range(size)]
        for size in sizes
    ]
    selectors = [CeilSelector.from_examples(rows, encoder="tiny") for rows in banks]
    for selector in cycle(selectors):
        selector.save_pretrained(folder)
        ready.set()
        if stop.is_set():
            return


def loads(folder, sizes, ready, stop, counted):
    """Load the selector again and again; count what is whole, and what is not."""
    ready.wait()
    found = Counter()
    while not stop.is_set() or not found:
        try:
            selector = CeilSelector.from_pretrained(folder)
            outputs = {example.output for example in selector.examples}
            vectors = np.asarray(selector.bank.snapshot.vectors)
            whole = len(selector) in sizes and outputs == {f"of {len(selector)}"}
            found["whole" if whole and len(vectors) == len(selector) else "mixed"] += 1
        except Exception as error:
            found[repr(error)] += 1
    counted.put(found)


def chaos_of_readers_beside_a_writer(tmp_path):
    """One process saves as fast as it can, and four load for half a minute: each load is served."""
    context = multiprocessing.get_context("spawn")
    ready, stop, counted = context.Event(), context.Event(), context.Queue()
    shared = (tmp_path / "s", (300, 77), ready, stop)
    workers = [context.Process(target=saves, args=shared, daemon=True)]
    workers += [
        context.Process(target=loads, args=(*shared, counted), daemon=True) for _ in range(4)
    ]
    for worker in workers:
        worker.start()
    assert ready.wait(300)
    time.sleep(30)
    stop.set()
    found = [counted.get(timeout=300) for _ in range(4)]
    for worker in workers:
        worker.join(60)
    assert {name for one in found for name in one} == {"whole"}, found


@pytest.fixture(scope="module")
def server():
    served = Server()
    with listening(served) as address:
        yield served, address


@cases(0.2)
@given(mutations, st.sampled_from(["models", "completions", "chat/completions"]), st.booleans())
def chaos_of_servers(server, mutation, which, by_chat):
    """Odd answers of a server: an answer or one line, and the key is in neither."""
    served, address = server
    served.clear()

    def change(path, request, answer):
        odd = mutated(answer, *mutation) if path == f"/v1/{which}" else answer
        return json.loads(json.dumps(odd).replace("{input}", KEY))

    served.change = change
    config = replace(QUICK, timeout=5, attempts=1, chat=by_chat, api_key_env="CHAOS_KEY")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CHAOS_KEY", KEY)

        def ask():
            lm = load_lm(f"{address}#tiny", endpoint=config)
            return lm.name, lm.generate(["film 3 was"], 4)

        result, message = outcome(ask)
    assert KEY not in message
    assert result is None or KEY not in result[0]

"""Selectors of strangers with right checksums, and servers with odd answers: a result or one line."""

import json
import logging
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from chaos.generators import cases, mutated, mutations
from hypothesis import given
from hypothesis import strategies as st
from lm_server import QUICK, Server, listening

from ceil_jax import CeilSelector, UserError, load_lm
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


@cases(0.15)
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


@cases(0.1)
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

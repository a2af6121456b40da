"""Prompts that a folder names for queries and documents, against sentence-transformers."""

import json
from pathlib import Path

import numpy as np
import pytest
from folders_of_encoders import changed, make_folder
from refusing import refused

from ceil_jax import CeilSelector, load_encoder
from ceil_jax.encoders.side_prompts import Prompts, SavedPrompts, read_prompts
from ceil_jax.encoders.text_encoder import EncoderPair, sides
from ceil_jax.pipeline.models import Models, NamedEncoder
from ceil_jax.pipeline.run import Run
from ceil_jax.pipeline.vectors import untrained_encoder

FILE = "config_sentence_transformers.json"
TEXTS = ["the old bridge", "a slow river", "ducks"]


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return make_folder(tmp_path_factory.mktemp("bert"))


@pytest.mark.parametrize(
    ("by_name", "default", "query", "bank"),
    [
        # multilingual E5
        ({"query": "query: ", "passage": "passage: "}, None, "query: ", "passage: "),
        # Qwen3-Embedding
        ({"query": "Instruct: find\nQuery:", "document": ""}, None, "Instruct: find\nQuery:", ""),
        # EmbeddingGemma, in part
        (
            {"query": "task: search result | query: ", "document": "title: none | text: "}
            | {"STS": "task: sentence similarity | query: "},
            None,
            "task: search result | query: ",
            "title: none | text: ",
        ),
        # Arctic
        ({"query": "Represent this: "}, None, "Represent this: ", ""),
        ({"query": "q ", "other": "o "}, "other", "q ", "o "),
        ({"corpus": "c ", "passage": "p "}, None, "", "p "),
        ({"classification": "label: "}, "classification", "label: ", "label: "),
        ({}, None, "", ""),
    ],
)
def test_the_prompt_of_each_side(by_name, default, query, bank):
    prompts = read_prompts(SavedPrompts(by_name, default), Path("file"))
    assert (prompts.query, prompts.bank) == (query, bank)
    assert prompts.default == by_name.get(default, "")


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"prompts": ["query: "]}, "'prompts': expected an object, found \\['query: '\\]"),
        ({"prompts": {"query": 5}}, "'prompts.query': expected a valid string, found 5"),
        (
            {"prompts": {"query": "q"}, "default_prompt_name": "querry"},
            r"default_prompt_name is 'querry', which is none of its prompts \['query'\]",
        ),
    ],
)
def test_prompts_that_are_none(bert, tmp_path, config, said):
    folder = changed(bert, tmp_path / "m", FILE, **config)
    with refused(f"{FILE}.*{said}"):
        load_encoder(folder)


@pytest.mark.parametrize(
    ("prompts", "default", "warns"),
    [
        ({"search_query": "q: ", "search_document": "d: "}, None, True),
        ({"search_query": "q: ", "search_document": "d: "}, "search_query", False),
        ({"query": "q: ", "sts": "s: "}, None, False),
        ({"query": "", "document": ""}, None, False),
        ({}, None, False),
    ],
)
def test_prompts_by_other_names_are_not_left_unused_silently(caplog, prompts, default, warns):
    read_prompts(SavedPrompts(prompts, default), Path("file"))
    said = "file: none of the prompts search_query, search_document is used"
    assert (said in caplog.text) == warns == bool(caplog.text)


def test_queries_and_bank_get_their_prompts_as_in_sentence_transformers(bert, tmp_path):
    from sentence_transformers import SentenceTransformer

    by_name = {"query": "ducks , ", "document": "under "}
    folder = changed(bert, tmp_path / "m", FILE, prompts=by_name)
    encoder = load_encoder(folder)
    theirs = SentenceTransformer(str(folder), device="cpu", local_files_only=True)
    for side, name in zip(encoder.sides, ("query", "document"), strict=True):
        expected = theirs.encode(TEXTS, prompt_name=name, show_progress_bar=False)
        np.testing.assert_allclose(side.encode(TEXTS), expected, atol=1e-5)
    expected = theirs.encode(TEXTS, show_progress_bar=False)
    np.testing.assert_allclose(encoder.encode(TEXTS), expected, atol=1e-5)
    prints = {one.fingerprint for one in (encoder, *encoder.sides)}
    assert len(prints) == 3

    encoder.save_pretrained(tmp_path / "again")
    assert json.loads((tmp_path / "again" / FILE).read_text())["prompts"] == by_name
    encoder.sides.query.save_pretrained(tmp_path / "query")
    alone = load_encoder(tmp_path / "query")
    assert alone.fingerprint == encoder.sides.query.fingerprint
    assert alone.sides == EncoderPair(alone, alone)


def test_other_encoders_are_both_sides(bert):
    plain = load_encoder(bert)
    assert plain.sides == EncoderPair(plain, plain)
    tiny = load_encoder("tiny")
    assert sides(tiny) == EncoderPair(tiny, tiny)
    assert sides("anything") == EncoderPair("anything", "anything")


def test_other_weights_have_the_prompts_too(bert, tmp_path):
    encoder = load_encoder(changed(bert, tmp_path / "m", FILE, prompts={"query": "ducks , "}))
    first = encoder.sides.query.encode(TEXTS)
    other = encoder.with_params({name: value + 0.05 for name, value in encoder.params.items()})
    assert np.abs(other.sides.query.encode(TEXTS) - first).max() > 1e-3
    np.testing.assert_array_equal(other.sides.bank.encode(TEXTS), other.encode(TEXTS))


def test_a_selector_embeds_each_side_with_its_prompt_also_from_its_folder(bert, tmp_path):
    folder = changed(bert, tmp_path / "m", FILE, prompts={"query": "ducks , ", "passage": "under "})
    rows = [{"input": text, "output": "x"} for text in TEXTS]
    selector = CeilSelector.from_examples(rows, encoder=folder, origin=0.0)
    plain = load_encoder(bert)
    expected = plain.encode([f"under {text}" for text in TEXTS])
    np.testing.assert_allclose(selector.bank.snapshot.vectors, expected, atol=1e-6)
    query = plain.encode(["ducks , a slow bridge"])[0]
    relevance = dict(zip(TEXTS, (1 + expected @ query) / 2, strict=True))
    selector.save_pretrained(tmp_path / "selector")
    for each in (selector, CeilSelector.from_pretrained(tmp_path / "selector")):
        chosen = each.select("a slow bridge", k=3)
        assert len(chosen) == 3
        for pick in chosen.picks:
            assert abs(pick.relevance - relevance[pick.example.input]) < 1e-5


def test_a_run_encodes_queries_and_bank_with_their_prompts(bert, tmp_path):
    folder = changed(bert, tmp_path / "m", FILE, prompts={"query": "ducks , "})
    run = Run(tmp_path / "runs", Models())
    encoder = load_encoder(folder)
    found = run.get(untrained_encoder(NamedEncoder(run.models, str(folder))))
    assert isinstance(found, EncoderPair)
    np.testing.assert_array_equal(found.query.encode(TEXTS), encoder.sides.query.encode(TEXTS))
    np.testing.assert_array_equal(found.bank.encode(TEXTS), encoder.encode(TEXTS))


def test_prompts_without_a_default():
    assert Prompts({"query": "q"}).default == ""

"""What users hand to other processes: pickled, copied, and sent by value."""

import copy
import pickle
from dataclasses import replace

import cloudpickle
import dspy
import lm_models
import numpy as np
import pytest
from dspy.utils import DummyLM
from folders_of_encoders import make_folder
from langchain_core.embeddings import DeterministicFakeEmbedding
from lm_server import QUICK
from selector_words import QUERY, ROWS

from ceil_jax import CeilSelector, Example, build_retriever, load_encoder, load_lm
from ceil_jax.lm.torch.model import TorchLM
from ceil_jax.selector.adapters.dspy import CeilFewShot
from ceil_jax.selector.adapters.langchain import CeilExampleSelector

TEXTS = ["a fine film", "dull"]
WAYS = {
    "pickle": lambda value: pickle.loads(pickle.dumps(value)),
    "cloudpickle": lambda value: pickle.loads(cloudpickle.dumps(value)),
    "deepcopy": copy.deepcopy,
}
again = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)


def chosen(selector):
    return [example.id for example in selector.select(QUERY, k=3)]


@again
def test_an_encoder(way, tmp_path):
    for name in ("tiny", make_folder(tmp_path / "bert")):
        encoder = load_encoder(name)
        before = encoder.encode(TEXTS)
        copied = way(encoder)
        np.testing.assert_array_equal(copied.encode(TEXTS), before)
        assert copied.fingerprint == encoder.fingerprint
        zero = {name: 0 * value for name, value in copied.params.items()}
        assert not copied.with_params(zero).encode(TEXTS).any()
        np.testing.assert_array_equal(copied.sides.query.encode(TEXTS), before)


@again
def test_a_selector_and_its_bank(way):
    selector = CeilSelector.from_examples(ROWS, encoder="tiny", trade_off=0.3)
    selector.remove([selector.examples[0].id])
    before = chosen(selector)
    copied = way(selector)
    assert chosen(copied) == before
    assert copied.settings == selector.settings
    # the copy has a bank of its own, which goes on counting
    assert copied.add([{"input": "a street lamp", "output": "light"}]) == ["bank-0"]
    assert way(copied).add([{"input": "a gas lamp", "output": "light"}]) == ["bank-1"]
    assert len(way(copied.bank)) == len(ROWS)
    assert len(selector) == len(ROWS) - 1


@again
def test_a_saved_selector(way, tmp_path):
    CeilSelector.from_examples(ROWS, encoder="tiny").save_pretrained(tmp_path / "selector")
    selector = CeilSelector.from_pretrained(tmp_path / "selector")
    assert chosen(way(selector)) == chosen(selector)


@again
def test_a_selector_with_the_embeddings_of_langchain(way):
    selector = CeilSelector.from_examples(ROWS, encoder=DeterministicFakeEmbedding(size=8))
    assert chosen(way(selector)) == chosen(selector)


@again
def test_a_selector_of_langchain(way):
    selector = CeilExampleSelector(CeilSelector.from_examples(ROWS, encoder="tiny"), k=2)
    query = {"input": QUERY}
    assert way(selector).select_examples(query) == selector.select_examples(query)


@pytest.mark.parametrize("kind", [dspy.Predict, dspy.ChainOfThought])
@pytest.mark.parametrize("way", [WAYS["cloudpickle"], WAYS["deepcopy"]])
def test_a_compiled_program(way, kind):
    """A signature that was written as a text is not a class of a module, so that pickle alone does
    not take DSPy's programs."""
    selector = CeilSelector.from_examples(ROWS, encoder="tiny")
    program = CeilFewShot(selector, k=2).compile(kind("place -> light"))
    copied = way(program)
    seen = []
    for each in (program, copied, copied.deepcopy()):
        lm = DummyLM([{"light": "dark", "reasoning": ""}])
        with dspy.context(lm=lm):
            each(place=QUERY)
        seen.append(lm.history[-1]["messages"])
    assert len(seen[0]) == 2 + 2 * 2  # two demos between the instructions and the query
    assert seen[1] == seen[2] == seen[0]


def test_a_whole_saved_program(tmp_path):
    selector = CeilSelector.from_examples(ROWS, encoder="tiny")
    program = CeilFewShot(selector, k=2).compile(dspy.Predict("place -> light"))
    program.save(tmp_path / "program", save_program=True)
    loaded = dspy.load(tmp_path / "program", allow_pickle=True)
    [predictor] = loaded.predictors()
    assert predictor.chooser({"place": QUERY}) == program.chooser({"place": QUERY})


@again
@pytest.mark.parametrize("name", ["random", "bm25", "dense", "dpp", "mmr"])
def test_a_retriever(way, name):
    bank = [Example(str(i), row["input"], row["output"]) for i, row in enumerate(ROWS)]
    options = {} if name in ("random", "bm25") else {"encoder": load_encoder("tiny")}
    retriever = build_retriever(name, bank, **options)
    queries = [Example("q", QUERY, "")]
    assert way(retriever).retrieve(queries, 3) == retriever.retrieve(queries, 3)


@again
def test_an_lm_of_this_machine(way):
    lm = TorchLM(lm_models.model("llama"), lm_models.tokenizer(), name="llama")
    copied = way(lm)
    expected = lm.log_likelihood(TEXTS, [" good"] * 2)
    np.testing.assert_allclose(copied.log_likelihood(TEXTS, [" good"] * 2), expected, atol=1e-5)
    assert copied.count_tokens(TEXTS).tolist() == lm.count_tokens(TEXTS).tolist()


@again
def test_an_lm_and_an_encoder_on_a_server(way, address, server, monkeypatch):
    monkeypatch.setenv("MY_KEY", "sk-sesame-0123456789")
    settings = replace(QUICK, api_key_env="MY_KEY")
    lm = load_lm(f"{address}#tiny", endpoint=settings)
    expected = lm.log_likelihood(TEXTS, [" good"] * 2)
    assert b"sesame" not in cloudpickle.dumps(lm)
    sent = len(server.requests)
    copied = way(lm)
    assert len(server.requests) == sent  # nothing is asked to make a copy
    np.testing.assert_array_equal(copied.log_likelihood(TEXTS, [" good"] * 2), expected)
    assert copied.count_tokens(TEXTS).tolist() == lm.count_tokens(TEXTS).tolist()
    encoder = load_encoder(f"{address}#tiny-encoder", endpoint=settings)
    np.testing.assert_array_equal(way(encoder).encode(TEXTS), encoder.encode(TEXTS))

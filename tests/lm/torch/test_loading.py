"""Folders of models: what is loaded, and what is said where it cannot be."""

import json
from dataclasses import replace

import pytest
import transformers
from films import SMALL, films
from lm_models import model, tokenizer
from refusing import refused

from ceil_jax.errors import UserError
from ceil_jax.lm import load_lm
from ceil_jax.lm.counting import counting_lm
from ceil_jax.lm.request import LMRequest
from ceil_jax.lm.torch import loading
from ceil_jax.lm.torch.loading import reading_speed
from ceil_jax.lm.torch.model import TorchLM
from ceil_jax.pipeline import row_stages
from ceil_jax.pipeline.evaluate import lineup_of
from ceil_jax.pipeline.models import CountingModels
from ceil_jax.pipeline.setup import open_run
from ceil_jax.report.compare import compare
from ceil_jax.report.dry_run import planned


def test_loads_a_folder_by_its_weights_and_dtype(tmp_path):
    folder = tmp_path / "small"
    model("llama").save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    lm = load_lm(str(folder), dtype="float32")
    expected = TorchLM(model("llama"), tokenizer(), name="same")
    found, same = (one.log_likelihood(["It is"], [" good"]) for one in (lm, expected))
    assert found == pytest.approx(same)
    assert lm.name.startswith("small-")
    assert lm.name.endswith("@float32")
    half = load_lm(str(folder), dtype="bfloat16")
    assert half.name == lm.name.replace("float32", "bfloat16")
    model("llama", context=64).save_pretrained(folder)
    assert load_lm(str(folder), dtype="float32").name != lm.name


@pytest.mark.parametrize("kind", ["llama", "gpt_neo"])
def test_a_dry_run_counts_the_tokens_that_a_reader_of_trees_or_of_rows_reads(tmp_path, kind):
    model(kind).save_pretrained(tmp_path)
    tokenizer().save_pretrained(tmp_path)
    lm = load_lm(str(tmp_path), dtype="float32")
    counting = counting_lm(str(tmp_path), "float32")
    prompts = [f"{word} film is so so good; It is" for word in ("A", "One", "No", "Any")]
    choices = [(" good", " great film so so", " so so good film is")] * len(prompts)
    lm.choice_log_likelihood(prompts, choices)
    requests = [LMRequest(*asked) for asked in zip(prompts, choices, strict=True)]
    read, written = counting.count(requests, ())
    assert counting.name == lm.name
    assert written == 0
    assert read == pytest.approx(lm.tokens_read, rel=0.25)
    # rows repeat the prompt, which is longer than what stands behind it
    once, _ = replace(counting, reads_rows=False).count(requests, ())
    assert (read > 2 * once) == (kind == "gpt_neo")


def test_no_key_loads_weights(tmp_path, monkeypatch):
    """A dry run needs none, and neither does a table whose stages are all on disk."""
    folder = tmp_path / "small"
    model("llama").save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    config = replace(SMALL, lm=str(folder), dtype="float32", shots=2, out=tmp_path / "runs")
    task = films(30, 4)
    names = ["zero", "bm25", "ceil"]

    def refuse(*arguments):
        raise AssertionError("the weights are loaded")

    with monkeypatch.context() as without_weights:
        without_weights.setattr(loading, "load_torch", refuse)
        run, setup = open_run(config, task, CountingModels())
        lineup = lineup_of(run, setup, [setup.row(name) for name in names])
        assert "LM tokens to read" in planned(lineup)
        _, setup = open_run(config, task)
        keys = [row_stages.metric(setup, setup.row(name)).key for name in names]
        lm_key = setup.lm.key
    run, setup = open_run(config, task)
    assert [row_stages.metric(setup, setup.row(name)).key for name in names] == keys
    assert setup.lm.key == setup.lm.get().key == lm_key
    first = compare(run, setup, names[:2])
    monkeypatch.setattr(loading, "load_torch", refuse)
    assert compare(*open_run(config, task), names[:2]).data()["rows"] == first.data()["rows"]
    with pytest.raises(AssertionError, match="the weights are loaded"):
        compare(*open_run(config, task), ["random"])


def test_loading_says_what_is_wrong(tmp_path):
    for name in ("config.json", "model.safetensors"):
        (tmp_path / name).write_text("{}")
    with pytest.raises(UserError, match="cannot load the language model"):
        load_lm(str(tmp_path))
    with pytest.raises(UserError, match="cannot load the language model nobody/nothing"):
        load_lm("nobody/nothing")
    with pytest.raises(UserError, match="unknown dtype 'int8'; known: auto, "):
        load_lm(str(tmp_path), dtype="int8")


def test_no_weights_are_drawn_at_random(tmp_path):
    body = model("llama").model  # without the layer of tokens, as AutoModel saves it
    body.save_pretrained(tmp_path)
    tokenizer().save_pretrained(tmp_path)
    with refused("no weights for 1 parameters of a language model, such as lm_head.weight"):
        load_lm(str(tmp_path))


def test_a_masked_language_model_is_no_lm(tmp_path):
    tokens = tokenizer()
    sizes = {
        "vocab_size": len(tokens),
        "hidden_size": 8,
        "intermediate_size": 8,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
    }
    for kind in ("Bert", "Roberta"):
        folder = tmp_path / kind
        config = getattr(transformers, f"{kind}Config")(**sizes)
        getattr(transformers, f"{kind}ForMaskedLM")(config).save_pretrained(folder)
        tokens.save_pretrained(folder)
        for load in (load_lm, lambda source: counting_lm(source, "float32")):
            with refused(f"{folder} is a masked language model .* it can be --encoder"):
                load(str(folder))
        # one that was trained to read forwards
        config.is_decoder = True
        getattr(transformers, f"{kind}ForMaskedLM")(config).save_pretrained(folder)
        assert load_lm(str(folder)).context_length


def test_an_lm_of_another_kind_is_named(tmp_path):
    config = transformers.T5Config(
        vocab_size=len(tokenizer()), d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2
    )
    transformers.T5ForConditionalGeneration(config).save_pretrained(tmp_path)
    tokenizer().save_pretrained(tmp_path)
    with refused("a model of the kind T5 is not a causal language model"):
        load_lm(str(tmp_path))


def test_no_tokenizer_is_made_up(tmp_path):
    model("gpt2").save_pretrained(tmp_path)
    with refused(f"{tmp_path} has no tokenizer; put the model's tokenizer files into"):
        load_lm(str(tmp_path))
    with refused(f"{tmp_path} has no tokenizer"):
        counting_lm(str(tmp_path), "float32")


def test_no_code_of_a_folder_runs_and_nobody_is_asked(tmp_path, monkeypatch):
    names = {
        "AutoConfig": "evil.C",
        "AutoModelForCausalLM": "evil.M",
        "AutoTokenizer": ["evil.T"] * 2,
    }
    config = {"model_type": "evil", "auto_map": names, "tokenizer_class": "T"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    (tmp_path / "model.safetensors").write_bytes(b"")
    (tmp_path / "evil.py").write_text("raise SystemExit")
    monkeypatch.setattr("builtins.input", lambda *_: "y")
    for load in (load_lm, counting_lm):
        with refused("contains custom code"):
            load(str(tmp_path), dtype="float32")


def test_weights_that_are_cut_are_no_traceback(tmp_path):
    model("gpt2").save_pretrained(tmp_path)
    tokenizer().save_pretrained(tmp_path)
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    with refused("cannot load the language model .*: Error while deserializing header"):
        load_lm(str(tmp_path))


def test_the_speed_of_reading():
    assert reading_speed() > 1e8

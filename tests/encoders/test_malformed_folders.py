"""Folders that are damaged or of another kind: each is refused in one line that names the
folder."""

import json
import re

import pytest
from folders_of_encoders import make_folder, rewritten

from ceil_jax.encoders.registry import load_encoder
from ceil_jax.errors import UserError

POOLING = "1_Pooling/config.json"


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return make_folder(tmp_path_factory.mktemp("bert"))


@pytest.fixture
def folder(bert, tmp_path):
    return rewritten(bert, tmp_path / "folder", lambda tensors: tensors)


def refusal(folder) -> str:
    with pytest.raises(UserError) as error:
        load_encoder(folder)
    said = str(error.value)
    assert "\n" not in said
    assert len(said) < 600
    assert str(folder) in said
    return said


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("config.json", [], "config.json: expected an object, found \\[\\]"),
        ("modules.json", {}, "modules.json: expected a valid array, found {}"),
        ("modules.json", ["Transformer"], "modules.json, '0': expected an object"),
        (
            "modules.json",
            [{"type": "sentence_transformers.models.Dense"}],
            "module 'Dense' is not built",
        ),
        ("modules.json", [{"type": "x.Transformer", "path": ""}], "no Pooling module"),
        (POOLING, {}, "pooling none; expected mean or cls"),
        (
            POOLING,
            {"pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": True},
            "pooling mean_tokens, max_tokens; expected",
        ),
        (POOLING, {"pooling_mode": "mean", "include_prompt": False}, "include_prompt is false"),
        (
            "sentence_bert_config.json",
            {"max_seq_length": "20"},
            "'max_seq_length': expected a valid int",
        ),
        (
            "config_sentence_transformers.json",
            {"prompts": ["a"]},
            "'prompts': expected an object",
        ),
        (
            "tokenizer.json",
            {"model": {"type": "WordPiece", "vocab": []}},
            "cannot read the tokenizer",
        ),
        (
            "ceil_jax.json",
            {"factory": "tiny"},
            "another architecture: missing embeddings.norm.bias",
        ),
    ],
)
def test_a_file_with_another_content(folder, file, content, said):
    (folder / file).write_text(json.dumps(content))
    assert re.search(said, refusal(folder))


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("model_type", "berd", "unknown model_type 'berd'; did you mean 'bert'"),
        ("model_type", ["bert"], "unknown model_type"),
        ("hidden_act", "gelo", "unknown hidden_act 'gelo'; did you mean 'gelu'"),
        ("hidden_size", None, "config.json: field 'hidden_size' is missing"),
        ("hidden_size", "16", "hidden_size is '16'; expected a number from 1"),
        ("num_attention_heads", 3, "is damaged, or no encoder's"),
        ("position_embedding_type", "relative_key", "absolute positions .*'relative_key'"),
        ("num_hidden_layers", 3, "another architecture: missing encoder.layer.2"),
        ("num_hidden_layers", 1, "another architecture: unexpected encoder.layer.1"),
        ("intermediate_size", 8, r"intermediate.dense.weight \(16, 24\) where \(16, 8\)"),
        ("vocab_size", 15, "tokenizer has 16 tokens and the network 15"),
    ],
)
def test_another_field_of_the_config(folder, field, value, said):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {field: value}))
    assert re.search(said, refusal(folder))


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("config.json", "config.json is missing"),
        ("model.safetensors", "model.safetensors beside it"),
        ("tokenizer.json", "holds no tokenizer.json; transformers writes it"),
    ],
)
def test_a_file_that_is_missing(folder, file, said):
    (folder / file).unlink()
    assert said in refusal(folder)


def test_damaged_weights(folder):
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-5])
    assert "cannot be read" in refusal(folder)


def test_json_that_is_nested_beyond_reading(folder):
    (folder / "config.json").write_text("[" * 100_000)
    assert "config.json is not JSON" in refusal(folder)

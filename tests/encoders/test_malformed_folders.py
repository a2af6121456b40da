"""Folders that are damaged, hostile or of another kind: each is refused in one line that names the folder."""

import json
import re
import struct

import numpy as np
import pytest
from folders_of_encoders import make_folder, rewritten
from safetensors.numpy import load_file, save_file

from ceil_jax.encoders.registry import load_encoder
from ceil_jax.errors import UserError


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
    assert "\n" not in said and len(said) < 600
    return said


MODULES = [
    {"type": f"sentence_transformers.models.{kind}", "path": path}
    for kind, path in (("Transformer", ""), ("Pooling", "1_Pooling"))
]
FILES = [
    ("config.json", [], r"config.json holds \[\]; expected an object"),
    ("modules.json", {}, "modules.json holds {}; expected a list"),
    ("modules.json", ["Transformer"], "entry Transformer; expected an object with a type and a path"),
    ("modules.json", [{"path": ""}], "module 'None' is not built"),
    ("modules.json", [{"type": "sentence_transformers.models.Dense"}], "module 'Dense' is not built"),
    ("modules.json", [{"type": "x.Transformer", "path": ""}], "no Pooling module"),
    ("modules.json", [MODULES[0] | {"path": None}, MODULES[1]], "path None; expected a folder inside"),
    ("modules.json", [MODULES[0], {"type": "x.Pooling"}], "module Pooling has path None"),
    ("modules.json", [MODULES[0], MODULES[1] | {"path": "../1_Pooling"}], "expected a folder inside"),
    ("1_Pooling/config.json", {}, "pooling none; expected mean or cls"),
    ("1_Pooling/config.json", {"pooling_mode": 7}, "pooling 7; expected"),
    ("sentence_bert_config.json", {"max_seq_length": "20"}, "max_seq_length is 20; expected a whole number"),
    ("config_sentence_transformers.json", {"prompts": ["a"]}, "expected an object from names to texts"),
    (
        "config_sentence_transformers.json",
        {"prompts": {"a": 3}, "default_prompt_name": "a"},
        "prompt 'a' is 3; expected a text",
    ),
    ("tokenizer.json", {"model": {"type": "WordPiece", "vocab": []}}, "cannot read the tokenizer"),
    ("ceil_jax.json", [], "ceil_jax.json holds .*; expected an object"),
    ("ceil_jax.json", {"factory": ["os:getcwd"]}, "factory is .*; expected a name"),
    ("ceil_jax.json", {"factory": "tiny"}, "another architecture: missing embeddings.norm.bias"),
]


@pytest.mark.parametrize(("file", "content", "said"), FILES)
def test_a_file_with_another_content(folder, file, content, said):
    (folder / file).write_text(json.dumps(content))
    message = refusal(folder)
    assert re.search(said, message) and str(folder) in message, message


FIELDS = [
    ("vocab_size", 10**12, "vocab_size is 1000000000000; expected a whole number from 1 to 2147483647"),
    ("vocab_size", 2 * 10**9, r"word_embeddings.weight \(16, 16\) where \(2000000000, 16\) was expected"),
    ("vocab_size", 16.0, "vocab_size is 16.0; expected a whole number"),
    ("num_attention_heads", 0, "num_attention_heads is 0; expected a whole number from 1"),
    ("num_attention_heads", 3, "hidden_size 16 is no multiple of 3 heads"),
    ("num_hidden_layers", 10**6, "num_hidden_layers is 1000000; expected a whole number from 1 to 1000"),
    ("hidden_size", "16", "hidden_size is 16; expected a whole number"),
    ("pad_token_id", -1, "pad_token_id is -1"),
    ("pad_token_id", 99, "pad_token_id 99 is beyond the vocabulary"),
    ("hidden_dropout_prob", 1.0, "hidden_dropout_prob is 1.0; expected a number from 0 to below 1"),
    ("layer_norm_eps", float("nan"), "layer_norm_eps is nan"),
    ("model_type", ["bert"], "unknown model_type"),
    ("hidden_act", {"gelu": 1}, "unknown hidden_act"),
]


@pytest.mark.parametrize(("field", "value", "said"), FIELDS)
def test_a_field_out_of_its_range(folder, field, value, said):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {field: value}))
    message = refusal(folder)
    assert re.search(said, message) and str(folder) in message, message


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("config.json", "config.json is missing"),
        ("model.safetensors", "holds no model.safetensors"),
        ("tokenizer.json", "holds no tokenizer; expected one of tokenizer.json"),
    ],
)
def test_a_file_that_is_missing(folder, file, said):
    (folder / file).unlink()
    message = refusal(folder)
    assert said in message and str(folder) in message


def safetensors(header: bytes, data: bytes = b"") -> bytes:
    return struct.pack("<Q", len(header)) + header + data


def eight_bits(tensors):
    """The header and bytes of the same tensors as FP8, which numpy has no type for."""
    header, data = {}, b""
    for name, tensor in tensors.items():
        end = len(data) + tensor.size
        header[name] = {
            "dtype": "F8_E4M3",
            "shape": list(tensor.shape),
            "data_offsets": [len(data), end],
        }
        data += bytes(tensor.size)
    return safetensors(json.dumps(header).encode(), data)


WEIGHTS = [
    (lambda whole: b"", "cannot be read"),
    (lambda whole: whole[:-5], "cannot be read"),
    (lambda whole: safetensors(b"{}"), "another architecture: missing"),
    (lambda whole: safetensors(b"[" * 200_000), "cannot be read"),
]


@pytest.mark.parametrize(("damage", "said"), WEIGHTS)
def test_damaged_weights(folder, damage, said):
    file = folder / "model.safetensors"
    file.write_bytes(damage(file.read_bytes()))
    message = refusal(folder)
    assert said in message and str(folder) in message


def test_weights_of_another_type(folder):
    file = folder / "model.safetensors"
    tensors = load_file(file)
    file.write_bytes(eight_bits(tensors))
    assert "is of type F8_E4M3; expected float32" in refusal(folder)
    save_file({name: tensor.astype(np.int64) for name, tensor in tensors.items()}, file)
    assert "is of type int64; expected floating point" in refusal(folder)
    file.unlink()
    file.mkdir()
    assert "holds no model.safetensors" in refusal(folder)


def test_json_that_is_nested_beyond_reading(folder):
    (folder / "config.json").write_text("[" * 100_000)
    assert "config.json is not JSON" in refusal(folder)


def test_a_tokenizer_without_padding(folder):
    config = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps(config | {"pad_token": None}))
    (folder / "special_tokens_map.json").unlink(missing_ok=True)
    assert "names no padding token" in refusal(folder)

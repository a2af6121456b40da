"""Folders that are damaged or of another kind: each is refused in one line that names the
folder."""

import base64
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
            "module 'Dense' is not supported",
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
        ("num_attention_heads", 3, "is damaged, or is not an encoder"),
        ("position_embedding_type", "relative_key", "absolute positions .*'relative_key'"),
        ("num_hidden_layers", 3, "weights of 2 layers where config.json says 3"),
        ("num_hidden_layers", 1, "weights of 2 layers where config.json says 1"),
        (
            "num_hidden_layers",
            10**9,
            "num_hidden_layers is 1000000000; expected a number from 1 to 48",
        ),
        ("hidden_size", 10**9, "another architecture: shape of"),
        ("vocab_size", 10**12, "vocab_size is 1000000000000; expected a number"),
        ("hidden_size", 16.0, "hidden_size is 16.0; expected a number"),
        ("layer_norm_eps", float("nan"), "layer_norm_eps is nan; expected a number from 0 to 1"),
        ("pad_token_id", 10**6, "not of the same checkpoint"),
        ("pad_token_id", -1, "pad_token_id is -1"),
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
        ("model.safetensors", "holds no config.json and model.safetensors"),
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


REPEATED = {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}
A, B = ({"Sequence": {"id": name, "type_id": 0}} for name in "AB")


BYTES = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
LONG = base64.b64encode(bytes(4) + b"b" * 10**6 + b"\0").decode()


def template(single, ids=(0,)):
    special = {"id": "[CLS]", "ids": list(ids), "tokens": ["[CLS]"] * len(ids)}
    return {
        "post_processor": {
            "type": "TemplateProcessing",
            "single": single,
            "pair": [A, B],
            "special_tokens": {"[CLS]": special},
        }
    }


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        # time that grows exponentially, memory that doubles forty times, time with a word's cube
        (
            {"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "(a+)+$"}}},
            "has the pattern .*which is not supported",
        ),
        (
            {"normalizer": {"type": "Sequence", "normalizers": [REPEATED] * 40}},
            "has the pattern .*which is not supported",
        ),
        ({"model": {"max_input_chars_per_word": 10**9}}, "splits words of more than 1,000 char"),
        # each of them doubles what is not ASCII
        (
            {"normalizer": {"type": "Sequence", "normalizers": [{"type": "ByteLevel"}] * 30}},
            "a normalizer 'ByteLevel' twice",
        ),
        (
            {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [BYTES] * 30}},
            "a pre_tokenizer 'ByteLevel' twice",
        ),
        ({"normalizer": {"type": "Prepend", "prepend": "a " * 10**6}}, "a text of more than 200"),
        ({"model": {"continuing_subword_prefix": "#" * 10**6}}, "a text of more than 200 char"),
        (template([A] * 10**4), "more than 2,000 values besides its vocabulary"),
        (
            {"normalizer": {"type": "Precompiled", "precompiled_charsmap": LONG}},
            "replaces a character by more than 200 bytes",
        ),
        # the library's own code fails
        (
            {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAAAA=="}},
            "cannot read the tokenizer",
        ),
        ({"model": {"vocab": {"zebra": 10**6, "[UNK]": 0}}}, "not of the same checkpoint"),
        (
            {"model": {"type": "Unigram", "vocab": [["a" * 5 * 10**6, 0.0]]}},
            "a vocabulary of more than 4,000,000 characters",
        ),
        (template([{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, A], [4 * 10**9]), "not of the"),
        ({"normalizer": {"type": "evil:run"}}, "cannot read the tokenizer"),
        ({"normalizer": {"type": "Replace", "pattern": 5, "content": ""}}, "is damaged"),
    ],
)
def test_tokenizers_of_strangers(folder, changes, said):
    content = json.loads((folder / "tokenizer.json").read_text())
    for part, change in changes.items():
        content[part] = {**content[part], **change} if part == "model" else change
    (folder / "tokenizer.json").write_text(json.dumps(content))
    assert re.search(said, refusal(folder))


def test_a_tokenizer_that_fails_at_a_text_is_one_line(folder):
    content = json.loads((folder / "tokenizer.json").read_text())
    content["model"]["unk_token"] = "[NOPE]"
    (folder / "tokenizer.json").write_text(json.dumps(content))
    encoder = load_encoder(folder)
    with pytest.raises(UserError, match=r"the encoder.s tokenizer fails .*Missing"):
        encoder.encode(["zebra"])
    content["post_processor"] = template([A] * 50)["post_processor"]
    (folder / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(UserError, match="more than 20 tokens after cutting"):
        load_encoder(folder).encode(["a"])


def test_a_tokenizers_own_padding_is_not_followed(folder):
    content = json.loads((folder / "tokenizer.json").read_text())
    content["padding"] = {
        "strategy": {"Fixed": 10**9},
        "direction": "Right",
        "pad_to_multiple_of": None,
        "pad_id": 1,
        "pad_type_id": 0,
        "pad_token": "[PAD]",
    }
    content["truncation"] = {
        "max_length": 1,
        "strategy": "LongestFirst",
        "stride": 7,
        "direction": "Right",
    }
    (folder / "tokenizer.json").write_text(json.dumps(content))
    assert load_encoder(folder).encode(["a river"]).shape == (1, 16)


def test_no_class_is_chosen_by_a_name_in_a_file(folder, tmp_path, monkeypatch):
    (tmp_path / "evil.py").write_text("raise SystemExit('it ran')")
    monkeypatch.chdir(tmp_path)
    names = {"AutoModel": "evil.T", "AutoConfig": "evil.T", "AutoTokenizer": ["evil.T", None]}
    for file in ("config.json", "tokenizer_config.json"):
        content = json.loads((folder / file).read_text())
        more = {"auto_map": names, "tokenizer_class": "evil.T", "trust_remote_code": True}
        more |= {"vocab_file": "/etc/passwd", "chat_template": "{{ cycler.__init__ }}"}
        (folder / file).write_text(json.dumps(content | more))
    encoder = load_encoder(folder)
    assert encoder.encode(["a river"]).shape == (1, 16)
    # nor is one passed on
    encoder.save_pretrained(tmp_path / "again")
    written = "".join(file.read_text() for file in (tmp_path / "again").glob("*.json"))
    assert "evil" not in written.replace('"tokenizer_class": "evil.T"', "")

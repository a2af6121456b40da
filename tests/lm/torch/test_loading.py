"""Folders of models: what is loaded, and what is said where it cannot be."""

import pytest
from lm_models import model, tokenizer

from ceil_jax.errors import UserError
from ceil_jax.lm import load_lm
from ceil_jax.lm.torch.loading import reading_speed
from ceil_jax.lm.torch.model import TorchLM


def test_loads_a_folder_by_its_weights_and_dtype(tmp_path):
    folder = tmp_path / "small"
    model("llama").save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    lm = load_lm(str(folder), dtype="float32")
    expected = TorchLM(model("llama"), tokenizer(), name="same")
    found, same = (one.log_likelihood(["It is"], [" good"]) for one in (lm, expected))
    assert found == pytest.approx(same)
    assert lm.name.startswith("small-") and lm.name.endswith("@float32")
    half = load_lm(str(folder), dtype="bfloat16")
    assert half.name == lm.name.replace("float32", "bfloat16")
    model("llama", context=64).save_pretrained(folder)
    assert load_lm(str(folder), dtype="float32").name != lm.name


def test_loading_says_what_is_wrong(tmp_path):
    with pytest.raises(UserError, match="cannot load the language model"):
        load_lm(str(tmp_path))
    with pytest.raises(UserError, match="cannot load the language model nobody/nothing"):
        load_lm("nobody/nothing")
    with pytest.raises(UserError, match="unknown dtype 'int8'; known: auto, "):
        load_lm(str(tmp_path), dtype="int8")


def test_the_speed_of_reading():
    assert reading_speed() > 1e8

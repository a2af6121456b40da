"""Names of language models."""

import doctest
import re

import pytest

from ceil_jax.errors import UserError
from ceil_jax.lm import load_lm, registry
from ceil_jax.lm.registry import source_of


def test_the_example_in_the_documentation():
    assert doctest.testmod(registry) == (0, 2)


def test_unknown_names_get_the_nearest_known():
    with pytest.raises(UserError, match=re.escape("did you mean 'SmolLM2-135M-Instruct'?")):
        load_lm("SmolLM2-135M")
    with pytest.raises(UserError, match="A folder or a hub id"):
        load_lm("./nowhere")


@pytest.mark.parametrize("file", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_folder_is_another_lm_when_a_byte_of_it_is_another(tmp_path, file):
    # two checkpoints of one run have files of the same names and sizes
    names = []
    for run, content in (("1", b"0123"), ("2", b"0124"), ("3", b"0123")):
        folder = tmp_path / run / "final"
        folder.mkdir(parents=True)
        for name in ("config.json", "model.safetensors", "tokenizer.json"):
            (folder / name).write_bytes(content if name == file else b"{}")
        names.append(source_of(str(folder))[1])
    assert names[0] == names[2] != names[1]

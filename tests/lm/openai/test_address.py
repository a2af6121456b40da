"""Addresses of servers and their models."""

import doctest

import pytest
from refusing import refused

from ceil_jax.encoders.registry import load_encoder
from ceil_jax.errors import UserError
from ceil_jax.lm import load_lm
from ceil_jax.lm.openai import address
from ceil_jax.lm.openai.address import is_address, parse_address


def test_the_example_in_the_documentation():
    assert doctest.testmod(address) == (0, 3)


@pytest.mark.parametrize(
    ("spec", "base", "model"),
    [
        ("http://localhost:8000/v1#org/model:7b", "http://localhost:8000/v1", "org/model:7b"),
        ("http://localhost:8000", "http://localhost:8000/v1", None),
        ("https://host/api/v1/#m", "https://host/api/v1", "m"),
        ("http://[::1]:80/v1#m", "http://[::1]:80/v1", "m"),
        # ends of names that a router understands
        ("https://openrouter.ai/api/v1#a/b:free", "https://openrouter.ai/api/v1", "a/b:free"),
        ("HTTP://Host:80/v1#m", "http://Host:80/v1", "m"),
        # pasted from a page of the provider
        *(
            (f"http://host:1/v1/{end}#m", "http://host:1/v1", "m")
            for end in (
                "chat/completions",
                "chat/completions/",
                "completions",
                "embeddings",
                "models",
                "responses",
            )
        ),
        ("http://host:1/chat/completions", "http://host:1/v1", None),
        ("http://localhost:11434/api/chat#llama3", "http://localhost:11434/v1", "llama3"),
        ("http://localhost:11434/api#llama3", "http://localhost:11434/v1", "llama3"),
        (" http://host:1/v1#m\n", "http://host:1/v1", "m"),
        # as curl takes them
        ("localhost:8000", "http://localhost:8000/v1", None),
        ("127.0.0.1:8000/v1#m", "http://127.0.0.1:8000/v1", "m"),
        ("[::1]:8000#m", "http://[::1]:8000/v1", "m"),
        ("gpu-7.lab:8000/v1#a/b", "http://gpu-7.lab:8000/v1", "a/b"),
        ("localhost#m", "http://localhost/v1", "m"),
        ("api.openai.com/v1#gpt-4o", "https://api.openai.com/v1", "gpt-4o"),
        ("openrouter.ai/api/v1/chat/completions", "https://openrouter.ai/api/v1", None),
    ],
)
def test_address(spec, base, model):
    assert is_address(spec)
    assert parse_address(spec) == (base, model, None)


@pytest.mark.parametrize(
    ("spec", "model"),
    [
        ("https://r.openai.azure.com/openai/deployments/d?api-version=1#m", "m"),
        ("https://r.openai.azure.com/openai/deployments/d/chat/completions?api-version=1", "d"),
    ],
)
def test_an_azure_deployment(spec, model):
    base = "https://r.openai.azure.com/openai/deployments/d"
    assert parse_address(spec) == (base, model, "1")


@pytest.mark.parametrize(
    "name",
    ["tiny", "owner/name", "owner/name.v1", "my_lm:load", "pkg.my_lm:load", "./folder", "a/b/c"],
)
def test_names_that_are_no_addresses(name):
    assert not is_address(name)


@pytest.mark.parametrize(
    "spec",
    [
        "http://me:sesame@host/v1#m",
        "http://sesame@host/v1#m",
        "http://host/v1?api_key=sesame#m",
        "http://host/v1?api-version=1&key=sesame#m",
        "http://me:sesame/v1",
        "http://[sesame]/v1",
        "http:///v1",
    ],
)
def test_addresses_hold_no_keys(spec):
    with pytest.raises(UserError) as refusal:
        parse_address(spec)
    assert "sesame" not in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("page", ["huggingface.co/owner/name", "hf.co/owner/name/tree/main"])
@pytest.mark.parametrize("load", [load_lm, load_encoder])
def test_a_page_of_the_hub_is_no_server(page, load):
    with refused(f"https://{page} is a page of the Hugging Face hub.*give the id owner/name"):
        load(f"https://{page}")

"""Addresses of servers and their models."""

import doctest

import pytest

from ceil_jax.errors import UserError
from ceil_jax.lm.openai import address
from ceil_jax.lm.openai.address import is_address, parse_address


def test_the_examples_in_the_documentation():
    assert doctest.testmod(address) == (0, 2)


@pytest.mark.parametrize(
    ("spec", "base", "model"),
    [
        ("http://localhost:8000/v1#org/model:7b", "http://localhost:8000/v1", "org/model:7b"),
        ("http://localhost:8000", "http://localhost:8000/v1", None),
        ("http://localhost:7997/#m", "http://localhost:7997", "m"),
        ("https://host/api/v1/#m", "https://host/api/v1", "m"),
        ("http://[::1]:80/v1#m", "http://[::1]:80/v1", "m"),
        ("HTTP://Host:80/v1#a%20b", "http://Host:80/v1", "a b"),
        (" http://host:1/v1#m\n", "http://host:1/v1", "m"),
    ],
)
def test_address(spec, base, model):
    assert is_address(spec)
    assert parse_address(spec) == (base, model)


@pytest.mark.parametrize(
    "name", ["tiny", "owner/name", "my_lm:load", "./folder", "a/b/c", "localhost:8000#m"]
)
def test_names_that_are_no_addresses(name):
    assert not is_address(name)


@pytest.mark.parametrize(
    "spec",
    [
        "http://me:sesame@host/v1#m",
        "http://sesame@host/v1#m",
        "http://host/v1?api_key=sesame#m",
        "http://me:sesame/v1",
        "http://[sesame]/v1",
        "http:///v1",
        "http://sesame\0/v1",
    ],
)
def test_addresses_hold_no_keys(spec):
    with pytest.raises(UserError, match="expected http://host:port/v1#model-name") as refusal:
        parse_address(spec)
    assert "sesame" not in str(refusal.value)
    assert "\n" not in str(refusal.value)

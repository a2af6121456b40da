"""Addresses of servers and their models."""

import pytest

from ceil_jax.errors import UserError
from ceil_jax.lm.openai.address import parse_address


@pytest.mark.parametrize(
    ("spec", "address"),
    [
        ("http://localhost:8000/v1#org/model:7b", ("http://localhost:8000/v1", "org/model:7b")),
        ("http://localhost:8000", ("http://localhost:8000/v1", None)),
        ("https://host/api/v1/#m", ("https://host/api/v1", "m")),
        ("http://[::1]:80/v1#m", ("http://[::1]:80/v1", "m")),
    ],
)
def test_address(spec, address):
    assert parse_address(spec) == address


@pytest.mark.parametrize(
    "spec",
    [
        "http://me:sesame@host/v1#m",
        "http://sesame@host/v1#m",
        "http://host/v1?api_key=sesame#m",
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

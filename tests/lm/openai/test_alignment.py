"""Tokens of several servers' spelling, laid along a text worked out by hand."""

import pytest

from ceil_jax.errors import UserError
from ceil_jax.lm.openai.address import Address, parse_address
from ceil_jax.lm.openai.alignment import Misaligned, continuation_tokens

LOST = "\ufffd"


@pytest.mark.parametrize(
    ("tokens", "prompt", "continuation", "expected"),
    [
        (["It", " is", " good"], "It is", " good", [2]),
        # a token with the prompt's last characters and the continuation's first is the continuation's
        (["It", " is", ";\n", "good"], "It is;", "\ngood", [2, 3]),
        # what was written after the text is nobody's
        (["It", " is", " good", " film"], "It is", " good", [2]),
        (["<s>", "It", " is", " good"], "It is", " good", [3]),
        (["", "It", " is", " good"], "It is", " good", [3]),
        # spaces lost, as with tokens of SentencePiece decoded one by one
        (["<s>", "It", "is", "good"], "It is", " good", [3]),
        (["<s>", "It", "is", "good"], "It", " is good", [2, 3]),
        # an emoji of three tokens, and how servers show its parts
        (["a", LOST, LOST, LOST, " b"], "a", "😀 b", [1, 2, 3, 4]),
        (["a", LOST, LOST, LOST, " b"], "a😀", " b", [4]),
        (["a", "", "", "😀", " b"], "a", "😀 b", [1, 2, 3, 4]),
        (["a", "", "", "😀", " b"], "a😀", " b", [4]),
        (["a", "<0xF0>", "<0x9F>", "<0x98>", "<0x80>", "b"], "a", "😀b", [1, 2, 3, 4, 5]),
        (["a", LOST, LOST, LOST], "a", "😀", [1, 2, 3]),
        (["a", "b"], "ab", "", []),
        (["ab"], "", "ab", [0]),
    ],
)
def test_continuation(tokens, prompt, continuation, expected):
    assert list(continuation_tokens(tokens, prompt + continuation, len(prompt))) == expected


@pytest.mark.parametrize(
    ("tokens", "text", "start"),
    [
        (["It", " was"], "It is", 2),
        (["It"], "It is", 2),
        ([], "It is", 2),
        # four parts of two characters: nothing says where the first one ends
        (["a", LOST, LOST, LOST, LOST, " b"], "aéé b", 2),
    ],
)
def test_what_cannot_be_told_is_refused(tokens, text, start):
    with pytest.raises(Misaligned):
        continuation_tokens(tokens, text, start)


@pytest.mark.parametrize(
    ("spec", "address"),
    [
        ("http://localhost:8000/v1#org/model:7b", Address("http://localhost:8000/v1", "org/model:7b")),
        ("http://localhost:8000", Address("http://localhost:8000/v1", None)),
        ("https://host/api/v1/#m", Address("https://host/api/v1", "m")),
        ("http://[::1]:80/v1#m", Address("http://[::1]:80/v1", "m")),
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

"""Tokens of several servers' spelling, laid along a text worked out by hand."""

import pytest

from ceil_jax.lm.openai.alignment import continuation_tokens

LOST = "\ufffd"


@pytest.mark.parametrize(
    ("tokens", "prompt", "continuation", "expected"),
    [
        (["It", " is", " good"], "It is", " good", [2]),
        # a token with the prompt's last characters and the continuation's first is the
        # continuation's
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
    with pytest.raises(ValueError):
        continuation_tokens(tokens, text, start)

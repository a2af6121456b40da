"""The boundary of prompt and continuation, on a tokenizer with hand-written merges."""

from lm_models import tokenizer

from ceil_jax.lm.tokens import PairTokenizer


def test_the_boundary_is_where_the_prompt_ends():
    pairs = PairTokenizer(tokenizer()).pairs(
        ["a", "a ", "a;", "é", "", "fi", ""], [" good", "good", "\n", "é", "a", "lm", ""]
    )
    #  a| good   a| good (the space is the token's)   a|;\n    two bytes|two   </s>|a   </s>|film   </s>|
    assert [(len(pair.ids), pair.start) for pair in pairs] == [
        (2, 1),
        (2, 1),
        (2, 1),
        (4, 2),
        (2, 1),
        (2, 1),
        (1, 1),
    ]

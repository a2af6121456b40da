"""Where generated text ends."""

from ceil_jax.lm.stopping import cut, first_stop


def test_text_is_cut_before_the_first_stop_string_and_nowhere_else():
    assert cut("find /home -type f", ["<|endoftext|>"]) == "find /home -type f"
    assert cut(" a\n\nb; c", ["; ", "\n\n"]) == " a"
    assert first_stop("abc", ["c", "b"]) == 1
    assert first_stop("abc", []) is None

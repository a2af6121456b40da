"""The deterministic test LM: probabilities worked out by hand, and the protocol's corners."""

import zlib

import numpy as np
import pytest

from ceil_jax.errors import UserError
from ceil_jax.lm import TinyLM


def base(token):
    """About 1/1000: what a token has without having been read."""
    return (1 + zlib.crc32(token.encode()) / 2**32) / 1500


def test_tokens_are_words_and_marks_with_the_space_before():
    #                                     "A" " b" "." " " " c" "\n" "\n" "d"
    assert TinyLM().count_tokens(["A b.  c\n\nd", ""]).tolist() == [8, 0]


AFTER_B = 0.6 * 1 + 0.3 * (5 / 3) / 5 + 0.1 * base(" a")
"""P of " a" after " b a b"."""


# " b a b": weights 1 + i/3 = 4/3, 5/3, 6/3, together 5; after " b" has stood " a" alone (i = 2)
@pytest.mark.parametrize(
    ("continuation", "probability"),
    [
        (" a", AFTER_B),
        (" b", 0.6 * 0 + 0.3 * (4 / 3 + 6 / 3) / 5 + 0.1 * base(" b")),
        (" c", 0.1 * base(" c")),
        # then after " b a b a": weights 5/4, 6/4, 7/4, 8/4, together 6.5; after " a" has stood " b"
        # (i = 3)
        (" a b", AFTER_B * (0.6 + 0.3 * (5 / 4 + 7 / 4) / 6.5 + 0.1 * base(" b"))),
        ("", 1.0),
    ],
)
def test_probabilities_by_hand(continuation, probability):
    [found] = TinyLM().log_likelihood([" b a b"], [continuation])
    assert np.exp(found) == pytest.approx(probability, rel=1e-12)


def test_a_missing_part_leaves_its_share_to_the_base():
    [nothing_read] = TinyLM().log_likelihood([""], ["a"])
    assert np.exp(nothing_read) == pytest.approx(1.0 * base("a"), rel=1e-12)
    # "x" stands once and nothing has followed it
    [nothing_followed] = TinyLM().log_likelihood(["x"], [" y"])
    assert np.exp(nothing_followed) == pytest.approx(0.7 * base(" y"), rel=1e-12)
    [again] = TinyLM().log_likelihood(["x"], ["x "])  # "xx" is one token, then a space
    assert np.exp(again) == pytest.approx(base("xx") * 0.7 * base(" "), rel=1e-12)


def test_tokens_read_counts_a_prompt_once():
    lm = TinyLM()
    lm.choice_log_likelihood(["a b a"], [[" b", " b a"]])
    assert lm.tokens_read == 3 + 1 + 2


def test_generation_is_greedy_and_stops():
    lm = TinyLM()
    assert lm.generate(["x: y\nx:"], 3) == [" y\nx"]
    assert lm.generate(["x: y\nx:"], 9, ["\n"]) == [" y"]
    assert lm.generate(["x: y\nx:"], 0) == [""]
    assert lm.generate([""], 5) == [""]


def test_sampling_repeats_with_its_seed_and_does_not_see_the_batch():
    lm = TinyLM()
    prompts = ["a b c a c b a", "one two one three one"]
    once = lm.generate(prompts, 12, temperature=1.0, seed=7)
    assert once == [lm.generate([p], 12, temperature=1.0, seed=7)[0] for p in prompts]
    assert once != lm.generate(prompts, 12, temperature=1.0, seed=8)


def test_a_prompt_too_long_names_itself():
    lm = TinyLM(context_length=4)
    lm.log_likelihood(["a b c"], [" d"])
    with pytest.raises(UserError, match=r"prompt 1 is 5 tokens .* more than the 4 that tiny reads"):
        lm.log_likelihood(["a", "a b c"], [" d", " d e"])
    with pytest.raises(UserError, match="prompt 0 is 5 tokens"):
        lm.generate(["a b c d"], 1)
    # room for one token: nothing has followed " a", and it is the most recent of three that stood
    # once
    assert lm.generate(["a b a"], 5) == [" a"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"stop": "\n"}, "must be a list"),
        ({"stop": [""]}, "non-empty"),
        ({"temperature": -1}, "temperature"),
    ],
)
def test_sampling_arguments_are_checked(arguments, message):
    with pytest.raises(UserError, match=message):
        TinyLM().generate(["a"], 1, **arguments)


def test_a_prompt_with_several_seeds_is_read_once_and_sampled_as_with_each_alone():
    lm = TinyLM()
    prompt = "a b c a c b a"
    alone = [lm.generate([prompt], 5, temperature=2.0, seed=seed)[0] for seed in range(4)]
    before = lm.tokens_read
    assert lm.generate([prompt] * 4, 5, temperature=2.0, seed=range(4)) == alone
    assert lm.tokens_read - before == lm.count_tokens([prompt])[0] + 4 * 5
    assert len(set(alone)) > 1

"""The methods that all our language models share, worked out by hand."""

import numpy as np
import pytest

from ceil_jax.errors import UserError
from ceil_jax.lm.answers import first_stop
from ceil_jax.lm.base import LanguageModel


class Known(LanguageModel):
    """Scores and lengths of texts by a table; keeps what it was asked."""

    name = "known"

    def __init__(self, table):
        self.table = table

    def scores(self, asked):
        self.asked = asked
        return [self.table[text][0] for text in asked.texts], [
            self.table[text][1] for text in asked.texts
        ]

    def write(self, prompts, limit, stop, temperature, seeds):
        return [f"{prompt} {seed}" for prompt, seed in zip(prompts, seeds, strict=True)]


@pytest.mark.parametrize("choices", [[["a"], []], [["a"], "ab"]])
def test_each_prompt_needs_a_list_of_choices(choices):
    with pytest.raises(UserError, match="prompt 1 has choices"):
        Known({}).choose(["x", "y"], choices)


def test_the_most_likely_choice_wins_and_the_first_of_equals():
    lm = Known({"a": (-3.0, 1), "b": (-2.0, 1), "c": (-2.0, 1)})
    assert lm.choose(["x", "y"], [["a", "b", "c"], ["a"]]).tolist() == [1, 0]
    assert lm.log_likelihood(["x", "y"], ["a", "c"]).tolist() == [-3, -2]
    assert lm.choose([], []).tolist() == []
    assert lm.log_likelihood([], []).dtype == np.float64


def test_per_token_compares_means_and_an_empty_choice_counts_as_one_token():
    lm = Known({"a": (-3.0, 3), "b": (-2.0, 1), "c": (-1.5, 0)})
    #                                  -3/3 = -1, -2/1, -1.5/1
    [means] = lm.choice_log_likelihood(["x"], [["a", "b", "c"]], per_token=True)
    assert means.tolist() == [-1, -2, -1.5]


def test_one_seed_is_each_prompts_and_several_are_their_own():
    assert Known({}).generate(["x", "y"], 1, seed=3) == ["x 3", "y 3"]
    assert Known({}).generate(["x", "y"], 1, seed=[1, 2]) == ["x 1", "y 2"]


def test_text_is_cut_before_the_first_stop_string_and_nowhere_else():
    lm = Known({})
    lm.write = lambda *_: ["find /home -type f", " a\n\nb; c"]
    assert lm.generate(["x", "y"], 9, ["<|endoftext|>", "; ", "\n\n"]) == [
        "find /home -type f",
        " a",
    ]
    assert first_stop("abc", ["c", "b"]) == 1
    assert first_stop("abc", []) is None


def test_what_an_lm_gives_is_checked():
    lm = Known({"a": (-1.0, 1), "b": (np.nan, 1)})
    with pytest.raises(
        UserError, match="known gave 2 scores and 2 lengths of 2 texts, 1 of them no numbers"
    ):
        lm.choose(["x"], [["a", "b"]])
    lm.scores = lambda asked: [0.0]
    with pytest.raises(
        UserError, match=r"known: scores returned \[0.0\]; expected .log-likelihoods, lengths"
    ):
        lm.choose(["x"], [["a"]])
    for written, said in (
        (["x"], r"1 answers \(str\) to 2 prompts"),
        (["x", None], r"2 answers \(NoneType, str\)"),
    ):
        lm.write = lambda *_, written=written: written
        with pytest.raises(UserError, match=said):
            lm.generate(["x", "y"], 1)
    # an LM of one's own may ignore the stop strings, and give half a character, which no file can
    # hold
    lm.write = lambda *_: ["good\nbad"]
    assert lm.generate(["x"], 5, ["\n"]) == ["good"]
    lm.write = lambda *_: ["good \ud83d"]
    assert lm.generate(["x"], 1) == ["good \ufffd"]

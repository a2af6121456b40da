"""experiments/examples_that_fit.py: a smaller limit lets in fewer examples."""

from pathlib import Path

import numpy as np
import pytest
from examples_that_fit import Counting, Options, examples_that_fit
from tokenizers.implementations import ByteLevelBPETokenizer

from ceil_jax.errors import UserError


@pytest.fixture
def letters(tmp_path):
    """A vocabulary of single bytes, in files of GPT-2's names."""
    tokenizer = ByteLevelBPETokenizer()
    tokenizer.train_from_iterator(["abc"], vocab_size=256)
    tokenizer.save_model(str(tmp_path))
    return tmp_path


def test_tokens_are_those_of_the_files(letters):
    lm = Counting(letters)
    assert lm.count_tokens(["abc", ""]).tolist() == [3, 0]
    with pytest.raises(UserError, match=r"holds neither vocab\.json nor encoder\.json"):
        Counting(letters / "nowhere")


def test_a_smaller_limit_lets_in_fewer_examples(letters):
    options = Options(letters, Path(), limit=6, bank_limit=60, encoder="tiny")
    small, large = examples_that_fit(Counting(letters), options, "movie_reviews")
    assert 0 < small < large < 50
    assert np.isclose(large / small, 2048 / 1600, rtol=0.5)

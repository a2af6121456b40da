"""Packaged weights."""

import numpy as np
import pytest

from ceil_jax.lm import load_lm


@pytest.mark.packages
def test_the_packaged_model_reads_options_as_full_passes_and_knows_paris():
    lm = load_lm("SmolLM2-135M-Instruct", dtype="float32")
    prompts = ["The capital of France is", "A dull film. It is terrible\n\nA joy. It is"]
    choices = [[" Rome", " Paris", " the city of light"], [" good", " great fun", " bad"]]
    found = lm.choice_log_likelihood(prompts, choices)
    for prompt, options, scores in zip(prompts, choices, found, strict=True):
        np.testing.assert_allclose(
            scores, lm.log_likelihood([prompt] * len(options), options), atol=1e-4
        )
    assert lm.name == "SmolLM2-135M-Instruct@float32"
    assert lm.choose(prompts[:1], choices[:1]).tolist() == [1]
    assert lm.generate(prompts[:1], 8, ["."]) == [" Paris"]
    # digits stand alone, and so does the white space before them
    assert lm.count_tokens(["x  12"]).tolist() == [4]

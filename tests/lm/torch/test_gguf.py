"""Packaged weights, and the progress bar while they load."""

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
        np.testing.assert_allclose(scores, lm.log_likelihood([prompt] * len(options), options), atol=1e-4)
    assert lm.name == "SmolLM2-135M-Instruct@float32"
    assert lm.choose(prompts[:1], choices[:1]).tolist() == [1]
    assert lm.generate(prompts[:1], 8, ["."]) == [" Paris"]
    # digits stand alone, and so does the white space before them
    assert lm.count_tokens(["x  12"]).tolist() == [4]


def test_small_folders_load_without_a_bar(tmp_path, monkeypatch):
    from transformers.utils import logging

    from ceil_jax.lm.torch import gguf

    (tmp_path / "model.safetensors").write_bytes(bytes(10))
    was = logging.is_progress_bar_enabled()
    logging.enable_progress_bar()
    try:
        with gguf.quiet_if_small(tmp_path):
            assert not logging.is_progress_bar_enabled()
        assert logging.is_progress_bar_enabled()
        # a hub id downloads, a large folder takes long: both keep their bars
        for source, small in (("owner/name", 20), (tmp_path, 10)):
            monkeypatch.setattr(gguf, "SMALL", small)
            with gguf.quiet_if_small(source):
                assert logging.is_progress_bar_enabled()
    finally:
        (logging.enable_progress_bar if was else logging.disable_progress_bar)()

"""llama.cpp through xllamacpp: a packaged file of four-bit weights, read as it is, one prompt after another."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import xllamacpp


class LlamaCpp:
    """A file's model with all cores of the machine, and no cache of prompts."""

    def __init__(self, folder: Path) -> None:
        params = xllamacpp.CommonParams()
        [file] = folder.glob("*.gguf")
        params.model.path = str(file)
        params.n_ctx, params.n_parallel = 4096, 1
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = os.cpu_count() or 1
        self._server = xllamacpp.Server(params)

    def log_likelihood(self, prompts: Sequence[str], answers: Sequence[str]) -> np.ndarray:
        """float64 [N]: log P of each answer, which is one token; NaN where it is not among the 2,000 likeliest."""
        return np.array([self._one(prompt, answer) for prompt, answer in zip(prompts, answers, strict=True)])

    def _one(self, prompt: str, answer: str) -> float:
        asked = {"prompt": prompt, "n_predict": 1, "n_probs": 2000, "cache_prompt": False}
        [choice] = self._server.handle_completions(asked)["choices"]
        found = choice["logprobs"]["content"][0]["top_logprobs"]
        return next((one["logprob"] for one in found if one["token"] == answer), np.nan)

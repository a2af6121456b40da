"""Choosing among 5 options after 8 and 16 examples. The peer makes one whole pass for each option."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from benchmarks import lm_workloads
from benchmarks.harness import OURS, Case, Settings

PROMPTS = 8


def cases(settings: Settings) -> Iterator[Case]:
    rng = np.random.default_rng(0)
    for name, dtype in lm_workloads.models(settings):
        ours, peer = lm_workloads.pair(name, dtype, settings)
        task, builder = lm_workloads.reviews(ours)
        for shots in (2,) if settings.small else (8, 16):
            queries = task.validation[: 2 if settings.small else PROMPTS]
            prompts = [
                builder.build(
                    query, [task.train[i] for i in rng.choice(1000, shots)], range(shots)
                ).text
                for query in queries
            ]
            # the options as they are, of one token each, and as an answer in words
            for kind, ending in (("words", ""), ("phrases", ", a film of its own kind")):
                choices = [
                    [task.template.continuation(query, choice) + ending for choice in query.choices]
                    for query in queries
                ]
                yield Case(
                    f"5 {kind}, {shots} examples, {name}, {dtype}",
                    {
                        OURS: partial(_scores, ours, prompts, choices),
                        "one pass per option": partial(_scores, peer, prompts, choices),
                    },
                    partial(lm_workloads.same_scores, dtype),
                    at_least={"one pass per option": 8.0} if kind == "words" else {},
                    work={"prompts": len(prompts)},
                )


def _scores(lm: Any, prompts: list[str], choices: list[list[str]]) -> np.ndarray:
    return np.concatenate(lm.choice_log_likelihood(prompts, choices))

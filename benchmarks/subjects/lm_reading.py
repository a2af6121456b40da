"""Reading of prompts: the share of the machine's speed in matrix products that it reaches.

16 prompts of 8 film reviews each, and the log-probability of an answer of one token. The prompts
share nothing, so that prefixes are no help; `lm_choice` and `lm_subsets` measure what sharing
gives. "its products alone" computes the products of the LM's linear layers with as many tokens, and
nothing else: the time of a reader without overhead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from benchmarks import lm_workloads
from benchmarks.harness import OURS, Case, Settings
from benchmarks.peers.padded_lm import PaddedLM

PROMPTS = 16
SHOTS = 8
CHUNK = 512
PRODUCTS = "its products alone"


def cases(settings: Settings) -> Iterator[Case]:
    count = 2 if settings.small else PROMPTS
    for name, dtype in lm_workloads.models(settings):
        lm, plain = lm_workloads.pair(name, dtype, settings)
        task, builder = lm_workloads.reviews(lm)
        queries = task.validation[:count]
        positions = (
            np.random.default_rng(0)
            .permutation(len(task.train))[: count * SHOTS]
            .reshape(count, SHOTS)
        )
        prompts = [
            builder.build(query, [task.train[i] for i in row], list(range(SHOTS))).text
            for query, row in zip(queries, positions, strict=True)
        ]
        answers = [task.template.continuation(query, query.output) for query in queries]
        read = int(lm.count_tokens(prompts).sum())
        contenders: dict[str, Callable[[], Any]] = {
            OURS: partial(lm.log_likelihood, prompts, answers),
            "padded, all logits": partial(plain.log_likelihood, prompts, answers),
            PRODUCTS: partial(products, linear_weights(plain), read),
        }
        yield Case(
            f"{count} prompts of {SHOTS} examples, {name}, {dtype}",
            contenders,
            partial(same_scores, dtype),
            work={"tokens": read, "FLOP": lm_workloads.operations(plain, read)},
        )


def linear_weights(lm: PaddedLM) -> list[torch.Tensor]:
    """Return the weights of all layers, without those of the logits."""
    head = lm.model.get_output_embeddings()
    linear = (
        part
        for part in lm.model.modules()
        if isinstance(part, torch.nn.Linear) and part is not head
    )
    return [part.weight for part in linear]


@torch.inference_mode()
def products(weights: Sequence[torch.Tensor], tokens: int) -> None:
    """Multiply the given number of rows by every weight."""
    rows = {
        width: torch.ones(CHUNK, width, dtype=weights[0].dtype, device=weights[0].device)
        for width in {weight.shape[1] for weight in weights}
    }
    for start in range(0, tokens, CHUNK):
        for weight in weights:
            torch.nn.functional.linear(rows[weight.shape[1]][: tokens - start], weight)
    if weights[0].is_cuda:
        torch.cuda.synchronize()


def same_scores(dtype: str, results: Mapping[str, np.ndarray]) -> str:
    """Check that the plain reader's log-probabilities equal ours."""
    return lm_workloads.same_scores(
        dtype, {name: values for name, values in results.items() if name != PRODUCTS}
    )

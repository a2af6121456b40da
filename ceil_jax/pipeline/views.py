"""Retrieval texts of a task's examples: their inputs, the skills that these need, or inputs with
outputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ceil_jax.pipeline.models import LM
from ceil_jax.pipeline.stage import Run, Stage, Work, closure
from ceil_jax.skills.rewriter import MAX_NEW_TOKENS, Demonstration, Rewriter
from ceil_jax.store.folder import read_json, write_json
from ceil_jax.store.hashing import digest
from ceil_jax.tasks.example import Example, context_text


@dataclass(frozen=True, eq=False)
class Examples:
    """Examples of a task, known by their content."""

    examples: Sequence[Example]

    @cached_property
    def key(self) -> str:
        return digest(list(self.examples))

    def __len__(self) -> int:
        return len(self.examples)


@dataclass(frozen=True, eq=False)
class TrainingQueries(Examples):
    """Examples of the bank that training or tuning asks."""

    positions: np.ndarray
    """int32 [Q]: their bank positions, ascending."""


RetrievalTexts = Stage[Sequence[Example]]
"""Examples whose `input` is the retrieval text."""


@dataclass(frozen=True)
class Inputs(Stage[Sequence[Example]]):
    """The examples themselves: their inputs are the retrieval texts."""

    in_memory: ClassVar[bool] = True
    kind = "given"
    rows: Examples

    def load(self, run: Run, folder: Path) -> Sequence[Example]:
        return self.rows.examples


@dataclass(frozen=True)
class Skills(Stage[list[str]]):
    """The skill that each input needs, as an LM writes it after one order of the demonstrations
    (Skill-KNN)."""

    rows: Examples
    lm: LM
    demonstrations: tuple[Demonstration, ...]
    orders: int
    order: int
    seed: int

    @property
    def what(self) -> str:
        return f"rewriting {len(self.rows):,} inputs as skills, order {self.order}"

    def _rewriter(self, run: Run) -> Rewriter:
        return Rewriter(run.lm(self.lm), self.demonstrations, orders=self.orders, seed=self.seed)

    def compute(self, run: Run, folder: Path) -> Mapping[str, Any]:
        found = self._rewriter(run).rewrite(self.rows.examples, self.order)
        write_json(folder / "skills.json", found.skills)
        return {
            "failures": dict(found.failures),
            "copies": found.copies,
            "rewrites": found.rewrites,
        }

    def load(self, run: Run, folder: Path) -> list[str]:
        return read_json(folder / "skills.json")

    def estimate(self, run: Run) -> Work:
        lm = run.lm(self.lm)
        prompts = self._rewriter(run).prompts(self.rows.examples, self.order)
        some = prompts[:: max(1, len(prompts) // 32)]
        share = len(prompts) / max(1, len(some))
        skills = lm.count_tokens([one.skill for one in self.demonstrations]).mean() + 1
        read = float(lm.count_tokens(some).sum()) * share
        written = min(skills, MAX_NEW_TOKENS) * len(prompts)
        return Work(read, written, parameters=run.models.counting(self.lm).parameters)


def failures(run: Run, targets: Iterable[Stage[Any]]) -> str:
    """Return a line on how many rewrites failed, how many different skills there are, and how many
    are copies; "" where nothing was rewritten.

    An LM that is too small for the task writes the same skill for all inputs, which no single
    rewrite shows.
    """
    stages = [one for one in closure(targets) if isinstance(one, Skills)]
    if not stages:
        return ""
    summaries = [run.summary(one) for one in stages]
    failed: Counter[str] = sum((Counter(one["failures"]) for one in summaries), Counter())
    total, copies = (sum(one[name] for one in summaries) for name in ("rewrites", "copies"))
    said = Counter(skill for one in stages for skill in run.get(one))
    kinds = ", ".join(f"{count} {kind}" for kind, count in failed.most_common())
    commonest = 100 * max(said.values(), default=0) / max(said.total(), 1)
    return (
        f"{stages[0].lm.key}: {failed.total()} of {total:,} rewrites failed"
        + (f" ({kinds}): raw inputs stand for them" if failed else "")
        + f"; {len(said):,} different skills, the commonest for {commonest:.0f} %; "
        + f"{copies:,} are a demonstration's skill word for word"
    )


@dataclass(frozen=True)
class Rewritten(Stage[Sequence[Example]]):
    """The examples with a skill in place of the input."""

    in_memory: ClassVar[bool] = True
    rows: Examples
    skills: Skills

    def load(self, run: Run, folder: Path) -> Sequence[Example]:
        pairs = zip(self.rows.examples, run.get(self.skills), strict=True)
        return [replace(example, input=skill) for example, skill in pairs]


@dataclass(frozen=True)
class WithOutputs(Stage[Sequence[Example]]):
    """The examples with their output after the input."""

    in_memory: ClassVar[bool] = True
    view: RetrievalTexts

    def load(self, run: Run, folder: Path) -> Sequence[Example]:
        return [replace(one, input=context_text(one, "example")) for one in run.get(self.view)]

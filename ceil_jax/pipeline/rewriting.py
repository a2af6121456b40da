"""Skill-KNN in a run: an LM rewrites inputs as skills, which are then the retrieval texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ceil_jax.lm.price import Usage, usage_of
from ceil_jax.pipeline.models import NamedLM
from ceil_jax.pipeline.stage import Run, Stage, Work, closure
from ceil_jax.pipeline.views import Examples, RetrievalTexts
from ceil_jax.skills.rewriter import MAX_NEW_TOKENS, Demonstration, Rewriter
from ceil_jax.store.folder import read_json, write_json
from ceil_jax.tasks.example import Example

_COUNTED = 32
"""Of about how many prompts the tokens are counted to estimate those of all."""


@dataclass(frozen=True)
class Skills(Stage[list[str]]):
    """The skill that each input needs, as an LM writes it with the demonstrations in one order
    (Skill-KNN)."""

    rows: Examples
    lm: NamedLM
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
        rewrites = self._rewriter(run).rewrite(self.rows.examples, self.order)
        write_json(folder / "skills.json", rewrites.skills)
        return {
            "failures": dict(rewrites.failures),
            "copies": rewrites.copies,
            "rewrites": rewrites.rewrites,
        }

    def load(self, run: Run, folder: Path) -> list[str]:
        return read_json(folder / "skills.json")

    def usage(self, run: Run) -> Usage:
        """Return the mean numbers of tokens that the LM reads and writes of an input. The
        demonstrations are the beginning of each prompt."""
        prompts = self._rewriter(run).prompts(self.rows.examples, self.order)
        return usage_of(prompts, run.get(self), run.lm(self.lm).count_tokens)

    def estimate(self, run: Run) -> Work:
        lm = run.lm(self.lm)
        prompts = self._rewriter(run).prompts(self.rows.examples, self.order)
        counted = prompts[:: max(1, len(prompts) // _COUNTED)]
        read = float(lm.count_tokens(counted).sum()) * len(prompts) / max(1, len(counted))
        demonstrated = [demonstration.skill for demonstration in self.demonstrations]
        # a skill is as long as a demonstration's, and the LM writes the token that ends it
        tokens_of_skill = lm.count_tokens(demonstrated).mean() + 1
        written = min(tokens_of_skill, MAX_NEW_TOKENS) * len(prompts)
        return Work(read, written, parameters=run.models.counting(self.lm).parameters)


@dataclass(frozen=True)
class Rewritten(RetrievalTexts):
    """The examples with a skill in place of the input."""

    rows: Examples
    skills: Skills

    @property
    def source(self) -> Examples:
        return self.rows

    def load(self, run: Run, folder: Path) -> Sequence[Example]:
        pairs = zip(self.rows.examples, run.get(self.skills), strict=True)
        return [replace(example, input=skill) for example, skill in pairs]


@dataclass(frozen=True)
class SkillTexts(RetrievalTexts):
    """An example for each of the m skills of every example, in order."""

    skills: tuple[Skills, ...]

    @property
    def source(self) -> Examples:
        return self.skills[0].rows

    def load(self, run: Run, folder: Path) -> Sequence[Example]:
        orders = [run.get(skills) for skills in self.skills]
        return [
            replace(example, input=skill)
            for example, *skills in zip(self.source.examples, *orders, strict=True)
            for skill in skills
        ]


def rewriting_note(run: Run, targets: Iterable[Stage[Any]]) -> str:
    """Return a line on how many rewrites failed, how many distinct skills there are, and how many
    are copies of a demonstration's; "" if nothing was rewritten.

    The line reveals an LM that is too small for the task: it writes the same skill for all inputs.
    """
    stages = [stage for stage in closure(targets) if isinstance(stage, Skills)]
    if not stages:
        return ""
    summaries = [run.summary(stage) for stage in stages]
    failed: Counter[str] = sum((Counter(summary["failures"]) for summary in summaries), Counter())
    total = sum(summary["rewrites"] for summary in summaries)
    copies = sum(summary["copies"] for summary in summaries)
    skills = Counter(skill for stage in stages for skill in run.get(stage))
    commonest = 100 * max(skills.values(), default=0) / max(skills.total(), 1)
    failures = f"{failed.total()} of {total:,} rewrites failed"
    if failed:
        kinds = ", ".join(f"{count} {kind}" for kind, count in failed.most_common())
        failures = f"{failures} ({kinds}): raw inputs stand for them"
    return (
        f"{stages[0].lm.key}: {failures}; "
        f"{len(skills):,} different skills, the commonest for {commonest:.0f} %; "
        f"{copies:,} are a demonstration's skill word for word"
    )

"""Views of a task's examples whose `input` is the retrieval text: the input itself, a skill, the
output, or input and output."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ceil_jax.lm.price import Usage, usage_of
from ceil_jax.pipeline.models import NamedLM
from ceil_jax.pipeline.stage import Run, Stage, Work, closure
from ceil_jax.skills.rewriter import MAX_NEW_TOKENS, Demonstration, Rewriter
from ceil_jax.store.folder import read_json, write_json
from ceil_jax.store.hashing import digest
from ceil_jax.tasks.example import Example, context_text
from ceil_jax.tasks.structures import structure_parser_of
from ceil_jax.training.free.encoder import PARSERS, are_pairs, check_pairs


@dataclass(frozen=True, eq=False)
class Examples:
    """Examples of a task, with a key of their content."""

    examples: Sequence[Example]

    @cached_property
    def key(self) -> str:
        return digest(list(self.examples))

    def __len__(self) -> int:
        return len(self.examples)


@dataclass(frozen=True, eq=False)
class BankQueries(Examples):
    """Examples of the bank that training or tuning takes as queries."""

    bank: Examples
    positions: np.ndarray
    """int32 [Q]: their bank positions, ascending."""


@dataclass(frozen=True, eq=False)
class Bank(Examples):
    """The examples that may be chosen."""

    _queries: dict[bytes, BankQueries] = field(default_factory=dict, init=False, repr=False)

    def queries(self, positions: np.ndarray) -> BankQueries:
        """Return the examples at some positions as queries. The same positions always give the same
        object."""
        positions = np.sort(positions).astype(np.int32)
        queries = BankQueries([self.examples[i] for i in positions], self, positions)
        return self._queries.setdefault(positions.tobytes(), queries)

    @cached_property
    def pairs(self) -> bool:
        """Whether every input is joined from two texts."""
        return are_pairs(self.examples)

    @cached_property
    def parser(self) -> str:
        """The name of the parser for outputs that are programs; "" if they are not."""
        parser = structure_parser_of(self.examples)
        return next((name for name, known in PARSERS.items() if known is parser), "")


class RetrievalTexts(Stage[Sequence[Example]]):
    """Examples whose `input` is the retrieval text."""

    in_memory: ClassVar[bool] = True

    @property
    def source(self) -> Examples:
        """The task's examples that the view was made from."""
        raise TypeError(f"{type(self).__name__} does not define `source`")


@dataclass(frozen=True)
class Inputs(RetrievalTexts):
    """The examples themselves: their inputs are the retrieval texts."""

    rows: Examples

    @property
    def source(self) -> Examples:
        return self.rows

    def load(self, run: Run, folder: Path) -> Sequence[Example]:
        return self.rows.examples


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
        some = prompts[:: max(1, len(prompts) // 32)]
        share = len(prompts) / max(1, len(some))
        skills = (
            lm.count_tokens([demonstration.skill for demonstration in self.demonstrations]).mean()
            + 1
        )
        read = float(lm.count_tokens(some).sum()) * share
        written = min(skills, MAX_NEW_TOKENS) * len(prompts)
        return Work(read, written, parameters=run.models.counting(self.lm).parameters)


def failures(run: Run, targets: Iterable[Stage[Any]]) -> str:
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
    kinds = ", ".join(f"{count} {kind}" for kind, count in failed.most_common())
    commonest = 100 * max(skills.values(), default=0) / max(skills.total(), 1)
    return (
        f"{stages[0].lm.key}: {failed.total()} of {total:,} rewrites failed"
        + (f" ({kinds}): raw inputs stand for them" if failed else "")
        + f"; {len(skills):,} different skills, the commonest for {commonest:.0f} %; "
        + f"{copies:,} are a demonstration's skill word for word"
    )


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
class WithOutputs(RetrievalTexts):
    """The examples with their output after the input."""

    view: RetrievalTexts

    @property
    def source(self) -> Examples:
        return self.view.source

    def load(self, run: Run, folder: Path) -> Sequence[Example]:
        return [
            replace(example, input=context_text(example, "example"))
            for example in run.get(self.view)
        ]


@dataclass(frozen=True)
class Outputs(RetrievalTexts):
    """The examples with their output in place of the input."""

    rows: Examples

    @property
    def source(self) -> Examples:
        return self.rows

    def load(self, run: Run, folder: Path) -> Sequence[Example]:
        return [replace(example, input=example.output) for example in self.rows.examples]


@dataclass(frozen=True)
class Parts(RetrievalTexts):
    """An example for each of the two texts of every example's input, in order."""

    view: RetrievalTexts

    @property
    def source(self) -> Examples:
        return self.view.source

    def load(self, run: Run, folder: Path) -> Sequence[Example]:
        examples = run.get(self.view)
        check_pairs(examples)
        return [replace(example, input=text) for example in examples for text in example.texts]


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

"""Skill-KNN in a run: an LM rewrites inputs as skills, which are then the retrieval texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from ceil_jax.lm.price import Usage, usage_of
from ceil_jax.pipeline.models import NamedLM
from ceil_jax.pipeline.run import Run
from ceil_jax.skills.rewriter import MAX_NEW_TOKENS, Demonstration, Rewriter
from ceil_jax.store.kept import Lazy, Noted, Work, closure, json_file, kept
from ceil_jax.tasks.bank import Examples
from ceil_jax.tasks.example import Example

_COUNTED = 32
"""The approximate number of prompts whose tokens are counted to estimate those of all."""


def rewriter(
    run: Run, lm: NamedLM, demonstrations: Sequence[Demonstration], **draws: int
) -> Rewriter:
    """Return the rewriter of inputs; `draws` are the number of orders and the seed."""
    return Rewriter(run.lm(lm), demonstrations, **draws)


def _rewriter_of(run: Run, skills: Skills) -> Rewriter:
    return rewriter(run, skills.lm, skills.demonstrations, orders=skills.orders, seed=skills.seed)


def work_of_rewriting(run: Run, skills: Skills) -> Work:
    """Return the work of rewriting inputs as skills."""
    lm = run.lm(skills.lm)
    prompts = _rewriter_of(run, skills).prompts(skills.rows.examples, skills.order)
    counted = prompts[:: max(1, len(prompts) // _COUNTED)]
    read = float(lm.count_tokens(counted).sum()) * len(prompts) / max(1, len(counted))
    demonstrated = [demonstration.skill for demonstration in skills.demonstrations]
    # a skill is as long as a demonstration's, and the LM writes the token that ends it
    tokens_of_skill = lm.count_tokens(demonstrated).mean() + 1
    written = min(tokens_of_skill, MAX_NEW_TOKENS) * len(prompts)
    return Work(read, written, parameters=run.models.counting(skills.lm).parameters)


@kept(
    "skills",
    files=json_file("skills.json"),
    what=lambda s: f"rewriting {len(s.rows):,} inputs as skills, order {s.order}",
    work=work_of_rewriting,
)
def skills_of(
    run: Run,
    rows: Examples,
    lm: NamedLM,
    demonstrations: tuple[Demonstration, ...],
    orders: int,
    order: int,
    seed: int,
) -> list[str] | Noted:
    """Return the skill that each input needs, as an LM writes it (Skill-KNN).

    The demonstrations are in one order.
    """
    made = rewriter(run, lm, demonstrations, orders=orders, seed=seed)
    rewrites = made.rewrite(rows.examples, order)
    return Noted(
        rewrites.skills,
        {
            "failures": dict(rewrites.failures),
            "copies": rewrites.copies,
            "rewrites": rewrites.rewrites,
        },
    )


Skills = Lazy[list[str]]
"""The lazy value of a call of `skills_of`."""


def usage_of_rewriting(run: Run, skills: Skills) -> Usage:
    """Return the mean numbers of tokens that the LM reads and writes to rewrite an input.

    The demonstrations are the beginning of each prompt.
    """
    prompts = _rewriter_of(run, skills).prompts(skills.rows.examples, skills.order)
    return usage_of(prompts, run.get(skills), run.lm(skills.lm).count_tokens)


@kept("rewritten")
def rewritten(rows: Examples, skills: list[str]) -> Sequence[Example]:
    """Return the examples with a skill in place of the input."""
    pairs = zip(rows.examples, skills, strict=True)
    return [replace(example, input=skill) for example, skill in pairs]


@kept("skilltexts", lazily=("skills",))
def skill_texts(run: Run, skills: tuple[Skills, ...]) -> Sequence[Example]:
    """Return an example for each of the m skills of every example, in order."""
    orders = [run.get(of_order) for of_order in skills]
    return [
        replace(example, input=skill)
        for example, *several in zip(skills[0].rows.examples, *orders, strict=True)
        for skill in several
    ]


def rewriting_note(run: Run, targets: Iterable[Lazy[Any]]) -> str:
    """Return a line on the rewrites that failed; "" if nothing was rewritten.

    It also says how many distinct skills there are, and how many are copies of a demonstration's.

    The line reveals an LM that is too small for the task: it writes the same skill for all inputs.
    """
    stages = [lazy for lazy in closure(targets) if lazy.is_of(skills_of)]
    if not stages:
        return ""
    summaries = [run.notes(stage) for stage in stages]
    failed: Counter[str] = sum((Counter(summary["failures"]) for summary in summaries), Counter())
    total = sum(summary["rewrites"] for summary in summaries)
    copies = sum(summary["copies"] for summary in summaries)
    skills = Counter(skill for stage in stages for skill in run.get(stage))
    commonest = 100 * max(skills.values(), default=0) / max(skills.total(), 1)
    failures = f"{failed.total()} of {total:,} rewrites failed"
    if failed:
        kinds = ", ".join(f"{count} {kind}" for kind, count in failed.most_common())
        failures = f"{failures} ({kinds}): the raw inputs are used"
    return (
        f"{stages[0].lm.key}: {failures}; "
        f"{len(skills):,} different skills, the most common for {commonest:.0f} %; "
        f"{copies:,} are a demonstration's skill word for word"
    )

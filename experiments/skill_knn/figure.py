"""Pictures of the spaces in which raw KNN and Skill-KNN search for neighbours, and of what they
select."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from harness.panels import image, panels

from ceil_jax.dpp.lengths import unit_rows
from ceil_jax.errors import UserError
from ceil_jax.pipeline.setup import Session
from ceil_jax.pipeline.steps import StepsOf
from ceil_jax.report.plots import GREY, ORANGE
from ceil_jax.skills.sketches import PARTS
from ceil_jax.tasks.bank import Examples
from ceil_jax.tasks.example import Example
from skill_knn.analysis import plane
from skill_knn.gold import GOLD_SKILLS
from skill_knn.hardness import hardness
from skill_knn.selection import Measures


def draw_spaces(session: Session, *, gold: bool = False, level: str = "") -> bytes:
    """Return a PNG with t-SNE plots of inputs and of skills side by side: bank in grey, queries in
    orange.

    Skills are compared by the mean of the embeddings of all orders, Skill-KNN's consistency-based
    variant.

    Args:
        session: a run on a SQL or COGS task.
        gold: use skills from the gold outputs instead of the LM's.
        level: draw only examples of this hardness, for SQL; all by default.

    Raises:
        UserError: matplotlib or scikit-learn is missing, or no example has this hardness.
    """
    try:
        import matplotlib  # noqa: F401
        from sklearn import manifold  # noqa: F401
    except ModuleNotFoundError as missing:
        raise UserError(
            f"{missing.name} is not installed; pip install 'ceil-jax[analysis]'"
        ) from None

    run, setup = session
    task = setup.task
    # COGS has no hardness
    level = level if task.language == "sql" else ""
    bank = _of_level(task.train, level)
    queries = _of_level(task.validation, level)

    def inputs(examples: Sequence[Example]) -> list[list[str]]:
        return [[example.input] for example in examples]

    def skills(examples: Sequence[Example]) -> list[list[str]]:
        if gold:
            return [[GOLD_SKILLS[PARTS[task.language]](example.output)] for example in examples]
        orders = StepsOf(setup).skills(Examples(examples), range(setup.config.skills.orders))
        return [list(skills) for skills in zip(*(run.get(stage) for stage in orders), strict=True)]

    sides = {"raw inputs": inputs, "gold skills (oracle)" if gold else "skills": skills}
    figure, axes = panels(len(sides), 5, 5)
    for ax, (title, texts) in zip(axes, sides.items(), strict=True):
        centres = unit_rows(
            np.concatenate([_centres(session, texts(part)) for part in (bank, queries)])
        )
        of_bank, of_queries = np.split(plane(centres, setup.config.seed), [len(bank)])
        ax.scatter(of_bank[:, 0], of_bank[:, 1], s=10, color=GREY, label=f"bank ({len(bank):,})")
        ax.scatter(
            of_queries[:, 0], of_queries[:, 1], s=14, color=ORANGE, label=f"test ({len(queries):,})"
        )
        ax.set_title(f"{task.name}: {title}", fontsize="medium")
        ax.set_xticks([])
        ax.set_yticks([])
    axes[0].legend(fontsize="small")
    return image(figure)


def draw_measures(by_task: Mapping[str, Mapping[str, Measures]]) -> bytes:
    """Return a PNG with a panel for each task and measure, from task → method → measures."""
    drawn = [
        (task, rows, name) for task, rows in by_task.items() for name in next(iter(rows.values()))
    ]
    figure, axes = panels(len(drawn), 6.2)
    for axis, (task, rows, name) in zip(axes, drawn, strict=True):
        axis.plot([measures[name] for measures in rows.values()], list(rows), "o")
        axis.invert_yaxis()
        axis.set_xlabel(name)
        axis.set_title(task, fontsize="medium")
        axis.grid(axis="x", alpha=0.3)
    return image(figure)


def _centres(session: Session, texts: Sequence[Sequence[str]]) -> np.ndarray:
    """The mean embedding of each example's texts, float32 [N, D]."""
    encoder = session.setup.untrained_encoder.get()
    vectors = encoder.encode([text for several in texts for text in several])
    return vectors.reshape(len(texts), -1, vectors.shape[1]).mean(axis=1)


def _of_level(examples: Sequence[Example], level: str) -> list[Example]:
    of_level = [example for example in examples if not level or hardness(example.output) == level]
    if len(of_level) < 2:
        raise UserError(
            f"--hardness {level}: {len(of_level)} of {len(examples)} examples are; raise the limits"
        )
    return of_level

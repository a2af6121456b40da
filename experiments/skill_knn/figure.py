"""Pictures of the spaces in which raw KNN and Skill-KNN search for neighbours."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ceil_jax.errors import UserError
from ceil_jax.pipeline.run import Run
from ceil_jax.report.plots import GREY, ORANGE, image, panels
from ceil_jax.retrieval.embedded_bank import unit_rows
from ceil_jax.skills.gold import DESCRIPTIONS
from ceil_jax.tasks.example import Example
from skill_knn.analysis import plane


def draw_spaces(pipeline: Run, *, gold: bool = False) -> bytes:
    """Return a PNG with t-SNE plots of inputs and of skills side by side: bank in grey, queries in orange.

    Args:
        pipeline: a run on a SQL or COGS task.
        gold: use skills from the gold outputs instead of the LM's (of `--skills.order`).

    Raises:
        UserError: matplotlib or scikit-learn is missing.
    """
    try:
        import matplotlib  # noqa: F401
        from sklearn import manifold  # noqa: F401
    except ModuleNotFoundError as missing:
        raise UserError(f"{missing.name} is not installed; pip install 'ceil-jax[analysis]'") from None

    task, order = pipeline.task, pipeline.config.skills.order

    def skills(examples: Sequence[Example]) -> list[str]:
        if gold:
            return [DESCRIPTIONS[task.language](example.output) for example in examples]
        rewritten = pipeline.views.rewrite(examples, [order])
        return [skill for [skill] in rewritten]

    sides: dict[str, Callable[[Sequence[Example]], list[str]]] = {
        "raw inputs": lambda examples: [example.input for example in examples],
        "gold skills (oracle)" if gold else "skills": skills,
    }
    figure, axes = panels(len(sides), 5, 5)
    for ax, (title, texts) in zip(axes, sides.items(), strict=True):
        vectors = [pipeline.embed(pipeline.base, texts(part)) for part in (task.train, task.validation)]
        points = plane(unit_rows(np.concatenate(vectors)), pipeline.config.seed)
        bank, queries = np.split(points, [len(task.train)])
        ax.scatter(bank[:, 0], bank[:, 1], s=10, color=GREY, label=f"bank ({len(bank):,})")
        ax.scatter(queries[:, 0], queries[:, 1], s=14, color=ORANGE, label=f"test ({len(queries):,})")
        ax.set_title(f"{task.name}: {title}", fontsize="medium")
        ax.set_xticks([])
        ax.set_yticks([])
    axes[0].legend(fontsize="small")
    return image(figure)

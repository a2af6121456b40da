"""The list of tasks with their metrics, and the details of a task, as text for a terminal."""

from __future__ import annotations

from pathlib import Path

from ceil_jax.report.table import Table
from ceil_jax.tasks import TASKS
from ceil_jax.tasks.draws import draw
from ceil_jax.tasks.load import load_task
from ceil_jax.tasks.spec import TaskSpec


def list_of_tasks(data_dir: Path | None = None) -> str:
    """Return a table of all tasks."""
    rows = []
    for spec in TASKS.values():
        source = f"files in {spec.folder}/"
        if spec.embedded:
            source = "embedded"
        elif spec.hub:
            source = spec.hub.repo
        here = spec.embedded or (data_dir and spec.folder and (data_dir / spec.folder).is_dir())
        rows.append([spec.name, spec.metric, "yes" if here else None, source])
    return (
        f"{Table(['task', 'metric', 'here', 'source'], rows).text()}\n\n"
        "here: embedded in the package, or found in --data-dir.\n"
        "ceil-jax tasks NAME shows one task: its sizes and five prompts."
    )


def task_details(spec: TaskSpec, data_dir: Path | None = None) -> str:
    """Return the details of a task as text: sizes, metrics, source and published numbers.

    Five of its prompts are shown too.
    """
    task = load_task(spec, data_dir)
    paper = ", ".join(f"{method} {value}" for method, value in spec.paper.items())
    lines = [
        f"{task.name}: {len(task.train):,} examples in the bank, {len(task.validation):,} queries",
        f"metric: {', '.join((task.metric, *task.more_metrics))}",
        f"hub: {spec.hub.repo} at {spec.hub.revision}" if spec.hub else "",
        f"paper: {paper}" if paper else "",
        f"note: {spec.note}" if spec.note else "",
    ]
    opening = task.template.example(task.train[0]) + task.template.separator
    for query in draw(task.validation, 5, 0):
        lines.append(f"\n--- {query.id}, after one example; right answer {query.output!r}")
        lines.append(f"    options: {' | '.join(query.choices)}" if query.choices else "")
        lines.append(opening + task.template.query(query))
    return "\n".join(filter(None, lines))

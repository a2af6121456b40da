"""Measures of the examples that methods select: sketches shared with the query, databases, tables
and lengths."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from ceil_jax.report.table import Table
from ceil_jax.retrieval.retriever import Choice
from ceil_jax.skills.sketches import cogs_sketch, sql_sketch
from ceil_jax.tasks.example import Task

Measures = dict[str, float]
"""Measures by the names of their columns."""

SKETCHES = {"sql": sql_sketch, "cogs": cogs_sketch}
"""The sketch of outputs by `Task.language`."""


def selected(task: Task, choice: Choice) -> Measures:
    """Return the measures of the examples that are chosen for a task's queries, averaged over
    queries.

    Args:
        task: a SQL or a COGS task; the last three are of SQL alone.
        choice: the examples chosen for each query.

    Returns:
        sketch overlap %: the Jaccard index of the sketches of query and example; two empty ones are
        equal. sketch coverage %: how much of a query's sketch stands in that of at least one of its
        examples.
        databases: different ones among a query's examples (Skill-KNN's Table 6).
        tables in the database: of an example (Figure 5a).
        answer length: an example's output, split by blanks (Figure 5b).
    """
    sketch = SKETCHES[task.language]
    chosen = [
        [task.train[position] for position in row if position >= 0]
        for row in choice.positions.tolist()
    ]
    rows = [
        (sketch(query.output), examples)
        for query, examples in zip(task.validation, chosen, strict=True)
    ]
    every = [example for examples in chosen for example in examples]
    measures = {
        "sketch overlap %": _percent(
            _jaccard(parts, sketch(example.output))
            for parts, examples in rows
            for example in examples
        ),
        "sketch coverage %": _percent(
            _covered(parts, frozenset().union(*(sketch(example.output) for example in examples)))
            for parts, examples in rows
        ),
    }
    if task.language == "sql":
        databases = [
            len({example.fields.get("db_id", "") for example in examples}) for examples in chosen
        ]
        measures["databases"] = float(np.mean(databases))
        measures["tables in the database"] = float(
            np.mean([tables_of(example.fields.get("schema", "")) for example in every])
        )
        measures["answer length"] = float(
            np.mean([len(example.output.split()) for example in every])
        )
    return measures


def averaged(repeats: Sequence[Measures]) -> Measures:
    """Return the means over several repetitions of one method."""
    return {name: float(np.mean([measures[name] for measures in repeats])) for name in repeats[0]}


def selection_table(rows: Mapping[str, Measures], title: str) -> Table:
    """Return a table with a line for each method."""
    names = list(next(iter(rows.values())))
    return Table(
        ["method", *names], [[label, *measures.values()] for label, measures in rows.items()], title
    )


def tables_of(schema: str) -> int:
    """Return the number of tables in a schema, `singer [Singer_ID, Name], stadium [Stadium_ID]`."""
    return len(re.findall(r"\](?:, |$)", schema))


def _percent(shares: Iterable[float]) -> float:
    return 100 * float(np.mean(list(shares)))


def _jaccard(first: frozenset[str], second: frozenset[str]) -> float:
    return len(first & second) / len(first | second) if first | second else 1.0


def _covered(wanted: frozenset[str], there: frozenset[str]) -> float:
    return len(wanted & there) / len(wanted) if wanted else 1.0

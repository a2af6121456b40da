"""Several methods on the same queries: a table with intervals, differences and costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ceil_jax.pipeline.evaluate import Evaluation, check, evaluate
from ceil_jax.pipeline.graph import Graph
from ceil_jax.pipeline.plan import plan, this_machine
from ceil_jax.pipeline.stage import Run, Stage
from ceil_jax.pipeline.views import failures
from ceil_jax.report.certainty import certainty, needed
from ceil_jax.report.run_tables import MethodRow, differences, method_rows, method_table, pairs
from ceil_jax.report.runs import Difference
from ceil_jax.report.table import Number, Table, Value, signed
from ceil_jax.store.cost import Cost
from ceil_jax.store.progress import command_bar


@dataclass(frozen=True)
class Comparison:
    """Methods on one task."""

    task: str
    asked: str
    """The number of queries in words, and of how many, if a limit was set."""
    rows: tuple[MethodRow, ...]
    differences: tuple[Difference, ...]
    costs: dict[str, Cost]
    """The cost of each stage, in the order in which they ran."""
    evaluations: dict[str, Evaluation]
    parts: Table | None = None
    """The scores and differences on queries that stand in the bank and on the others, where there are both."""
    note: str = ""
    """A remark on the numbers, such as how many rewrites failed."""

    @property
    def metric(self) -> str:
        """The name of the metric."""
        return self.rows[0].metric

    @property
    def lm(self) -> str:
        """The name of the LM."""
        return self.rows[0].lm

    @property
    def queries(self) -> int:
        """The number of queries."""
        return self.rows[0].queries

    @property
    def certainty(self) -> str:
        """The certain differences, and how many queries would decide the others."""
        return certainty(self.differences, self.queries)

    def table(self) -> Table:
        """Return a table of the methods, their scores and their costs."""
        return method_table(self.rows)

    def text(self) -> str:
        """Return the comparison for a terminal: scores, paired differences and the cost of every stage."""
        stages = [[stage, Number(cost.seconds), cost.tokens or None] for stage, cost in self.costs.items()]
        return "\n".join(
            [
                # the number of queries stands with every score: an accuracy without its n says little
                f"{self.task}: {self.metric} in percent on {self.asked}, {self.lm}",
                *("", self.table().text(), "", *map(str, self.differences)),
                *(["", self.certainty] if self.differences else []),
                *(["", self.parts.text()] if self.parts else []),
                *("", Table(["stage", "seconds", "LM tokens"], stages).text()),
                *(["", self.note] if self.note else []),
            ]
        )

    def markdown(self) -> str:
        """Return the table of methods, and the one of parts if there is one, as Markdown."""
        return "\n".join(table.markdown() for table in (self.table(), self.parts) if table)

    def data(self) -> dict[str, Any]:
        """Return the comparison as JSON values."""
        ends = ("value", "low", "high")
        rows = [
            {name: cell.value if isinstance(cell, Number) else cell for name, cell in _numbers(row).items()}
            for row in self.rows
        ]
        return {
            **{
                name: getattr(self, name) for name in ("task", "metric", "lm", "queries", "note", "certainty")
            },
            "rows": [
                {"method": row.method, "label": row.label} | numbers
                for row, numbers in zip(self.rows, rows, strict=True)
            ],
            "differences": [
                {"better": one.better, "worse": one.worse, **dict(zip(ends, one.interval, strict=True))}
                | {"certain": one.certain, "queries_needed": needed(one, self.queries)}
                for one in self.differences
            ],
            "parts": self.parts and self.parts.data(),
            "costs": {stage: {"seconds": c.seconds, "tokens": c.tokens} for stage, c in self.costs.items()},
        }

    def csv(self) -> str:
        """Return the table of methods for a program: a line for each method."""
        rows: list[list[Value]] = [
            [self.task, row.method, self.metric, self.lm, self.queries, *_numbers(row).values()]
            for row in self.rows
        ]
        return Table(["task", "method", "metric", "lm", "n", *_numbers(self.rows[0])], rows).csv()


def _numbers(row: MethodRow) -> dict[str, Number | int | None]:
    """Return a row's numbers for a program; the tokens to prepare are called after their largest part."""
    return {
        "value": Number(row.value, 3),
        "low": Number(row.interval.low, 3),
        "high": Number(row.interval.high, 3),
        "training_tokens": row.record.preparing.tokens,
        "answering_tokens": row.record.answering.tokens,
        "seconds": Number(row.record.cost.seconds, 1),
        "examples": None if row.examples is None else Number(row.examples, 2),
        "device_hours": None if row.hours is None else Number(row.hours, 3),
    }


def compare(run: Run, graph: Graph, methods: Sequence[str]) -> Comparison:
    """Evaluate methods on the task's validation examples, under one progress bar.

    Args:
        run: computes what is not on disk.
        graph: the task and the settings.
        methods: rows of METHODS, in the order of the table.
    """
    targets = check(graph, methods)
    machine = this_machine()
    expected = {stage.key: max(0.1, machine.seconds(work)) for stage, work in plan(run, targets).items()}
    with command_bar(expected):
        evaluations = {method: evaluate(run, graph, method) for method in methods}
    rows = method_rows([evaluation.record for evaluation in evaluations.values()])
    compared = pairs(rows)
    return Comparison(
        graph.task.name,
        graph.task.asked,
        tuple(rows),
        differences(compared),
        stage_costs(run, targets),
        evaluations,
        _parts(rows, compared),
        "\n".join(_remarks(run, graph, methods, targets)),
    )


def stage_costs(run: Run, targets: Sequence[Stage[Any]]) -> dict[str, Cost]:
    """Return what each stage of some targets took, those of a tenth of a second and no token summed up in one
    line."""
    found: dict[str, Cost] = {}
    rest = Cost()
    for key, (what, cost) in run.costs(targets).items():
        if cost.tokens or cost.seconds >= 0.1:
            label = what if what not in found else f"{what} ({key[-6:]})"
            found[label] = cost
        else:
            rest += cost
    return found | ({"everything else": rest} if rest.seconds else {})


def _remarks(run: Run, graph: Graph, methods: Sequence[str], targets: Sequence[Stage[Any]]) -> Iterator[str]:
    """Yield what a reader of the numbers has to know besides."""
    if any(graph.method(name).trains for name in methods):
        yield ONE_SEED.format(seed=graph.config.seed)
    if rewriting := failures(run, targets):
        yield rewriting
    if answers := getattr(graph.lm.get(), "note", ""):
        yield answers


def _parts(rows: Sequence[MethodRow], compared: Sequence[tuple[MethodRow, MethodRow]]) -> Table | None:
    """Return the scores and the differences on each part of the queries; None where there are no parts."""
    parts = rows[0].parts() if rows else {}
    body: list[list[Value]] = [
        [row.label, *(row.only(where).value for where in parts.values())] for row in rows
    ]
    for one, other in compared:
        less = [one.only(where).minus(other.only(where)) for where in parts.values()]
        body.append([f"{one.label} − {other.label}", *map(signed, less)])
    return Table(["queries whose", *parts], body) if parts else None


ONE_SEED = (
    "Trained rows come from one seed of training (--seed {seed}). The intervals are over questions; what another "
    "seed or another processor would give is not in them."
)
"""A remark on what one seed leaves open."""

"""A comparison of methods on the same queries: a table with intervals, differences and costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ceil_jax.lm.price import Price, Usage
from ceil_jax.pipeline.evaluate import Evaluation, evaluate_rows, lineup_of
from ceil_jax.pipeline.run import Run
from ceil_jax.pipeline.setup import Setup
from ceil_jax.report.page import chart, render
from ceil_jax.report.run_tables import RunTable, run_table
from ceil_jax.report.runs import cost_table
from ceil_jax.report.table import Table, json_value, money_cells, money_columns
from ceil_jax.store.cost import Cost
from ceil_jax.store.locking import write_files


@dataclass(frozen=True)
class Comparison(RunTable):
    """The comparison of methods that were just evaluated on one task."""

    asked: str
    """The number of queries in words; with a limit, also the number without it."""
    costs: dict[str, Cost]
    """The cost of each stage, in the order of the run."""
    note: str = ""
    """Remarks on the numbers, such as how many rewrites failed."""
    price: Price | None = None
    """The price of the LM's tokens; None if money is not shown."""
    usages: tuple[Usage, ...] = ()
    """The tokens of a query, by row of the table; empty without a price."""

    def table(self) -> Table:
        """Return the table of methods with their scores and costs.

        Costs are in money too, if there is a price.
        """
        table = super().table()
        if self.price is None:
            return table
        each, preparing = money_columns(self.price)
        asking = [self.price.of_queries(usage) for usage in self.usages]
        table = table.with_column(each, money_cells(asking))
        return table.with_column(preparing, money_cells(self._preparing))

    @property
    def _preparing(self) -> list[float]:
        """The price of preparing each row, as if all of its tokens were read."""
        assert self.price is not None
        return [self.price.of_tokens(row.record.preparing.tokens) for row in self.rows]

    def text(self) -> str:
        """Return the comparison for a terminal: scores, paired differences and costs.

        The cost of every stage is shown.
        """
        record = self.record
        lines = [
            # an accuracy says little without the number of its queries
            f"{record.task}: {record.metric} in percent on {self.asked}, {record.lm}",
            "",
            self.table().text(),
            "",
            *map(str, self.differences),
        ]
        if self.differences:
            lines += ["", self.significance]
        parts = self.parts()
        if parts is not None:
            lines += ["", parts.text()]
        lines += ["", cost_table(self.costs).text()]
        if self._notes:
            lines += ["", *self._notes]
        return "\n".join(lines)

    @property
    def _notes(self) -> list[str]:
        """The notes below the tables."""
        return [text for text in (self.note, self.remarks) if text]

    def markdown(self) -> str:
        """Return as Markdown the table of methods and, if there is one, the table of parts."""
        return "\n".join(table.markdown() for table in (self.table(), self.parts()) if table)

    def write_report(self, folder: Path) -> Path:
        """Write the page `report.html`, and return its path.

        `report.png` and `results.md` are written next to it.
        """
        results = self.markdown().encode()
        title = f"{self.record.task}: choosing in-context examples"
        page = render(title, [self], costs=self.costs, notes=[self.note])
        files = {"report.png": chart(self)[0], "results.md": results, "report.html": page.encode()}
        write_files(folder, files)
        return folder / "report.html"

    def _money(self) -> list[dict[str, Any]]:
        """Return the costs of each row in money, as JSON values; {} for each row if there is no price."""
        if self.price is None:
            return [{} for _ in self.rows]
        return [
            {
                "currency": self.price.currency,
                "price_of_thousand": self.price.of_queries(usage),
                "price_to_prepare": preparing,
                "prompt_tokens": usage.prompt,
                "beginning_tokens": usage.beginning,
            }
            for usage, preparing in zip(self.usages, self._preparing, strict=True)
        ]

    def data(self) -> dict[str, Any]:
        """Return the comparison as JSON values."""
        parts = self.parts()
        return {
            **{name: getattr(self.record, name) for name in ("task", "metric", "lm", "queries")},
            "note": "\n".join(self._notes),
            "significance": self.significance,
            "rows": [
                {
                    "method": row.record.method,
                    "label": row.label,
                    **(json_value(row.interval) if row.known else {}),
                    "value": row.value,
                    # named after their largest part
                    "training_tokens": row.record.preparing.tokens,
                    "answering_tokens": row.record.answering.tokens,
                    "seconds": row.record.cost.seconds,
                    "examples": row.examples,
                    "troubles": dict(row.record.troubles),
                    "device_hours": row.hours,
                    **money,
                }
                for row, money in zip(self.rows, self._money(), strict=True)
            ],
            "differences": [
                {"better": difference.better, "worse": difference.worse}
                | json_value(difference.interval)
                | {
                    "significant": difference.significant,
                    "queries_needed": difference.needed(self.record.queries),
                }
                for difference in self.differences
            ],
            "parts": None if parts is None else parts.data(),
            "costs": {
                stage: {"seconds": c.seconds, "tokens": c.tokens} for stage, c in self.costs.items()
            },
        }


def compare(
    run: Run,
    setup: Setup,
    methods: Sequence[str],
    *,
    remarks: Sequence[str] = (),
    price: Price | None = None,
) -> Comparison:
    """Evaluate methods on the setup's task, in order, under one progress bar.

    Stages on disk are reused.

    Args:
        run: computes the stages.
        setup: the task and its settings.
        methods: the names of the methods.
        remarks: lines to print below the table and on the page, such as which methods are left out.
        price: the price of the LM's tokens; columns then show the cost of a thousand queries and of
            preparing.
    """
    rows = [setup.row(name) for name in dict.fromkeys(methods)]
    evaluation = evaluate_rows(lineup_of(run, setup, rows), count_tokens=price is not None)
    return comparison_of(evaluation, remarks=remarks, price=price)


def comparison_of(
    evaluation: Evaluation, *, remarks: Sequence[str] = (), price: Price | None = None
) -> Comparison:
    """Return the comparison of rows that were evaluated; for the other arguments see `compare`.

    With a price, their tokens must have been counted.
    """
    setup = evaluation.setup
    table = run_table(evaluation.records)
    one_seed = (
        f"Trained rows come from one seed of training (--seed {setup.config.seed}). The intervals "
        "are over questions; they do not include the variation between seeds and between "
        "processors."
    )
    trained = any(row.trains for row in evaluation.rows)
    notes = (
        *remarks,
        one_seed if trained else "",
        evaluation.rewriting_note,
        uncounted(evaluation),
    )
    return Comparison(
        **vars(table),
        asked=setup.task.asked,
        costs=_stage_costs(evaluation.costs),
        note="\n".join(filter(None, notes)),
        price=price,
        usages=evaluation.usages,
    )


def uncounted(evaluation: Evaluation) -> str:
    """Return a remark if the LM has answered but counts no tokens; else ""."""
    evaluated = zip(evaluation.rows, evaluation.records, strict=True)
    of_lm = [record for row, record in evaluated if row.answers == "lm"]
    if not of_lm or any(record.answering.tokens for record in of_lm):
        return ""
    return (
        f"{evaluation.setup.lm.key} counts no tokens, so LM tokens are not shown; a function's "
        "LM adds them to `tokens_read` (docs/new_lm.md)"
    )


def _stage_costs(stages: Mapping[str, tuple[str, Cost]]) -> dict[str, Cost]:
    """Return the cost of each stage by its description, from those by its key.

    Stages without tokens that took less than a tenth of a second are summed up as one.
    """
    costs: dict[str, Cost] = {}
    seen: Counter[str] = Counter()
    rest = Cost()
    for what, cost in stages.values():
        if cost.tokens or cost.seconds >= 0.1:
            seen[what] += 1
            costs[what if seen[what] == 1 else f"{what} ({seen[what]})"] = cost
        else:
            rest += cost
    return costs | ({"everything else": rest} if rest.seconds else {})

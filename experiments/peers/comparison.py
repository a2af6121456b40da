"""The tables of the comparison, from its records."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from harness.results_file import Published

from ceil_jax.lm.price import Price
from ceil_jax.metrics.bootstrap import averaged_interval, bootstrap_interval, paired
from ceil_jax.report.runs import Runs
from ceil_jax.report.table import Number, Table, Value, signed

OURS = "ceil-jax tune"
ABOUT_OURS = f"{OURS}, "
"""The beginning of the names of rows that say more of `tune`; these are in no table of methods."""
BEST_PROMPT = f"{ABOUT_OURS}its best prompt"
"""What `tune` would recommend if it had to be a prompt, as with the others."""
CLASSIFIER = "classifier alone"
WITHOUT_LM = (CLASSIFIER, "nearest output, copied")
"""The rows that ask no LM. Each applies to some tasks alone."""
PLAIN = "eight nearest"
"""What one does without a search."""
PRICE = Price(0.15, 0.15)
"""Of the tokens of a query in the table: dollars a million."""


class Comparison:
    """The records of several methods on several tasks, with a run for each split.

    Tasks that a method has not answered are left out for all of them.

    Args:
        records: of `optimisers.py`.
    """

    def __init__(self, records: Sequence[Published]) -> None:
        self.runs: dict[tuple[str, str], Runs] = {}
        rows = list(dict.fromkeys(record.row for record in records))
        tasks = list(dict.fromkeys(record.task for record in records))
        for row in rows:
            for task in tasks:
                records_of_place = [
                    record for record in records if (record.row, record.task) == (row, task)
                ]
                if records_of_place:
                    self.runs[row, task] = Runs(records_of_place)
        self.methods = [row for row in rows if not row.startswith(ABOUT_OURS)]
        whole = [row for row in self.methods if row not in WITHOUT_LM]
        self.tasks = [task for task in tasks if all((row, task) in self.runs for row in whole)]
        self.methods = whole

    def score(self, row: str) -> Number:
        """Return the mean over tasks and splits, with its interval over the rows that judge."""
        mean = averaged_interval([self.runs[row, task].sample for task in self.tasks]).percent()
        return Number(mean.mean, interval=mean)

    def ahead(self, row: str, other: str, tasks: Sequence[str] = ()) -> Number | None:
        """Return a method's mean score on some tasks, by default all, less another's, with its paired
        interval."""
        pairs = [
            paired(self.runs[row, task].sample, self.runs[other, task].sample)
            for task in tasks or self.tasks
        ]
        return signed(averaged_interval(pairs).percent())

    def certain(self, row: str, other: str) -> str:
        """Return on how many tasks a method is certainly better than another, and certainly worse:
        the interval of the difference excludes 0."""
        better = worse = 0
        for task in self.tasks:
            pair = paired(self.runs[row, task].sample, self.runs[other, task].sample)
            interval = bootstrap_interval(*pair)
            better += interval.low > 0
            worse += interval.high < 0
        return f"{better} / {worse}"

    def preparing(self, row: str) -> int:
        """Return the LM tokens of preparing, the mean over tasks and splits."""
        means = [
            np.mean([record.preparing.tokens for record in self.runs[row, task].records])
            for task in self.tasks
        ]
        return round(float(np.mean(means)))

    def a_query(self, row: str, tasks: Sequence[str] = ()) -> int:
        """Return the LM tokens of a query, the mean over some tasks, by default all, and splits."""
        means = [
            np.mean(
                [
                    record.answering.tokens / record.queries
                    for record in self.runs[row, task].records
                ]
            )
            for task in tasks or self.tasks
        ]
        return round(float(np.mean(means)))

    def dollars(self, row: str) -> Number:
        """Return the dollars of a thousand queries at PRICE, the mean over tasks and splits."""
        money = PRICE.of_tokens(1000 * self.a_query(row))
        return Number(money, digits=3)

    def main(self) -> Table:
        """Return the table of methods, the best first."""
        order = sorted(self.methods, key=lambda row: -self.score(row).value)
        body = [
            [
                row,
                self.score(row),
                self.preparing(row),
                self.a_query(row),
                self.dollars(row),
                None if row == OURS else self.ahead(OURS, row),
                None if row == OURS else self.certain(OURS, row),
            ]
            for row in order
        ]
        header = [
            "method",
            "score (95 % interval)",
            "LM tokens to prepare",
            "LM tokens a query",
            f"$ a thousand queries, at ${PRICE.read:g} a million tokens",
            "tune − it",
            "tasks on which tune is certainly better / worse",
        ]
        return Table(header, body)

    def by_task(self) -> Table:
        """Return the scores on each task, with the spread over splits."""
        rows = [*self.methods, *dict.fromkeys(r for r, _ in self.runs if r not in self.methods)]
        body = [
            [
                row,
                *(
                    Number(self.runs[row, task].value, sd=self.runs[row, task].sd)
                    if (row, task) in self.runs
                    else None
                    for task in self.tasks
                ),
            ]
            for row in rows
        ]
        return Table(["method", *self.tasks], body)

    def trust(self) -> Table:
        """Return what `tune` gains over eight nearest examples on each task, what it loses to the best
        row of all in hindsight, and the tokens of a query of both.

        The best of many rows on few queries looks better than it is, so that the loss is too large.
        """
        body: list[list[Value]] = []
        losses = []
        for task in self.tasks:
            ours = self.runs[OURS, task]
            best = max(
                (row for row, other in self.runs if other == task),
                key=lambda row: self.runs[row, task].value,
            )
            losses.append(self.runs[best, task].value - ours.value)
            gain = bootstrap_interval(*paired(ours.sample, self.runs[PLAIN, task].sample))
            body.append(
                [
                    task,
                    Number(ours.value),
                    signed(gain.percent()),
                    Number(losses[-1]),
                    best if losses[-1] > 0 else None,
                    self.a_query(OURS, [task]),
                    self.a_query(PLAIN, [task]),
                ]
            )
        mean: list[Value] = [
            "mean",
            Number(self.score(OURS).value),
            self.ahead(OURS, PLAIN),
            Number(float(np.mean(losses))),
            None,
            self.a_query(OURS),
            self.a_query(PLAIN),
        ]
        header = [
            "task",
            "tune",
            f"tune − {PLAIN}",
            "lost to the best row",
            "which is",
            "LM tokens a query",
            f"of {PLAIN}",
        ]
        return Table(header, [*body, mean])

    def by_outputs(self) -> Table:
        """Return what `tune` is ahead of each method on the tasks that a classifier can answer, and on
        the others; and what its best prompt is ahead on all of them."""
        labels = [task for task in self.tasks if (CLASSIFIER, task) in self.runs]
        others = [task for task in self.tasks if task not in labels]
        columns = [tasks for tasks in (labels, others) if tasks]
        prompts = [BEST_PROMPT] * all((BEST_PROMPT, task) in self.runs for task in self.tasks)
        body = [
            [
                row,
                *(self.ahead(OURS, row, tasks) for tasks in columns),
                *(self.ahead(prompt, row) for prompt in prompts),
            ]
            for row in self.methods
            if row != OURS
        ]
        of_tasks = (f"tune − it on {', '.join(tasks)}" for tasks in columns)
        return Table(["method", *of_tasks, *(f"{prompt} − it" for prompt in prompts)], body)

    def chosen(self) -> Table:
        """Return what `tune` recommended, by task, in each split."""
        body = [
            [task, "; ".join(record.method for record in self.runs[OURS, task].records)]
            for task in self.tasks
        ]
        return Table(["task", "recommended"], body)

    def text(self) -> str:
        """Return all tables in Markdown."""
        records = [self.runs[OURS, task].records for task in self.tasks]
        every_lm = [record.lm for runs in self.runs.values() for record in runs.records]
        lms = ", ".join(dict.fromkeys(every_lm))
        about = "; ".join(
            f"{task}: {of_task[0].queries} rows, {len(of_task)} split{'s' * (len(of_task) > 1)}"
            for task, of_task in zip(self.tasks, records, strict=True)
        )
        about = f"{about}; {lms}"
        tables = (self.main(), self.trust(), self.by_outputs(), self.by_task(), self.chosen())
        return "\n".join([about, "", *(table.markdown() for table in tables)])

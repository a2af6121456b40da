"""The tables of the comparison of `tune` with other methods, made from its records."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from harness.crossed import alike
from harness.estimates import Estimate, estimate
from harness.results_file import Published

from ceil_jax.lm.price import Price
from ceil_jax.metrics.bootstrap import paired
from ceil_jax.report.runs import Runs
from ceil_jax.report.table import Number, Table, Value

OURS = "ceil-jax tune"
ABOUT_OURS = f"{OURS}, "
"""The beginning of the names of additional rows about `tune`, which are in no table of methods."""
BEST_PROMPT = f"{ABOUT_OURS}its best prompt"
"""The prompt that `tune` would recommend if it had to recommend a prompt, as other methods do."""
CLASSIFIER = "classifier alone"
WITHOUT_LM = (CLASSIFIER, "nearest output, copied")
"""The rows that call no LM, each of which applies only to some tasks."""
PLAIN = "eight nearest"
"""The usual choice without a search."""
NEAREST = "DSPy KNNFewShot"
FOUR_NEAREST = "four nearest (DSPy KNNFewShot, LangChain)"
"""Two packages that choose the same examples, and so have one measurement."""
SAME = {NEAREST: FOUR_NEAREST, "LangChain similarity": FOUR_NEAREST}
RULE = "no search: a rule by the kind of outputs"
"""The rule by the kind of outputs. Labels: the classifier. Programs: `free`. Anything else: the four nearest."""
SHORT = (OURS, RULE, "Optuna over our space", FOUR_NEAREST, "zero examples")
"""The rows of README's table."""
PRICE = Price(0.15, 0.15)
"""The price of a query's tokens in the table, in dollars for a million."""


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
                    self.runs[SAME.get(row, row), task] = Runs(records_of_place)
        compared = [row for row in rows if not row.startswith(ABOUT_OURS)]
        whole = list(dict.fromkeys(SAME.get(row, row) for row in compared if row not in WITHOUT_LM))
        self.tasks = [task for task in tasks if all((row, task) in self.runs for row in whole)]
        rule = {task: self._by_rule(task) for task in self.tasks}
        if all(rule.values()):
            whole.append(RULE)
            self.runs |= {(RULE, task): runs for task, runs in rule.items() if runs is not None}
        self.methods = whole

    def _by_rule(self, task: str) -> Runs | None:
        """Return the runs of the rule on a task; None if the method that it names was not run.

        Where outputs are programs, `free` was run as the best prompt of `tune`, which chose between
        2 and 4 examples, and once for a set.
        """
        if (CLASSIFIER, task) in self.runs:
            return self.runs[CLASSIFIER, task]
        best = self.runs.get((BEST_PROMPT, task))
        if best is not None and _programs(best):
            return best if all(one.method.startswith("free") for one in best.records) else None
        return self.runs.get((FOUR_NEAREST, task))

    def score(self, row: str) -> Number:
        """Return the mean over tasks and splits, with its interval over the rows that judge."""
        mean = estimate({task: self.runs[row, task].sample for task in self.tasks}).interval
        return Number(mean.mean, interval=mean)

    def ahead(
        self, row: str, other: str, tasks: Sequence[str] = (), programs: bool = False
    ) -> Number:
        """Return a method's mean score minus another's on some tasks, by default all, with its
        paired interval.

        Args:
            row: the method.
            other: what is subtracted.
            tasks: the tasks.
            programs: whether every program weighs the same, where queries share programs.
        """
        return self._ahead(row, other, tasks or self.tasks, programs).difference()

    def _ahead(
        self, row: str, other: str, tasks: Sequence[str], programs: bool = False
    ) -> Estimate:
        view = alike if programs else lambda runs: runs
        return estimate(
            {
                task: paired(view(self.runs[row, task]).sample, view(self.runs[other, task]).sample)
                for task in tasks
            }
        )

    def significant(self, row: str, other: str) -> str:
        """Return on how many tasks a method is better, and on how many it is worse, than another:
        the interval of the difference excludes 0, by query and with every program weighing the
        same."""
        better = worse = 0
        for task in self.tasks:
            both = [self._ahead(row, other, [task], programs) for programs in (False, True)]
            if all(one.excludes_zero for one in both):
                better += all(one.interval.low > 0 for one in both)
                worse += all(one.interval.high < 0 for one in both)
        return f"{better} / {worse}"

    def preparing(self, row: str) -> int:
        """Return the LM tokens of preparing a method, averaged over tasks and splits."""
        if row == RULE:
            return 0
        means = [
            np.mean([record.preparing.tokens for record in self.runs[row, task].records])
            for task in self.tasks
        ]
        return round(float(np.mean(means)))

    def a_query(self, row: str, tasks: Sequence[str] = ()) -> int:
        """Return the LM tokens of a query, averaged over splits and some tasks, by default all."""
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
        """Return the price of a thousand queries in dollars at PRICE, averaged over tasks and splits."""
        money = PRICE.of_tokens(1000 * self.a_query(row))
        return Number(money, digits=3)

    def main(self) -> Table:
        """Return the table of methods, the best first."""
        programs = any(_programs(self.runs[OURS, task]) for task in self.tasks)
        body: list[list[Value]] = []
        for row in sorted(self.methods, key=lambda row: -self.score(row).value):
            ahead = [None if row == OURS else self.ahead(OURS, row)]
            if programs:
                ahead.append(None if row == OURS else self.ahead(OURS, row, programs=True))
            significant = None if row == OURS else self.significant(OURS, row)
            costs = self.preparing(row), self.a_query(row), self.dollars(row)
            body.append([row, self.score(row), *costs, *ahead, significant])
        header = [
            "method",
            "score (95 % interval)",
            "LM tokens to prepare",
            "LM tokens a query",
            f"$ a thousand queries, at ${PRICE.read:g} a million tokens",
            "tune − it",
            *(["every program alike"] if programs else []),
            "tasks on which the interval excludes zero: tune better / worse",
        ]
        return Table(header, body)

    def short(self) -> Table:
        """Return the table for README, with some of the methods."""
        body: list[list[Value]] = [
            [
                row,
                self.score(row),
                self.a_query(row),
                None if row == OURS else self.ahead(OURS, row),
            ]
            for row in SHORT
            if row in self.methods
        ]
        return Table(["method", "score (95 % interval)", "LM tokens a query", "tune − it"], body)

    def notes(self) -> list[str]:
        """Return notes that a reader of the table needs."""
        ours = [record for task in self.tasks for record in self.runs[OURS, task].records]
        without = sum(not record.answering.tokens for record in ours)
        lines = [f"{OURS} recommends an answer without LM calls in {without} of {len(ours)} runs."]
        if all((BEST_PROMPT, task) in self.runs for task in self.tasks):
            lines.append(
                f"Its best prompts score {self.score(BEST_PROMPT)} and take "
                f"{self.a_query(BEST_PROMPT)} LM tokens a query."
            )
        return lines

    def by_task(self) -> Table:
        """Return a table of the scores on each task, with their spread over splits."""
        others = dict.fromkeys(row for row, _ in self.runs if row not in self.methods)
        rows = [*self.methods, *others]
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
        """Return a table of the gain of `tune` over the eight nearest examples on each task, its
        loss against the best row in hindsight, and the tokens of a query of both.

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
            body.append(
                [
                    task,
                    Number(ours.value),
                    self.ahead(OURS, PLAIN, [task]),
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
        """Return a table of the lead of `tune` over each method: on the tasks that a classifier can
        answer, on the others, and the lead of its best prompt on all."""
        labels = [task for task in self.tasks if (CLASSIFIER, task) in self.runs]
        others = [task for task in self.tasks if task not in labels]
        columns = [(tasks, False) for tasks in (labels, others) if tasks]
        if any(_programs(self.runs[OURS, task]) for task in others):
            columns.append((others, True))
        prompts = [BEST_PROMPT] * all((BEST_PROMPT, task) in self.runs for task in self.tasks)
        body: list[list[Value]] = [
            [
                row,
                *(self.ahead(OURS, row, tasks, programs) for tasks, programs in columns),
                *(self.ahead(prompt, row) for prompt in prompts),
            ]
            for row in self.methods
            if row != OURS
        ]
        header = [
            f"tune − it on {', '.join(tasks)}" + programs * ", every program alike"
            for tasks, programs in columns
        ]
        return Table(["method", *header, *(f"{prompt} − it" for prompt in prompts)], body)

    def chosen(self) -> Table:
        """Return a table of the recommendations of `tune`, by task and split."""
        body = [
            [task, "; ".join(record.method for record in self.runs[OURS, task].records)]
            for task in self.tasks
        ]
        return Table(["task", "recommended"], body)

    def text(self) -> str:
        """Return all tables as Markdown."""
        records = [self.runs[OURS, task].records for task in self.tasks]
        every_lm = [record.lm for runs in self.runs.values() for record in runs.records]
        lms = ", ".join(dict.fromkeys(every_lm))
        about = "; ".join(
            f"{task}: {of_task[0].queries} rows, {len(of_task)} split{'s' * (len(of_task) > 1)}"
            for task, of_task in zip(self.tasks, records, strict=True)
        )
        about = f"{about}; {lms}"
        tables = (
            self.main(),
            self.short(),
            self.trust(),
            self.by_outputs(),
            self.by_task(),
            self.chosen(),
        )
        parts = [about, "", *self.notes(), "", *(table.markdown() for table in tables)]
        return "\n".join(parts)


def _programs(runs: Runs) -> bool:
    """Return whether outputs are programs that queries share."""
    return alike(runs) is not runs

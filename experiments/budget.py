"""MAP under a token budget: choose the best set that fits, or the best set of 50 and cut it.

    python experiments/budget.py --tasks geoquery movie_reviews --scale tiny --data-dir DATA

The columns are tokens per prompt, query included. In rows that end in "cut" the first examples of the greedy order
are kept (`--fit greedy`); in "budget-aware" rows DPP-MAP chooses under the budget of each prompt (`--fit budget`).
CEIL's encoders are those of Table 2. A tuned λ is tuned for each budget and each of the two ways.

Expected: +1 to +3 points over the cut at the smallest budget, whose prompts hold a fifth to a half more examples, and
no visible difference at the largest; the gain is largest where examples differ most in length.
"""

import sys
from dataclasses import replace

import numpy as np
from drawing import lines_of

from ceil_jax.cli.experiment import Experiment, ExperimentOptions
from ceil_jax.pipeline.config import RunConfig
from ceil_jax.pipeline.methods import METHODS
from ceil_jax.report.experiment_table import ExperimentTable
from ceil_jax.report.grid import Cell, Entry, Grid, Measured
from ceil_jax.report.plots import panels
from ceil_jax.report.table import Table, Value, signed

BUDGETS = (128, 256, 512)
SHOTS = 50
CUT, AWARE = "cut", "budget-aware"
ROWS = {
    "random": ("random", "greedy"),
    "dense top-k": ("topk", "greedy"),
    f"DPP-MAP, {CUT}": ("dpp", "greedy"),
    f"DPP-MAP, {AWARE}": ("dpp", "budget"),
    f"CEIL, {CUT}": ("ceil", "greedy"),
    f"CEIL, {AWARE}": ("ceil", "budget"),
}


def entries(config: RunConfig, _: ExperimentOptions) -> list[Entry]:
    return [
        Entry(
            row,
            f"{budget} tokens",
            Cell(
                replace(config, shots=SHOTS, token_budget=budget, fit=fit),
                method,
                (config,) if METHODS[method].encoder == "ceil" else (),
            ),
            least_bank=SHOTS + 1,
        )
        for row, (method, fit) in ROWS.items()
        for budget in BUDGETS
    ]


def with_counts(grid: Grid, table: ExperimentTable) -> ExperimentTable:
    budgets = list(dict.fromkeys(one.entry.column for one in table.measured))
    counts: list[list[Value]] = []
    worth: list[list[Value]] = []
    for task in table.by_task():
        for row in ROWS:
            found = [(table.at(task, row, b), table.at(task, row.replace(AWARE, CUT), b)) for b in budgets]
            if not any(one for one, _ in found):
                continue
            numbers = [n for one, _ in found for n in (_prompts(grid, one) if one else (None, None))]
            counts.append([task, row, *numbers])
            if AWARE in row:
                differences = [signed(a.minus(b)) if a and b else None for a, b in found]
                worth.append([task, row.split(",")[0], *differences])
    config = table.measured[0].entry.cell.config
    title = f"{EXPERIMENT.title} ({table.measured[0].lm}, at most {SHOTS} examples, encoder {config.encoder})"
    counted = [f"{budget}: {what}" for budget in budgets for what in ("examples", "tokens read")]
    sections = [
        Table(["task", f"{AWARE} − {CUT}", *budgets], worth, "Gain of budget-aware MAP"),
        Table(["task", "row", *counted], counts, "Examples and tokens per prompt, means"),
    ]
    return replace(table, title=title, sections=sections)


def _prompts(grid: Grid, one: Measured) -> tuple[float, float]:
    """Return the mean numbers of examples and of tokens in the prompts behind an entry."""
    examples, tokens = [], []
    for seed in one.seeds:
        run = one.entry.cell.seeded(seed).essential()
        pipeline = grid.run_of(run.config, run.trained_by)
        queries, bank = pipeline.task.validation, {example.id: example for example in pipeline.task.train}
        shown = [[bank[name] for name, *_ in row["examples"]] for row in grid.evaluate(run).rows]
        text = pipeline.prompts.builder(queries).text
        prompts = [text(query, chosen) for query, chosen in zip(queries, shown, strict=True)]
        examples += map(len, shown)
        tokens += pipeline.lm.count_tokens(prompts).tolist()
    return float(np.mean(examples)), float(np.mean(tokens))


def draw(table: ExperimentTable):
    tasks = table.by_task()
    figure, axes = panels(len(tasks))
    for panel, (task, members) in zip(axes, tasks.items(), strict=True):
        lines_of(panel, members, "tokens a prompt", lambda one: one.entry.cell.config.token_budget)
        panel.set_title(task, fontsize="medium")
    return figure


EXPERIMENT = Experiment("budget", "MAP under a token budget", entries, draw, with_counts)

if __name__ == "__main__":
    sys.exit(EXPERIMENT.main())

"""One retriever for all tasks: CEIL trained on the scores of all tasks, compared with one CEIL per task.

    python experiments/one_for_all.py --tasks sst5 mrpc qnli mtop geoquery --scale tiny --data-dir DATA

Each task keeps its own bank and queries. The encoders are trained on its own scores, on those of all tasks, on those
of all other tasks (so that the task is unseen), on those of other families of tasks (so that no task like it is seen;
families are those of the paper's Table 1), or not at all. The LM scores nothing twice. The second table has what each
training gains over none, and what it loses against the task's own, by paired bootstrap. The paper leaves such a
retriever to future work (appendix C and section 4.6).

Expected: within a point of the task's own retriever, and half of its gain on an unseen task.
"""

import sys
from dataclasses import replace

from harness.command import Experiment, ExperimentOptions
from harness.drawing import points
from harness.grid import Cell, Entry, Grid
from harness.table import ExperimentTable

from ceil_jax.errors import UserError
from ceil_jax.pipeline.config import RunConfig
from ceil_jax.report.table import Table, signed

_FAMILIES = {
    "sentiment analysis": "sst5 movie_reviews",
    "paraphrase detection": "mrpc",
    "natural language inference": "mnli qnli",
    "commonsense reasoning": "cmsqa swag hellaswag",
    "code generation": "geoquery nl2bash shell",
    "semantic parsing": "break mtop smcalflow smcalflow_cs",
    "text to SQL": "spider kaggledbqa dr_spider",
}
FAMILY = {name: family for family, names in _FAMILIES.items() for name in names.split()}
"""The first part of a task's name → its family; any other name is a family of its own."""


def family(task: str) -> str:
    name = task.partition(".")[0]
    return FAMILY.get(name, name)


def entries(config: RunConfig, options: ExperimentOptions) -> list[Entry]:
    everything = tuple(replace(config, task=task) for task in options.tasks)
    others = tuple(one for one in everything if one.task != config.task)
    if not others:
        raise UserError("--tasks: name at least two, to train on together")
    strangers = tuple(one for one in others if family(one.task) != family(config.task))
    rows = {
        "itself": Cell(config, "ceil"),
        "all tasks": Cell(config, "ceil", everything),
        "all but this one": Cell(config, "ceil", others),
        "all but its family": Cell(config, "ceil", strangers),
        "nothing": Cell(config, "dpp"),
    }
    if not strangers:
        del rows["all but its family"]
    return [Entry(f"trained on {row}", config.task, cell) for row, cell in rows.items()]


def with_gains(_: Grid, table: ExperimentTable) -> ExperimentTable:
    rows = []
    for one in table.measured:
        task = one.entry.task
        ends = [table.at(task, f"trained on {end}", one.entry.column) for end in ("nothing", "itself")]
        less = [None if end is None or end is one else signed(one.minus(end)) for end in ends]
        rows.append([task, family(task), one.entry.row, *less])
    header = ["task", "family", "row", "− trained on nothing", "− trained on itself"]
    return replace(table, sections=[Table(header, rows, "What each training is worth")])


EXPERIMENT = Experiment("one_for_all", "One retriever for all tasks", entries, points, with_gains)

if __name__ == "__main__":
    sys.exit(EXPERIMENT.main())

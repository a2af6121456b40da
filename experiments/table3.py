"""Table 3: compositional splits.

    python experiments/table3.py --tasks geoquery.template smcalflow_cs.0s --scale tiny --data-dir
    DATA

GeoQuery's template, length and TMCD splits, and SMCalFlow-CS: queries of one domain (0s), of two
(0c), and of two with a block of 8, 16 or 32 examples of two domains at the start of every prompt
(8c, 16c, 32c). All tasks: --tasks geoquery geoquery.template geoquery.tmcd geoquery.length
smcalflow_cs.0s smcalflow_cs.0c smcalflow_cs.8c smcalflow_cs.16c smcalflow_cs.32c. Every split has
its own bank. EPR and CEIL are trained in three ways:

- on the standard data set, GeoQuery or SMCalFlow, as the paper's (sections 4.5 and A.2); its
  numbers are next to these rows;
- on this split's own bank: on GeoQuery's template split it holds no template of a query, and on
  SMCalFlow-CS no example of two domains, so that this is the retriever of section 4.5's last
  sentence, which has seen no compositional data;
- on GeoQuery's standard training set less the template twins of this split's queries: examples
  whose output is a query's but for the entities. Against the first row it says what the twins are
  worth.

With --lms A B, retrievers trained with A's scores choose for B too, as the paper's Codex takes
GPT-Neo's retriever; the paper gives Codex --shots 16 on the splits with a block.
"""

import re
import sys
from dataclasses import replace

from harness.command import Experiment, ExperimentOptions
from harness.drawing import points
from harness.grid import Cell, Entry, Grid
from harness.table import ExperimentTable

from ceil_jax.methods.registry import ROWS
from ceil_jax.pipeline.config import RunConfig
from ceil_jax.report.table import Table, signed
from ceil_jax.tasks import TASKS
from ceil_jax.tasks.load import load_task

UNTRAINED = ("random", "bm25", "topk", "dpp")
TRAINED = ("epr", "ceil")
STANDARD = {"geoquery": "geoquery", "smcalflow_cs": "smcalflow"}
"""The family of a split → the task on which the paper trains the split's retriever."""
PAPER = {
    "gpt-neo": {
        "geoquery": (66.79, 68.57, 73.21),
        "geoquery.template": (30.75, 38.95, 40.77),
        "geoquery.tmcd": (41.82, 44.09, 44.09),
        "geoquery.length": (31.59, 32.27, 32.73),
        "smcalflow_cs.0s": (31.94, 57.78, 60.27),
        "smcalflow_cs.0c": (0.0, 0.0, 0.0),
        "smcalflow_cs.8c": (0.28, 0.0, 0.28),
    },
    "codex": {
        "geoquery": (91.79, 91.70, 93.21),
        "geoquery.template": (87.47, 87.93, 89.98),
        "geoquery.tmcd": (61.36, 62.73, 63.64),
        "geoquery.length": (69.55, 73.41, 74.09),
        "smcalflow_cs.0s": (80.83, 80.83, 81.39),
        "smcalflow_cs.0c": (0.0, 0.56, 1.67),
        "smcalflow_cs.8c": (40.83, 35.56, 42.78),
        "smcalflow_cs.16c": (46.67, 38.61, 48.06),
        "smcalflow_cs.32c": (49.72, 48.06, 55.28),
    },
}
"""A part of the LM's name → task → top-k with BERT, EPR, CEIL: the paper's numbers, which are shown
only for the paper's LMs."""
ON_STANDARD = "trained on the standard split"
ON_OWN = "trained on this split"
LESS_TWINS = "trained on standard less twins"


def entries(config: RunConfig, options: ExperimentOptions) -> list[Entry]:
    all_entries = []
    lms = options.lms or (config.lm,)
    for lm in lms:
        to = replace(config, lm=lm)
        numbers = next((tasks for part, tasks in PAPER.items() if part in lm.lower()), {})
        paper = dict(zip(("topk", *TRAINED), numbers.get(config.task, ()), strict=False))
        column = config.task if len(lms) < 2 else f"{config.task}, answered by {lm}"
        all_entries += [
            Entry(ROWS[name].label, column, Cell(to, name), paper.get(name)) for name in UNTRAINED
        ]
        for how, by in trainings(replace(config, lm=lms[0])).items():
            for name in TRAINED:
                number = paper.get(name) if how == ON_STANDARD else None
                all_entries.append(
                    Entry(f"{ROWS[name].label}, {how}", column, Cell(to, name, (by,)), number)
                )
    return all_entries


def trainings(config: RunConfig) -> dict[str, RunConfig]:
    """Return the runs that train a split's retrievers, by how they are trained."""
    standard = STANDARD.get(config.task.partition(".")[0])
    if standard is None:
        return {ON_OWN: config}
    # its own first: it needs no other data set
    configs = {} if config.task == standard else {ON_OWN: config}
    configs[ON_STANDARD] = replace(config, task=standard)
    if config.task != standard == "geoquery":
        configs[LESS_TWINS] = replace(config, task=less_twins(config))
    return configs


def less_twins(config: RunConfig) -> str:
    """Return the name of a task: GeoQuery's standard split without the template twins of a split's queries."""
    name = f"geoquery.standard_less_{config.task.partition('.')[2]}_twins"
    spec = TASKS["geoquery"]

    def splits() -> dict[str, list[dict[str, str]]]:
        whole = load_task("geoquery", config.data_dir)
        queries = load_task(config.task, config.data_dir).validation
        twins = {template_of(query.output) for query in queries}
        bank = [example for example in whole.train if template_of(example.output) not in twins]
        parts = {spec.train[0]: bank, spec.validation[0]: whole.validation}
        return {
            part: [{"question": example.input, "funql": example.output} for example in examples]
            for part, examples in parts.items()
        }

    TASKS[name] = replace(spec, name=name, embedded=splits)
    return name


def template_of(output: str) -> str:
    """Return a FunQL query as a template: its entities m0, m1, … are all written `m`."""
    return re.sub(r"\bm\d+\b", "m", output)


def with_gains(grid: Grid, table: ExperimentTable) -> ExperimentTable:
    rows = []
    for measurement in table.measured:
        kind, _, how = measurement.entry.row.partition(", ")
        epr = table.at(
            measurement.entry.task, f"{ROWS['epr'].label}, {how}", measurement.entry.column
        )
        if kind == ROWS["ceil"].label and epr is not None:
            rows.append([measurement.entry.column, how, signed(measurement.minus(epr))])
    return replace(table, sections=[Table(["task", "both", "CEIL − EPR"], rows, "Gain over EPR")])


EXPERIMENT = Experiment("table3", "Table 3: compositional splits", entries, points, with_gains)

if __name__ == "__main__":
    sys.exit(EXPERIMENT.main())

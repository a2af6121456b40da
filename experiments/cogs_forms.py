"""COGS with every form asked equally often: the gain from training if all forms have the same
weight.

    python experiments/cogs_forms.py --task cogs.ps --scale small --bank-limit 1000 --seeds 0 1 2 \\
        --data-dir DATA

A *form* is a logical form without its words. A random sample of COGS' primitive substitution asks
its commonest form in three of ten queries, and half of its 76 forms hardly ever. Here the queries
are at most `EACH` of every form. Bank, training queries and settings are those of `cause.py`, and
the trained encoders are its encoders: in a folder that holds its runs, nothing is scored again.
"""

from __future__ import annotations

import random
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from cause import TRADE_OFF
from harness.command import Experiment, ExperimentOptions
from harness.drawing import points
from harness.grid import Cell, Entry

from ceil_jax.methods.ceil import CEIL
from ceil_jax.pipeline.config import RunConfig
from ceil_jax.tasks.example import Example
from ceil_jax.tasks.load import load_task
from ceil_jax.tasks.registry import TASKS, register_task
from ceil_jax.tasks.structures import form_without_words

EACH = 4
"""The maximum number of queries of a form."""
TRAINED_WITH: Literal["bfloat16"] = "bfloat16"
"""The number format of the LM whose scores `cause.py` recorded."""
METHODS = ("topk", "epr", "second_round", "ceil")


def evenly(queries: Sequence[Example], each: int, seed: int) -> list[Example]:
    """Return at most `each` queries of every form, drawn at random, in their original order."""
    by_form: dict[str, list[Example]] = defaultdict(list)
    for query in queries:
        by_form[form_without_words(query.output)].append(query)
    rng = random.Random(seed)
    drawn = set()
    for members in by_form.values():
        drawn |= {query.id for query in rng.sample(members, min(each, len(members)))}
    return [query for query in queries if query.id in drawn]


def forms_task(config: RunConfig) -> str:
    """Register the task with an even draw of the configuration's queries, and return its name."""
    spec = TASKS[config.task]
    name = f"{spec.name}.forms"
    if name not in TASKS:
        task = load_task(spec, config.data_dir, bank_limit=1)
        inputs = {query.input for query in evenly(task.validation, EACH, config.data_seed)}
        register_task(replace(spec, name=name, keep=lambda row: row["sentence"] in inputs))
    return name


def entries(config: RunConfig, _: ExperimentOptions) -> list[Entry]:
    """Return a row for each of `METHODS`, with the encoders that `cause.py` trains."""
    trained = replace(config.with_method(CEIL, trade_off=TRADE_OFF), dtype=TRAINED_WITH)
    asked = replace(trained, task=forms_task(config), dtype=config.dtype, limit=None)
    return [
        Entry(asked.row(name).label, config.task, Cell(asked, name, (trained,))) for name in METHODS
    ]


EXPERIMENT = Experiment("cogs_forms", "COGS, every form equally often", entries, points)

if __name__ == "__main__":
    sys.exit(EXPERIMENT.main())

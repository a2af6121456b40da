"""Changes to CEIL that are not in the papers, each beside CEIL as it is there, with paired intervals.

    python experiments/ideas.py --tasks geoquery movie_reviews --scale tiny --data-dir DATA

- example with output: trained encoders see what a bank example's answer is, not its input alone.
- choice: on tasks with options, training ranks by the right one's share of their probability, not by its own.
- tree: subsets that share the halves that open their prompts; the LM reads about 6 of 10 tokens.
- both encoders: the examples' encoder learns too, through the k × k blocks.
- top-k of the same encoder, because MAP can lose what training gained.
"""

import sys
from dataclasses import replace

from ceil_jax.config import RunConfig
from ceil_jax.drawing import points
from ceil_jax.experiment import Experiment, Options
from ceil_jax.grid import Cell, Entry, Grid
from ceil_jax.tables import Table, signed
from ceil_jax.tasks import task_spec

PAPER = "CEIL as in the papers"


def entries(config: RunConfig, _: Options) -> list[Entry]:
    variants = {
        PAPER: config,
        "example with output": replace(config, context="example"),
        "tree": replace(config, ceil=replace(config.ceil, sampler="tree")),
        "both encoders": replace(config, ceil=replace(config.ceil, train_context="both")),
    }
    if task_spec(config.task).metric == "accuracy":
        variants["choice"] = replace(config, signal="choice")
        variants["choice, example with output"] = replace(config, signal="choice", context="example")
    found = [
        Entry("EPR", config.task, Cell(config, "epr")),
        Entry("top-k", config.task, Cell(config, "topk")),
    ]
    found += [Entry(name, config.task, Cell(variant, "ceil")) for name, variant in variants.items()]
    return [*found, Entry("CEIL's encoder, top-k", config.task, Cell(config, "ceil_topk"))]


def with_differences(_: Grid, table: Table) -> Table:
    lines = [["task", "change", f"− {PAPER}"]]
    for one in table.measured:
        paper = table.at(one.entry.task, PAPER, one.entry.column)
        if paper is not None and one is not paper:
            lines.append([one.entry.task, one.entry.row, signed(one.minus(paper))])
    return replace(table, sections=[("What each is worth", lines)])


EXPERIMENT = Experiment("ideas", "Changes to CEIL", entries, points, with_differences)

if __name__ == "__main__":
    sys.exit(EXPERIMENT.main())

"""Changes to CEIL that are not in the papers, each beside CEIL as it is there, with paired intervals.

    python experiments/ideas.py --tasks geoquery movie_reviews --scale tiny --data-dir DATA

- example with output: trained encoders see what a bank example's answer is, not its input alone. Expected: +1 to +3
  points where there are a few labels, 0 to +1 where outputs are programs, which their inputs nearly say. EPR with the
  same, beside which CEIL's gain is to be seen: as much.
- choice: on tasks with options, training ranks by the right one's share of their probability, not by its own.
  Expected: +1 to +3, for accuracy asks for the share; with outputs seen as well, the sum of both.
- tree: subsets that share the halves that open their prompts. Expected: 6 of 10 tokens, within ±1 point.
- both encoders: the examples' encoder learns too, through the k × k blocks. Expected: 0 to +1, more to learn from as
  few scores.
- from TST: training starts from an encoder tuned on how alike the outputs of training examples are (target
  similarity tuning, Poesia et al. 2022), not from EPR's: no LM token for the start. Expected: +3 to +6 where there
  are labels, because a bank's labels say more of them than the LM's scores of 400 queries; 0 to +3 for programs. TST
  itself, beside EPR: the same.
- greedy order: the first chosen stands next to the query, not the most similar. Expected: within ±1.
- EPR from five times the training queries, which is about as many LM tokens as CEIL's sets and EPR's examples take
  together: is it better to read more queries with an example each than sets? Expected: +1 to +3 points over EPR, and
  CEIL no better than that. A task with fewer training queries has no more to offer.
- top-k of the same encoder, because MAP can lose what training gained. Expected: −1 to −3.
"""

import sys
from dataclasses import replace

from drawing import points

from ceil_jax.cli.experiment import Experiment, ExperimentOptions
from ceil_jax.pipeline.config import RunConfig
from ceil_jax.report.experiment_table import ExperimentTable
from ceil_jax.report.grid import Cell, Entry, Grid
from ceil_jax.report.table import Table, signed
from ceil_jax.tasks import task_spec

PAPER = "CEIL as in the papers"


def entries(config: RunConfig, _: ExperimentOptions) -> list[Entry]:
    variants = {
        PAPER: config,
        "example with output": replace(config, context="example"),
        "tree": replace(config, ceil=replace(config.ceil, sampler="tree")),
        "from TST": replace(config, ceil=replace(config.ceil, initial="tst")),
        "greedy order": replace(config, order="greedy"),
        "both encoders": replace(config, ceil=replace(config.ceil, train_context="both")),
    }
    if task_spec(config.task).metric == "accuracy":
        variants["choice"] = replace(config, signal="choice")
        variants["choice, example with output"] = replace(config, signal="choice", context="example")
    more = replace(config, epr=replace(config.epr, instances=5 * config.epr.instances))
    found = [
        Entry("EPR", config.task, Cell(config, "epr")),
        Entry("EPR, 5 × the queries", config.task, Cell(more, "epr")),
        Entry("EPR, example with output", config.task, Cell(replace(config, context="example"), "epr")),
        Entry("TST", config.task, Cell(config, "tst")),
        Entry("TST + MAP", config.task, Cell(config, "tst_map")),
        Entry("top-k", config.task, Cell(config, "topk")),
    ]
    found += [Entry(name, config.task, Cell(variant, "ceil")) for name, variant in variants.items()]
    return [*found, Entry("CEIL's encoder, top-k", config.task, Cell(config, "ceil_topk"))]


def with_differences(_: Grid, table: ExperimentTable) -> ExperimentTable:
    rows = []
    for one in table.measured:
        paper = table.at(one.entry.task, PAPER, one.entry.column)
        if paper is not None and one is not paper:
            rows.append([one.entry.task, one.entry.row, signed(one.minus(paper))])
    return replace(table, sections=[Table(["task", "change", f"− {PAPER}"], rows, "Gain of each change")])


EXPERIMENT = Experiment("ideas", "Changes to CEIL", entries, points, with_differences)

if __name__ == "__main__":
    sys.exit(EXPERIMENT.main())

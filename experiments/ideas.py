"""Changes to CEIL that are not in the papers, each compared with CEIL as published, with paired intervals.

    python experiments/ideas.py --tasks geoquery movie_reviews --scale tiny --data-dir DATA

- example with output: the trained encoders see a bank example's output as well as its input. Expected: +1 to +3
  points on tasks with a few labels, 0 to +1 on programs, which their inputs nearly determine. EPR with the same
  change is the baseline for CEIL's gain; expected: as much.
- both encoders: the examples' encoder is trained too, through the k × k blocks. Expected: 0 to +1, because there is
  more to learn from equally few scores.
- from TST: training starts from an encoder tuned on the similarity of training outputs (target similarity tuning,
  Poesia et al. 2022) instead of EPR's, and the start costs no LM tokens. Expected: +3 to +6 on tasks with labels,
  because the labels of a bank say more than the LM's scores of 400 queries; 0 to +3 on programs. The same for TST
  itself, compared with EPR.
- EPR from five times the training queries, about as many LM tokens as CEIL's sets and EPR's examples together: are
  more queries with single examples better than sets? Expected: +1 to +3 points over EPR, and CEIL no better than
  that. A task with fewer training queries uses all it has.
- top-k of the same encoder, because MAP can lose what training gained. Expected: −1 to −3.
"""

import sys
from dataclasses import replace

from harness.command import Experiment, ExperimentOptions
from harness.drawing import points
from harness.grid import Cell, Entry, Grid
from harness.table import ExperimentTable

from ceil_jax.pipeline.config import RunConfig

PAPER = "CEIL as in the papers"


def entries(config: RunConfig, _: ExperimentOptions) -> list[Entry]:
    variants = {
        PAPER: config,
        "example with output": replace(config, context="example"),
        "from TST": replace(config, ceil=replace(config.ceil, initial="tst")),
        "both encoders": replace(config, ceil=replace(config.ceil, train_context="both")),
    }
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
    return replace(table, sections=[table.less(PAPER, "change", "Gain of each change")])


EXPERIMENT = Experiment("ideas", "Changes to CEIL", entries, points, with_differences)

if __name__ == "__main__":
    sys.exit(EXPERIMENT.main())

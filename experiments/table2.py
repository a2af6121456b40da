"""Table 2: every way of choosing examples on every task.

    python experiments/table2.py --tasks geoquery movie_reviews --scale tiny --data-dir DATA

The paper's twelve tasks: --tasks sst5 mrpc qnli mnli cmsqa hellaswag webqs geoquery nl2bash break
mtop smcalflow. The paper's numbers are of GPT-Neo 2.7B with 50 examples, cut to its context; its
BERT and DPP-BERT embed with bert-base, ours with --encoder. Its rows Contriever and SimCSE:
--encoders facebook/contriever princeton-nlp/sup-simcse-bert-base-uncased, or any encoders that
--encoder takes, each a row of its nearest examples. The paper does not say which SimCSE. A plain
hub folder is read with mean pooling, as Contriever's is meant; SimCSE's is the first token, which a
folder says in 1_Pooling/config.json.

CEIL as in the paper, whose encoder of examples learns too, is a row of its own:
--ceil.train-context both --method ceil.
"""

import sys
from dataclasses import replace

from harness.command import Experiment, ExperimentOptions
from harness.drawing import points
from harness.grid import Cell, Entry

from ceil_jax.pipeline.config import RunConfig
from ceil_jax.tasks import TASKS

PAPER = {
    "random": "random",
    "bm25": "BM25",
    "topk": "BERT",
    "dpp": "DPP-BERT",
    "epr": "EPR",
    "ceil": "CEIL",
}
ENCODERS = {"contriever": "Contriever", "simcse": "SimCSE"}
"""A part of an encoder's name → its row in the paper."""
NAMES = ("random", "bm25", "topk", "mmr", "dpp", "epr", "epr_map", "ceil_topk", "ceil")


def entries(config: RunConfig, options: ExperimentOptions) -> list[Entry]:
    paper = TASKS[config.task].paper
    by_encoder = [
        Entry(
            f"dense top-k, {name}",
            config.task,
            Cell(replace(config, encoder=name), "topk"),
            next((paper.get(row) for part, row in ENCODERS.items() if part in name.lower()), None),
        )
        for name in options.encoders
    ]
    by_method = [
        Entry(
            _label(config, method),
            config.task,
            Cell(config, method),
            paper.get(PAPER.get(method, "")),
        )
        for method in NAMES
    ]
    return by_method[:2] + by_encoder + by_method[2:]


def _label(config: RunConfig, method: str) -> str:
    row = config.row(method)
    both = row.method.learns_sets and row.method.two_networks
    return row.label + (", both encoders" if both else "")


EXPERIMENT = Experiment("table2", "Table 2: ways of choosing examples", entries, points)

if __name__ == "__main__":
    sys.exit(EXPERIMENT.main())

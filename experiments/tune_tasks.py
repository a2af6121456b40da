"""`ceil-jax tune` on real tasks: what the tuned choice gains over plain top-k, and loses to the
best in hindsight.

    python experiments/tune_tasks.py --data-dir DATA --out runs/tune --record runs/tune.jsonl

For each task every candidate that needs no training answers every row of a pool of held-out rows,
once: a table of outcomes. Each seed then splits the pool in halves, races on one half within
`--budget` LM tokens as the command does, and measures on the other half, so that seeds cost
nothing. Random search asks for all rows of randomly drawn candidates until the tokens that the race
spent are used up.

One line a task is printed and added to `--record`: points of the metric, means over seeds. `winner`
and `recommended` less plain top-k with K = 8 on the final half; `regret`, what the winner loses to
the candidate that is best over all rows of the table, both measured over all rows; the same for
random search; and the LM tokens of a race. A run that was stopped goes on; a task that is on record
with the same settings is not run again.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from harness.command import script

from ceil_jax.errors import UserError
from ceil_jax.metrics import METRICS
from ceil_jax.metrics.bootstrap import Sample
from ceil_jax.pipeline.config import TUNE
from ceil_jax.report.table import Number, Table
from ceil_jax.store.hashing import digest
from ceil_jax.tasks.load import load_task
from ceil_jax.tuning.budget import Budget
from ceil_jax.tuning.candidates import PLAIN, ZERO, candidates, possible_ks, searched
from ceil_jax.tuning.config import TuneConfig
from ceil_jax.tuning.extent import FIRST_ROWS, Extent
from ceil_jax.tuning.field import Field
from ceil_jax.tuning.race import Race, Round, hold
from ceil_jax.tuning.verdict import judge

TASKS = ("movie_reviews", "sst5", "mrpc", "mnli", "qnli", "cmsqa", "geoquery", "webqs")
"""Seven real tasks, and the embedded one first."""

TOLERANCE = 0.02
"""As the command's --tolerance."""


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", nargs="+", default=list(TASKS))
    parser.add_argument(
        "--data-dir", type=Path, help="a folder of datasets; default: the hub or the package"
    )
    parser.add_argument("--lm", default=TUNE.lm)
    parser.add_argument("--encoder", default=TUNE.encoder)
    parser.add_argument(
        "--pool", type=int, default=300, help="held-out rows that all candidates answer"
    )
    parser.add_argument("--bank-limit", type=int, default=2000, help="examples in the bank at most")
    parser.add_argument("--budget", type=int, default=500_000, help="LM tokens of a race")
    parser.add_argument("--ks", type=int, nargs="+", default=list(TuneConfig().ks))
    parser.add_argument("--seeds", type=int, default=3, help="splits of the pool")
    parser.add_argument("--out", type=Path, default=Path("runs"))
    parser.add_argument("--record", type=Path, default=Path("runs/tune_tasks.jsonl"))
    options = parser.parse_args(argv)
    if (k := PLAIN.shots) not in options.ks:
        raise UserError(
            f"--ks: all candidates are compared with top-k of {k} examples; give {k} too"
        )
    return options


class Outcomes:
    """Every candidate on every row of a task's pool.

    Args:
        field: answers, or finds the answers on disk.
        search: the candidates.
    """

    def __init__(self, field: Field, search: TuneConfig) -> None:
        rows = field.task.validation
        searched_rows = searched(search, field.config, field.task)
        ks = possible_ks(search, field.task)
        extent = Extent(
            searched_rows, ks, search.trade_offs, search.encoders, FIRST_ROWS, len(rows)
        )
        entrants = [field.enter(candidate, rows) for candidate in candidates(extent)]
        answers = field.answer(
            entrants, rows, slice(0, len(rows)), f"{field.task.name}, {len(entrants)} candidates"
        )
        self.candidates = [entrant.candidate for entrant in entrants]
        self.labels = [entrant.candidate.label for entrant in entrants]
        self.tokens = np.stack([entrant.tokens for entrant in entrants])
        self.lengths = np.array([entrant.lengths.mean() for entrant in entrants])
        self.scores = np.stack([answer.scores for answer in answers])
        self.statistics = np.stack([answer.sample.values for answer in answers])
        self.from_sums = METRICS[field.task.metric].from_sums
        self.top_k = self.candidates.index(PLAIN)
        self.zero = self.candidates.index(ZERO)

    def value(self, rows: np.ndarray) -> np.ndarray:
        """Return the metric of each candidate on some rows, float64 [A], in percent."""
        statistics = self.statistics[:, rows]
        return 100 * np.array(
            [self.from_sums(values.sum(axis=0), len(rows)) for values in statistics]
        )


def replay(table: Outcomes, seed: int, budget: int) -> dict[str, Any]:
    """Return one seed's race on half of the pool, measured on the other half.

    Args:
        table: the task's outcomes.
        seed: splits the pool.
        budget: LM tokens of the race.

    Raises:
        UserError: the budget does not pay for the first round.
    """
    order = np.random.default_rng([seed, 8]).permutation(table.scores.shape[1])
    tuning, final = np.split(order, [len(order) // 2])
    race = Race(table.tokens[:, tuning])
    if race.first_cost() > budget:
        raise UserError(
            f"--budget {budget:,}: the first round takes {race.first_cost():,.0f} LM tokens"
        )
    spent = 0.0

    def ask(step: Round) -> dict[int, np.ndarray]:
        nonlocal spent
        rows = tuning[step.start : step.stop]
        spent += race.tokens[list(step.racers), step.start : step.stop].sum()
        return {i: table.scores[i, rows] for i in step.racers}

    hold(race, ask, lambda: budget - spent)
    winner = race.winner()
    finalists = list(
        dict.fromkeys((winner, race.near(points=TOLERANCE)[0], table.top_k, table.zero))
    )
    verdict = judge(
        [Sample(table.statistics[i, final], table.from_sums) for i in finalists],
        table.lengths[finalists].tolist(),
        tolerance=TOLERANCE,
        raced=[race.scores[i] for i in finalists],
    )
    recommended = finalists[verdict.recommended]
    drawn = np.random.default_rng([seed, 9]).permutation(len(table.labels))
    paid = [
        i
        for i, total in zip(drawn, race.tokens[drawn].sum(1).cumsum(), strict=True)
        if total <= spent
    ]
    by_chance = max(paid or [drawn[0]], key=lambda i: table.scores[i, tuning].mean())
    value = table.value(final)
    whole = table.value(order)
    return {
        "seed": seed,
        "winner": table.labels[winner],
        "recommended": table.labels[recommended],
        "top_k": value[table.top_k],
        "winner_gain": value[winner] - value[table.top_k],
        "recommended_gain": value[recommended] - value[table.top_k],
        "random_gain": value[by_chance] - value[table.top_k],
        "regret": whole.max() - whole[winner],
        "random_regret": whole.max() - whole[by_chance],
        "tokens": round(spent),
        "tokens_a_prompt": table.lengths[recommended],
        "top_k_tokens_a_prompt": table.lengths[table.top_k],
        "certain": verdict.certainly_better(verdict.recommended, finalists.index(table.top_k)),
    }


COLUMNS = ("top_k", "winner_gain", "recommended_gain", "random_gain", "regret", "random_regret")


def run(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Return the record of one task."""
    began = time.perf_counter()
    task = load_task(name, options.data_dir, limit=options.pool, bank_limit=options.bank_limit)
    config = TUNE.__class__(
        task=name,
        lm=options.lm,
        encoder=options.encoder,
        out=options.out / name,
        data_dir=options.data_dir,
    )
    budget = Budget(10**12)
    table = Outcomes(Field(config, task, budget), TuneConfig(ks=tuple(options.ks)))
    seeds = [replay(table, seed, options.budget) for seed in range(options.seeds)]
    means = {
        column: float(np.mean([replayed[column] for replayed in seeds]))
        for column in (*COLUMNS, "tokens")
    }
    whole = table.value(np.arange(table.scores.shape[1]))
    return {
        "task": name,
        "settings": settings(name, options),
        "metric": task.metric,
        "rows": table.scores.shape[1],
        "bank": len(task.train),
        **means,
        "seeds": seeds,
        "table": {
            label: {"value": value, "tokens": tokens}
            for label, value, tokens in zip(
                table.labels, whole.tolist(), table.lengths.tolist(), strict=True
            )
        },
        "table_tokens": budget.tokens,
        "seconds": round(time.perf_counter() - began, 1),
    }


def settings(name: str, options: argparse.Namespace) -> str:
    """Return the hash of what a task's record depends on."""
    values = vars(options) | {
        "tasks": name,
        "out": None,
        "record": None,
        "data_dir": str(options.data_dir),
    }
    return digest([values, asdict(TuneConfig())])


def recorded(file: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the records of a file by task and settings."""
    lines = file.read_text("utf-8").splitlines() if file.exists() else []
    records = [json.loads(line) for line in lines]
    return {(record["task"], record["settings"]): record for record in records}


def main(argv: Sequence[str] | None = None) -> None:
    options = arguments(argv)
    options.record.parent.mkdir(parents=True, exist_ok=True)
    rows = []
    for name in options.tasks:
        known = recorded(options.record).get((name, settings(name, options)))
        if known is None:
            try:
                known = run(name, options)
            except UserError as error:
                print(f"{name}: {error}")
                continue
            with options.record.open("a", encoding="utf-8") as out:
                out.write(json.dumps(known, default=float) + "\n")
        rows.append(known)
        print(
            f"{name}: " + ", ".join(f"{column} {known[column]:+.1f}" for column in COLUMNS),
            flush=True,
        )
    if rows:
        print("\n" + summary(rows).text())


def summary(records: Sequence[dict[str, Any]]) -> Table:
    """Return the table of tasks: points of the metric, tokens of the race, and of a prompt of two
    of the choices."""
    named = {"tokens a prompt, recommended": "tokens_a_prompt", "top-k": "top_k_tokens_a_prompt"}
    cells = [
        [
            *(record[column] for column in COLUMNS),
            record["tokens"],
            *(
                float(np.mean([seed[column] for seed in record["seeds"]]))
                for column in named.values()
            ),
        ]
        for record in records
    ]
    body = [
        [name, *map(Number, row[: len(COLUMNS)]), *map(round, row[len(COLUMNS) :])]
        for name, row in zip(
            [*(record["task"] for record in records), "mean"],
            [*cells, np.mean(cells, axis=0).tolist()],
            strict=True,
        )
    ]
    return Table(["task", *(c.replace("_", " ") for c in COLUMNS), "LM tokens", *named], body)


if __name__ == "__main__":
    script(main)

"""Published results: a file beside the code with a line for every run, so that each number says where it comes from.

    {"experiment": "table2", "row": "CEIL", "column": "geoquery", "task": "geoquery", "method": "ceil",
     "lm": …, "seed": 0, "n": 280, "metric": "exact_match", "value": 54.0, "low": 47.5, "high": 60.5,
     "tokens": 1234567, "seconds": 890.1, "device": …, "date": …, "config": …}

`row` and `column` are the run's place in the experiment's table. Values are percentages, `low` and `high` the 95 %
bootstrap interval over queries, `tokens` and `seconds` what the LM read and what all stages took, shared ones
included but not those of the runs in `trained_by`, whose encoders it took, `seed` null where nothing is trained,
`config` the hash of all settings. Those of the prompt that are not the default (`token_budget`, `fit`, `order`) are
named too. `texts` is the hash of queries and bank, and `statistics` what the metric is computed from, a number or
several for each query, so that differences can be paired and averaged over tasks run apart (`published.py`).
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ceil_jax.errors import UserError
from ceil_jax.pipeline.evaluate import Evaluation
from ceil_jax.pipeline.records import Record, beyond_default, read_record
from ceil_jax.report.compare import COST_COLUMNS
from ceil_jax.report.grid import Cell, Grid, Measured
from ceil_jax.report.machine import device
from ceil_jax.report.table import Number, Table
from ceil_jax.store.locking import held
from ceil_jax.store.stage import Stage

IDENTITY = ("experiment", "row", "column", "config")
"""What makes two lines the same: the later one stays. A run may stand in several places of a table."""

_TEXTS = (*IDENTITY, "task", "lm", "encoder", "metric", "device", "date")
_NUMBERS = ("shots", "n", "value", "tokens", "seconds")


def lines_of(grid: Grid, measured: Sequence[Measured], experiment: str) -> Iterator[dict[str, Any]]:
    """A line for every run behind an experiment's numbers."""
    for one in measured:
        for seed in one.seeds:
            cell, evaluation, found = _run(grid, one, seed)
            interval = evaluation.interval.percent()
            when = (found.root / found.name / Stage.DONE).stat().st_mtime
            yield {
                "experiment": experiment,
                "row": one.entry.row,
                "column": one.entry.column,
                "task": one.entry.task,
                "method": cell.method,
                "trained_by": [[other.task, other.lm] for other in cell.trained_by],
                "lm": one.lm,
                "encoder": cell.config.encoder,
                "shots": cell.config.shots,
                **beyond_default(cell.config, "token_budget", "fit", "order"),
                "bank": found.bank,
                "seed": seed if one.entry.cell.trains else None,
                "n": one.queries,
                "metric": one.metric,
                "value": round(100 * evaluation.value, 3),
                "low": round(interval.low, 3),
                "high": round(interval.high, 3),
                "tokens": found.preparing.tokens + found.answering.tokens,
                "seconds": round(found.preparing.seconds + found.answering.seconds, 1),
                "device": device(),
                "date": datetime.datetime.fromtimestamp(when, datetime.UTC).date().isoformat(),
                "config": found.name.partition("-")[2],
                "texts": found.texts.partition("-")[2],
                "statistics": packed(evaluation.statistics),
            }


def packed(statistics: np.ndarray) -> str | list[Any]:
    """float [N, s] as JSON: "0110…" where each query has a 0 or a 1, else a list."""
    if statistics.shape[1] == 1 and np.isin(statistics, (0, 1)).all():
        return "".join("01"[int(value)] for value in statistics[:, 0])
    return np.round(statistics, 4).tolist()


def unpacked(value: str | list[Any]) -> np.ndarray:
    """float [N, s]: what was packed."""
    rows = [[int(digit)] for digit in value] if isinstance(value, str) else value
    return np.array(rows, np.float64)


def costs_of(grid: Grid, measured: Sequence[Measured]) -> Table:
    """Return what each row cost with the first seed, means over tasks.

    LM tokens before the first query and to answer all queries, and the seconds of both. Work that rows share is
    counted in each of them.
    """
    rows: dict[str, list[tuple[float, float, float]]] = {}
    for one in measured:
        *_, found = _run(grid, one, one.seeds[0])
        before, after = found.preparing, found.answering
        rows.setdefault(one.entry.row, []).append(
            (before.tokens, after.tokens, before.seconds + after.seconds)
        )
    body = [
        [row, *(Number(mean, 0) for mean in np.mean(costs, axis=0).tolist())] for row, costs in rows.items()
    ]
    return Table(["", *COST_COLUMNS], body, "Cost, means over tasks")


def _run(grid: Grid, one: Measured, seed: int) -> tuple[Cell, Evaluation, Record]:
    cell = one.entry.cell.seeded(seed).essential()
    evaluation = grid.evaluate(cell)
    found = read_record(cell.config.out, evaluation.run)
    assert found is not None, f"{evaluation.run} has just been written"
    return cell, evaluation, found


def keep(file: Path, lines: Sequence[dict[str, Any]]) -> None:
    """Add lines to a file of results; a run that is there already is replaced. A second process waits.

    Raises:
        UserError: a line of the file is no result; the disk is full or the folder cannot be written.
    """
    with held(file.parent, f".{file.name}.lock"):
        kept = {_identity(line): line for line in read_results(file)} if file.exists() else {}
        kept |= {_identity(line): line for line in lines}
        text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in kept.values())
        Stage(file.parent).write(file.name, text.encode())


def read_results(file: Path) -> list[dict[str, Any]]:
    """The lines of a file of results.

    Raises:
        UserError: which line is no result.
    """
    found = []
    for number, text in enumerate(file.read_bytes().splitlines(), 1):
        try:
            line = json.loads(text)
        except ValueError:
            line = None
        wrong = _wrong(line)
        if wrong:
            raise UserError(f"{file}, line {number}: {wrong}; mend it or take it out")
        found.append(line)
    return found


def _wrong(line: Any) -> str:
    """What keeps a line from being a result; nothing if it is one."""
    if not isinstance(line, dict):
        return "expected a JSON object"
    for names, kind, expected in ((_TEXTS, str, "a text"), (_NUMBERS, int | float, "a number")):
        for name in names:
            if not isinstance(line.get(name), kind):
                return f"expected {expected} as {name!r}"
    if not isinstance(line.get("seed", ""), int | None):
        return "expected a whole number or null as 'seed'"
    if "statistics" in line:
        try:
            values = unpacked(line["statistics"])
        except (ValueError, TypeError):
            values = np.zeros(0)
        if values.ndim != 2 or len(values) != line["n"]:
            return f"expected a number or several for each of {line['n']:,} queries as 'statistics'"
        if not isinstance(line.get("texts"), str):
            return "expected a text as 'texts'"
    return ""


def _identity(line: dict[str, Any]) -> tuple[str, ...]:
    return tuple(str(line[name]) for name in IDENTITY)

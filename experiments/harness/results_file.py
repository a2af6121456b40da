"""Published records: a file in the repository with a line for every run, so that the source of each
number is known.

    {"experiment": "table2", "row": "CEIL", "column": "geoquery", "task": "geoquery", "method":
    "ceil",
     "lm": …, "seed": 0, "n": 280, "metric": "exact_match", "value": 54.0, "low": 47.5, "high":
     60.5, "tokens": 1234567, "seconds": 890.1, "device": …, "date": …, "config": …}

`row` and `column` are the run's place in the experiment's table. Values are percentages, and `low`
and `high` the 95 % bootstrap interval over them. `tokens` and `seconds` are the LM tokens read and
the time of all stages, shared ones included, but not those of the runs in `trained_by`, whose
encoders the run took; `answering` is the part of `tokens` that answering the queries took. `seed`
is null if nothing is trained. `config` is the hash of all settings; settings of the prompt that
differ from their default (`token_budget`, `fit`, `order`) are written out. `trade_off` is λ, where
examples were chosen with one. `examples` is the mean number of examples that fitted into a prompt
(#ICE in CEIL's Table 1). `recipe` holds the settings of the trainings behind the run where its
encoder was trained for it, of `ceil` and of the `epr` that it started from. `texts` is the hash of
queries and bank. `statistics` holds what the metric is computed from, one or several numbers per
query, so that differences can be paired and averaged over tasks; `overlap` which queries stand in
the bank, and as `question` which are resampled together: those that ask the same, or whose gold
output is the same program (`harness.programs`).
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ceil_jax.distributed.machine import device
from ceil_jax.errors import UserError
from ceil_jax.methods.registry import ROWS, registered_methods
from ceil_jax.pipeline.records import Record
from ceil_jax.report.runs import Runs
from ceil_jax.store.cost import Cost
from ceil_jax.store.locking import held, write
from ceil_jax.tasks.words import Overlap


@dataclass(frozen=True, kw_only=True)
class Published(Record):
    """A record with its place in a published table."""

    experiment: str = ""
    """The name of the experiment, whose table has the record."""
    row: str = ""
    column: str = ""
    trained_by: tuple[tuple[str, str], ...] = ()
    """The (task, LM) of the runs whose trained encoders this run used."""
    low: float = 0.0
    high: float = 0.0
    """95 % bootstrap interval of the value, in percent."""
    date: str = ""


RESULTS = Path(__file__).parents[1] / "results.jsonl"
"""The project's own records."""

IDENTITY = ("experiment", "row", "column", "config")
"""Fields that identify a line; a later line replaces an earlier one with the same values. A run may
be in several places of a table."""

_PROMPT = {"token_budget": None, "fit": "greedy", "order": "similarity"}
"""Settings of the prompt and their usual values; a line has only those with another value. `order`
is a setting of earlier runs only."""


_SAME = (
    "experiment",
    "row",
    "column",
    "task",
    "method",
    "metric",
    "lm",
    "device",
    "date",
    "bank",
    "seed",
    "value",
    "low",
    "high",
    "trade_off",
    "examples",
)
"""Fields of a line that are also fields of a record, under the same name."""


def measured_here(record: Published) -> Published:
    """Return a record with its interval, the name of this machine and today's date."""
    interval = Runs((record,)).interval
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    return replace(record, low=interval.low, high=interval.high, device=device(), date=today)


def line_of(record: Published) -> dict[str, Any]:
    """Return the JSON object for a record's line."""
    config = record.config
    prompt = {name: config[name] for name in _PROMPT if name in config}
    return {
        **{
            name: getattr(record, name)
            for name in ("experiment", "row", "column", "task", "method")
        },
        "trained_by": [list(trainer) for trainer in record.trained_by],
        "lm": record.lm,
        "encoder": config["encoder"],
        "shots": config["shots"],
        **{name: value for name, value in prompt.items() if value != _PROMPT[name]},
        "bank": record.bank,
        "seed": record.seed,
        "n": record.queries,
        "metric": record.metric,
        **{name: round(getattr(record, name), 3) for name in ("value", "low", "high")},
        **({"trade_off": record.trade_off} if record.trade_off else {}),
        **({} if record.examples is None else {"examples": round(record.examples, 2)}),
        **({"recipe": recipe} if (recipe := _recipe(record)) else {}),
        "tokens": record.cost.tokens,
        **({"answering": record.answering.tokens} if record.answering.tokens else {}),
        "seconds": round(record.cost.seconds, 1),
        "device": record.device,
        "date": record.date,
        "config": record.name.partition("-")[2],
        **({"texts": record.texts.partition("-")[2]} if record.texts else {}),
        **({} if record.statistics is None else {"statistics": _packed(record.statistics)}),
        **({} if record.overlap is None else {"overlap": _packed_overlap(record.overlap)}),
    }


def _recipe(record: Published) -> dict[str, Any]:
    """Return the settings of the trainings behind a record, by `tst`, `epr` and `ceil`, with the
    guard that runs before 2026-11-26 had; empty if nothing was trained."""
    names = [*registered_methods(), "guard"]
    row = ROWS.get(record.method)
    if row is not None:  # else of a plugin, or gone: all that its line has
        if not row.trains or record.trained_by:
            return {}
        source = row.method.name
        settings = record.config.get(source, {})
        # older lines call the start "initial"
        names = [source, settings.get("start", settings.get("initial")), "guard"]
    return {name: record.config[name] for name in names if name in record.config}


def record_of(line: Mapping[str, Any]) -> Published:
    """Return the record that a checked line holds."""
    return Published(
        **{name: line[name] for name in _SAME if name in line},
        name=f"run-{line['config']}",
        config={name: line[name] for name in ("encoder", "shots", *_PROMPT) if name in line}
        | line.get("recipe", {}),
        texts=f"texts-{line['texts']}" if "texts" in line else "",
        queries=line["n"],
        cost=Cost(line["seconds"], line["tokens"]),
        answering=Cost(0.0, line.get("answering", 0)),
        trained_by=tuple((task, lm) for task, lm in line["trained_by"]),
        statistics=_unpacked(line["statistics"]) if "statistics" in line else None,
        overlap=_unpacked_overlap(line["overlap"], line["n"]) if "overlap" in line else None,
    )


def read_results(file: Path) -> list[Published]:
    """Return the records of a results file.

    Args:
        file: a path that `--record` named.

    Raises:
        UserError: a line is not a result.
    """
    return [record for _, _, record in _lines(file)]


def keep(file: Path, records: Iterable[Published]) -> None:
    """Add records to a results file, in place of those with the same identity; other lines are
    unchanged.

    A second process waits for the first.

    Args:
        file: the results file; it is made if need be.
        records: what to add.

    Raises:
        UserError: a line of the file is not a result; the disk is full or the folder cannot be
            written.
    """
    with held(file.parent, f".{file.name}.lock"):
        texts = {}
        if file.exists():
            for text, line, _ in _lines(file):
                texts[tuple(line[name] for name in IDENTITY)] = text
        for record in records:
            line = line_of(record)
            text = json.dumps(line, ensure_ascii=False)
            texts[tuple(line[name] for name in IDENTITY)] = text
        write(file, "".join(text + "\n" for text in texts.values()).encode())


def _lines(file: Path) -> list[tuple[str, dict[str, Any], Published]]:
    """Return the text of each line, the object that it holds, and its record."""
    checked = []
    for number, content in enumerate(file.read_bytes().splitlines(), 1):
        try:
            line = json.loads(content)
            record = record_of(line)
            columns = (
                [] if record.statistics is None else [record.statistics, *(record.overlap or ())]
            )
            if any(len(column) != record.queries for column in columns):
                raise ValueError(f"expected statistics and overlap of {record.queries:,} queries")
        except (ValueError, TypeError, KeyError, AttributeError) as wrong:
            raise UserError(
                f"{file}, line {number} is not a result: {wrong!r}; correct or remove it"
            ) from None
        checked.append((content.decode(), line, record))
    return checked


def _packed(statistics: np.ndarray) -> str | list[Any]:
    """float [N, s] as JSON: "0110…" if each query has a 0 or a 1, else a list."""
    if statistics.shape[1] == 1 and np.isin(statistics, (0, 1)).all():
        return "".join("01"[int(value)] for value in statistics[:, 0])
    return np.round(statistics, 4).tolist()


def _unpacked(value: str | list[Any]) -> np.ndarray:
    if not isinstance(value, str):
        return np.array(value, np.float64)
    digits = np.frombuffer(value.encode("ascii"), np.uint8)[:, None] - ord("0")
    if not (digits < 10).all():
        raise ValueError(f"expected digits, found {value:.40}")
    return digits.astype(np.float64)


def _packed_overlap(overlap: Overlap) -> dict[str, Any]:
    """Return an overlap as JSON values: bits as "0110…", and the questions' numbers only if some are equal."""
    question, *bits = overlap
    names = ("question_in_bank", "output_in_bank")
    packed = {name: _packed(part[:, None]) for name, part in zip(names, bits, strict=True)}
    repeated = len(np.unique(question)) < len(question)
    return {**packed, **({"question": question.tolist()} if repeated else {})}


def _unpacked_overlap(value: Mapping[str, Any], count: int) -> Overlap:
    bits = [_unpacked(value[name])[:, 0] > 0 for name in ("question_in_bank", "output_in_bank")]
    return Overlap(np.array(value.get("question", range(count)), np.int64), *bits)

"""Records: for every evaluation its task, method, settings, score and cost.

Stages are named by what they depend on, so that runs share them, and a stage cannot say which run
it belongs to. A record, the last stage of an evaluation, can:

```
run-5b0c…/     key.json     task, method, settings; names of the stages of predictions and metrics
               done.json    the cost
texts-91d4…/   texts.json   id → [input, output] of the queries and the bank
```
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ceil_jax.errors import UserError
from ceil_jax.lm.openai.address import is_address, parse_address
from ceil_jax.pipeline.answering import Answers, Measurement, read_measured
from ceil_jax.pipeline.config import RunConfig
from ceil_jax.pipeline.methods import METHODS
from ceil_jax.pipeline.stage import Run, Stage, unkeyed
from ceil_jax.pipeline.views import Examples
from ceil_jax.store.cost import Cost
from ceil_jax.store.folder import finished, load_arrays, read_json, read_key, write_json
from ceil_jax.store.hashing import canonical
from ceil_jax.tasks.words import Overlap


@dataclass(frozen=True, kw_only=True)
class Record:
    """One method evaluated on one task with one LM: from a folder of stages or from a results
    file."""

    name: str
    """`run-hash`, by all settings."""
    task: str
    method: str
    metric: str
    lm: str
    config: Mapping[str, Any]
    """Settings by their names in RunConfig; all of them in a folder of stages, some in a results
    file."""
    queries: int
    bank: int
    texts: str
    """`texts-hash` of queries and bank; empty in the oldest results files."""
    value: float
    """The metric over all queries, in percent."""
    cost: Cost
    """All stages that the run needs, shared ones included."""
    seed: int | None
    """The seed; None if nothing depends on it."""
    trade_off: float | None = None
    """λ that the examples were chosen with; None for a method without one."""
    device: str = ""
    examples: float | None = None
    """Mean number of examples that fitted into a prompt (#ICE in CEIL's Table 1); None in the
    oldest lines."""
    statistics: np.ndarray | None = field(default=None, repr=False, compare=False)
    """float [N, s]: statistics of each query; the metric is a function of their sums. None in lines
    from before they were kept."""
    overlap: Overlap | None = field(default=None, repr=False, compare=False)
    """Which queries ask the same, and which stand in the bank; None in lines from before it was
    kept."""

    root: Path = Path()
    """The folder of stages. This field and those down to `kept` are empty in a record of a results
    file."""
    predictions: str = ""
    metrics: str = ""
    """Names of stages."""
    answering: Cost = field(default_factory=Cost)
    """The part of `cost` that answering and judging take."""
    more: Mapping[str, float] = field(default_factory=dict)
    """The task's other metrics, in percent."""
    kept: str = ""
    """The outcome of training, such as "training kept EPR's encoder"; else ""."""

    @property
    def preparing(self) -> Cost:
        """Encoding, choosing, LM scoring, rewriting and training: all before answering."""
        return self.cost - self.answering

    def rows(self) -> list[dict[str, Any]]:
        """Return for each query: id, examples in prompt order as [id, relevance, gain], prediction,
        gold."""
        return read_json(self.root / self.predictions / "rows.json")

    def scores(self) -> np.ndarray:
        """float [N]: the metric of each query."""
        return load_arrays(self.root / self.metrics / "metric.npz")["scores"]


@dataclass(frozen=True)
class Texts(Stage[None]):
    """The texts of queries and bank, by id, for a reader of records."""

    queries: Examples
    bank: Examples

    def compute(self, run: Run, folder: Path) -> Mapping[str, Any]:
        sides = {"queries": self.queries.examples, "bank": self.bank.examples}
        texts = {
            side: {one.id: [one.input, one.output] for one in rows} for side, rows in sides.items()
        }
        write_json(folder / "texts.json", texts)
        return {side: len(rows) for side, rows in sides.items()}

    def load(self, run: Run, folder: Path) -> None:
        return None


@dataclass(frozen=True)
class Recorded(Stage[Record]):
    """The record of an evaluation; of several with one name, the first."""

    kind = "run"
    what = "recording"
    task: str
    method: str
    metric: str
    lm: str
    config: Mapping[str, Any]
    """As `settings_of` returns it."""
    predictions: Answers
    metrics: Measurement
    texts: Texts
    kept: str = unkeyed("")
    trade_off: float | None = unkeyed(None)
    device: str = unkeyed("")

    def compute(self, run: Run, folder: Path) -> Mapping[str, Any]:
        answering = run.own_cost(self.predictions) + run.own_cost(self.metrics)
        costs = {
            "preparing": asdict(run.cost([self.metrics]) - answering),
            "answering": asdict(answering),
        }
        remarks = {"kept": self.kept, "trade_off": self.trade_off, "device": self.device}
        return costs | {name: value for name, value in remarks.items() if value}

    @property
    def reads(self) -> tuple[Stage[Any], ...]:
        return (self.predictions, self.metrics, self.texts)

    def load(self, run: Run, folder: Path) -> Record:
        record = _read(run.root, folder)
        if record is None:
            raise UserError(
                f"{folder}, or a folder that it names, was changed while this command ran; run it "
                "again"
            )
        return record


def settings_of(config: RunConfig) -> dict[str, Any]:
    """Return a RunConfig as JSON, without what differs between machines: folders, devices,
    addresses of models."""
    settings = json.loads(canonical(replace(config, out=Path(), data_dir=None)))
    for name in ("out", "data_dir", "device_map", "endpoint"):
        del settings[name]
    for place in (settings, settings["skills"]):
        for name in ("lm", "encoder"):
            if place.get(name) and is_address(place[name]):
                place[name] = parse_address(place[name]).model or "the model of an endpoint"
    return settings


def read_records(root: Path) -> tuple[list[Record], list[str]]:
    """Return the finished evaluations of a folder of stages, and a line about each that cannot be
    shown."""
    records, trouble = [], []
    for folder in sorted(root.glob("run-*")):
        try:
            found = _read(root, folder)
        except (OSError, ValueError, KeyError, TypeError):
            found = None
        if found is None:
            trouble.append(
                f"{folder}: damaged, unfinished or of another version; run its command again"
            )
        else:
            records.append(found)
    return records, trouble


def _read(root: Path, folder: Path) -> Record | None:
    """The record in a folder; None if it, or one of the stages that it names, is unfinished or
    damaged."""
    key = read_key(folder)
    cost = finished(folder)
    if key is None or cost is None:
        return None
    measured, texts = finished(root / key["metrics"]), finished(root / key["texts"])
    if measured is None or texts is None or finished(root / key["predictions"]) is None:
        return None
    found = read_measured(root / key["metrics"], measured)
    method = METHODS.get(key["method"])
    record = Record(
        **{name: key[name] for name in ("task", "method", "metric", "lm", "config")},
        **{name: key[name] for name in ("predictions", "metrics", "texts")},
        **{name: cost[name] for name in ("kept", "trade_off", "device") if name in cost},
        root=root,
        name=folder.name,
        queries=texts["queries"],
        bank=texts["bank"],
        value=100 * found.value,
        more={name: 100 * value for name, value in found.more.items()},
        cost=Cost(**cost["preparing"]) + Cost(**cost["answering"]),
        answering=Cost(**cost["answering"]),
        seed=key["config"]["seed"] if method is not None and method.seeded else None,
        statistics=found.statistics,
        overlap=found.overlap,
    )
    shown = [len(row["examples"]) for row in record.rows()]
    return replace(record, examples=sum(shown) / max(1, len(shown)))

"""Records: for every evaluation its task, method, settings, score and cost.

Stages are named by what they depend on, so that runs share them, and a stage cannot say which run it belongs to. A
record can. It is kept in the folder of stages, as a stage of its own:

```
run-5b0c…/     key.json     task, method, settings; the names of the stages of predictions, metrics and texts
               done.json    the cost
texts-91d4…/   texts.json   id → [input, output] of the queries and the bank
```

`results_file` publishes records as lines of a file that needs no such folder.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ceil_jax.lm.openai.address import is_address, parse_address
from ceil_jax.metrics import metric_named
from ceil_jax.metrics.bootstrap import Sample
from ceil_jax.pipeline.config import RunConfig
from ceil_jax.pipeline.evaluate import examples_shown, read_overlap
from ceil_jax.store.hashing import canonical, digest
from ceil_jax.store.rows import Cost
from ceil_jax.store.stage import Stage
from ceil_jax.store.store import Store
from ceil_jax.tasks.example import Example, Task
from ceil_jax.tasks.words import Overlap

FORMAT = 1
"""Version of stored records; a reader refuses any other."""

_FIRST = """
task limit bank_limit encoder lm dtype shots shortlist trade_off fit text context index engine actors seed
data_seed skills.lm skills.order skills.orders skills.demonstrations epr.batch_size epr.candidates epr.epochs
epr.instances epr.learning_rate epr.positives epr.temperature ceil.batch_size ceil.epochs ceil.initial
ceil.instances ceil.learning_rate ceil.loss ceil.reduction ceil.sampler ceil.shortlist ceil.size ceil.subsets
ceil.trade_off ceil.train_context
"""
FIRST_SETTINGS = frozenset(_FIRST.split())
"""Settings of the first records. Later ones are left out at their defaults: a new setting renames no record."""


@dataclass(frozen=True, kw_only=True)
class Record:
    """One method evaluated on one task with one LM: what every record holds, wherever it is kept."""

    name: str
    """`run-hash`, by all settings."""
    task: str
    method: str
    metric: str
    lm: str
    config: Mapping[str, Any]
    """Settings by their names in RunConfig; all of them in a folder of stages, some in a results file."""
    queries: int
    bank: int
    """Number of examples in the bank."""
    texts: str
    """`texts-hash` of queries and bank; empty in the oldest results files."""
    value: float
    """The metric over all queries, in percent."""
    cost: Cost
    """All stages that the run needs, shared ones included."""
    trade_off: float | None = None
    """λ that the examples were chosen with; None for a method without one."""


@dataclass(frozen=True, kw_only=True)
class StoredRecord(Record):
    """A record in a folder of stages, with its predictions beside it."""

    root: Path
    """The folder of stages."""
    predictions: str
    metrics: str
    """Names of stages."""
    more: Mapping[str, float]
    """The task's other metrics, in percent."""
    preparing: Cost
    """LM scoring, rewriting and training before any query is answered."""
    answering: Cost
    kept: str = ""
    """A remark if training kept its starting weights, such as "training kept EPR's encoder"."""
    device: str = ""
    """The device that the record was written on; empty in records from before it was kept."""

    @property
    def examples(self) -> float:
        """Mean number of examples that fitted into a prompt."""
        return examples_shown(self.rows())

    def rows(self) -> list[dict[str, Any]]:
        """Return for each query: id, examples in prompt order as [id, relevance, gain], prediction, gold."""
        return Stage(self.root / self.predictions).rows_so_far()

    def scores(self) -> np.ndarray:
        """float [N]: the metric of each query."""
        return np.load(self.root / self.metrics / "scores.npy")

    def sample(self) -> Sample:
        """Return the queries' statistics and the metric as a function of their sums, for bootstrap intervals.

        A corpus metric such as BLEU is no mean of the scores.
        """
        statistics = np.load(self.root / self.metrics / "statistics.npy")
        return Sample(statistics, metric_named(self.metric).from_sums)

    def overlap(self) -> Overlap:
        """Return which queries ask the same, and which stand in the bank."""
        return read_overlap(np.load(self.root / self.metrics / "overlap.npy"))


def record(
    store: Store,
    config: RunConfig,
    task: Task,
    queries: Sequence[Example],
    method: str,
    lm: str,
    *,
    predictions: str,
    metrics: str,
    preparing: Cost,
    answering: Cost,
    kept: str = "",
    trade_off: float | None = None,
    device: str = "",
) -> str:
    """Write the record of an evaluation and return its name. Existing records are left unchanged.

    Args:
        store: the folder of stages.
        config: the run's settings.
        task: the task, whose training examples are the bank.
        queries: the queries that were answered.
        method: a name in METHODS.
        lm: the LM's name.
        predictions: the name of the stage of predictions.
        metrics: the name of the stage of metrics.
        preparing: cost of all stages before any query is answered.
        answering: cost of answering.
        kept: a remark if training kept its starting weights; it is no part of the name.
        trade_off: λ that the examples were chosen with, if any; no part of the name either.
        device: the accelerators or the processor, for the hours in tables; likewise.
    """
    about = {"queries": digest(list(queries)), "bank": digest(list(task.train))}
    with store.stage("texts", about) as stage:
        if stage.summary is None:
            shown = {"queries": _texts(queries), "bank": _texts(task.train)}
            stage.write("texts.json", json.dumps(shown, ensure_ascii=False).encode())
            stage.finish({"queries": len(queries), "bank": len(task.train)}, ("texts.json",))
        texts = stage.name
    key = {
        "format": FORMAT,
        "task": task.name,
        "metric": task.metric,
        "method": method,
        "lm": lm,
        "config": settings_of(config),
        "predictions": predictions,
        "metrics": metrics,
        "texts": texts,
    }
    with store.stage("run", key) as stage:
        if stage.summary is None:
            remarks = {"kept": kept, "trade_off": trade_off, "device": device}
            remarks = {name: value for name, value in remarks.items() if value}
            stage.finish({"preparing": _plain(preparing), "answering": _plain(answering), **remarks})
        return stage.name


def beyond_default(config: RunConfig, *names: str) -> dict[str, Any]:
    """Return those of the named settings that differ from their defaults; only they are part of a key."""
    values, default = {name: getattr(config, name) for name in names}, RunConfig()
    return {name: value for name, value in values.items() if value != getattr(default, name)}


def settings_of(config: RunConfig) -> dict[str, Any]:
    """Return a RunConfig as JSON, without what differs between machines: folders, devices, addresses of models."""
    given, defaults = (
        json.loads(canonical(replace(it, out=Path(), data_dir=None))) for it in (config, RunConfig())
    )
    for name in ("out", "data_dir", "device_map", "endpoint"):
        del given[name]
    settings = _without_new_defaults(given, defaults)
    for place in (settings, settings["skills"]):
        for name in ("lm", "encoder"):
            if place.get(name) and is_address(place[name]):
                place[name] = parse_address(place[name]).model or "the model of an endpoint"
    return settings


def _without_new_defaults(given: dict[str, Any], defaults: dict[str, Any], group: str = "") -> dict[str, Any]:
    settings = {}
    for name, value in given.items():
        path = f"{group}{name}"
        if any(first.startswith(f"{path}.") for first in FIRST_SETTINGS):
            settings[name] = _without_new_defaults(value, defaults[name], f"{path}.")
        elif path in FIRST_SETTINGS or value != defaults[name]:
            settings[name] = value
    return settings


def _texts(examples: Sequence[Example]) -> dict[str, list[str]]:
    return {example.id: [example.input, example.output] for example in examples}


def _plain(cost: Cost) -> dict[str, float]:
    return {"seconds": round(cost.seconds, 3), "tokens": cost.tokens}


def read_records(root: Path) -> tuple[list[StoredRecord], list[str]]:
    """Return the finished evaluations of a folder of stages, and a line about each that cannot be shown.

    Args:
        root: a folder that --out of a command named.
    """
    records, trouble = [], []
    for folder in sorted(root.glob("run-*")):
        found = read_record(root, folder.name)
        if found is None or len(found.rows()) != len(found.scores()):
            trouble.append(f"{folder}: damaged, unfinished or of another version; run its command again")
        else:
            records.append(found)
    known = {record.predictions for record in records}
    lost = [folder.name for folder in sorted(root.glob("predictions-*")) if folder.name not in known]
    if lost:
        trouble.append(
            f"{root}: {len(lost)} evaluation(s) half-finished or stored by an older version "
            f"({', '.join(lost[:3])}{', …' * (len(lost) > 3)}); run their command again: what is stored is not "
            "computed again"
        )
    return records, trouble


def read_record(root: Path, name: str) -> StoredRecord | None:
    """Return the record of this name; None if it is missing, damaged, unfinished or of another version."""
    try:
        return _read(root, root / name)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _read(root: Path, folder: Path) -> StoredRecord | None:
    key = json.loads((folder / "key.json").read_text("utf-8"))
    cost = Stage(folder).peek()
    measured = Stage(root / key["metrics"]).peek()
    texts = Stage(root / key["texts"]).peek()
    if key["format"] != FORMAT or cost is None or measured is None or texts is None:
        return None
    preparing, answering = Cost(**cost["preparing"]), Cost(**cost["answering"])
    return StoredRecord(
        **{name: key[name] for name in ("task", "method", "metric", "lm", "config")},
        **{name: key[name] for name in ("predictions", "metrics", "texts")},
        root=root,
        name=folder.name,
        queries=texts["queries"],
        bank=texts["bank"],
        value=100 * measured["value"],
        more={name: 100 * value for name, value in measured["more"].items()},
        cost=Cost(preparing.seconds + answering.seconds, preparing.tokens + answering.tokens),
        preparing=preparing,
        answering=answering,
        kept=cost.get("kept", ""),
        trade_off=cost.get("trade_off"),
        device=cost.get("device", ""),
    )

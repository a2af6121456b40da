"""What was run: for every evaluation its task, method and settings, and the texts that its rows name.

Stages are keyed by what they depend on, so that runs share them; a stage cannot say whose it is. A record can:

```
run-5b0c…/     key.json     task, method, settings; the names of the stages of predictions, metrics and texts
               done.json    what it took
texts-91d4…/   texts.json   id → [input, output] of the queries and the bank
```
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
from ceil_jax.store.hashing import canonical, digest
from ceil_jax.store.journal import Journal
from ceil_jax.store.rows import Cost
from ceil_jax.store.stage import Stage
from ceil_jax.store.store import Store
from ceil_jax.tasks.example import Example, Task

FORMAT = 1
"""Of records; a reader refuses any other."""

LATER = ("token_budget", "order", "tst")
"""Settings that came when there were records already."""


@dataclass(frozen=True)
class Record:
    """One method on one task, as it lies on disk."""

    root: Path
    """The store it was found in."""
    name: str
    """Of its stage: `run-hash`."""
    task: str
    method: str
    metric: str
    lm: str
    config: Mapping[str, Any]
    """RunConfig as JSON, without the folders that differ between machines."""
    predictions: str
    metrics: str
    texts: str
    """Names of stages."""
    bank: int
    """Examples in it."""
    value: float
    """The metric over all queries, in percent."""
    more: Mapping[str, float]
    """The task's other metrics, in percent."""
    preparing: Cost
    """LM scoring, rewriting and training before any query is answered."""
    answering: Cost

    def rows(self) -> list[dict[str, Any]]:
        """Of each query: id, examples in prompt order as [id, relevance, gain], prediction, gold."""
        lines = Journal(self.root / self.predictions / "rows.jsonl", "start").lines.values()
        return [row for line in sorted(lines, key=lambda line: line["start"]) for row in line["rows"]]

    def scores(self) -> np.ndarray:
        """float [N]: the metric of each query."""
        return np.load(self.root / self.metrics / "scores.npy")

    def sample(self) -> Sample:
        """The queries' statistics and the metric of them together, which for BLEU is no mean of the scores; for
        intervals."""
        statistics = np.load(self.root / self.metrics / "statistics.npy")
        return Sample(statistics, metric_named(self.metric).from_sums)


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
) -> str:
    """Keep who made these stages; the record's name. What is on record already stays as it is."""
    about = {"queries": digest(list(queries)), "bank": digest(list(task.train))}
    with store.stage("texts", about) as stage:
        if stage.summary is None:
            shown = {"queries": _texts(queries), "bank": _texts(task.train)}
            stage.write("texts.json", json.dumps(shown, ensure_ascii=False).encode())
            stage.finish({"queries": len(queries), "bank": len(task.train)}, ("texts.json",))
        texts = stage.name
    settings = _settings(config)
    key = {
        "format": FORMAT,
        "task": task.name,
        "metric": task.metric,
        "method": method,
        "lm": lm,
        "config": settings,
        "predictions": predictions,
        "metrics": metrics,
        "texts": texts,
    }
    with store.stage("run", key) as stage:
        if stage.summary is None:
            stage.finish({"preparing": _plain(preparing), "answering": _plain(answering)})
        return stage.name


def beyond_default(config: RunConfig, *names: str) -> dict[str, Any]:
    """Those of the settings that differ from their defaults: only they are part of a key."""
    values, default = {name: getattr(config, name) for name in names}, RunConfig()
    return {name: value for name, value in values.items() if value != getattr(default, name)}


def _settings(config: RunConfig) -> dict[str, Any]:
    """RunConfig as JSON without what differs between machines: folders, devices, where a model is served."""
    settings = json.loads(canonical(replace(config, out=Path(), data_dir=None)))
    for name in ("out", "data_dir", "device_map", "endpoint"):
        del settings[name]
    # records from before there were these have the same names as today's
    for name in LATER:
        if name not in beyond_default(config, *LATER):
            del settings[name]
    for place in (settings, settings["skills"]):
        for name in ("lm", "encoder"):
            if place.get(name) and is_address(place[name]):
                place[name] = parse_address(place[name]).model or "the model of an endpoint"
    return settings


def _texts(examples: Sequence[Example]) -> dict[str, list[str]]:
    return {example.id: [example.input, example.output] for example in examples}


def _plain(cost: Cost) -> dict[str, float]:
    return {"seconds": round(cost.seconds, 3), "tokens": cost.tokens}


def read_records(root: Path) -> tuple[list[Record], list[str]]:
    """The finished evaluations of a folder of stages, by task and method, and what cannot be shown, a line each."""
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


def read_record(root: Path, name: str) -> Record | None:
    """The record of this name; None where it is damaged, unfinished, not there or of another version."""
    try:
        return _read(root, root / name)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _read(root: Path, folder: Path) -> Record | None:
    key = json.loads((folder / "key.json").read_text("utf-8"))
    cost = Stage(folder).peek()
    measured = Stage(root / key["metrics"]).peek()
    texts = Stage(root / key["texts"]).peek()
    if key["format"] != FORMAT or cost is None or measured is None or texts is None:
        return None
    return Record(
        root,
        folder.name,
        **{name: key[name] for name in ("task", "method", "metric", "lm", "config")},
        **{name: key[name] for name in ("predictions", "metrics", "texts")},
        bank=texts["bank"],
        value=100 * measured["value"],
        more={name: 100 * value for name, value in measured["more"].items()},
        preparing=Cost(**cost["preparing"]),
        answering=Cost(**cost["answering"]),
    )

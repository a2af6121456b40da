"""The record of each evaluation: its task, method, settings, score and cost.

Stages are named by what they depend on and shared between runs, so a stage does not know which run
it belongs to. A record, the last stage of an evaluation, does:

```
run-5b0c…/     key.json     task, method, settings; names of the stages of predictions and metrics
               done.json    the cost
texts-91d4…/   texts.json   id → [input, output] of the queries and the bank
```
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from ceil_jax.distributed.machine import device
from ceil_jax.errors import UserError
from ceil_jax.lm.openai.address import is_address, parse_address
from ceil_jax.methods.base import Method
from ceil_jax.methods.registry import ROWS, method_named, registered_methods
from ceil_jax.methods.row import Row
from ceil_jax.pipeline.answering import Answers, Metrics, answer, read_measured
from ceil_jax.pipeline.config import RunConfig, SkillConfig
from ceil_jax.pipeline.rewriting import Skills, skills_of
from ceil_jax.pipeline.run import Run
from ceil_jax.store.cost import Cost
from ceil_jax.store.folder import finished, load_arrays, read_json, read_key, write_json
from ceil_jax.store.kept import Files, Lazy, Noted, closure, kept
from ceil_jax.tasks.bank import Examples
from ceil_jax.tasks.words import Overlap


@dataclass(frozen=True, kw_only=True)
class Record:
    """One row evaluated on one task with one LM.

    It is read from a folder of stages or from a results file.
    """

    name: str
    """`run-HASH`, a hash of all settings."""
    task: str
    method: str
    metric: str
    lm: str
    config: Mapping[str, Any]
    """Settings by their names in RunConfig: all of them in a folder of stages, some of them in a
    results file."""
    queries: int
    bank: int
    texts: str
    """`texts-hash` of queries and bank; "" in the oldest results files."""
    value: float
    """The metric over all queries, in percent."""
    cost: Cost
    """The cost of all stages that the row needs, shared ones included."""
    seed: int | None
    """The seed; None if the result does not depend on it."""
    trade_off: float | None = None
    """λ with which the examples were chosen; None for a retriever without λ."""
    device: str = ""
    label: str = ""
    """The row's name in tables, such as "CEIL from free"; "" in results files and in older
    records."""
    examples: float | None = None
    """Mean number of examples in a prompt (#ICE in CEIL's Table 1); None in the oldest results
    files."""
    statistics: np.ndarray | None = field(default=None, repr=False, compare=False)
    """float [N, s]: statistics of each query; the metric is a function of their sums. None in older
    results files."""
    overlap: Overlap | None = field(default=None, repr=False, compare=False)
    """Which queries are the same question, and which are in the bank; None in older results
    files."""

    root: Path = Path()
    """The folder of stages. In a record from a results file, this field and all fields down to `kept` are empty."""
    predictions: str = ""
    metrics: str = ""
    """Names of the stages of predictions and of metrics."""
    answering: Cost = field(default_factory=Cost)
    """The part of `cost` spent on answering and on metrics, and on readings of the queries before that."""
    more: Mapping[str, float] = field(default_factory=dict)
    """The task's other metrics, in percent."""
    gains: str = ""
    """The name of the examples' gains if pages show them: the log determinant, for DPP-MAP."""
    kept: str = ""
    """A remark on training, such as "training kept EPR's encoder"; "" if there is none."""
    troubles: Mapping[str, int] = field(default_factory=dict)
    """Number of answers that are probably wrong, by kind of trouble (`pipeline.ways`)."""
    answer_limit: int | None = None
    """The maximum number of tokens of an answer; None if it was not recorded."""

    @property
    def preparing(self) -> Cost:
        """The cost of everything before the queries.

        It includes encoding, choosing, LM scoring, rewriting the bank and training.
        """
        return self.cost - self.answering

    def rows(self) -> list[dict[str, Any]]:
        """Return the id, examples, prediction and gold output of each query.

        The examples are in prompt order, as [id, relevance, gain].
        """
        return read_json(self.root / self.predictions / "rows.json")

    def scores(self) -> np.ndarray:
        """float [N]: the metric of each query."""
        return load_arrays(self.root / self.metrics / "metric.npz")["scores"]


@kept(
    "texts",
    files=Files(
        lambda folder, texts: write_json(folder / "texts.json", texts),
        lambda run, lazy, folder: None,
    ),
)
def texts_by_id(queries: Examples, bank: Examples) -> Noted | None:
    """Keep the texts of queries and bank by id, for reports."""
    sides = {"queries": queries.examples, "bank": bank.examples}
    texts = {
        side: {example.id: [example.input, example.output] for example in examples}
        for side, examples in sides.items()
    }
    return Noted(texts, {side: len(examples) for side, examples in sides.items()})


def _load_record(run: Run, lazy: Lazy[Any], folder: Path) -> Record:
    record = _read(run.root, folder)
    if record is None:
        raise UserError(
            f"{folder}, or a folder that it names, was changed while this command ran; run it again"
        )
    return record


@kept(
    "run",
    files=Files(lambda folder, record: None, _load_record),
    what="recording",
    unkeyed=("row", "training"),
    lazily=("predictions", "metrics", "texts", "training"),
    reads=lambda record: (record.predictions, record.metrics, record.texts),
)
def record_of_run(
    run: Run,
    task: str,
    method: str,
    metric: str,
    lm: str,
    config: Mapping[str, Any],
    predictions: Answers,
    metrics: Metrics,
    texts: Lazy[None],
    row: Row,
    training: Lazy[Any] | None = None,
) -> Record | Noted:
    """Write the record of a run, once.

    Args:
        run: gives costs and notes.
        task: the task's name.
        method: the row's name.
        metric: the metric's name.
        lm: the LM's key.
        config: the settings, as `settings_of` returns them.
        predictions: the answers.
        metrics: their metrics.
        texts: the texts of queries and bank.
        row: the row.
        training: the step in which the row's method learns; None if the row does not use what it
            learns.
    """
    is_unused = training is not None and not row.method.is_used(run.notes(training))
    trade_off = None
    if predictions.is_of(answer):
        trade_off = run.notes(predictions.choice).get("trade_off")
    each_query: list[Lazy[Any]] = [predictions, metrics, *readings_of_queries(predictions)]
    answering = sum(map(run.own_cost, each_query), Cost())
    costs = {
        "preparing": asdict(run.cost([metrics]) - answering),
        "answering": asdict(answering),
    }
    remarks = {
        "label": row.title,
        "gains": "log determinant" if row.needs.trade_off == "tunable" else "",
        "kept": row.method.remark_if_unused if is_unused else "",
        "trade_off": trade_off,
        "device": device(),
    }
    seed = {"seed": config["seed"] if row.seeded else None}
    return Noted(None, costs | seed | {name: value for name, value in remarks.items() if value})


def readings_of_queries(predictions: Answers) -> list[Skills]:
    """Return the steps in which an LM reads the queries themselves before they are answered."""
    return [
        lazy
        for lazy in closure([predictions])
        if lazy.is_of(skills_of) and lazy.rows.key == predictions.queries.key
    ]


def settings_of(config: RunConfig, methods: Iterable[Method] = ()) -> dict[str, Any]:
    """Return a configuration as JSON values, without what depends on the machine.

    Folders, devices and addresses of models are left out.

    Args:
        config: the configuration.
        methods: the methods that the result depends on; their settings are added by name.
    """
    settings = asdict(replace(config, methods=()))
    for name in ("out", "data_dir", "device_map", "endpoint", "methods"):
        del settings[name]
    for name in ("system", "form"):
        # records had neither before, and keep their names
        if settings[name] is None:
            del settings[name]
    for names in (settings, settings["skills"]):
        for name in ("lm", "encoder"):
            if names.get(name) and is_address(names[name]):
                names[name] = parse_address(names[name]).model or "the model of an endpoint"
    return settings | {method.name: method.settings for method in methods if method.settings}


def config_of(settings: Mapping[str, Any], out: Path) -> RunConfig:
    """Return the configuration of a recorded run from its settings.

    They are those that `settings_of` returned. The encoders of the run are found by it.

    Args:
        settings: the settings of a record, by name. Settings that no longer exist are ignored.
        out: the folder of stages.
    """

    def values(kind: type, part: Mapping[str, Any]) -> dict[str, Any]:
        known = {field.name for field in fields(kind)}
        lists_as_tuples = {
            name: tuple(value) if isinstance(value, list) else value for name, value in part.items()
        }
        return {name: value for name, value in lists_as_tuples.items() if name in known}

    methods = []
    for name, method in registered_methods().items():
        if name in settings:
            of_method = values(type(method), settings[name])
            for setting in of_method:
                if isinstance(getattr(method, setting), Method):
                    of_method[setting] = method_named(of_method[setting])
            methods.append(type(method)(**of_method))
    of_run = values(RunConfig, settings)
    of_run["skills"] = SkillConfig(**values(SkillConfig, settings.get("skills", {})))
    return RunConfig(**{**of_run, "out": out, "methods": tuple(methods)})


def read_records(root: Path) -> tuple[list[Record], list[str]]:
    """Return the records in a folder of stages, and a line about each that cannot be read."""
    records = []
    trouble = []
    for folder in sorted(root.glob("run-*")):
        try:
            record = _read(root, folder)
        except (OSError, ValueError, KeyError, TypeError, RecursionError, BadZipFile):
            record = None
        if record is None:
            trouble.append(
                f"{folder}: damaged, unfinished or of another version; run its command again"
            )
        else:
            records.append(record)
    return records, trouble


def _read(root: Path, folder: Path) -> Record | None:
    """The record in a folder; None if it or one of its stages is unfinished or damaged."""
    key = read_key(folder)
    cost = finished(folder)
    if key is None or cost is None:
        return None
    measured = finished(root / key["metrics"])
    texts = finished(root / key["texts"])
    answers = finished(root / key["predictions"])
    if measured is None or texts is None or answers is None:
        return None
    measurement = read_measured(root / key["metrics"], measured)
    remarks = ("kept", "trade_off", "device", "label", "gains")
    record = Record(
        **{name: key[name] for name in ("task", "method", "metric", "lm", "config")},
        **{name: key[name] for name in ("predictions", "metrics", "texts")},
        **{name: cost[name] for name in remarks if name in cost},
        root=root,
        name=folder.name,
        queries=texts["queries"],
        bank=texts["bank"],
        value=100 * measurement.value,
        more={name: 100 * value for name, value in measurement.more.items()},
        cost=Cost(**cost["preparing"]) + Cost(**cost["answering"]),
        answering=Cost(**cost["answering"]),
        seed=cost["seed"] if "seed" in cost else _older_seed(key),
        statistics=measurement.statistics,
        overlap=measurement.overlap,
        troubles=answers.get("troubles", {}),
        answer_limit=answers.get("limit"),
    )
    examples = [len(row["examples"]) for row in record.rows()]
    return replace(record, examples=sum(examples) / max(1, len(examples)))


def _older_seed(key: Mapping[str, Any]) -> int | None:
    """The seed of an older record, which does not say whether it matters.

    None if its row does not depend on it.
    """
    row = ROWS.get(key["method"])
    return key["config"]["seed"] if row is not None and row.seeded else None

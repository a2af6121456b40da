"""Answers to queries with chosen examples, and the metric of them."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ceil_jax.lm import LanguageModel
from ceil_jax.lm.prompts import Prompt
from ceil_jax.lm.readings import LMRequest
from ceil_jax.lm.voting import GREEDY, Voting, most_frequent
from ceil_jax.metrics import metric_named
from ceil_jax.metrics.bootstrap import Sample
from ceil_jax.pipeline.encoders import Encoders, kept
from ceil_jax.pipeline.scoring import SAMPLED, Prompting, counted
from ceil_jax.pipeline.stage import Run, Stage, Work, unkeyed
from ceil_jax.pipeline.views import Rows
from ceil_jax.retrieval.registry import Retrieved
from ceil_jax.store.folder import load_arrays, read_json, save_arrays, write, write_json
from ceil_jax.tasks.draws import text_rng
from ceil_jax.tasks.example import Example
from ceil_jax.tasks.words import Overlap, overlap
from ceil_jax.training.free.encoder import observe


def examples_shown(rows: Sequence[Mapping[str, Any]]) -> float:
    """Return the mean number of retrieved examples in a prompt, without those that open every prompt.

    Args:
        rows: predictions, each with its `examples`; without rows the mean is 0.
    """
    return sum(len(row["examples"]) for row in rows) / max(1, len(rows))


def ask(
    lm: LanguageModel,
    prompting: Prompting,
    stop: Sequence[str],
    prompts: Sequence[str],
    queries: Sequence[Example],
    **sampling: Any,
) -> list[str]:
    """Return the LM's answer to each prompt: the most likely choice, or for tasks without choices what it writes.

    Args:
        lm: the LM.
        prompting: the template and the longest answer.
        stop: strings that end an answer.
        prompts: N prompts.
        queries: the query of each; its gold output is not read.
        sampling: further arguments of `LanguageModel.generate`; greedy decoding by default.
    """
    if queries and queries[0].choices:
        options = [[prompting.template.continuation(q, choice) for choice in q.choices] for q in queries]
        best = lm.choose(prompts, options, per_token=prompting.per_token)
        return [query.choices[int(i)] for query, i in zip(queries, best, strict=True)]
    written = lm.generate(prompts, prompting.max_new_tokens, stop, **sampling)
    return [text.strip() for text in written]


class _Answers(Stage[list[dict[str, Any]]]):
    """Predictions on disk: for each query id, examples in prompt order (id, relevance, gain), prediction, gold."""

    queries: Rows

    def save(self, folder: Path, rows: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
        write_json(folder / "rows.json", rows)
        return {"queries": len(rows)}

    def load(self, run: Run, folder: Path) -> list[dict[str, Any]]:
        return read_json(folder / "rows.json")


@dataclass(frozen=True)
class Predictions(_Answers):
    """The LM's answer to every query with the chosen examples.

    Tasks with choices take the most likely choice; others generate greedily up to the stop strings. With voting, a
    query's row has all of its `answers`, and its prediction is the most frequent one.
    """

    prompting: Prompting
    queries: Rows
    bank: Rows
    chosen: Stage[list[list[Retrieved]]]
    stop: tuple[str, ...] = ("\n",)
    voting: Voting = GREEDY
    shots: int = unkeyed(1)
    """Examples in a prompt, to estimate what reading it takes."""
    label: str = unkeyed("")

    @property
    def what(self) -> str:
        return f"answering with {self.label or 'examples'}"

    def prompts(
        self, run: Run, queries: Sequence[Example], picks: Sequence[Sequence[Retrieved]]
    ) -> list[Prompt]:
        """Return the prompt of each query."""
        builder, bank = self.prompting.builder(run, queries), self.bank.examples
        return [
            builder.build(
                query,
                [bank[pick.position] for pick in row],
                [pick.relevance for pick in row],
                self.prompting.fit,
                [pick.gain for pick in row],
            )
            for query, row in zip(queries, picks, strict=True)
        ]

    def compute(self, run: Run, folder: Path) -> Mapping[str, Any]:
        queries, picks = self.queries.examples, run.get(self.chosen)
        prompts = self.prompts(run, queries, picks)
        texts = [self._texts(run, *one) for one in zip(queries, picks, prompts, strict=True)]
        given = iter(self._ask(run, texts))
        rows = []
        for query, row, prompt, each in zip(queries, picks, prompts, texts, strict=True):
            answers = [next(given) for _ in each]
            shown = [[row[i].id, round(row[i].relevance, 6), round(row[i].gain, 6)] for i in prompt.order]
            found = {
                "id": query.id,
                "examples": shown,
                "prediction": most_frequent(answers),
                "gold": query.output,
            }
            rows.append(found | ({"answers": answers} if self.voting.answers > 1 else {}))
        return self.save(folder, rows)

    def _texts(self, run: Run, query: Example, picks: Sequence[Retrieved], prompt: Prompt) -> list[str]:
        """The prompts of a query: one, one for each sample, or one for each order of the examples."""
        voting = self.voting
        if voting.answers == 1 or voting.by == "samples":
            return [prompt.text] * voting.answers
        builder = self.prompting.builder(run, self.queries.examples)
        chosen = [self.bank.examples[pick.position] for pick in picks]
        orders = builder.reordered(prompt, query, chosen, voting.answers, text_rng(query.id, voting.seed, 1))
        return [one.text for one in orders]

    def _ask(self, run: Run, texts: Sequence[Sequence[str]]) -> list[str]:
        voting = self.voting
        prompts = [text for own in texts for text in own]
        owners = [q for q, own in zip(self.queries.examples, texts, strict=True) for _ in own]
        drawn: dict[str, Any] = {}
        if voting.answers > 1 and voting.by == "samples":
            drawn = {"temperature": voting.temperature, "seed": [*range(voting.answers)] * len(texts)}
        return ask(run.lm(self.prompting.lm), self.prompting, self.stop, prompts, owners, **drawn)

    def estimate(self, run: Run) -> Work:
        step = max(1, len(self.queries) // SAMPLED)
        asked = self.queries.examples[::step]
        if run.summary(self.chosen) is not None:
            picks = run.get(self.chosen)[::step]
        else:
            rng, bank = np.random.default_rng(0), self.bank.examples
            drawn = [rng.permutation(len(bank))[: self.shots] for _ in asked]
            picks = [[Retrieved(bank[p].id, int(p), 0.0, 0.0) for p in row] for row in drawn]
        prompting, voting = self.prompting, self.voting
        requests = [
            LMRequest(
                prompt.text,
                tuple(prompting.template.continuation(q, c) for c in q.choices),
                prompting.per_token,
            )
            if q.choices
            else LMRequest(prompt.text, (), False, prompting.max_new_tokens, tuple(self.stop))
            for q, prompt in zip(asked, self.prompts(run, asked, picks), strict=True)
        ]
        share = voting.answers * len(self.queries) / max(1, len(asked))
        return counted(run, prompting.lm, requests, share, [q.output for q in self.queries.examples[:200]])


@dataclass(frozen=True)
class Majority(_Answers):
    """The most common output of the bank as the answer to every query; of equally common ones, the bank's first."""

    queries: Rows
    bank: Rows

    def compute(self, run: Run, folder: Path) -> Mapping[str, Any]:
        [(common, _)] = Counter(example.output for example in self.bank.examples).most_common(1)
        return self.save(
            folder,
            [
                {"id": query.id, "examples": [], "prediction": common, "gold": query.output}
                for query in self.queries.examples
            ],
        )


@dataclass(frozen=True)
class Classified(_Answers):
    """The most probable label of every query, by a classifier that the bank trained; no LM is asked."""

    queries: Rows
    bank: Rows
    encoders: Stage[Encoders]

    def compute(self, run: Run, folder: Path) -> Mapping[str, Any]:
        encoder, queries = kept(run, run.get(self.encoders).query), self.queries.examples
        labels = encoder.method.classify(observe(encoder.base, queries, outputs=False))
        rows = [
            {"id": query.id, "examples": [], "prediction": label, "gold": query.output}
            for query, label in zip(queries, labels, strict=True)
        ]
        return self.save(folder, rows)


class Measured(NamedTuple):
    """A metric of predictions."""

    value: float
    """The metric over all queries, from 0 to 1; for corpus metrics it is not the mean of `scores`."""
    more: dict[str, float]
    """The task's other metrics."""
    scores: np.ndarray
    """float64 [N]: the metric of each query."""
    statistics: np.ndarray
    """float64 [N, s]: what the metric is a function of the sums of."""
    overlap: Overlap
    """Which queries ask the same and which stand in the bank."""
    name: str

    @property
    def sample(self) -> Sample:
        """The answers as what the metric is computed from in all."""
        return Sample(self.statistics, metric_named(self.name).from_sums)


@dataclass(frozen=True)
class Metric(Stage[Measured]):
    """The task's metrics of predictions.

    `examples.csv` has one row a query, for people who look at them one by one.
    """

    predictions: Predictions | Majority | Any
    metric: str
    more: tuple[str, ...] = ()

    @property
    def what(self) -> str:
        return "measuring answers"

    def compute(self, run: Run, folder: Path) -> Mapping[str, Any]:
        rows, queries = run.get(self.predictions), self.predictions.queries.examples
        metric, predictions = metric_named(self.metric), [row["prediction"] for row in rows]
        scores = np.asarray(metric.per_example(predictions, queries), np.float64)
        statistics = np.asarray(metric.statistics(scores, predictions, queries), np.float64)
        # not `corpus`, which would run every query's SQL again
        value = float(metric.from_sums(statistics.sum(axis=0), len(statistics)))
        more = {name: float(metric_named(name).corpus(predictions, queries)) for name in self.more}
        shared = overlap(queries, self.predictions.bank.examples)
        save_arrays(folder / "metric.npz", scores=scores, statistics=statistics, overlap=np.stack(shared))
        write(folder / "examples.csv", _table(rows, scores, self.metric).encode())
        return {"value": value, "more": more}

    def load(self, run: Run, folder: Path) -> Measured:
        summary = run.summary(self)
        assert summary is not None
        return read_measured(folder, summary, self.metric)


def read_measured(folder: Path, summary: Mapping[str, Any], metric: str) -> Measured:
    """Return the metric that a finished stage of metrics keeps.

    Args:
        folder: its folder.
        summary: its summary.
        metric: the metric's name.
    """
    found = load_arrays(folder / "metric.npz")
    shared = Overlap(found["overlap"][0], found["overlap"][1].astype(bool), found["overlap"][2].astype(bool))
    return Measured(summary["value"], summary["more"], found["scores"], found["statistics"], shared, metric)


@dataclass(frozen=True)
class MetricSample(Stage[Sample]):
    """The statistics of all queries that a metric is computed from, for comparisons."""

    in_memory: ClassVar[bool] = True
    metric: Metric

    def load(self, run: Run, folder: Path) -> Sample:
        return run.get(self.metric).sample


def _table(rows: Sequence[Mapping[str, Any]], scores: np.ndarray, metric: str) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["id", metric, "prediction", "gold", "examples in prompt order"])
    for row, score in zip(rows, scores, strict=True):
        shown = " ".join(example[0] for example in row["examples"])
        writer.writerow([row["id"], f"{score:g}", row["prediction"], row["gold"], shown])
    return out.getvalue()

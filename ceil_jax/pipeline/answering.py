"""Answers to queries with chosen examples, and the metric of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ceil_jax.lm import LanguageModel
from ceil_jax.lm.prompts import Prompt, PromptBuilder
from ceil_jax.lm.readings import LMRequest
from ceil_jax.metrics import METRICS
from ceil_jax.pipeline.encoders import Encoders, cached
from ceil_jax.pipeline.scoring import Prompting, reading, sample
from ceil_jax.pipeline.stage import Run, Stage, Work, unkeyed
from ceil_jax.pipeline.views import Examples
from ceil_jax.retrieval.registry import Retrieved
from ceil_jax.store.folder import load_arrays, read_json, save_arrays, write_json
from ceil_jax.tasks.example import Example
from ceil_jax.tasks.structures import programs
from ceil_jax.tasks.words import Overlap, overlap


def ask(
    lm: LanguageModel,
    prompting: Prompting,
    stop: Sequence[str],
    prompts: Sequence[str],
    queries: Sequence[Example],
) -> list[str]:
    """Return the LM's answer to the prompt of each query: the most likely choice, or for tasks
    without choices what it writes, greedily, up to the `stop` strings. Gold outputs are not
    read."""
    if queries and queries[0].choices:
        options = [
            [prompting.template.continuation(q, choice) for choice in q.choices] for q in queries
        ]
        best = lm.choose(prompts, options, per_token=prompting.per_token)
        return [query.choices[int(i)] for query, i in zip(queries, best, strict=True)]
    return [text.strip() for text in lm.generate(prompts, prompting.max_new_tokens, stop)]


@dataclass(frozen=True)
class Answers(Stage[list[dict[str, Any]]]):
    """Predictions on disk: for each query id, examples in prompt order (id, relevance, gain),
    prediction, gold."""

    queries: Examples
    bank: Examples

    def rows_of(
        self, answers: Sequence[str], examples: Sequence[list[Any]] | None = None
    ) -> list[dict[str, Any]]:
        """Return the row of each query; by default without examples."""
        triples = zip(self.queries.examples, examples or [[]] * len(answers), answers, strict=True)
        return [
            {"id": query.id, "examples": shown, "prediction": answer, "gold": query.output}
            for query, shown, answer in triples
        ]

    def save(self, folder: Path, rows: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
        write_json(folder / "rows.json", rows)
        return {"queries": len(rows)}

    def load(self, run: Run, folder: Path) -> list[dict[str, Any]]:
        return read_json(folder / "rows.json")


@dataclass(frozen=True)
class Predictions(Answers):
    """The LM's answer to every query with the chosen examples (see `ask`)."""

    prompting: Prompting
    chosen: Stage[list[list[Retrieved]]]
    stop: tuple[str, ...] = ("\n",)
    shots: int = unkeyed(1)
    """Examples in a prompt, to estimate what reading it takes."""
    label: str = unkeyed("")

    @property
    def what(self) -> str:
        return f"answering with {self.label or 'examples'}"

    def prompts(
        self,
        run: Run,
        queries: Sequence[Example],
        picks: Sequence[Sequence[Retrieved]],
        builder: PromptBuilder | None = None,
    ) -> list[Prompt]:
        """Return the prompt of each query; a `builder` of these queries has counted the bank's
        tokens already."""
        builder, bank = builder or self.prompting.builder(run, queries), self.bank.examples
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
        prompts, lm = self.prompts(run, queries, picks), run.lm(self.prompting.lm)
        answers = ask(lm, self.prompting, self.stop, [prompt.text for prompt in prompts], queries)
        shown = [
            [[row[i].id, round(row[i].relevance, 6), round(row[i].gain, 6)] for i in prompt.order]
            for row, prompt in zip(picks, prompts, strict=True)
        ]
        return self.save(folder, self.rows_of(answers, shown))

    def estimate(self, run: Run) -> Work:
        some, bank = sample(len(self.queries)), self.bank.examples
        asked = self.queries.examples[some]
        if run.summary(self.chosen):
            picks = run.get(self.chosen)[some]
        else:
            rng = np.random.default_rng(0)
            drawn = [rng.permutation(len(bank))[: self.shots] for _ in asked]
            picks = [[Retrieved(bank[p].id, int(p), 0.0, 0.0) for p in row] for row in drawn]
        prompting = self.prompting
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
        answers = [q.output for q in self.queries.examples[:200]]
        return reading(run, prompting.lm, requests, len(self.queries) / max(1, len(asked)), answers)


@dataclass(frozen=True)
class Majority(Answers):
    """The most common output of the bank as the answer to every query; of equally common ones, the
    bank's first."""

    def compute(self, run: Run, folder: Path) -> Mapping[str, Any]:
        [(common, _)] = Counter(example.output for example in self.bank.examples).most_common(1)
        return self.save(folder, self.rows_of([common] * len(self.queries)))


@dataclass(frozen=True)
class Classified(Answers):
    """The most probable label of every query, by a classifier that the bank trained; no LM is
    asked."""

    encoders: Stage[Encoders]

    def compute(self, run: Run, folder: Path) -> Mapping[str, Any]:
        encoder = cached(run, run.get(self.encoders).query)
        return self.save(folder, self.rows_of(encoder.classify(self.queries.examples)))


class Measured(NamedTuple):
    """A metric of predictions."""

    value: float
    """The metric over all queries, from 0 to 1; for corpus metrics it is not the mean of
    `scores`."""
    more: dict[str, float]
    scores: np.ndarray
    """float64 [N]: the metric of each query."""
    statistics: np.ndarray
    """float64 [N, s]: what the metric is a function of the sums of."""
    overlap: Overlap
    """Which queries ask the same and which stand in the bank."""


@dataclass(frozen=True)
class Measurement(Stage[Measured]):
    """The task's metrics of predictions.

    Intervals resample queries together that say the same: those with one question or, where outputs
    are programs, with one program (`tasks.structures.programs`).
    """

    version: ClassVar[int] = 2
    what = "measuring answers"
    kind = "metric"
    predictions: Answers
    metric: str
    more: tuple[str, ...] = ()

    def compute(self, run: Run, folder: Path) -> Mapping[str, Any]:
        rows, queries = run.get(self.predictions), self.predictions.queries.examples
        metric, predictions = METRICS[self.metric], [row["prediction"] for row in rows]
        scores = metric.scored(predictions, queries)
        statistics = np.asarray(metric.statistics(scores, predictions, queries), np.float64)
        # not `corpus`, which would run every query's SQL again
        value = float(metric.from_sums(statistics.sum(axis=0), len(statistics)))
        more = {name: float(METRICS[name].corpus(predictions, queries)) for name in self.more}
        bank = self.predictions.bank.examples
        shared = overlap(queries, bank)
        if (found := programs(queries, bank)) is not None:
            shared = shared._replace(question=found)
        save_arrays(
            folder / "metric.npz", scores=scores, statistics=statistics, overlap=np.stack(shared)
        )
        return {"value": value, "more": more}

    def load(self, run: Run, folder: Path) -> Measured:
        return read_measured(folder, run.summary(self))


def read_measured(folder: Path, summary: Mapping[str, Any]) -> Measured:
    """Return the value of a `Measurement` in a folder, with its summary."""
    found = load_arrays(folder / "metric.npz")
    shared = Overlap(
        found["overlap"][0], found["overlap"][1].astype(bool), found["overlap"][2].astype(bool)
    )
    return Measured(summary["value"], summary["more"], found["scores"], found["statistics"], shared)

"""Stages of the answers to queries, and of their metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ceil_jax.lm.prompts import Built, PromptBuilder
from ceil_jax.metrics import METRICS
from ceil_jax.pipeline.choosing import Choose
from ceil_jax.pipeline.prompting import Prompting, sample, work_of_reading
from ceil_jax.pipeline.stage import Run, Stage, Work, unkeyed
from ceil_jax.pipeline.vectors import HeadInputs
from ceil_jax.pipeline.views import Examples
from ceil_jax.pipeline.ways import Reply, ask, way_of_answering
from ceil_jax.retrieval.retriever import Choice
from ceil_jax.store.folder import load_arrays, read_json, save_arrays, write_json
from ceil_jax.tasks.example import Example
from ceil_jax.tasks.structures import programs
from ceil_jax.tasks.words import Overlap, overlap
from ceil_jax.training.free.encoder import classified
from ceil_jax.training.free.rows import Head


@dataclass(frozen=True)
class Answers(Stage[list[dict[str, Any]]]):
    """The answers to queries: for each query its id, its examples in prompt order (id, relevance,
    gain), the prediction, the gold output, and a code for an answer that is hardly right."""

    queries: Examples
    bank: Examples

    def rows_of(
        self, replies: Sequence[Reply], examples: Sequence[list[Any]] | None = None
    ) -> list[dict[str, Any]]:
        """Return the record of each query; by default without examples."""
        triples = zip(self.queries.examples, examples or [[]] * len(replies), replies, strict=True)
        rows = []
        for query, prompt_examples, reply in triples:
            row = {
                "id": query.id,
                "examples": prompt_examples,
                "prediction": reply.prediction,
                "gold": query.output,
            }
            rows.append(row | ({"trouble": reply.trouble} if reply.trouble else {}))
        return rows

    def save(self, folder: Path, rows: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
        write_json(folder / "rows.json", rows)
        troubles = Counter(row["trouble"] for row in rows if row.get("trouble"))
        return {"queries": len(rows)} | ({"troubles": dict(troubles)} if troubles else {})

    def load(self, run: Run, folder: Path) -> list[dict[str, Any]]:
        return read_json(folder / "rows.json")


@dataclass(frozen=True)
class Predictions(Answers):
    """The LM's answer to every query with the chosen examples (see `ask`)."""

    prompting: Prompting
    choice: Choose
    stop: tuple[str, ...] = ("\n",)
    shots: int = unkeyed(1)
    """Number of examples in a prompt, to estimate the work."""
    label: str = unkeyed("")

    @property
    def what(self) -> str:
        return f"answering with {self.label or 'examples'}"

    def prompts(
        self,
        run: Run,
        queries: Sequence[Example],
        choice: Choice,
        builder: PromptBuilder | None = None,
    ) -> list[Built]:
        """Return the prompt of each query.

        Args:
            run: gives the LM whose tokens are counted.
            queries: Q examples.
            choice: the examples chosen for them.
            builder: a prompt builder for these queries, if there already is one.
        """
        builder = builder or self.prompting.builder(run, queries)
        bank = self.bank.examples
        prompts = []
        for query, positions, relevance, gains in zip(queries, *choice, strict=True):
            count = int((positions >= 0).sum())
            prompt = builder.build(
                query,
                [bank[position] for position in positions[:count]],
                [float(value) for value in relevance[:count]],
                self.prompting.fit,
                [float(value) for value in gains[:count]],
            )
            prompts.append(prompt)
        return prompts

    def compute(self, run: Run, folder: Path) -> Mapping[str, Any]:
        queries = self.queries.examples
        choice = run.get(self.choice)
        prompts = self.prompts(run, queries, choice)
        lm = run.lm(self.prompting.lm)
        rendered = [built.prompt for built in prompts]
        replies = ask(lm, self.prompting, self.stop, rendered, queries)
        examples = []
        for prompt, positions, relevance, gains in zip(prompts, *choice, strict=True):
            examples.append(
                [
                    [
                        self.bank.examples[positions[i]].id,
                        round(float(relevance[i]), 6),
                        round(float(gains[i]), 6),
                    ]
                    for i in prompt.order
                ]
            )
        summary = self.save(folder, self.rows_of(replies, examples))
        limit = self.prompting.max_new_tokens
        return {**summary, "limit": limit} if "troubles" in summary else summary

    def estimate(self, run: Run) -> Work:
        some = sample(len(self.queries))
        queries = self.queries.examples[some]
        if run.summary(self.choice):
            choice = Choice(*(array[some] for array in run.get(self.choice)))
        else:
            choice = self._random_choice(len(queries))
        prompting = self.prompting
        prompts = [built.prompt for built in self.prompts(run, queries, choice)]
        way = way_of_answering(run.lm(prompting.lm), prompting, self.stop, queries)
        requests = way.requests(prompts, queries)
        answers = [query.output for query in self.queries.examples[:200]]
        times = len(self.queries) / max(1, len(queries))
        return work_of_reading(run, prompting.lm, requests, times, answers)

    def _random_choice(self, queries: int) -> Choice:
        """Random examples in place of those that are not chosen yet, to estimate the tokens of
        prompts."""
        generator = np.random.default_rng(0)
        drawn = [generator.permutation(len(self.bank))[: self.shots] for _ in range(queries)]
        positions = np.array(drawn, np.int32).reshape(queries, -1)
        scores = np.zeros(positions.shape)
        return Choice(positions, scores, scores)


@dataclass(frozen=True)
class Majority(Answers):
    """The most common output of the bank as the answer to every query; in a tie, the one that comes
    first."""

    def compute(self, run: Run, folder: Path) -> Mapping[str, Any]:
        [(common, _)] = Counter(example.output for example in self.bank.examples).most_common(1)
        return self.save(folder, self.rows_of([Reply(common)] * len(self.queries)))


@dataclass(frozen=True)
class Classified(Answers):
    """The most probable label of every query, by a classifier trained on the bank, without an
    LM."""

    head: Stage[Head | None]
    rows: HeadInputs
    """The queries as inputs of the head."""

    def compute(self, run: Run, folder: Path) -> Mapping[str, Any]:
        head = run.get(self.head)
        assert head is not None, "a row that classifies has a head without an alternative"
        labels = classified(head, run.get(self.rows))
        return self.save(folder, self.rows_of([Reply(label) for label in labels]))


@dataclass(frozen=True)
class Copied(Answers):
    """The output of the first example that was chosen for a query, as the answer to it; "" where
    none was."""

    choice: Choose

    def compute(self, run: Run, folder: Path) -> Mapping[str, Any]:
        bank = self.bank.examples
        first = run.get(self.choice).positions[:, 0]
        outputs = [bank[position].output if position >= 0 else "" for position in first]
        return self.save(folder, self.rows_of([Reply(output) for output in outputs]))


class Measured(NamedTuple):
    """A metric of predictions."""

    value: float
    """The metric over all queries, from 0 to 1; for corpus metrics it is not the mean of
    `scores`."""
    more: dict[str, float]
    scores: np.ndarray
    """float64 [N]: the metric of each query."""
    statistics: np.ndarray
    """float64 [N, s]: statistics of each query; the metric is a function of their sums."""
    overlap: Overlap
    """Which queries are the same question, and which are in the bank."""


@dataclass(frozen=True)
class Measurement(Stage[Measured]):
    """The task's metrics of predictions.

    Intervals resample equal queries together: those with the same question or, if outputs are
    programs, with the same program (`tasks.structures.programs`).
    """

    version: ClassVar[int] = 3
    what = "measuring answers"
    kind = "metric"
    predictions: Answers
    metric: str
    more: tuple[str, ...] = ()

    @property
    def registered(self) -> tuple[Any, ...]:
        """The metrics. A plugin's code becomes part of the key."""
        return tuple(METRICS[name] for name in (self.metric, *self.more))

    def compute(self, run: Run, folder: Path) -> Mapping[str, Any]:
        rows = run.get(self.predictions)
        queries = self.predictions.queries.examples
        metric = METRICS[self.metric]
        predictions = [row["prediction"] for row in rows]
        scores = metric.scored(predictions, queries)
        statistics = np.asarray(metric.statistics(scores, predictions, queries), np.float64)
        # not `corpus`, which would run every query's SQL again
        value = float(metric.from_sums(statistics.sum(axis=0), len(statistics)))
        more = {name: float(METRICS[name].corpus(predictions, queries)) for name in self.more}
        bank = self.predictions.bank.examples
        shared = overlap(queries, bank)
        if (program_of_each := programs(queries, bank)) is not None:
            shared = shared._replace(question=program_of_each)
        save_arrays(
            folder / "metric.npz", scores=scores, statistics=statistics, overlap=np.stack(shared)
        )
        return {"value": value, "more": more}

    def load(self, run: Run, folder: Path) -> Measured:
        return read_measured(folder, run.summary(self))


def read_measured(folder: Path, summary: Mapping[str, Any]) -> Measured:
    """Return the value of a `Measurement`, from its folder and its summary."""
    arrays = load_arrays(folder / "metric.npz")
    shared = Overlap(
        arrays["overlap"][0], arrays["overlap"][1].astype(bool), arrays["overlap"][2].astype(bool)
    )
    return Measured(
        summary["value"], summary["more"], arrays["scores"], arrays["statistics"], shared
    )

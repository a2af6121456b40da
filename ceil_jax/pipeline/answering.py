"""Answers to queries with chosen examples, and the metric of them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from ceil_jax.lm import LanguageModel
from ceil_jax.lm.answers import TROUBLES, trimmed
from ceil_jax.lm.options import option_in
from ceil_jax.lm.prompts import Prompt, PromptBuilder
from ceil_jax.lm.readings import LMRequest
from ceil_jax.metrics import METRICS
from ceil_jax.pipeline.choosing import Choose
from ceil_jax.pipeline.scoring import Prompting, reading, sample
from ceil_jax.pipeline.stage import Run, Stage, Work, unkeyed
from ceil_jax.pipeline.vectors import HeadInputs
from ceil_jax.pipeline.views import Examples
from ceil_jax.retrieval.retriever import Choice
from ceil_jax.store.folder import load_arrays, read_json, save_arrays, write_json
from ceil_jax.tasks.example import Example, Template
from ceil_jax.tasks.structures import programs
from ceil_jax.tasks.words import Overlap, overlap
from ceil_jax.training.free.encoder import classified
from ceil_jax.training.free.rows import Head

NO_OPTION = "no option"
"""The trouble of an answer in words that means none of the options, or several."""


class Reply(NamedTuple):
    """An LM's answer to a query."""

    prediction: str
    trouble: str = ""
    """Why it can hardly be right: a key of `lm.answers.TROUBLES`, or NO_OPTION; "" for nothing."""


class Way(Protocol):
    """A way of answering queries with an LM. Gold outputs are not read."""

    def requests(self, prompts: Sequence[str], queries: Sequence[Example]) -> list[LMRequest]:
        """Return what the LM is asked about each query's prompt."""

    def replies(
        self, lm: LanguageModel, prompts: Sequence[str], queries: Sequence[Example]
    ) -> list[Reply]:
        """Return the LM's answer to each query's prompt."""

    def most_tokens(self, lm: LanguageModel, queries: Sequence[Example]) -> np.ndarray:
        """Return float [N], about the most tokens that answering takes beside each prompt."""


@dataclass(frozen=True)
class Choosing:
    """The most likely of a query's choices, by their log-probabilities."""

    template: Template
    per_token: bool

    def requests(self, prompts: Sequence[str], queries: Sequence[Example]) -> list[LMRequest]:
        return [
            LMRequest(prompt, tuple(self._options(query)), self.per_token)
            for prompt, query in zip(prompts, queries, strict=True)
        ]

    def replies(
        self, lm: LanguageModel, prompts: Sequence[str], queries: Sequence[Example]
    ) -> list[Reply]:
        options = [self._options(query) for query in queries]
        best = lm.choose(prompts, options, per_token=self.per_token)
        return [Reply(query.choices[int(i)]) for query, i in zip(queries, best, strict=True)]

    def most_tokens(self, lm: LanguageModel, queries: Sequence[Example]) -> np.ndarray:
        texts = sorted({text for query in queries for text in self._options(query)})
        lengths = dict(zip(texts, lm.count_tokens(texts), strict=True))
        sums = [sum(lengths[text] for text in self._options(query)) for query in queries]
        return np.array(sums, np.float64)

    def _options(self, query: Example) -> list[str]:
        return [self.template.continuation(query, choice) for choice in query.choices]


@dataclass(frozen=True)
class Writing:
    """What the LM writes, greedily, up to the stop strings."""

    template: Template
    max_new_tokens: int
    stop: tuple[str, ...]

    def requests(self, prompts: Sequence[str], queries: Sequence[Example]) -> list[LMRequest]:
        return [LMRequest(text, (), False, self.max_new_tokens, self.stop) for text in prompts]

    def replies(
        self, lm: LanguageModel, prompts: Sequence[str], queries: Sequence[Example]
    ) -> list[Reply]:
        answers = lm.answers(prompts, self.max_new_tokens, self.stop)
        return [Reply(_without_edges(answer.text), answer.trouble) for answer in answers]

    def most_tokens(self, lm: LanguageModel, queries: Sequence[Example]) -> np.ndarray:
        return np.full(len(queries), float(self.max_new_tokens))


@dataclass(frozen=True)
class WritingAnOption(Writing):
    """The choice that an LM which cannot score means by what it writes (`lm.options.option_in`);
    where that is none, its words."""

    def replies(
        self, lm: LanguageModel, prompts: Sequence[str], queries: Sequence[Example]
    ) -> list[Reply]:
        answers = lm.answers(prompts, self.max_new_tokens, self.stop)
        replies = []
        for answer, query in zip(answers, queries, strict=True):
            option = option_in(answer.text, query.choices)
            if option is None:
                replies.append(Reply(answer.text.strip(), answer.trouble or NO_OPTION))
            else:
                replies.append(Reply(option))
        return replies


def way_of_answering(
    lm: LanguageModel, prompting: Prompting, stop: Sequence[str], queries: Sequence[Example]
) -> Way:
    """Return how an LM answers queries: where these have choices, it chooses by log-probabilities,
    or, if it has none to give, writes one of them; else it writes.

    A chat that is to write one of the choices is not cut at `stop`: the label may stand in a later
    line.
    """
    template, limit = prompting.template, prompting.max_new_tokens
    if not (queries and queries[0].choices):
        return Writing(template, limit, tuple(stop))
    if lm.can_score:
        return Choosing(template, prompting.per_token)
    return WritingAnOption(template, limit, () if lm.ends_itself else tuple(stop))


def ask(
    lm: LanguageModel,
    prompting: Prompting,
    stop: Sequence[str],
    prompts: Sequence[str],
    queries: Sequence[Example],
) -> list[Reply]:
    """Return the LM's answer to the prompt of each query (`way_of_answering`)."""
    return way_of_answering(lm, prompting, stop, queries).replies(lm, prompts, queries)


def _without_edges(text: str) -> str:
    """A written answer without empty lines around it, blanks behind it, and the one blank before it
    that is a tokenizer's; indentation stays."""
    return re.sub(r"\A (?! )", "", trimmed(text))


@dataclass(frozen=True)
class Answers(Stage[list[dict[str, Any]]]):
    """Predictions on disk: for each query id, examples in prompt order (id, relevance, gain),
    prediction, gold, and the trouble with an answer that can hardly be right."""

    queries: Examples
    bank: Examples

    def rows_of(
        self, replies: Sequence[Reply], examples: Sequence[list[Any]] | None = None
    ) -> list[dict[str, Any]]:
        """Return the row of each query; by default without examples."""
        triples = zip(self.queries.examples, examples or [[]] * len(replies), replies, strict=True)
        rows = []
        for query, shown, reply in triples:
            row = {
                "id": query.id,
                "examples": shown,
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
    """Examples in a prompt, to estimate what reading it takes."""
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
    ) -> list[Prompt]:
        """Return the prompt of each query.

        Args:
            run: gives the LM, which counts tokens.
            queries: Q examples.
            choice: the examples chosen for them.
            builder: one for these queries that has counted the bank's tokens already.
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
        replies = ask(lm, self.prompting, self.stop, [prompt.text for prompt in prompts], queries)
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
        return self.save(folder, self.rows_of(replies, examples))

    def estimate(self, run: Run) -> Work:
        some = sample(len(self.queries))
        queries = self.queries.examples[some]
        if run.summary(self.choice):
            choice = Choice(*(array[some] for array in run.get(self.choice)))
        else:
            choice = self._random_choice(len(queries))
        prompting = self.prompting
        prompts = [prompt.text for prompt in self.prompts(run, queries, choice)]
        way = way_of_answering(run.lm(prompting.lm), prompting, self.stop, queries)
        requests = way.requests(prompts, queries)
        answers = [query.output for query in self.queries.examples[:200]]
        times = len(self.queries) / max(1, len(queries))
        return reading(run, prompting.lm, requests, times, answers)

    def _random_choice(self, queries: int) -> Choice:
        """Random examples that stand in for those that are not chosen yet, to count their
        tokens."""
        generator = np.random.default_rng(0)
        drawn = [generator.permutation(len(self.bank))[: self.shots] for _ in range(queries)]
        positions = np.array(drawn, np.int32).reshape(queries, -1)
        scores = np.zeros(positions.shape)
        return Choice(positions, scores, scores)


@dataclass(frozen=True)
class Majority(Answers):
    """The most common output of the bank as the answer to every query; of equally common ones, the
    bank's first."""

    def compute(self, run: Run, folder: Path) -> Mapping[str, Any]:
        [(common, _)] = Counter(example.output for example in self.bank.examples).most_common(1)
        return self.save(folder, self.rows_of([Reply(common)] * len(self.queries)))


@dataclass(frozen=True)
class Classified(Answers):
    """The most probable label of every query, by a classifier that the bank trained; no LM is
    asked."""

    head: Stage[Head | None]
    rows: HeadInputs
    """The queries, as the head sees them."""

    def compute(self, run: Run, folder: Path) -> Mapping[str, Any]:
        head = run.get(self.head)
        assert head is not None, "a row that classifies has a head without an alternative"
        labels = classified(head, run.get(self.rows))
        return self.save(folder, self.rows_of([Reply(label) for label in labels]))


def trouble_in_words(trouble: str, limit: int) -> str:
    """Return what is the matter with answers of at most `limit` tokens, as in "answers that are
    …"."""
    if trouble == "length":
        return f"cut by the limit of {limit} tokens (--max-new-tokens)"
    if trouble == NO_OPTION:
        return "none of the options, or several at once, and so counted as wrong"
    return TROUBLES[trouble]


def troubles_of(run: Run, measurements: Sequence[Measurement]) -> str:
    """Return a line for each kind of trouble with an LM's answers: how many answers of each row had
    it; "" where there was none."""
    counts: dict[str, list[str]] = {}
    for measurement in measurements:
        predictions = measurement.predictions
        if not isinstance(predictions, Predictions):
            continue
        for trouble, count in (run.summary(predictions) or {}).get("troubles", {}).items():
            words = trouble_in_words(trouble, predictions.prompting.max_new_tokens)
            row = f"{count:,} of {len(predictions.queries):,} ({predictions.label})"
            counts.setdefault(words, []).append(row)
    return "\n".join(
        f"Answers of the LM that are {words}: {', '.join(dict.fromkeys(rows))}."
        for words, rows in counts.items()
    )


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

    version: ClassVar[int] = 3
    what = "measuring answers"
    kind = "metric"
    predictions: Answers
    metric: str
    more: tuple[str, ...] = ()

    @property
    def registered(self) -> tuple[Any, ...]:
        """The metrics, whose code is in the key."""
        return tuple(METRICS[name] for name in (self.metric, *self.more))

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

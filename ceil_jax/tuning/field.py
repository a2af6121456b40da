"""The candidates of a race, with their prompts for some rows and the LM's answers.

What they cost is part of it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from statistics import median
from typing import NamedTuple, TypeAlias

import numpy as np

from ceil_jax.lm.messages import Rendered, text_of
from ceil_jax.lm.price import Price, Usage, beginning_of, total
from ceil_jax.lm.prompts import PromptBuilder
from ceil_jax.methods.row import Row
from ceil_jax.metrics import METRICS
from ceil_jax.metrics.bootstrap import Sample, mean
from ceil_jax.pipeline import row_stages
from ceil_jax.pipeline.answering import ANSWERS, answer, prompts_of
from ceil_jax.pipeline.choosing import choose
from ceil_jax.pipeline.config import RunConfig
from ceil_jax.pipeline.models import Models
from ceil_jax.pipeline.run import Run
from ceil_jax.pipeline.setup import Setup, open_run, setup_of
from ceil_jax.pipeline.speed import this_machine
from ceil_jax.pipeline.usage import before_answering
from ceil_jax.pipeline.ways import Reply, ask, way_of_answering
from ceil_jax.retrieval.retriever import Choice
from ceil_jax.store.cost import Cost
from ceil_jax.store.kept import Lazy, closure
from ceil_jax.store.progress import bar
from ceil_jax.tasks.bank import Examples
from ceil_jax.tasks.draws import draw
from ceil_jax.tasks.example import Example, Task
from ceil_jax.tuning.budget import Budget
from ceil_jax.tuning.candidates import ZERO, Candidate

_CHUNK = 32
"""The maximum number of prompts that are read between two checks of the time."""

_CHUNK_SECONDS = 5.0
"""Seconds between two checks of the time if the LM is slow."""

_SPECIAL = 2
"""Tokens that a tokenizer may put around a text."""

_ENCODED = 32
"""The number of texts that are encoded to measure the encoder's speed."""
_MEASUREMENTS = 3
"""The number of repetitions of that measurement."""

MARGIN = 1.25
"""The factor by which the estimates of a dry run are raised, because it counts only a sample."""


_Question: TypeAlias = tuple[Rendered, tuple[str, ...]]
"""A prompt and the choices of its query, on which an answer depends."""


class _Waiting(NamedTuple):
    """A question that the LM has not answered yet."""

    question: _Question
    query: Example
    row: int
    """The number of the first row that asks it."""
    tokens: float
    """The maximum number of tokens that the prompt and the answer may take."""


class Entrant(NamedTuple):
    """A candidate with its prompts for some rows."""

    candidate: Candidate
    prompts: list[Rendered]
    lengths: np.ndarray
    """float [N]: tokens of each prompt."""
    tokens: np.ndarray
    """float [N]: the maximum number of LM tokens that each row may take, the answer included."""
    usage: Usage
    """The tokens of a query, if every answer is right."""
    preparing: int = 0
    """LM tokens that preparing the candidate took, including stages that it shares with other candidates."""

    def cost(self, price: Price | None) -> float:
        """Return the cost of a query.

        Money if tokens have a price, else the tokens of its prompt.
        """
        return self.usage.prompt if price is None else price.of_queries(self.usage, 1)


class ScoredReplies(NamedTuple):
    """The LM's answers to some prompts, with their scores."""

    scores: np.ndarray
    """float [N]: the metric of each row."""
    sample: Sample
    """The statistics of the rows, and the metric as a function of their sums."""
    replies: Sequence[Reply]


class Field:
    """The candidates of one bank and one LM: their prompts and answers.

    A prompt that several candidates share is read and paid for once. An answer that an earlier
    process has read costs the budget what it cost then, so that a search that was stopped takes the
    same decisions when it is resumed.
    """

    def __init__(
        self, config: RunConfig, task: Task, budget: Budget, models: Models | None = None
    ) -> None:
        self.config = config
        self.budget = budget
        self.run, opened = open_run(config, task, models)
        self.task = opened.task
        """The task, whose bank has no row with the text of one of its queries."""
        self._nothing = Run(self.run.root / "nothing", self.run.models)
        """A run in an empty folder, in which estimates count all work."""
        self._setups: dict[RunConfig, Setup] = {}
        self._builders: dict[tuple[str, ...], PromptBuilder] = {}
        self._answers: dict[_Question, Reply] = {}
        self._paid: set[str] = set()
        self.base = self.setup(ZERO)
        self.lm = self.run.lm(self.base.lm)

    def setup(self, candidate: Candidate) -> Setup:
        """Return the setup of a candidate; candidates with equal settings share it."""
        config = candidate.config(self.config)
        if config not in self._setups:
            self._setups[config] = setup_of(config, self.task, self.run.models)
        return self._setups[config]

    def cut_bank(self, size: int) -> None:
        """Choose examples from a random part of the bank from now on."""
        self.task = replace(self.task, train=draw(self.task.train, size, self.config.data_seed + 3))
        self._setups.clear()
        self._builders.clear()
        self.base = self.setup(ZERO)

    def setup_and_row(self, candidate: Candidate) -> tuple[Setup, Row]:
        """Return the setup of a candidate, and its row with the settings of that setup."""
        setup = self.setup(candidate)
        return setup, setup.config.configured(candidate.row)

    def enter(self, candidate: Candidate, queries: Sequence[Example]) -> Entrant:
        """Return a candidate with its prompts for N rows.

        The budget pays once for each stage that the LM prepares.
        """
        ids = tuple(query.id for query in queries)
        if ids not in self._builders:
            # counts the bank's tokens once for all candidates
            self._builders[ids] = self.base.answering.builder(self.run, queries)
        setup, row = self.setup_and_row(candidate)
        stage = row_stages.predictions(setup, row, Examples(queries))
        assert stage.is_of(answer), "the LM answers every candidate"
        choice = self.run.get(stage.choice)
        builder = self._builders[ids]
        prompts = [built.prompt for built in prompts_of(self.run, stage, queries, choice, builder)]
        if candidate.prepared:
            for key, cost in self._unpaid(stage.choice).items():
                self._paid.add(key)
                self.budget.spend(cost, cost.tokens)
        lengths = np.asarray(self.lm.count_tokens([*map(text_of, prompts)]), np.float64)
        golds = [query.output for query in queries]
        [beginning, *answers] = self.lm.count_tokens([beginning_of(prompts), *golds])
        prompting = Usage(float(lengths.mean()), float(beginning), float(np.mean(answers)))
        return Entrant(
            candidate,
            prompts,
            lengths,
            tokens=lengths + self._answer_tokens(queries) + _SPECIAL,
            usage=total([prompting, *before_answering(self.run, stage)]),
            preparing=self.run.cost([stage.choice]).tokens if candidate.prepared else 0,
        )

    def _unpaid(self, choice: Lazy[Choice]) -> dict[str, Cost]:
        """Return the cost of each stage that the budget has not paid for, by key.

        The stages are on disk, and choosing some examples needs them.
        """
        costs = self.run.costs([choice])
        return {
            key: cost for key, (_, cost) in costs.items() if cost.tokens and key not in self._paid
        }

    def _answer_tokens(self, queries: Sequence[Example]) -> np.ndarray:
        """Return the maximum number of tokens that the answer to each query may take."""
        way = way_of_answering(self.lm, self.base.answering, self.task.stop, queries)
        return way.most_tokens(self.lm, queries)

    def answer(
        self,
        entrants: Sequence[Entrant],
        queries: Sequence[Example],
        span: slice,
        what: str,
        *,
        reserve: float = 0.0,
        least: int = 0,
        measured: bool = True,
    ) -> list[ScoredReplies]:
        """Return the LM's answers to the prompts of each entrant, for some of its rows.

        All entrants answer a row before the next one is read. Once the minutes have passed, reading
        stops, and only the rows that all entrants have answered are returned.

        Args:
            entrants: candidates with their prompts for all of `queries`.
            queries: N rows.
            span: which of the rows are answered.
            what: the label of the progress bar.
            reserve: LM tokens that are read later, for which time is kept.
            least: how many rows are answered even after the minutes have passed.
            measured: whether the LM's speed is measured by them.
        """
        rows = queries[span]
        questions = [
            [(prompt, row.choices) for prompt, row in zip(entrant.prompts[span], rows, strict=True)]
            for entrant in entrants
        ]
        tokens = [entrant.tokens[span] for entrant in entrants]
        waiting = self._unanswered(questions, tokens, rows)
        left = self._read(
            waiting,
            what,
            reserve=reserve,
            least=least,
            measured=measured,
        )
        answered = left[0].row if left else len(rows)
        return [
            self.score(
                [self._answers[question] for question in questions_of_entrant[:answered]],
                rows[:answered],
            )
            for questions_of_entrant in questions
        ]

    def _unanswered(
        self,
        questions: Sequence[Sequence[_Question]],
        tokens: Sequence[np.ndarray],
        rows: Sequence[Example],
    ) -> list[_Waiting]:
        """The questions that have no answer yet, each once, row by row.

        Args:
            questions: for each entrant, its questions for N rows.
            tokens: for each entrant, float [N]: the most tokens that each of them may take.
            rows: the N rows.
        """
        waiting: dict[_Question, _Waiting] = {}
        for row, query in enumerate(rows):
            for questions_of_entrant, tokens_of_entrant in zip(questions, tokens, strict=True):
                question = questions_of_entrant[row]
                if question not in self._answers and question not in waiting:
                    waiting[question] = _Waiting(
                        question, query, row, tokens=float(tokens_of_entrant[row])
                    )
        return list(waiting.values())

    def _read(
        self,
        waiting: list[_Waiting],
        what: str,
        *,
        reserve: float,
        least: int,
        measured: bool,
    ) -> list[_Waiting]:
        """Let the LM answer questions until the time is over, and return those that are left.

        They are in order. The other arguments are those of `answer`.
        """
        with bar(len(waiting), what) as progress:
            while waiting:
                readable = waiting
                if self.budget.out_of_time(reserve):
                    readable = [one for one in waiting if one.row < least]
                    if not readable:
                        break
                chunk = readable[: self._chunk(waiting[0].tokens)]
                # questions are in the order of rows, so that those of the first rows come first
                waiting = waiting[len(chunk) :]
                prompts = [one.question[0] for one in chunk]
                queries = [one.query for one in chunk]
                with self.lm.metered(what) as spent:
                    replies = ask(self.lm, self.base.answering, self.task.stop, prompts, queries)
                estimated = sum(one.tokens for one in chunk)
                self.budget.spend(spent.cost, estimated, measured=measured)
                self._answers |= zip([one.question for one in chunk], replies, strict=True)
                progress.update(len(chunk))
        return waiting

    def _chunk(self, tokens: float) -> int:
        """Return how many prompts are read before the next check of the time.

        Each has `tokens` tokens.
        """
        if self.budget.minutes is None or not self.budget.pace:
            return _CHUNK
        return max(4, min(_CHUNK, int(_CHUNK_SECONDS / (self.budget.pace * tokens))))

    def score(self, replies: Sequence[Reply], queries: Sequence[Example]) -> ScoredReplies:
        """Return the LM's answers to some rows with their scores by the task's metric."""
        if not queries:
            return ScoredReplies(np.zeros(0), Sample(np.zeros((0, 1)), mean), ())
        predictions = [reply.prediction for reply in replies]
        metric = METRICS[self.task.metric]
        scores = metric.scored(predictions, queries)
        sample = Sample(metric.statistics(scores, predictions, queries), metric.from_sums)
        return ScoredReplies(scores, sample, replies)

    def encoding(self, queries: Sequence[Example]) -> float:
        """Return how many seconds encoding one text of the bank and of some queries takes.

        It is measured on a few of them.

        It is the median of a few measurements: what else runs for a moment does not make the bank
        smaller, and what runs all the time does.
        """
        encoder = self.base.untrained_encoder.get()
        texts = [row.input for row in (*queries, *self.task.train)]
        some = texts[:_ENCODED]
        encoder.encode(some)  # compiles for their lengths
        seconds = []
        for _ in range(_MEASUREMENTS):
            began = time.perf_counter()
            encoder.encode(some)
            seconds.append(time.perf_counter() - began)
        return median(seconds) / len(some)

    def has(self, candidate: Candidate, queries: Sequence[Example]) -> bool:
        """Return whether everything that a candidate needs for some rows is on disk: vectors and training."""
        setup, row = self.setup_and_row(candidate)
        predictions = row_stages.predictions(setup, row, Examples(queries))
        missing = self.run.missing([predictions])
        return all(lazy.is_of(choose, *ANSWERS) for lazy in missing)

    def preparation(
        self, candidate: Candidate, known: Entrant, affordable: float
    ) -> tuple[float, float]:
        """Return how many LM tokens and seconds preparing a candidate may take.

        The seconds are of encoding and training. The work of training its method is halved, from
        now on, until the tokens are affordable or it cannot be halved any more.

        Args:
            candidate: the candidate to prepare.
            known: a candidate with its prompts. For a server, a plan estimates tokens by
                characters; the true tokens of these prompts correct it.
            affordable: how many LM tokens there are for it.

        Raises:
            UserError: the candidate cannot be prepared.
        """
        while True:
            tokens, seconds = self._planned(candidate, known)
            if tokens <= affordable or not self._lighten(candidate):
                return tokens, seconds

    def _planned(self, candidate: Candidate, known: Entrant) -> tuple[float, float]:
        """Return how many LM tokens and seconds preparing a candidate may take now.

        The settings are the current ones.
        """
        setup, row = self.setup_and_row(candidate)
        choice = row_stages.choice(setup, row)
        unpaid = closure([choice], lambda stage: stage.key in self._paid)
        # as if nothing was on disk, so that a search that was stopped takes the same decisions
        works = {stage: self._nothing.estimate(stage) for stage in unpaid}
        planned = self.run.models.counting(self.base.lm).count_tokens(
            [*map(text_of, known.prompts)]
        )
        correction = max(1.0, float(known.lengths.sum()) / max(1, int(planned.sum())))
        tokens = MARGIN * correction * sum(work.read + work.written for work in works.values())
        missing = [works[stage] for stage in self.run.missing([choice]) if stage in works]
        without_lm = [work._replace(read=0.0, written=0.0) for work in missing]
        return tokens, MARGIN * sum(map(this_machine().seconds, without_lm))

    def _lighten(self, candidate: Candidate) -> bool:
        """Halve the work of training a candidate's method from now on.

        Return whether it could be halved.
        """
        _, row = self.setup_and_row(candidate)
        smaller = row.method.smaller()
        if smaller is None:
            return False
        self.config = self.config.using(smaller)
        return True

"""The field of a race: each candidate's prompts for some rows, what the LM answers to them, and
what that costs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ceil_jax.lm.price import Price, Usage, beginning_of
from ceil_jax.lm.prompts import PromptBuilder
from ceil_jax.metrics import METRICS
from ceil_jax.metrics.bootstrap import Sample, mean
from ceil_jax.pipeline import row_stages
from ceil_jax.pipeline.answering import Predictions
from ceil_jax.pipeline.choosing import Choose
from ceil_jax.pipeline.config import RunConfig
from ceil_jax.pipeline.models import Models
from ceil_jax.pipeline.plan import this_machine
from ceil_jax.pipeline.setup import Setup, open_run, setup_of
from ceil_jax.pipeline.stage import Run, closure
from ceil_jax.pipeline.views import Examples
from ceil_jax.pipeline.ways import Reply, ask, way_of_answering
from ceil_jax.store.cost import Cost
from ceil_jax.store.progress import bar
from ceil_jax.tasks.example import Example, Task
from ceil_jax.tuning.budget import Budget
from ceil_jax.tuning.candidates import ZERO, Candidate

_CHUNK = 32
"""Prompts between two looks at the clock, at most."""

_CHUNK_SECONDS = 5.0
"""Seconds between two looks at the clock, where the LM is slow."""

_SPECIAL = 2
"""Tokens that a tokenizer may put around a text."""

_ENCODED = 32
"""Texts that are encoded to learn how fast that is."""

MARGIN = 1.25
"""The factor on the estimates of dry runs, which count a sample."""


class Entrant(NamedTuple):
    """A candidate with its prompts for some rows."""

    candidate: Candidate
    prompts: list[str]
    lengths: np.ndarray
    """float [N]: tokens of each prompt."""
    tokens: np.ndarray
    """float [N]: the largest number of LM tokens that each row takes, the answer included."""
    usage: Usage
    """What asking it takes, if every answer is right."""
    preparing: int = 0
    """LM tokens that preparing it took, those included that others share."""

    def cost(self, price: Price | None) -> float:
        """Return what a query costs: money where tokens have a price, else the tokens of its
        prompt."""
        return self.usage.prompt if price is None else price.of_queries(self.usage, 1)


class Answered(NamedTuple):
    """The LM's answers to some prompts, scored."""

    scores: np.ndarray
    """float [N]: the metric of each row."""
    sample: Sample
    """The rows' statistics, with the metric as a function of their sums."""
    replies: Sequence[Reply]


class Field:
    """Candidates over one bank, with one LM.

    What two candidates ask alike is read, and paid for from the budget, once. An answer that was
    read before costs what it cost then, so that a search that was killed and goes on takes the same
    decisions.
    """

    def __init__(
        self, config: RunConfig, task: Task, budget: Budget, models: Models | None = None
    ) -> None:
        self.config, self.task, self.budget = config, task, budget
        self.run = open_run(config, task, models).run
        self._nothing = Run(self.run.root / "nothing", self.run.models)
        """A run that has computed nothing, to estimate work."""
        self._setups: dict[RunConfig, Setup] = {}
        self._builders: dict[tuple[str, ...], PromptBuilder] = {}
        self._answers: dict[tuple[str, ...], Reply] = {}
        self._paid: set[str] = set()
        self.base = self.setup(ZERO)
        self.lm = self.run.lm(self.base.lm)

    def setup(self, candidate: Candidate) -> Setup:
        """Return the setup of a candidate's settings; candidates of equal settings share it."""
        config = candidate.config(self.config)
        if config not in self._setups:
            self._setups[config] = setup_of(config, self.task, self.run.models)
        return self._setups[config]

    def enter(self, candidate: Candidate, queries: Sequence[Example]) -> Entrant:
        """Return a candidate's prompts for N rows. Of those that have to be prepared, each stage is
        paid for once."""
        ids = tuple(query.id for query in queries)
        if ids not in self._builders:
            # counts the bank's tokens once for all candidates
            self._builders[ids] = self.base.answering.builder(self.run, queries)
        setup = self.setup(candidate)
        row = setup.config.configured(candidate.row)
        stage = row_stages.predictions(setup, row, Examples(queries))
        assert isinstance(stage, Predictions), "the LM answers every candidate"
        choice = self.run.get(stage.choice)
        builder = self._builders[ids]
        prompts = [prompt.text for prompt in stage.prompts(self.run, queries, choice, builder)]
        if candidate.prepared:
            for key, cost in self._unpaid(stage.choice).items():
                self._paid.add(key)
                self.budget.spend(cost, cost.tokens)
        lengths = np.asarray(self.lm.count_tokens(prompts), np.float64)
        golds = [query.output for query in queries]
        [beginning, *answers] = self.lm.count_tokens([beginning_of(prompts), *golds])
        return Entrant(
            candidate,
            prompts,
            lengths,
            lengths + self._answer_tokens(queries) + _SPECIAL,
            Usage(float(lengths.mean()), float(beginning), float(np.mean(answers))),
            self.run.cost([stage.choice]).tokens if candidate.prepared else 0,
        )

    def _unpaid(self, choice: Choose) -> dict[str, Cost]:
        """The costs of the stages on disk, by key, that choosing some examples needs and nothing
        was spent on yet."""
        costs = self.run.costs([choice])
        return {
            key: cost for key, (_, cost) in costs.items() if cost.tokens and key not in self._paid
        }

    def _answer_tokens(self, queries: Sequence[Example]) -> np.ndarray:
        """The largest number of tokens of each answer."""
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
        reserve_seconds: float = 0.0,
        least: int = 0,
        paced: bool = True,
    ) -> list[Answered]:
        """Return what the LM answers to a span of the rows of each entrant.

        Rows are read one after another, each by all entrants. Once the minutes have passed, reading
        stops, and only the rows that all have answered are returned.

        Args:
            entrants: candidates with their prompts for `queries`.
            queries: N rows.
            span: the part of the rows to answer.
            what: labels the progress bar.
            reserve: LM tokens that are read later, whose time is left for them.
            reserve_seconds: the time that is left for other work.
            least: rows of the span that are read although the minutes have passed.
            paced: whether the time that it takes says how fast the LM is.
        """
        rows_in_span = queries[span]
        questions = [
            [
                (prompt, *query.choices)
                for prompt, query in zip(entrant.prompts[span], rows_in_span, strict=True)
            ]
            for entrant in entrants
        ]
        tokens = [entrant.tokens[span] for entrant in entrants]
        new: dict[tuple[str, ...], tuple[int, float]] = {}
        for row in range(len(rows_in_span)):
            for of_entrant, counts in zip(questions, tokens, strict=True):
                if of_entrant[row] not in self._answers:
                    new.setdefault(of_entrant[row], (row, float(counts[row])))
        waiting = list(new)
        with bar(len(new), what) as progress:
            while waiting:
                readable = waiting
                if self.budget.out_of_time(reserve, reserve_seconds):
                    readable = [key for key in waiting if new[key][0] < least]
                    if not readable:
                        break
                chunk = readable[: self._chunk(new[waiting[0]][1])]
                waiting = waiting[len(chunk) :]
                rows = [rows_in_span[new[key][0]] for key in chunk]
                with self.lm.metered(what) as spent:
                    replies = ask(
                        self.lm, self.base.answering, self.task.stop, [k[0] for k in chunk], rows
                    )
                estimated = sum(new[key][1] for key in chunk)
                self.budget.spend(spent.cost, estimated, paced=paced)
                self._answers |= zip(chunk, replies, strict=True)
                progress.update(len(chunk))
        done = new[waiting[0]][0] if waiting else len(rows_in_span)
        return [
            self.score([self._answers[key] for key in of_entrant[:done]], rows_in_span[:done])
            for of_entrant in questions
        ]

    def _chunk(self, tokens: float) -> int:
        """Return how many prompts of `tokens` tokens are read before the next look at the clock."""
        if self.budget.minutes is None or not self.budget.pace:
            return _CHUNK
        return max(4, min(_CHUNK, int(_CHUNK_SECONDS / (self.budget.pace * tokens))))

    def score(self, replies: Sequence[Reply], queries: Sequence[Example]) -> Answered:
        """Return answers to some rows with the task's metric of them."""
        if not queries:
            return Answered(np.zeros(0), Sample(np.zeros((0, 1)), mean), ())
        predictions = [reply.prediction for reply in replies]
        metric = METRICS[self.task.metric]
        scores = metric.scored(predictions, queries)
        sample = Sample(metric.statistics(scores, predictions, queries), metric.from_sums)
        return Answered(scores, sample, replies)

    def encoding(self, queries: Sequence[Example]) -> float:
        """Return the seconds that encoding the bank and some queries takes here, by encoding a few
        of them."""
        encoder = self.base.pretrained.get()
        texts = [row.input for row in (*queries, *self.task.train)]
        size = min(_ENCODED, len(texts))
        encoder.encode(texts[:size])  # compiles for their lengths
        began = time.perf_counter()
        encoder.encode(texts[:size])
        return len(texts) / size * (time.perf_counter() - began)

    def took(self, candidate: Candidate, queries: Sequence[Example]) -> float:
        """Return the seconds that choosing a candidate's examples for some rows took, with all that
        it needs, such as encoding; in this process or an earlier one."""
        setup = self.setup(candidate)
        choice = row_stages.choice(setup, setup.config.configured(candidate.row), Examples(queries))
        return self.run.cost([choice]).seconds

    def preparation(self, candidate: Candidate, known: Entrant) -> tuple[float, float]:
        """Return the LM tokens that preparing a candidate may take, and the seconds of encoding and
        training.

        Args:
            candidate: one that is to be prepared.
            known: one whose prompts are there: where a plan counts characters, as for a server,
                their tokens say by how much it is wrong.

        Raises:
            UserError: the candidate cannot be prepared here.
        """
        setup = self.setup(candidate)
        choice = row_stages.choice(setup, setup.config.configured(candidate.row))
        unpaid = closure([choice], lambda stage: stage.key in self._paid)
        # as if nothing was on disk, so that a search that was stopped takes the same decisions
        works = {stage: self._nothing.estimate(stage) for stage in unpaid}
        counted = self.run.models.counting(self.base.lm).count_tokens(known.prompts)
        wrong = max(1.0, float(known.lengths.sum()) / max(1, int(counted.sum())))
        tokens = MARGIN * wrong * sum(work.read + work.written for work in works.values())
        missing = [works[stage] for stage in self.run.missing([choice]) if stage in works]
        own = [work._replace(read=0.0, written=0.0) for work in missing]
        return tokens, MARGIN * sum(map(this_machine().seconds, own))

    def lighten(self, candidate: Candidate) -> bool:
        """Give a candidate's method half the work from now on, and return whether that can be."""
        smaller = self.setup(candidate).config.configured(candidate.row).method.smaller()
        if smaller is None:
            return False
        self.config = self.config.using(smaller)
        return True

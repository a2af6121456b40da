"""The search: candidates race on tuning rows within a budget, and the final rows are looked at
once."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ceil_jax.errors import UserError
from ceil_jax.methods.free import no_labels
from ceil_jax.methods.registry import ROWS, scorable
from ceil_jax.metrics.bootstrap import (
    Sample,
    bootstrap_interval,
    by_group,
    mean,
    metric_interval,
    paired,
)
from ceil_jax.pipeline import rows as row_stages
from ceil_jax.pipeline.answering import Reply, trouble_in_words
from ceil_jax.pipeline.config import RunConfig
from ceil_jax.pipeline.models import Models
from ceil_jax.tasks.example import Task
from ceil_jax.tasks.structures import programs
from ceil_jax.tuning.budget import Budget
from ceil_jax.tuning.candidates import PLAIN, ZERO, Candidate, candidates, prepared, searched
from ceil_jax.tuning.config import TuneConfig
from ceil_jax.tuning.field import Entrant, Field, OutOfTime
from ceil_jax.tuning.outcome import Alone, Outcome, Standing
from ceil_jax.tuning.race import Race, Round, hold
from ceil_jax.tuning.rows import split_rows
from ceil_jax.tuning.verdict import FEWEST_ROWS, judge

log = logging.getLogger(__name__)

_PROBE = 8
"""Rows that zero examples answer before anything else, to learn how fast the LM is and how it
counts."""

_LEAST_BANK = 96
"""Examples of the smallest bank that is learnt from with an LM's scores."""


class Search:
    """One search, from the first row to the outcome: `config` has the settings that all candidates
    share."""

    def __init__(
        self, config: RunConfig, task: Task, search: TuneConfig, models: Models | None = None
    ) -> None:
        self.config, self.search = config, search
        rows = search.tuning_rows, search.final_rows
        self.task, self.tuning, repeated = split_rows(task, *rows, config.data_seed)
        self.field = Field(config, self.task, Budget(search.lm_tokens, search.minutes), models)
        self.final = list(self.task.validation)
        self.notes: list[str] = []
        if repeated:
            why = "were left out, for they repeat others or stand in the bank."
            self.notes.append(f"{repeated:,} held-out rows {why}")

    def run(self) -> Outcome:
        """Race, look at the final rows, and return what was found.

        A budget that does not pay for the first round, and an LM that answers nothing rightly, are
        UserErrors.
        """
        wanted = searched(self.search, self.config, self.task)
        methods, left_out = scorable(self.field.base.lm.get(), wanted)
        self.notes += [left_out] if left_out else []
        if len(self.task.train) < _LEAST_BANK and any(
            ROWS[name].learns_from_lm for name in methods
        ):
            self.notes.append(
                f"A bank of {len(self.task.train)} examples is too small to train on."
            )
            methods = tuple(name for name in methods if not ROWS[name].learns_from_lm)
        found = [
            self.field.enter(one, self.tuning)
            for one in candidates(methods, self.search, self.task)
        ]
        # the first of those whose prompts are all the same
        self.entrants = list({tuple(one.prompts): one for one in reversed(found)}.values())[::-1]
        if len(self.entrants) < 2:
            way = "give more --methods, --ks or --trade-offs"
            raise UserError(
                "a race begins with two candidates, and those that an LM prepares join later; "
                f"{way}"
            )
        # these are judged at the end, whether they race or not
        self.zero, self.plain = (self.field.enter(one, self.tuning) for one in (ZERO, PLAIN))
        later = len(prepared(methods, self.search, PLAIN.shots))
        self.race = Race(
            np.stack([one.tokens for one in self.entrants]), rivals=len(self.entrants) + later
        )
        # see that the budget pays for a first round and for the end; fewer final rows, if need be
        first = self.race.first_cost()
        self._check_paid(first + float(self.zero.tokens[:_PROBE].sum()))
        self.field.answer([self.zero], self.tuning, slice(0, _PROBE), "a look at the LM's speed")
        self._check_paid(first)
        hold(self.race, self._ask, self._left)
        shots = self.entrants[self.race.winner()].candidate.shots or PLAIN.shots
        for one in self._prepared(prepared(methods, self.search, shots)):
            self.race.join(one.tokens)
            self.entrants.append(one)
            hold(self.race, self._ask, self._left)
        return self._finish()

    def _reserve(self) -> float:
        """LM tokens that the final rows may take: zero examples, plain top-k, and two that are
        still in the race."""
        dearest = max(self.race.mean_tokens(i) for i in self.race.racing)
        each = 2 * dearest + self.zero.tokens.mean() + self.plain.tokens.mean()
        return 1.1 * len(self.final) * float(each)

    def _left(self) -> float:
        return self.field.budget.left() - self._reserve()

    def _check_paid(self, tokens: float) -> None:
        left = self.field.budget.left()
        # at most half of the budget is for the end
        while len(self.final) > FEWEST_ROWS and self._reserve() > min(left / 2, left - tokens):
            self.final = self.final[: max(FEWEST_ROWS, int(0.9 * len(self.final)))]
        if (needed := tokens + self._reserve()) > left:
            raise UserError(
                f"the first round, {len(self.entrants)} candidates on {self.race.stops[0]} rows, "
                f"and {len(self.final)} final rows take {self.field.budget.needed(needed)}; give "
                "that or more, or search fewer --methods or --ks"
            )

    def _ask(self, asked: Round) -> Mapping[int, np.ndarray]:
        racers, start, stop = asked
        states = self.race.states
        log.info(
            "rows %d to %d: %d candidates, %d clearly worse, %d set aside; %s",
            *(
                start + 1,
                stop,
                len(racers),
                states.count("worse"),
                states.count("aside"),
                self.field.budget,
            ),
        )
        try:
            entrants = [self.entrants[i] for i in racers]
            found = self.field.answer(
                entrants, self.tuning, slice(start, stop), f"row {stop} of the race"
            )
        except OutOfTime:
            if not start:
                raise
            self.notes.append("The minutes had passed before the race was over.")
            return {}
        if start == 0 and len(racers) > 1 and not any(one.scores.any() for one in found):
            query, answer = self.tuning[0], found[-1].replies[0].prediction
            raise UserError(
                f"{self.field.base.lm.key} scores 0 on {stop} rows with each of {len(racers)} "
                f"candidates; where {query.output!r} was right it answered {answer!r}: try another "
                "--lm, --template or --metric"
            )
        return {i: one.scores for i, one in zip(racers, found, strict=True)}

    def _prepared(self, waiting: list[Candidate]) -> Iterator[Entrant]:
        """Those that the budget pays for, each when it is its turn."""
        for one in waiting:
            reference = next(
                (e for e in self.entrants if e.candidate.shots == one.shots), self.plain
            )
            try:
                needed = self.field.preparation(one) + float(reference.tokens.sum())
            except UserError as error:
                self.notes.append(f"{one.label} was not tried: {error}.")
                continue
            if needed > self._left():
                self.notes.append(
                    f"{one.label} was not tried: it takes {needed:,.0f} LM tokens, and what is "
                    f"left pays for {max(0.0, self._left()):,.0f}."
                )
                continue
            yield self.field.enter(one, self.tuning)

    def _finish(self) -> Outcome:
        """Let the finalists answer the final rows."""
        field, tolerance = self.field, self.search.tolerance / 100
        winner = self.entrants[self.race.winner()]
        near = self.entrants[self.race.near(points=tolerance)[0]]
        named = {
            "winner": winner,
            "cheapest within noise": near,
            "plain top-k": self.plain,
            "": self.zero,
        }
        roles: dict[Candidate, list[str]] = {}
        for role, one in named.items():
            roles.setdefault(one.candidate, []).append(role)
        entered = [field.enter(candidate, self.final) for candidate in roles]
        each = np.sum([one.tokens for one in entered], axis=0)
        paid = int((np.cumsum(each) <= field.budget.left()).sum())
        if paid < FEWEST_ROWS:
            raise UserError(
                f"what is left of the budget pays for {paid} final rows, and {FEWEST_ROWS} are "
                f"needed: give {field.budget.needed(float(each[:FEWEST_ROWS].sum()))} or more "
                "(answers are kept)"
            )
        rows = self.final[:paid]
        answered = field.answer(entered, self.final, slice(0, paid), "the final rows")
        lengths = [float(one.lengths.mean()) for one in entered]
        samples = [one.sample for one in answered]
        self._note_troubles([reply for one in answered for reply in one.replies])
        groups = programs(rows, self.task.train)
        verdict = judge(samples, lengths, tolerance, groups)
        alone = None
        if not no_labels(self.task):
            classifier = row_stages.predictions(field.base, field.base.row("classifier"))
            predicted = field.run.get(classifier)
            answers = {row["id"]: row["prediction"] for row in predicted}
            sample = field.score([Reply(answers[row.id]) for row in rows], rows).sample
            difference = paired(sample, samples[verdict.recommended])
            alone = Alone(
                metric_interval(sample, groups), bootstrap_interval(*by_group(difference, groups))
            )
        return Outcome(
            task=self.task.name,
            metric=self.task.metric,
            lm=field.base.lm.key,
            bank=len(self.task.train),
            tuning=len(self.tuning),
            final=paid,
            race=self._raced(),
            finals=tuple(
                Standing(
                    one.candidate,
                    score,
                    paid,
                    tokens,
                    ", ".join(filter(None, roles[one.candidate])),
                )
                for one, score, tokens in zip(entered, verdict.scores, lengths, strict=True)
            ),
            verdict=verdict,
            spent=str(field.budget),
            tokens=field.budget.tokens,
            notes=tuple(self.notes),
            alone=alone,
        )

    def _note_troubles(self, replies: Sequence[Reply]) -> None:
        """Note how many answers to the final rows can hardly be right, and why."""
        counts = Counter(reply.trouble for reply in replies if reply.trouble)
        for trouble, count in counts.items():
            words = trouble_in_words(trouble, self.task.max_new_tokens)
            self.notes.append(
                f"Answers to the final rows that are {words}: {count:,} of {len(replies):,}."
            )

    def _raced(self) -> tuple[Standing, ...]:
        """What raced: those that stayed to the end first, by rows and score."""
        ends = {
            "racing": "stayed to the end",
            "aside": "set aside for the budget",
            "worse": "clearly worse",
        }
        found = []
        for one, scores, state in zip(
            self.entrants, self.race.scores, self.race.states, strict=True
        ):
            if len(scores):
                score, tokens = (
                    metric_interval(Sample(scores[:, None], mean)),
                    float(one.lengths.mean()),
                )
                found.append(Standing(one.candidate, score, len(scores), tokens, ends[state]))
        order = list(ends.values())
        found.sort(
            key=lambda one: (order.index(one.remark), -one.rows, -one.score.mean, one.tokens)
        )
        return tuple(found)

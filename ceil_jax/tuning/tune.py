"""The search: candidates race on tuning rows within a budget, and the final rows are looked at once."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from ceil_jax.errors import UserError
from ceil_jax.pipeline.config import RunConfig
from ceil_jax.pipeline.evaluate import remark
from ceil_jax.pipeline.methods import scorable
from ceil_jax.pipeline.models import Models
from ceil_jax.racing.budget import Limits, Meter
from ceil_jax.racing.race import Race, Step, hold
from ceil_jax.racing.split import FEWEST
from ceil_jax.store.hashing import digest
from ceil_jax.tasks.example import Task
from ceil_jax.tuning import learned
from ceil_jax.tuning.answers import OutOfTime
from ceil_jax.tuning.candidates import NOTHING, Candidate, candidates, methods, plain, prepared
from ceil_jax.tuning.field import Entrant, Field
from ceil_jax.tuning.finals import finish, runners
from ceil_jax.tuning.options import Rows, Space
from ceil_jax.tuning.outcome import Outcome
from ceil_jax.tuning.split import Split, looks

log = logging.getLogger(__name__)

_PROBE = 8
"""Rows that zero examples answer before anything else, to learn how fast the LM is and how it counts."""

_FINALS = 4
"""Prompts for each final row, at most."""


class Search:
    """One search, from the first row to the outcome.

    Args:
        config: the settings of all candidates: LM, encoder, where results are kept, and those of training.
        task: the bank, and held-out queries.
        space: what is searched.
        limits: what it may spend.
        rows: how many rows are for what.
        models: shared with other runs; by default its own.
    """

    def __init__(
        self,
        config: RunConfig,
        task: Task,
        space: Space | None = None,
        limits: Limits | None = None,
        rows: Rows | None = None,
        models: Models | None = None,
    ) -> None:
        self.space, self.limits, self.rows = space or Space(), limits or Limits(), rows or Rows()
        self.split = Split(task, self.rows, config.data_seed)
        self.meter = Meter(self.limits)
        self.field = Field(config, self.split.task, self.meter, models)
        self.config, self.task = config, self.split.task
        self.notes: list[str] = []
        if self.split.left_out:
            self.notes.append(
                f"{self.split.left_out:,} held-out rows were left out, for they repeat others or stand in the bank."
            )
        self._final = len(self.split.final)

    def run(self) -> Outcome:
        """Race, look at the final rows, and return what was found.

        Raises:
            UserError: the budget does not pay for the first round, or the LM answers nothing rightly.
        """
        names = methods(self.space, self.config, self.task)
        self.space = replace(self.space, methods=scorable(self.field.base.lm.get(), names))
        asked = candidates(self.space, self.config, self.task)
        entrants = self._distinct([self.field.enter(one, self.split.tuning) for one in asked])
        extra = 0
        if learned.sized(self.task):
            extra = len(prepared(self.space, self.config, self.task, plain(self.config, self.task)))
        self.entrants = entrants
        # these are judged at the end, whether they race or not
        self.zero = self._entrant(NOTHING)
        self.plain = self._entrant(plain(self.config, self.task))
        if len(entrants) < 2:
            raise UserError("one candidate alone is no search; give more --methods, --ks or --trade-offs")
        self.race = Race(np.stack([one.tokens for one in entrants]), rivals=len(entrants) + extra)
        self._check_first()
        log.info(
            "%d candidates, %d rows to race on, %d for the end, %d in the bank; %s",
            *(len(entrants), len(self.split.tuning), self._final, len(self.task.train), self.meter),
        )
        hold(self.race, self._ask, self._left, self._tell)
        for one in self._prepared():
            self.race.join(one.tokens)
            entrants.append(one)
            hold(self.race, self._ask, self._left, self._tell)
        return self._finish()

    def _entrant(self, candidate: Candidate) -> Entrant:
        found = next((one for one in self.entrants if one.candidate == candidate), None)
        return found or self.field.enter(candidate, self.split.tuning)

    def _distinct(self, entrants: Sequence[Entrant]) -> list[Entrant]:
        """The first of those whose prompts are all the same."""
        kept = list({tuple(one.prompts): one for one in reversed(entrants)}.values())[::-1]
        if len(kept) < len(entrants):
            log.info("%d candidates give the prompts of others and are left out", len(entrants) - len(kept))
        return kept

    def _reserve(self) -> float:
        """LM tokens that the final rows may take: zero examples, plain top-k, and two that are still in the race."""
        dearest = max(self.race.mean_tokens(i) for i in self.race.racing)
        each = 2 * dearest + self.zero.tokens.mean() + self.plain.tokens.mean()
        return 1.1 * self._final * float(each)

    def _left(self) -> float:
        return self.meter.left() - self._reserve()

    def _check_first(self) -> None:
        """See that the budget pays for a first round and for the end; fewer final rows, if need be."""
        first = self.race.first_cost()
        self._need(first + float(self.zero.tokens[:_PROBE].sum()))
        try:
            self.field.score([self.zero], self.split.tuning, slice(0, _PROBE), "the LM's speed")
        except OutOfTime:
            raise UserError(
                f"{self.limits.flags()}: the seconds were spent before the first round; give more"
            ) from None
        self._need(first)

    def _need(self, tokens: float) -> None:
        race, left, requests = self.race, self.meter.left(), self.meter.requests_left
        # at most half of the budget is for the end
        most = min(left / 2, left - tokens)
        while self._final > FEWEST and (self._reserve() > most or _FINALS * self._final > requests / 2):
            self._final = max(FEWEST, int(0.9 * self._final))
        needed = tokens + self._reserve()
        if needed > left or self._first_requests() > requests:
            raise UserError(
                f"{self.limits.flags()}: the first round, {len(race.tokens)} candidates on {race.stops[0]} rows, and "
                f"{self._final} final rows take {self._words(needed)}; give that much or more, or search fewer "
                "--methods or --ks"
            )

    def _first_requests(self) -> int:
        return self.race.stops[0] * len(self.race.tokens) + _FINALS * self._final

    def _words(self, needed: float) -> str:
        """Estimated tokens in units of the limits."""
        meter, limits = self.meter, self.limits
        parts = [f"{meter.tokens + meter.ratio * needed:,.0f} LM tokens"]
        if limits.seconds is not None and meter.seconds_per_token:
            parts.append(f"{meter.seconds + meter.seconds_per_token * needed:,.0f} seconds")
        if limits.requests is not None:
            parts.append(f"{meter.requests + self._first_requests():,} prompts")
        if limits.price_per_million is not None:
            parts.append(
                f"{(meter.tokens + meter.ratio * needed) * limits.price_per_million / 1e6:.2f} in money"
            )
        return ", ".join(parts)

    def _ask(self, step: Step) -> Mapping[int, np.ndarray]:
        # prompts are counted for a whole round: the best go on where not all can
        requests = self.meter.requests_left - _FINALS * self._final
        paid = min(len(step.racers), requests // (step.stop - step.start))
        best = [i for i in self.race.ranked(step.start) if i in step.racers]
        racers = sorted(best[: max(0, int(paid))])
        if len(racers) < min(2, len(step.racers)):
            return {}
        what = f"{len(racers)} candidates, rows {step.start + 1}–{step.stop}"
        try:
            entrants, span = [self.entrants[i] for i in racers], slice(step.start, step.stop)
            found = self.field.score(entrants, self.split.tuning, span, what)
        except OutOfTime:
            self.notes.append("The seconds were spent before the race was over.")
            return {}
        if step.start == 0 and len(racers) > 1 and not any(one.scores.any() for one in found):
            query, answer = self.split.tuning[0], found[-1].predictions[0]
            raise UserError(
                f"{self.field.base.lm.key} scores 0 on {step.stop} rows with each of {len(racers)} candidates; "
                f"where {query.output!r} was right it answered {answer!r}: try another --lm, --template or --metric"
            )
        return {i: one.scores for i, one in zip(racers, found, strict=True)}

    def _tell(self, step: Step, dropped: Sequence[int]) -> None:
        race = self.race
        best = race.ranked(step.stop)[0]
        log.info(
            "%d rows: %d in the race, %d clearly worse, %d set aside; best: %s, %.1f; %s",
            *(step.stop, len(race.racing), race.states.count("worse"), race.states.count("aside")),
            *(self.label(self.entrants[best].candidate), 100 * race.scores[best][: step.stop].mean()),
            self.meter,
        )

    def label(self, candidate: Candidate) -> str:
        """Return a candidate's name in this search."""
        return candidate.label(1 + len(set(self.space.encoders) - {self.config.encoder}))

    def _prepared(self) -> Iterator[Entrant]:
        """The candidates that an LM has to prepare and the budget pays for, each when it is its turn."""
        race = self.race
        leader = self.entrants[race.winner()].candidate
        waiting = prepared(self.space, self.config, self.task, leader)
        if not waiting:
            return
        if not learned.sized(self.task):
            self.notes.append(f"A bank of {len(self.task.train)} examples is too small to train on.")
            waiting = [one for one in waiting if not one.trains]
        entered: set[str] = set()
        promising: bool | None = None
        for one in waiting:
            label = self.label(one)
            reference = next((e for e in self.entrants if e.candidate.shots == one.shots), self.plain)
            rows = float(reference.tokens.sum())
            needed = learned.cost(self.field, one)
            if needed is None:
                self.notes.append(f"{label} was not tried: its cost cannot be counted here.")
                continue
            unknown = one.trains and promising is None
            check = learned.prospect_cost(float(reference.tokens.mean())) if unknown else 0.0
            if needed + rows + check > self._left():
                self.notes.append(
                    f"{label} was not tried: it takes {needed + rows + check:,.0f} LM tokens, and what is left pays "
                    f"for {max(0.0, self._left()):,.0f}."
                )
                continue
            if unknown:
                found = learned.prospect(self.field, replace(one, context="input"))
                promising = found.low > 0
                gain = f"{found.mean:+.2f} nats ({found.low:+.2f} to {found.high:+.2f})"
                if promising:
                    self.notes.append(f"Training has something to win: the best of some sets gains {gain}.")
                else:
                    self.notes.append(
                        f"Trained methods were not tried: even the best of some sets gains {gain} over top-k."
                    )
            if one.trains and not promising:
                continue
            entrant = self.field.enter(one, self.split.tuning)
            learned.spent(self.field, one, entered)
            kept = remark(self.field.run, self.field.graph(one), one.method)
            if kept:
                self.notes.append(f"{label}: {kept}.")
            yield entrant

    def _finish(self) -> Outcome:
        race = self.race
        best = [race.winner(), race.near(points=self.rows.tolerance / 100)[0]]
        roles = {"winner": self.entrants[best[0]], "cheapest within noise": self.entrants[best[1]]}
        roles |= {"plain top-k": self.plain, "": self.zero}
        rows = self.split.final[: self._final]
        finals, verdict, asked, alone = finish(self.field, roles, rows, self.label, self.rows.tolerance / 100)
        # where results are kept is no part of a search
        mine = digest([self.space, self.limits, self.rows, replace(self.config, out=Path())])
        others = looks(self.config.out, rows[:asked], self.field.base.lm.key, mine)
        if others:
            self.notes.append(
                f"These final rows were looked at by {others} other search{'es' if others > 1 else ''} before: if "
                "settings were changed because of that, intervals are too hopeful; another --data-seed draws others."
            )
        return Outcome(
            task=self.task.name,
            metric=self.task.metric,
            lm=self.field.base.lm.key,
            bank=len(self.task.train),
            tuning=len(self.split.tuning),
            final=asked,
            runners=runners(race, self.entrants, self.label),
            finals=finals,
            verdict=verdict,
            spent=str(self.meter),
            tokens=self.meter.tokens,
            notes=tuple(self.notes),
            alone=alone,
        )

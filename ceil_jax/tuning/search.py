"""The search: a race on the tuning rows within the budget, then one comparison on the final rows.

1. Zero examples and the *standard*, the choice that needs no search (`candidates.standard`), answer
   the first tuning rows, which measures the LM's speed.
2. The other candidates are prepared in the first third of the minutes, and join by price, the
   cheapest first, as long as half of the budget pays for the first part of the rows.
3. The loop: all that are still possible answer the next part of the tuning rows, and the clearly
   worse ones are dropped (`race`). Parts double. It ends when one candidate is left, when all rows
   are answered, when answers without an LM are clearly better than those of all that are left, or
   when the next part does not fit the tokens or minutes that remain besides those for the final
   rows.
4. Unless answers without an LM ended the race, what is left pays for others: those that were set
   aside, then more expensive candidates, then those that an LM has to prepare, such as EPR and CEIL.
5. The winner, the cheapest that the race could not tell from it, the standard and zero examples
   answer the final rows, and `verdict` compares them.

The notes of the outcome list what the budget did not pay for; the last one names a budget that
would.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import numpy as np

from ceil_jax.errors import UserError
from ceil_jax.lm.price import Price
from ceil_jax.methods.registry import usable_with
from ceil_jax.metrics.bootstrap import Sample, mean, metric_interval
from ceil_jax.pipeline.config import RunConfig
from ceil_jax.pipeline.models import Models
from ceil_jax.pipeline.plan import duration
from ceil_jax.pipeline.ways import Reply
from ceil_jax.tasks.example import Example, Task
from ceil_jax.tasks.structures import programs
from ceil_jax.tuning.budget import Budget, token_limit
from ceil_jax.tuning.candidates import (
    ZERO,
    Candidate,
    candidates,
    possible_ks,
    searched,
    standard,
)
from ceil_jax.tuning.config import TuneConfig
from ceil_jax.tuning.field import Entrant, Field, ScoredReplies
from ceil_jax.tuning.final_rows import Finalist, answered, notes_on, shown_rows, standings
from ceil_jax.tuning.finals import Finals, WithoutLM
from ceil_jax.tuning.outcome import Outcome
from ceil_jax.tuning.paired import chances, draws_for
from ceil_jax.tuning.race import FIRST_ROWS, Race, Round, hold
from ceil_jax.tuning.rows import split_rows
from ceil_jax.tuning.standing import Standing
from ceil_jax.tuning.verdict import judge
from ceil_jax.tuning.without_lm import (
    note_on_majority,
    replies_without_lm,
    result_without_lm,
    row_without_lm,
    then_lm,
)

log = logging.getLogger(__name__)

FEWEST_IN_BANK = 96
"""The smallest size to which a bank may be cut, and the smallest size on which methods are trained
with an LM's scores."""

_WARM = 2
"""Number of rows that are answered before the LM's speed is measured, because the first prompts
include its start-up."""
_MEASURED = 8
"""Number of rows on which the LM's speed is measured."""

_WRONG = 5
"""The number of wrong answers that the page shows."""

_REMARKS = {
    "racing": "stayed to the end",
    "aside": "set aside for the budget",
    "worse": "clearly worse",
}
"""Remarks on how the race ended for a candidate, in the order of tables."""


class Search:
    """One search, from its settings to its outcome.

    Args:
        config: the settings that all candidates share.
        task: the rows.
        search: the candidates and the budget.
        models: loads LMs and encoders.
        began: the start of the minutes, by `time.perf_counter`; by default now.
        price: the price of the LM's tokens: prompts are then compared by money, and tables show it.

    Raises:
        UserError: an unknown method, too few rows, a single label, or a bank that is too small for
            every K.
    """

    def __init__(
        self,
        config: RunConfig,
        task: Task,
        search: TuneConfig,
        models: Models | None = None,
        began: float | None = None,
        price: Price | None = None,
    ) -> None:
        self.config = config
        self.search = search
        self.price = price
        self.notes: list[str] = []
        self.entrants: list[Entrant] = []
        """The candidates that race, numbered as `race` does."""
        self._half = math.inf
        """Half of the LM tokens that were left when the race began."""
        self._all_wrong = False
        """Whether the LM answered all of the first rows wrongly, which ends the race."""
        self._without_lm: np.ndarray | None = None
        """float [m]: the scores of the answers without an LM on the tuning rows; None if there are
        no such answers."""
        methods = searched(search, config, task)
        bank_and_final, self.tuning, repeated = split_rows(
            task, search.tuning_rows, search.final_rows, config.data_seed
        )
        if repeated:
            self.notes.append(
                f"{repeated:,} held-out rows were left out, because they repeat others or are in "
                "the bank."
            )
        lm_tokens = token_limit(search.lm_tokens, search.minutes, config.lm)
        self.budget = Budget(lm_tokens, search.minutes, began)
        self.field = Field(config, bank_and_final, self.budget, models)
        self.final = list(self.field.task.validation)
        self.methods, left_out = usable_with(self.field.base.lm.get(), methods, self.task)
        if left_out:
            self.notes.append(left_out)
        self.ks = possible_ks(search, self.task)
        self.standard = standard(self.task)
        self._fit_bank()

    @property
    def task(self) -> Task:
        """The task with the final rows as queries, and the bank that examples are chosen from."""
        return self.field.task

    def run(self) -> Outcome:
        """Race, let the best answer the final rows, and return the outcome.

        The budget is exceeded only if it is too small for `final_rows.LEAST_FINAL` rows.
        """
        self._measure_speed()
        # the answers without an LM go first: the race is given the time that is left
        late: list[str] = []
        without_lm = self._answer_without_lm(late)
        prepared = self._candidates(late)
        if late:
            self.notes.append(
                f"Not prepared in the first third of the minutes, and left out: {_some_of(late)}."
            )
        self._race(prepared)
        finalists = self._finalists()
        answers = answered(self.field, self.budget, finalists, self.final)
        self.notes += notes_on(answers, len(self.final), self.task.max_new_tokens)
        count = len(answers[0].scores)
        groups, raced_groups = self._groups(self.final[:count])
        verdict = judge(
            [answer.sample for answer in answers],
            [finalist.entrant.cost(self.price) for finalist in finalists],
            self.search.tolerance / 100,
            groups,
            raced=[finalist.raced for finalist in finalists],
            raced_groups=raced_groups,
        )
        finalist = finalists[verdict.recommended]
        answer = answers[verdict.recommended]
        finals = Finals(
            standings(finalists, answers, verdict),
            verdict,
            self._result_without_lm(without_lm, finalist, answer, groups),
            self.search.tolerance,
            self.price,
        )
        rows = shown_rows(self.final, finalist, answer)
        return Outcome(
            task=self.task.name,
            metric=self.task.metric,
            lm=self.field.base.lm.key,
            bank_rows=len(self.task.train),
            tuning_rows=len(self.tuning),
            race=self._standings(),
            finals=finals,
            spent=str(self.budget),
            tokens=self.budget.tokens,
            notes=(*self.notes, *self._hint()),
            example=rows[0],
            wrong=tuple(row for row in rows if not row.right)[:_WRONG],
        )

    # the answers without an LM

    def _answer_without_lm(self, late: list[str]) -> Sequence[Reply]:
        """Return the answers to the final rows by the row that needs no LM; [] if there is none.

        Those to the tuning rows are scored for the race. If the time for preparing is over, the
        row's label is added to `late`.
        """
        row = row_without_lm(self.task)
        if row is None:
            return []
        if self.budget.preparing_seconds_left <= 0:
            late.append(row.label)
            return []
        replies = replies_without_lm(self.field, row, [*self.tuning, *self.final])
        known = len(self.tuning)
        self._without_lm = self.field.score(replies[:known], self.tuning).scores
        return replies[known:]

    def _result_without_lm(
        self,
        replies: Sequence[Reply],
        best: Finalist,
        answer: ScoredReplies,
        groups: np.ndarray | None,
    ) -> WithoutLM | None:
        """Return the result of the answers without an LM, compared with the recommended prompt's.

        None if there are no such answers.

        Args:
            replies: the answers without an LM to the final rows.
            best: the recommended prompt.
            answer: its answers to the first n final rows.
            groups: int [n]: equal for rows with one program; None if outputs are not programs.
        """
        row = row_without_lm(self.task)
        if row is None or not replies:
            return None
        final = self.final[: len(answer.scores)]
        scored = self.field.score(replies[: len(final)], final)
        raced = (self.tuning[: len(best.raced)], best.raced)
        both = then_lm(self.field, row, raced, final, answer, groups)
        if row.answers == "classifier":
            note = note_on_majority(self.field, final, answer, groups)
            self.notes += [note] * bool(note)
        return result_without_lm(row, scored, answer, groups, both)

    # what the minutes pay for

    def _fit_bank(self) -> None:
        """Replace the bank by a random part of it if encoding all of it takes too long.

        That is more than half of the minutes.
        """
        bank = len(self.task.train)
        nearest = self.standard
        if self.budget.minutes is None or self.field.has(nearest, self.tuning):
            return
        a_text = self.field.encoding(self.tuning)
        queries = len(self.tuning) + len(self.final)
        seconds = self.budget.preparing_seconds_left
        if 2 * a_text * (bank + queries) <= seconds:
            return
        self.budget.miss(preparing=60 * self.budget.elapsed + 2 * a_text * (bank + queries))
        affordable = int(seconds / 2 / a_text) - queries
        # at least as many as the largest K needs
        size = min(bank, max(FEWEST_IN_BANK, 2 * max(self.ks), affordable))
        self.field.cut_bank(size)
        self.notes.append(
            f"The bank is a random {size:,} of {bank:,} examples, because encoding all of them "
            f"takes about {duration(a_text * bank)}."
        )

    def _measure_speed(self) -> None:
        """Measure the LM's speed on the first tuning rows.

        Zero examples and the standard answer these rows in the race anyway. Minutes are counted in
        tokens from then on. If the budget is too small, nothing is measured.
        """
        self.zero = self.field.enter(ZERO, self.tuning)
        self.plain = self.field.enter(self.standard, self.tuning)
        first = slice(0, _MEASURED)
        if (self.zero.tokens[first] + self.plain.tokens[first]).sum() > self.budget.left() / 4:
            return
        warm = slice(0, _WARM)
        what = "the LM's speed"
        self.field.answer([self.zero], self.tuning, warm, what, least=_WARM, measured=False)
        self.field.answer([self.zero, self.plain], self.tuning, first, what, least=1)

    def _reserve(self, joining: Entrant | None = None) -> float:
        """Return the LM tokens that are kept for the final rows.

        They are those of zero examples, the standard and two others, but at most half of what was
        left when the race began. In the race, the two are the dearest that still race; after it, its
        winner and a candidate that joins.
        """
        tokens_of_row = float(self.zero.tokens.mean() + self.plain.tokens.mean())
        if joining is not None:
            tokens_of_row += float(joining.tokens.mean())
            if self.winner.candidate not in (ZERO, self.standard, joining.candidate):
                tokens_of_row += float(self.winner.tokens.mean())
        elif self.entrants:
            tokens_of_row += 2 * self.race.dearest()
        return min(tokens_of_row * len(self.final), self._half)

    def _left(self, joining: Entrant | None = None) -> float:
        """The number of LM tokens that the race may take now."""
        return self.budget.left(self._reserve(joining))

    # the race

    def _race(self, prepared: Sequence[Entrant]) -> None:
        """Run the race to its end, and let others join while the budget pays for them.

        Args:
            prepared: the candidates that need no preparation by the LM, the cheapest first.
        """
        entrants = self._distinct([self.zero, self.plain, *prepared])
        self._half = self.budget.left() / 2
        starting = self._affordable(entrants)
        waiting = [candidate for candidate in self._to_prepare() if self._is_trainable(candidate)]
        self.entrants = entrants[:starting]
        self.race = Race(
            np.stack([entrant.tokens for entrant in self.entrants]),
            rivals=len(entrants) + len(waiting),
        )
        hold(self.race, self._ask, self._left)
        if self._all_wrong:
            return
        if self._is_settled():
            count = max(map(len, self.race.scores))
            self.notes.append(
                "Answers without LM calls are clearly better than those of every prompt on the "
                f"first {count} tuning rows. Nothing better is likely to be found, and the race "
                "ended."
            )
            return
        if not any(map(len, self.race.scores)):
            self.notes.append("The budget does not pay for a race.")
            self._miss(entrants)
            return
        # less has to be kept for the final rows, now that the winner is known
        self._go_on(self.entrants[max(self.race.racing, key=self.race.mean_tokens)])
        for number in self.race.set_aside():
            if self._pays_for(self.entrants[number], known=len(self.race.scores[number])):
                self.race.resume(number)
                self._go_on(self.entrants[number])
        untried = []
        for entrant in self._by_promise(entrants[starting:]):
            if self._pays_for(entrant):
                self._join(entrant)
            else:
                untried.append(entrant)
        if untried:
            listed = _some_of([entrant.candidate.label for entrant in untried])
            self.notes.append(
                f"{len(untried)} of {len(entrants)} prompts were not tried for the budget "
                f"({listed})."
            )
            self._miss(untried)
        for entrant in self._prepared(waiting):
            self._join(entrant)

    def _candidates(self, late: list[str]) -> list[Entrant]:
        """The candidates besides zero examples and the standard that need no preparation by the LM,
        the cheapest first. Those that could not begin to encode and train in time are added to
        `late` by their labels."""
        found = [
            candidate
            for candidate in candidates(self.methods, self.ks, self.search)
            if not candidate.prepared and candidate not in (ZERO, self.standard)
        ]
        entrants = []
        began = self.budget.elapsed
        # λ multiplies the candidates of a method, so that all methods without it come first
        for candidate in sorted(
            found, key=lambda one: (bool(one.encoder), one.trade_off is not None, one.row.trains)
        ):
            if self.budget.preparing_seconds_left > 0:
                entrants.append(self.field.enter(candidate, self.tuning))
            else:
                late.append(candidate.label)
        if late:
            each = (self.budget.elapsed - began) / max(1, len(entrants))
            self.budget.miss(preparing=60 * (self.budget.elapsed + len(late) * each))
        return sorted(
            entrants,
            key=lambda entrant: (entrant.cost(self.price), found.index(entrant.candidate)),
        )

    def _to_prepare(self) -> list[Candidate]:
        """The candidates that an LM has to prepare, with as many examples as the standard."""
        shots = (self.standard.shots,)
        return [
            candidate
            for candidate in candidates(self.methods, shots, self.search)
            if candidate.prepared and not candidate.encoder
        ]

    def _is_trainable(self, candidate: Candidate) -> bool:
        if len(self.task.train) >= FEWEST_IN_BANK or not candidate.row.learns_from_lm:
            return True
        note = f"A bank of {len(self.task.train)} examples is too small to train on."
        if note not in self.notes:
            self.notes.append(note)
        return False

    @staticmethod
    def _distinct(entrants: Sequence[Entrant]) -> list[Entrant]:
        """Return the candidates without those whose prompts are all equal to another candidate's."""
        first: dict[tuple[object, ...], Entrant] = {}
        for entrant in entrants:
            first.setdefault(tuple(entrant.prompts), entrant)
        return list(first.values())

    def _affordable(self, entrants: Sequence[Entrant]) -> int:
        """Return how many of the candidates answer the first part of the rows, at least two.

        They are as many as half of what is left pays for, so that a second part can follow.
        """
        tokens = np.cumsum([entrant.tokens[:FIRST_ROWS].sum() for entrant in entrants])
        return max(min(2, len(entrants)), int((tokens <= self._left() / 2).sum()))

    def _by_promise(self, entrants: Sequence[Entrant]) -> list[Entrant]:
        """Candidates that have not raced: those of the winner's method first, then by price."""
        row = self.winner.candidate.row
        return sorted(entrants, key=lambda entrant: entrant.candidate.row != row)

    def _pays_for(self, entrant: Entrant, known: int = 0) -> bool:
        """Return whether the budget pays for a candidate that joins the race now.

        It answers all rows raced on so far but the first `known`, each at its longest answer.
        """
        rows = max(map(len, self.race.scores))
        return float(entrant.tokens[known:rows].sum()) <= self._left(entrant)

    def _prepared(self, waiting: Sequence[Candidate]) -> Iterator[Entrant]:
        """Prepare candidates, and yield each one that the budget pays for.

        A note for each reason says which of the others were not tried.
        """
        reasons: dict[str, list[str]] = {}
        unpaid = []
        for candidate in waiting:
            racing = float(self.plain.tokens.sum())
            affordable = self._left(self.plain) - racing
            try:
                tokens, seconds = self.field.preparation(candidate, self.plain, affordable)
            except UserError as error:
                reasons.setdefault(str(error), []).append(candidate.label)
                continue
            if tokens > affordable or self.budget.out_of_time(
                tokens + self._reserve(self.plain), seconds
            ):
                self.budget.miss(tokens + racing, seconds)
                training = f" and about {duration(seconds)} of training" if seconds else ""
                unpaid.append(f"{candidate.label} ({tokens:,.0f} LM tokens{training})")
                continue
            yield self.field.enter(candidate, self.tuning)
        self.notes += [f"Not tried: {', '.join(who)}: {why}." for why, who in reasons.items()]
        if unpaid:
            self.notes.append(f"Not tried for the budget: {'; '.join(unpaid)}.")

    def _join(self, entrant: Entrant) -> None:
        """Let another candidate join the race."""
        self.race.join(entrant.tokens)
        self.entrants.append(entrant)
        self._go_on(entrant)

    def _go_on(self, entrant: Entrant) -> None:
        """Let a candidate answer the rows that the others have answered."""
        log.info(
            "race, %s goes on alone; %s; %s",
            entrant.candidate.label,
            self.budget,
            self.budget.remaining(),
        )
        hold(self.race, partial(self._ask, joining=entrant), partial(self._left, entrant))

    def _miss(self, entrants: Sequence[Entrant]) -> None:
        """Note that the budget does not pay for the first two parts of the rows with these
        candidates."""
        tokens = 2 * sum(float(entrant.tokens[:FIRST_ROWS].sum()) for entrant in entrants)
        self.budget.miss(tokens + self._reserve())

    def _hint(self) -> list[str]:
        """Return a note on a budget that would also pay for what was left out; [] if nothing was left out."""
        flags = self.budget.hint()
        return [f"{flags} pays for what was left out."] if flags else []

    def _ask(self, part: Round, joining: Entrant | None = None) -> Mapping[int, np.ndarray]:
        """Return the scores of each racer on a part of the rows; {} to end the race."""
        if self._all_wrong or self._is_settled():
            return {}
        racers, start, stop = part
        if joining is None:
            states = self.race.states
            log.info(
                "race, rows %d to %d: %d prompt%s, %d clearly worse, %d set aside; %s; %s",
                start + 1,
                stop,
                len(racers),
                "" if len(racers) == 1 else "s",
                states.count("worse"),
                states.count("aside"),
                self.budget,
                self.budget.remaining(),
            )
        answers = self.field.answer(
            [self.entrants[i] for i in racers],
            self.tuning,
            slice(start, stop),
            f"the race, up to row {stop}",
            reserve=self._reserve(joining),
        )
        scores = [answer.scores for answer in answers]
        rows = len(scores[0])
        nothing_right = rows and not any(values.any() for values in scores)
        if start == 0 and len(racers) > 1 and nothing_right:
            self._all_wrong = True
            query = self.tuning[0]
            answer = answers[-1].replies[0].prediction
            self.notes.insert(
                0,
                f"{self.field.base.lm.key} scores 0 on {rows} rows with each of {len(racers)} "
                f"prompts; where {query.output!r} was right it answered {answer!r}: try another "
                "--lm, --template or --metric.",
            )
        return dict(zip(racers, scores, strict=True)) if rows else {}

    def _is_settled(self) -> bool:
        """Return whether the answers without an LM are clearly better than those of every prompt
        that still races, by the test that drops a prompt."""
        scores = [self.race.scores[i] for i in self.race.racing]
        count = min(map(len, scores))
        if self._without_lm is None or not count:
            return False
        ahead = np.stack([self._without_lm[:count] - values[:count] for values in scores])
        return bool((chances(ahead, draws_for(self.race.level)) <= self.race.level).all())

    @property
    def winner(self) -> Entrant:
        """The best of the candidates that have answered the most rows."""
        return self.entrants[self.race.winner()]

    def _standings(self) -> tuple[Standing, ...]:
        """Return the results of the candidates that raced.

        Those that stayed to the end come first, then by rows and score.
        """
        order = list(_REMARKS)
        raced = [
            (state, scores, entrant)
            for state, scores, entrant in zip(
                self.race.states, self.race.scores, self.entrants, strict=True
            )
            if len(scores)
        ]
        raced.sort(
            key=lambda one: (
                order.index(one[0]),
                -len(one[1]),
                -one[1].mean(),
                one[2].usage.prompt,
            )
        )
        return tuple(
            Standing(
                entrant.candidate,
                metric_interval(Sample(scores[:, None], mean)),
                len(scores),
                entrant.usage,
                entrant.preparing,
                _REMARKS[state],
            )
            for state, scores, entrant in raced
        )

    # the final rows

    def _finalists(self) -> list[Finalist]:
        """The candidates that answer the final rows, the winner of the race first."""
        roles: dict[Candidate, list[str]] = {}
        if any(map(len, self.race.scores)) and not self._all_wrong:
            costs = [entrant.cost(self.price) for entrant in self.entrants]
            cheapest = self.race.near(self.search.tolerance / 100, costs)[0]
            roles[self.winner.candidate] = ["winner of the race"]
            roles.setdefault(self.entrants[cheapest].candidate, []).append("cheapest within noise")
        roles.setdefault(self.plain.candidate, []).append("standard")
        roles.setdefault(ZERO, [])
        raced = {
            entrant.candidate: scores
            for entrant, scores in zip(self.entrants, self.race.scores, strict=True)
        }
        return [
            Finalist(
                self.field.enter(candidate, self.final),
                ", ".join(words),
                raced.get(candidate, np.zeros(0)),
            )
            for candidate, words in roles.items()
        ]

    def _groups(self, queries: Sequence[Example]) -> tuple[np.ndarray | None, np.ndarray | None]:
        """A number for each final row and for each tuning row, equal for rows with one program.

        None if outputs are not programs.
        """
        groups = programs([*self.tuning, *queries], self.task.train)
        if groups is None:
            return None, None
        return groups[len(self.tuning) :], groups[: len(self.tuning)]


def _some_of(labels: Sequence[str]) -> str:
    """The first labels, and how many others there are."""
    more = f" and {len(labels) - 3} more" if len(labels) > 3 else ""
    return ", ".join(labels[:3]) + more

"""k and λ of a selector, chosen on a user's own rows by a race, and judged on rows that nothing was chosen by."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ceil_jax.errors import UserError
from ceil_jax.lm import LanguageModel, load_lm
from ceil_jax.lm.prompts import answer_reserve, context_budget
from ceil_jax.metrics import metric_named
from ceil_jax.metrics.bootstrap import Interval, Sample
from ceil_jax.racing.race import Race, Step, hold
from ceil_jax.racing.split import FEWEST
from ceil_jax.racing.verdict import Finalist, Verdict, judge
from ceil_jax.selector.filters import question
from ceil_jax.tasks.example import Example

if TYPE_CHECKING:
    from ceil_jax.selector.selector import CeilSelector

KS, TRADE_OFFS = (2, 4, 8, 16), (0.01, 0.03, 0.1, 0.3)
"""The numbers of examples and the λ that are tried by default."""

_NEW_TOKENS, _STOP, _CHUNK = 64, ("\n",), 32


class Setting(NamedTuple):
    """How many examples, chosen with which λ; no examples at all where k is 0."""

    k: int
    trade_off: float

    def __str__(self) -> str:
        return f"k = {self.k}, λ = {self.trade_off:g}" if self.k else "no examples"


@dataclass(frozen=True)
class Tuned:
    """A selector with the settings that were found: `tuned.selector.select(query, k=tuned.k)`."""

    selector: CeilSelector
    """The selector with the λ that was chosen."""
    settings: tuple[Setting, ...]
    """The finalists: the winner of the race, the cheapest within noise of it, the selector as it was with k = 8, and
    no examples; equal ones once."""
    verdict: Verdict
    """The verdict of the final rows on them."""
    tokens: int
    """LM tokens that were read."""
    rows: int
    """Final rows."""
    in_bank: int
    """Rows, final and others, whose question stands in the bank; its examples were left out for them."""

    @property
    def recommended(self) -> Setting:
        """The cheapest finalist that is not certainly worse than another, nor seems worse than the winner by more
        than two points."""
        return self.settings[self.verdict.recommended]

    @property
    def k(self) -> int:
        """The number of examples; 0 where none are recommended."""
        return self.recommended.k

    @property
    def scores(self) -> tuple[Interval, ...]:
        """The metric of each finalist on the final rows, from 0 to 1, with its 95 % interval."""
        return self.verdict.scores

    def __str__(self) -> str:
        lines = [
            f"{setting}: {100 * score.mean:.1f} ({100 * score.low:.1f} to {100 * score.high:.1f})"
            + " ← recommended" * (setting == self.recommended)
            for setting, score in zip(self.settings, self.scores, strict=True)
        ]
        if not any(one.certain for one in self.verdict.differences):
            lines.append("no difference is certain")
        if self.in_bank:
            lines.append(f"{self.in_bank} rows stand in the bank; no row's own examples were chosen for it")
        return "\n".join([f"percent of {self.rows} final rows; {self.tokens:,} LM tokens", *lines])


def tune(
    selector: CeilSelector,
    rows: Sequence[Example],
    bank: Sequence[Example],
    lm: LanguageModel | str,
    metric: str,
    ks: Sequence[int],
    trade_offs: Sequence[float],
    lm_tokens: int,
) -> Tuned:
    """See `CeilSelector.tune`; the selector stays as it is."""
    lm, measure, template = (
        load_lm(lm) if isinstance(lm, str) else lm,
        metric_named(metric),
        selector.template,
    )
    # ids of any file: here they tell rows apart, and nothing else
    rows = [replace(row, id=str(i)) for i, row in enumerate(rows)]
    if len(rows) < 2 * FEWEST:
        raise UserError(
            f"tune: {len(rows)} rows; give at least {2 * FEWEST}, half of which are kept for the end"
        )
    if metric == "accuracy":
        if len({row.output for row in rows}) < 2:
            raise UserError(f"tune: every row has the output {rows[0].output!r}; give rows of at least two")
        choices = tuple(sorted({row.output for row in (*bank, *rows)}))
        rows = [row if row.choices else replace(row, choices=choices) for row in rows]
    order = np.random.default_rng(0).permutation(len(rows))
    racing, final = ([rows[i] for i in half] for half in np.split(order, [len(order) // 2]))
    none, plain = Setting(0, selector.trade_off), Setting(min(8, len(bank) - 1), selector.trade_off)
    tried = [Setting(k, trade_off) for k in ks if k < len(bank) for trade_off in trade_offs]
    settings = list(dict.fromkeys([none, *tried, plain]))
    # with the LM's tokenizer, so that no prompt is longer than it reads
    counting = copy.copy(selector)
    counting.count_tokens = lm.count_tokens
    longest = int(max(lm.count_tokens([template.query(row) for row in rows])))
    budget = context_budget(lm, answer_reserve(lm, template, rows, _NEW_TOKENS)) - longest - 2
    if budget < 0:
        raise UserError(
            f"tune: the longest row alone is more than the {lm.context_length} tokens that {lm.name} reads"
        )

    def prompts_of(setting: Setting, rows: Sequence[Example]) -> list[str]:
        if not setting.k:
            return [template.query(row) for row in rows]
        k, trade_off = setting
        found = counting.select_many(rows, k=k, trade_off=trade_off, token_budget=budget, own_answer=False)
        return [selection.prompt for selection in found]

    def options(row: Example) -> list[str]:
        return [template.continuation(row, choice) for choice in row.choices]

    # at most so many tokens
    answer_tokens = [
        sum(lm.count_tokens(options(row))) + 2 if row.choices else _NEW_TOKENS + 2 for row in racing
    ]
    prompts = [prompts_of(setting, racing) for setting in settings]
    race = Race(np.stack([np.add(lm.count_tokens(texts), answer_tokens) for texts in prompts]))
    began = lm.tokens_read
    answers: dict[tuple[str, str], str] = {}

    def answered(prompts: Sequence[str], rows: Sequence[Example]) -> tuple[np.ndarray, list[str]]:
        """The score of each answer, float64 [N], and the answers; equal prompts of a row are asked once."""
        asked = {(prompt, row.id): row for prompt, row in zip(prompts, rows, strict=True)}
        new = [(prompt, row) for (prompt, id), row in asked.items() if (prompt, id) not in answers]
        for start in range(0, len(new), _CHUNK):
            texts, some = zip(*new[start : start + _CHUNK], strict=True)
            if some[0].choices:
                best = lm.choose(texts, [options(row) for row in some])
                found = [row.choices[int(i)] for row, i in zip(some, best, strict=True)]
            else:
                found = [text.strip() for text in lm.generate(texts, _NEW_TOKENS, _STOP)]
            answers.update({(text, row.id): one for text, row, one in zip(texts, some, found, strict=True)})
        given = [answers[prompt, row.id] for prompt, row in zip(prompts, rows, strict=True)]
        return np.asarray(measure.per_example(given, rows), np.float64), given

    def reserve() -> float:
        """LM tokens of the final rows, of four finalists at most."""
        means = race.tokens.mean(axis=1)
        return 1.1 * len(final) * (3 * means[race.racing].max() + means[0])

    def left() -> float:
        return lm_tokens - (lm.tokens_read - began) - reserve()

    if race.first_cost() > left():
        raise UserError(
            f"tune: lm_tokens={lm_tokens:,}: a first round and the final rows take "
            f"{race.first_cost() + reserve():,.0f}; give that many, or fewer ks or trade_offs"
        )

    def ask(step: Step) -> dict[int, np.ndarray]:
        span = slice(step.start, step.stop)
        return {i: answered(prompts[i][span], racing[span])[0] for i in step.racers}

    hold(race, ask, left)
    if not any(scores.any() for scores in race.scores):
        raise UserError(f"tune: {lm.name} answers no row rightly; try another lm, template or metric")
    last = (race.winner(), race.near(points=0.02)[0], settings.index(plain), settings.index(none))
    chosen = [settings[i] for i in dict.fromkeys(last)]
    finalists = []
    for setting in chosen:
        texts = prompts_of(setting, final)
        scores, given = answered(texts, final)
        sample = Sample(measure.statistics(scores, given, final), measure.from_sums)
        finalists.append(Finalist(str(setting), float(np.mean(lm.count_tokens(texts))), sample))
    verdict = judge(finalists)
    known = {question(example) for example in bank}
    best = copy.copy(selector)
    best.trade_off = chosen[verdict.recommended].trade_off
    in_bank = sum(question(row) in known for row in rows)
    return Tuned(best, tuple(chosen), verdict, lm.tokens_read - began, len(final), in_bank)

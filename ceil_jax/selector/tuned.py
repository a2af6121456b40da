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
from ceil_jax.metrics import METRICS
from ceil_jax.metrics.bootstrap import Interval, Sample
from ceil_jax.racing.race import Race, Round, hold
from ceil_jax.racing.verdict import FEWEST_ROWS, Finalist, Verdict, judge
from ceil_jax.tasks.example import Example

if TYPE_CHECKING:
    from ceil_jax.selector.selector import CeilSelector

KS, TRADE_OFFS = (2, 4, 8, 16), (0.01, 0.03, 0.1, 0.3)
"""The numbers of examples and the λ that are tried by default."""

_NEW_TOKENS, _STOP = 64, ("\n",)


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
    tokens: int
    """LM tokens that were read."""
    rows: int
    """Final rows."""

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
        return "\n".join([f"percent of {self.rows} final rows; {self.tokens:,} LM tokens", *lines])


def tune_selector(
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
    model = load_lm(lm) if isinstance(lm, str) else lm
    measure, template, began = METRICS[metric], selector.template, model.tokens_read
    if len(rows) < 2 * FEWEST_ROWS:
        raise UserError(
            f"tune: {len(rows)} rows; give at least {2 * FEWEST_ROWS}, half of which are kept for the end"
        )
    # ids of any file: here they tell rows apart, and nothing else
    rows = [replace(row, id=str(i)) for i, row in enumerate(rows)]
    if metric == "accuracy":
        if len({row.output for row in rows}) < 2:
            raise UserError(f"tune: every row has the output {rows[0].output!r}; give rows of at least two")
        choices = tuple(sorted({row.output for row in (*bank, *rows)}))
        rows = [row if row.choices else replace(row, choices=choices) for row in rows]
    order = np.random.default_rng(0).permutation(len(rows)).tolist()
    racing, final = order[: len(rows) // 2], order[len(rows) // 2 :]
    none, plain = Setting(0, selector.trade_off), Setting(min(8, len(bank) - 1), selector.trade_off)
    tried = [Setting(k, trade_off) for k in ks if k < len(bank) for trade_off in trade_offs]
    settings = list(dict.fromkeys([none, *tried, plain]))
    # with the LM's tokenizer, so that no prompt is longer than it reads
    counting = copy.copy(selector)
    counting.count_tokens = model.count_tokens
    queries = [template.query(row) for row in rows]
    kept_free = answer_reserve(model, template, rows, _NEW_TOKENS)
    budget = context_budget(model, kept_free) - int(max(model.count_tokens(queries))) - 2
    if budget < 0:
        raise UserError(
            f"tune: the longest row alone is more than the {model.context_length} tokens that {model.name} reads"
        )

    def prompts_of(setting: Setting, places: Sequence[int]) -> list[str]:
        if not setting.k:
            return [queries[i] for i in places]
        k, trade_off = setting
        asked = [rows[i] for i in places]
        found = counting.select_many(asked, k=k, trade_off=trade_off, token_budget=budget, own_answer=False)
        return [selection.prompt for selection in found]

    options = [[template.continuation(row, choice) for choice in row.choices] for row in rows]
    answers: dict[tuple[str, int], str] = {}

    def answered(prompts: Sequence[str], places: Sequence[int]) -> list[str]:
        """The answer to each prompt; equal prompts of a row are asked once."""
        keys = list(zip(prompts, places, strict=True))
        new = [key for key in dict.fromkeys(keys) if key not in answers]
        texts = [text for text, _ in new]
        if new and rows[0].choices:
            best = model.choose(texts, [options[i] for _, i in new])
            found = [rows[i].choices[int(place)] for (_, i), place in zip(new, best, strict=True)]
        else:
            found = [text.strip() for text in model.generate(texts, _NEW_TOKENS, _STOP)]
        answers.update(zip(new, found, strict=True))
        return [answers[key] for key in keys]

    def scores(given: Sequence[str], places: Sequence[int]) -> np.ndarray:
        return np.asarray(measure.per_example(given, [rows[i] for i in places]), np.float64)

    # at most so many tokens
    longest = [sum(model.count_tokens(options[i])) if options[i] else _NEW_TOKENS for i in racing]
    prompts = [prompts_of(setting, racing) for setting in settings]
    race = Race(np.stack([np.add(model.count_tokens(texts), longest) + 2 for texts in prompts]))

    def reserve() -> float:
        """LM tokens of the final rows, of four finalists at most."""
        means = race.tokens.mean(axis=1)
        return 1.1 * len(final) * (3 * means[race.racing].max() + means[0])

    def left() -> float:
        return lm_tokens - (model.tokens_read - began) - reserve()

    if race.first_cost() > left():
        raise UserError(
            f"tune: lm_tokens={lm_tokens:,}: a first round and the final rows take "
            f"{race.first_cost() + reserve():,.0f}; give that many, or fewer ks or trade_offs"
        )

    def ask(step: Round) -> dict[int, np.ndarray]:
        span = slice(step.start, step.stop)
        return {i: scores(answered(prompts[i][span], racing[span]), racing[span]) for i in step.racers}

    hold(race, ask, left)
    if not any(one.any() for one in race.scores):
        raise UserError(f"tune: {model.name} answers no row rightly; try another lm, template or metric")
    last = (race.winner(), race.near(points=0.02)[0], settings.index(plain), settings.index(none))
    chosen, finalists = [settings[i] for i in dict.fromkeys(last)], []
    for setting in chosen:
        texts = prompts_of(setting, final)
        given = answered(texts, final)
        statistics = measure.statistics(scores(given, final), given, [rows[i] for i in final])
        sample = Sample(statistics, measure.from_sums)
        finalists.append(Finalist(str(setting), float(np.mean(model.count_tokens(texts))), sample))
    verdict = judge(finalists)
    best = copy.copy(selector)
    best.trade_off = chosen[verdict.recommended].trade_off
    return Tuned(best, tuple(chosen), verdict, model.tokens_read - began, len(final))

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
    k: int
    """The number of examples; 0 where none are recommended."""
    settings: tuple[Setting, ...]
    """The finalists: the winner of the race, the cheapest within noise of it, the selector as it was with k = 8, and
    no examples; equal ones once."""
    scores: tuple[Interval, ...]
    """The metric of each on the final rows, from 0 to 1, with its 95 % interval."""
    verdict: Verdict
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


class _Asked:
    """Prompts of a selector's settings and the scores of what an LM answers; equal prompts are asked once."""

    def __init__(self, selector: CeilSelector, lm: LanguageModel, metric: str) -> None:
        self.selector, self.lm, self.metric = selector, lm, metric_named(metric)
        self._answers: dict[tuple[str, str], str] = {}

    def prompts(self, setting: Setting, rows: Sequence[Example], budget: int) -> list[str]:
        if not setting.k:
            return [self.selector.template.query(row) for row in rows]
        k, trade_off = setting
        found = self.selector.select_many(
            rows, k=k, trade_off=trade_off, token_budget=budget, own_answer=False
        )
        return [selection.prompt for selection in found]

    def most_tokens(self, prompts: Sequence[str], rows: Sequence[Example]) -> np.ndarray:
        """The largest number of LM tokens that each answer takes, float64 [N]."""
        answers = [
            sum(self.lm.count_tokens(self._options(row))) if row.choices else _NEW_TOKENS for row in rows
        ]
        return np.array(self.lm.count_tokens(prompts), np.float64) + answers + 2

    def _options(self, row: Example) -> list[str]:
        return [self.selector.template.continuation(row, choice) for choice in row.choices]

    def answered(self, prompts: Sequence[str], rows: Sequence[Example]) -> tuple[np.ndarray, np.ndarray]:
        """Return the score of each answer, float64 [N], and its statistics, float64 [N, s]."""
        keys = [(prompt, row.id) for prompt, row in zip(prompts, rows, strict=True)]
        new = [
            (key, row) for key, row in dict(zip(keys, rows, strict=True)).items() if key not in self._answers
        ]
        for start in range(0, len(new), _CHUNK):
            some = new[start : start + _CHUNK]
            texts = [prompt for (prompt, _), _ in some]
            if some[0][1].choices:
                best = self.lm.choose(texts, [self._options(row) for _, row in some])
                answers = [row.choices[int(i)] for (_, row), i in zip(some, best, strict=True)]
            else:
                answers = [text.strip() for text in self.lm.generate(texts, _NEW_TOKENS, _STOP)]
            self._answers |= dict(zip([key for key, _ in some], answers, strict=True))
        given = [self._answers[key] for key in keys]
        scores = np.asarray(self.metric.per_example(given, rows), np.float64)
        return scores, self.metric.statistics(scores, given, rows)


def tune(
    selector: CeilSelector,
    rows: Sequence[Example],
    bank: Sequence[Example],
    lm: LanguageModel | str,
    metric: str,
    ks: Sequence[int],
    trade_offs: Sequence[float],
    lm_tokens: int,
    seed: int,
) -> Tuned:
    """See `CeilSelector.tune`; the selector stays as it is."""
    lm = load_lm(lm) if isinstance(lm, str) else lm
    # ids of any file: here they tell rows apart, and nothing else
    rows = [replace(row, id=str(i)) for i, row in enumerate(rows)]
    if len(rows) < 2 * FEWEST:
        raise UserError(
            f"tune: {len(rows)} rows; give at least {2 * FEWEST}, half of which are kept for the end"
        )
    if metric == "accuracy" and len({row.output for row in rows}) < 2:
        raise UserError(f"tune: every row has the output {rows[0].output!r}; give rows of at least two")
    if metric == "accuracy":
        choices = tuple(sorted({row.output for row in (*bank, *rows)}))
        rows = [row if row.choices else replace(row, choices=choices) for row in rows]
    order = np.random.default_rng(seed).permutation(len(rows))
    racing, final = ([rows[i] for i in half] for half in np.split(order, [len(order) // 2]))
    settings = [Setting(0, selector.trade_off)]
    settings += [Setting(k, trade_off) for k in ks if k < len(bank) for trade_off in trade_offs]
    plain = Setting(min(8, len(bank) - 1), selector.trade_off)
    settings += [plain] * (plain not in settings)
    # with the LM's tokenizer, so that no prompt is longer than it reads
    counting = copy.copy(selector)
    counting.count_tokens = lm.count_tokens
    asked = _Asked(counting, lm, metric)
    queries = lm.count_tokens([selector.template.query(row) for row in rows])
    budget = (
        context_budget(lm, answer_reserve(lm, selector.template, rows, _NEW_TOKENS)) - int(max(queries)) - 2
    )
    if budget < 0:
        raise UserError(
            f"tune: the longest row alone is more than the {lm.context_length} tokens that {lm.name} reads"
        )
    prompts = [asked.prompts(setting, racing, budget) for setting in settings]
    race = Race(np.stack([asked.most_tokens(one, racing) for one in prompts]))
    began, kept = lm.tokens_read, settings.index(plain)

    def reserve() -> float:
        """LM tokens of the final rows: two of the race, the selector as it was, and no examples."""
        most = max(race.tokens[i].mean() for i in race.racing)
        return 1.1 * len(final) * (2 * most + race.tokens[kept].mean() + race.tokens[0].mean())

    def left() -> float:
        return lm_tokens - (lm.tokens_read - began) - reserve()

    if race.first_cost() > left():
        raise UserError(
            f"tune: lm_tokens={lm_tokens:,}: a first round and the final rows take "
            f"{race.first_cost() + reserve():,.0f}; give that many, or fewer ks or trade_offs"
        )

    def ask(step: Step) -> dict[int, np.ndarray]:
        span = slice(step.start, step.stop)
        return {i: asked.answered(prompts[i][span], racing[span])[0] for i in step.racers}

    hold(race, ask, left)
    if not any(scores.any() for scores in race.scores):
        raise UserError(f"tune: {lm.name} answers no row rightly; try another lm, template or metric")
    chosen = list(dict.fromkeys([race.winner(), race.near(points=0.02)[0], kept, 0]))
    finalists = []
    for i in chosen:
        texts = asked.prompts(settings[i], final, budget)
        if asked.most_tokens(texts, final).sum() > lm_tokens - (lm.tokens_read - began):
            raise UserError(
                f"tune: lm_tokens={lm_tokens:,} do not pay for the {len(final)} final rows; give more"
            )
        tokens = float(np.mean(lm.count_tokens(texts)))
        sample = Sample(asked.answered(texts, final)[1], asked.metric.from_sums)
        finalists.append(Finalist(str(settings[i]), tokens, sample))
    verdict = judge(finalists)
    known = {question(example) for example in bank}
    found = settings[chosen[verdict.recommended]]
    best = copy.copy(selector)
    best.trade_off = found.trade_off
    return Tuned(
        best,
        found.k,
        tuple(settings[i] for i in chosen),
        verdict.scores,
        verdict,
        lm.tokens_read - began,
        len(final),
        len([row for row in rows if question(row) in known]),
    )

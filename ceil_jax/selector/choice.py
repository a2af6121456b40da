"""The choice for one query: greedy MAP over its shortlist, with the stopping rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain
from typing import NamedTuple

import numpy as np

from ceil_jax.dpp.greedy_numpy import Pick, greedy_steps
from ceil_jax.dpp.kernel import SMALLEST_TRADE_OFF, rescaled, similarity
from ceil_jax.errors import UserError
from ceil_jax.lm.prompts import Prompt, examples_text, ordered
from ceil_jax.lm.token_budget import most_that_fit
from ceil_jax.selector.bank import Shortlist
from ceil_jax.selector.filters import check_field, group_reader, question
from ceil_jax.selector.selection import Selected, Selection, Stopped
from ceil_jax.selector.settings import CallSettings
from ceil_jax.tasks.example import Example


def select_from(
    query: Example, shortlist: Shortlist, call: CallSettings, layout: Prompt
) -> Selection:
    """Return the selection for a query.

    A UserError for balance on an unknown field, and for a `count_tokens` that does not return
    counts.
    """
    relevance = similarity(rescaled(shortlist.cosines, shortlist.origin))
    steps, stopped, repeats = _Choice(shortlist, relevance, call, layout.opening).steps()
    chosen, tokens = _fitted(steps, shortlist, relevance, call, layout)
    # the fixed examples come after the near ones
    count_near = len(shortlist.examples) - shortlist.fixed
    if len(chosen) < len(steps):
        stopped = "token_budget"
    elif stopped == "exhausted" and shortlist.distant is not None:
        stopped = "min_relevance"
    picks = [
        Selected(shortlist.examples[i], float(relevance[i]), gain, added, fixed=i >= count_near)
        for i, gain, added in chosen
    ]
    return Selection(
        query=query,
        picks=tuple(picks),
        stopped=stopped,
        tokens=tokens,
        layout=layout,
        trade_off=call.trade_off,
        excluded=shortlist.excluded,
        repeats=len(repeats & {step.item for step in chosen}),
        input_key=call.input_key,
        output_key=call.output_key,
        min_relevance=call.min_relevance,
        distant=shortlist.distant,
    )


class _Steps(NamedTuple):
    """The steps of a choice: first the fixed examples, then the others in order of choice."""

    picks: list[Pick]
    stopped: Stopped
    """The reason why there are no more examples."""
    repeats: set[int]
    """The items that repeat others."""


class _Choice:
    """The state of the choice for one query.

    It takes examples one after another, as long as they fit into the token budget. An item is a
    position in the shortlist.

    Args:
        shortlist: the examples to choose from, and the fixed ones.
        relevance: float [n], the relevance of each.
        call: the settings, such as k, the token budget and λ.
        opening: the text before the examples, which counts in the token budget.
    """

    def __init__(
        self, shortlist: Shortlist, relevance: np.ndarray, call: CallSettings, opening: str
    ) -> None:
        self._shortlist = shortlist
        self._call = call
        # the fixed examples come after the near ones, and only the near ones are chosen among
        self._near = len(shortlist.examples) - shortlist.fixed
        self._vectors = shortlist.vectors[: self._near]
        self._relevance = relevance[: self._near]
        self._groups = _groups(shortlist.examples[: self._near], call)
        self._costs = [0] * len(shortlist.examples)
        self._remaining = 0
        """The tokens that are left for further examples."""
        if call.token_budget is not None and shortlist.examples:
            # Python's own integers: a budget may be larger than numpy's
            pieces = [examples_text(call.template, [example]) for example in shortlist.examples]
            *self._costs, of_opening = _tokens([*pieces, opening], call)
            self._remaining = call.token_budget - of_opening
        self._picks: list[Pick] = []
        self._repeats: set[int] = set()
        self._has_refused = False
        """Whether an example did not fit."""

    def steps(self) -> _Steps:
        """Take examples until there are k, or no other fits or is left."""
        if self._call.k == 0:
            return _Steps([], "k", set())
        greedy = greedy_steps(
            self._vectors,
            self._relevance,
            # at the smallest λ, relevance alone decides
            self._call.trade_off or SMALLEST_TRADE_OFF,
            self._groups,
            fits=self._fits,
            waits=self._repeats_another,
            origin=self._shortlist.origin,
        )
        for pick in chain(self._fixed(), greedy, self._dependent()):
            self._picks.append(pick)
            self._remaining -= self._costs[pick.item]
            if len(self._picks) == self._call.k:
                return _Steps(self._picks, "k", self._repeats)
        stopped: Stopped = "token_budget" if self._has_refused else "exhausted"
        return _Steps(self._picks, stopped, self._repeats)

    def _fits(self, item: int) -> bool:
        """Return whether an item fits into the remaining budget, and remember if one does not."""
        if self._costs[item] <= self._remaining:
            return True
        self._has_refused = True
        return False

    def _repeats_another(self, item: int) -> bool:
        """Return whether an item is nearly equal to one that has been taken.

        It then waits until no others are left.
        """
        threshold = self._call.near_duplicate
        if threshold is not None:
            taken = self._shortlist.vectors[[pick.item for pick in self._picks]]
            cosines = rescaled(taken @ self._vectors[item], self._shortlist.origin)
            if cosines.max(initial=-1) >= threshold:
                self._repeats.add(item)
        return item in self._repeats

    def _fixed(self) -> Iterator[Pick]:
        """Yield the fixed examples that fit, the last one first.

        If not all fit, the first ones of the prompt are left out.
        """
        for item in reversed(range(self._near, len(self._shortlist.examples))):
            if self._fits(item):
                yield Pick(item, 0.0, 1.0)

    def _dependent(self) -> Iterator[Pick]:
        """Yield further examples whose questions are not among those taken, from each group in
        turn.

        Greedy MAP never takes these, because their vectors are linear combinations of those taken,
        as the vectors of copies are.
        """
        names = self._call.template.fields
        questions = [question(example, names) for example in self._shortlist.examples]
        questions_taken = {questions[pick.item] for pick in self._picks}
        taken_from = Counter(
            int(self._groups[pick.item]) for pick in self._picks if pick.item < self._near
        )
        open_items = list(range(self._near))
        while open_items:
            # the nearest one of a group that has been taken from least often
            item = min(open_items, key=lambda i: taken_from[int(self._groups[i])])
            open_items.remove(item)
            if questions[item] not in questions_taken and self._fits(item):
                questions_taken.add(questions[item])
                self._repeats.add(item)
                taken_from[int(self._groups[item])] += 1
                yield Pick(item, -np.inf, 0.0)


def _fitted(
    steps: Sequence[Pick],
    shortlist: Shortlist,
    relevance: np.ndarray,
    call: CallSettings,
    layout: Prompt,
) -> tuple[list[Pick], int | None]:
    """Return the steps in prompt order, and the number of tokens of their text.

    Fixed examples come first. The number is None without a token budget.

    The last steps are dropped if the whole text has more tokens than its parts, because a tokenizer
    may split differently where parts meet.
    """

    examples = shortlist.examples
    count_near = len(examples) - shortlist.fixed

    def in_prompt_order(count: int) -> list[Pick]:
        fixed = sorted(step for step in steps[:count] if step.item >= count_near)
        near = [step for step in steps[:count] if step.item < count_near]
        scores = [float(relevance[step.item]) for step in near]
        order = ordered(call.order, scores, [step.gain for step in near])
        return [*fixed, *(near[position] for position in order)]

    budget = call.token_budget
    if budget is None:
        return in_prompt_order(len(steps)), None

    @cache
    def tokens(count: int) -> int:
        shown = [examples[step.item] for step in in_prompt_order(count)]
        text = layout.opening + examples_text(call.template, shown)
        return _tokens([text], call)[0] if text else 0

    count = most_that_fit(len(steps), lambda count: tokens(count) <= budget)
    if tokens(count) > budget:
        raise UserError(
            f"the instruction alone has {tokens(count)} tokens, more than token_budget={budget}"
        )
    return in_prompt_order(count), tokens(count)


def _tokens(texts: Sequence[str], call: CallSettings) -> list[int]:
    """Return the number of tokens of each text."""
    assert call.count_tokens is not None
    expected = "count_tokens takes a list of texts and gives one whole number for each"
    try:
        counts = np.asarray(call.count_tokens(texts))
    except (TypeError, AttributeError, ValueError) as error:
        raise UserError(
            f"{expected}; given a list, it raised {type(error).__name__}: {error}"
        ) from error
    if counts.shape != (len(texts),) or not np.issubdtype(counts.dtype, np.integer):
        raise UserError(f"{expected}; for {len(texts)} of them it gave {counts.tolist()!r:.80}")
    return counts.tolist()


def _groups(examples: Sequence[Example], call: CallSettings) -> np.ndarray:
    """Return a group number for each example, equal for equal values of the balanced field."""
    if call.balance is None:
        return np.zeros(len(examples), np.intp)
    values = list(map(group_reader(call), examples))
    if {*values} == {None}:
        check_field("balance", call.balance, examples, call)
    numbers = {value: number for number, value in enumerate(dict.fromkeys(values))}
    return np.array([numbers[value] for value in values], np.intp)

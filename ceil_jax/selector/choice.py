"""The choice for one query: greedy MAP over its shortlist, and when to stop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain

import numpy as np

from ceil_jax.dpp.greedy_numpy import Pick, greedy_steps
from ceil_jax.dpp.kernel import similarity
from ceil_jax.errors import UserError
from ceil_jax.lm.prompts import examples_text, prompt_order
from ceil_jax.lm.token_budget import most_that_fit
from ceil_jax.selector.bank import Shortlist
from ceil_jax.selector.filters import check_field, group_reader, question
from ceil_jax.selector.selection import Selected, Selection, Stopped
from ceil_jax.selector.settings import CallSettings
from ceil_jax.tasks.example import Example


def select_from(query: Example, shortlist: Shortlist, call: CallSettings) -> Selection:
    """Return the selection for a query. A UserError for balance on an unknown field, and for a
    `count_tokens` that does not return counts."""
    relevance = similarity(shortlist.cosines)
    steps, stopped, repeats = _steps(shortlist, relevance, call)
    chosen, tokens = _fitted(steps, shortlist, relevance, call)
    # the fixed examples stand behind the near ones
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
        template=call.template,
        trade_off=call.trade_off,
        excluded=shortlist.excluded,
        repeats=len(repeats & {step.item for step in chosen}),
        input_key=call.input_key,
        output_key=call.output_key,
        min_relevance=call.min_relevance,
        distant=shortlist.distant,
    )


def _steps(
    shortlist: Shortlist, relevance: np.ndarray, call: CallSettings
) -> tuple[list[Pick], Stopped, set[int]]:
    """The fixed examples and the greedy steps after them; why there are no more; and the items that
    repeat others."""
    count_near = len(shortlist.examples) - shortlist.fixed
    examples = shortlist.examples[:count_near]
    vectors = shortlist.vectors[:count_near]
    relevance = relevance[:count_near]
    threshold = call.near_duplicate
    groups = _groups(examples, call)
    costs = [0] * len(shortlist.examples)
    remaining = 0
    if call.token_budget is not None and shortlist.examples:
        # Python's own integers: a budget may be larger than numpy's
        costs = _tokens([[example] for example in shortlist.examples], call)
        remaining = call.token_budget
    steps: list[Pick] = []
    repeats: set[int] = set()
    refused = False

    def waits(item: int) -> bool:
        """Return whether an item is nearly equal to a chosen one, and waits until no others are
        left."""
        cosines = shortlist.vectors[[step.item for step in steps]] @ vectors[item]
        if threshold is not None and cosines.max(initial=-1) >= threshold:
            repeats.add(item)
        return item in repeats

    def fits(item: int) -> bool:
        """Return whether an item fits into the remaining budget, and remember if one does not."""
        nonlocal refused
        refused |= costs[item] > remaining
        return costs[item] <= remaining

    def others() -> Iterator[Pick]:
        """Yield further examples whose question is not among the chosen ones, from each group in
        turn. Greedy MAP never takes these, because their vectors are linear combinations of chosen
        ones, as those of copies are."""
        questions = [question(example, call.template.fields) for example in shortlist.examples]
        questions_taken = {questions[step.item] for step in steps}
        count = Counter(int(groups[step.item]) for step in steps if step.item < count_near)
        open_items = list(range(len(examples)))
        while open_items:
            item = min(open_items, key=lambda i: count[int(groups[i])])
            open_items.remove(item)
            if questions[item] not in questions_taken and fits(item):
                questions_taken.add(questions[item])
                repeats.add(item)
                count[int(groups[item])] += 1
                yield Pick(item, -np.inf, 0.0)

    # the last fixed example first: if not all fit, the first ones of the prompt are left out
    fixed = (
        Pick(item, 0.0, 1.0)
        for item in reversed(range(count_near, len(shortlist.examples)))
        if fits(item)
    )
    greedy = greedy_steps(vectors, relevance, call.trade_off, groups, fits, waits)
    for step in chain(fixed, greedy, others()):
        steps.append(step)
        remaining -= costs[step.item]
        if len(steps) == call.k:
            return steps, "k", repeats
    return steps, "token_budget" if refused else "exhausted", repeats


def _fitted(
    steps: Sequence[Pick], shortlist: Shortlist, relevance: np.ndarray, call: CallSettings
) -> tuple[list[Pick], int | None]:
    """Return the steps in prompt order, fixed examples first, and the number of tokens of their
    text; None without a token budget.

    The last steps are dropped if the whole text has more tokens than its parts, because a tokenizer
    may split differently where parts meet.
    """

    examples = shortlist.examples
    count_near = len(examples) - shortlist.fixed

    def in_prompt_order(count: int) -> list[Pick]:
        fixed = sorted(step for step in steps[:count] if step.item >= count_near)
        near = [step for step in steps[:count] if step.item < count_near]
        order = prompt_order([float(relevance[step.item]) for step in near])
        return [*fixed, *(near[position] for position in order)]

    budget = call.token_budget
    if budget is None:
        return in_prompt_order(len(steps)), None

    @cache
    def tokens(count: int) -> int:
        if count == 0:
            return 0
        return _tokens([[examples[step.item] for step in in_prompt_order(count)]], call)[0]

    count = most_that_fit(len(steps), lambda count: tokens(count) <= budget)
    return in_prompt_order(count), tokens(count)


def _tokens(prompts: Sequence[Sequence[Example]], call: CallSettings) -> list[int]:
    """Return the number of tokens of each list of examples, as it appears in a prompt."""
    assert call.count_tokens is not None
    expected = "count_tokens takes a list of texts and gives one whole number for each"
    texts = [examples_text(call.template, examples) for examples in prompts]
    try:
        counts = np.asarray(call.count_tokens(texts))
    except (TypeError, AttributeError, ValueError) as error:
        raise UserError(
            f"{expected}; given a list, it raised {type(error).__name__}: {error}"
        ) from error
    if counts.shape != (len(prompts),) or not np.issubdtype(counts.dtype, np.integer):
        raise UserError(f"{expected}; for {len(prompts)} of them it gave {counts.tolist()!r:.80}")
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

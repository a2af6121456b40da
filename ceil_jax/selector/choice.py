"""The choice for one query: greedy MAP among its shortlist, and when to stop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ceil_jax.dpp.greedy_numpy import Step, greedy_steps
from ceil_jax.dpp.kernel import similarity
from ceil_jax.errors import UserError
from ceil_jax.lm.prompts import examples_text, prompt_order
from ceil_jax.selector.bank import Shortlist
from ceil_jax.selector.filters import check_field, field_reader, question
from ceil_jax.selector.selection import Selected, Selection, Stopped
from ceil_jax.selector.settings import Request
from ceil_jax.tasks.example import Example


class Steps(NamedTuple):
    """The greedy steps for one query."""

    taken: list[Step]
    stopped: Stopped
    repeats: set[int]
    """Those items that say little or nothing new."""


def choose(query: Example, shortlist: Shortlist, request: Request) -> Selection:
    """Return the selection from a shortlist.

    Raises:
        UserError: balance on a field that no example has; `count_tokens` that does not count.
    """
    relevance = similarity(shortlist.cosines)
    steps, stopped, repeats = _steps(shortlist, relevance, request)
    chosen, tokens = _fitted(steps, shortlist.examples, relevance, request)
    if len(chosen) < len(steps):
        stopped = "token_budget"
    best = relevance.max(initial=0)
    picks = []
    for i, gain in chosen:
        # gain = (r − max r) / λ + log d²
        added = float(np.exp(min(gain - (relevance[i] - best) / request.trade_off, 0.0)))
        picks.append(Selected(shortlist.examples[i], float(relevance[i]), gain, added))
    return Selection(
        query,
        tuple(picks),
        stopped,
        tokens,
        request.template,
        request.trade_off,
        shortlist.excluded,
        len(repeats & {step.item for step in chosen}),
    )


def _steps(shortlist: Shortlist, relevance: np.ndarray, request: Request) -> Steps:
    examples, vectors, threshold = shortlist.examples, shortlist.vectors, request.near_duplicate
    groups = _groups(examples, request)
    costs, remaining = [0] * len(examples), 0
    if request.token_budget is not None and examples:
        # Python's own integers: a budget may be larger than numpy's
        costs, remaining = _tokens([[example] for example in examples], request), request.token_budget
    taken: list[Step] = []
    repeats: set[int] = set()
    refused = False

    def waits(item: int) -> bool:
        cosines = vectors[[step.item for step in taken]] @ vectors[item]
        if threshold is not None and cosines.max(initial=-1) >= threshold:
            repeats.add(item)
        return item in repeats

    def fits(item: int) -> bool:
        nonlocal refused
        refused |= costs[item] > remaining
        return costs[item] <= remaining

    def take(step: Step) -> bool:
        nonlocal remaining
        taken.append(step)
        remaining -= costs[step.item]
        return len(taken) == request.k

    for step in greedy_steps(vectors, relevance, request.trade_off, groups, fits, waits):
        if take(step):
            return Steps(taken, "k", repeats)
    # the others' vectors are combinations of chosen ones, such as copies; other questions may still fill a place
    count = Counter(int(groups[step.item]) for step in taken)
    chosen = {step.item for step in taken}
    asked = {question(examples[item], request.template.fields) for item in chosen}
    left = [i for i in range(len(examples)) if i not in chosen]
    while left:
        item = min(left, key=lambda i: count[int(groups[i])])
        left.remove(item)
        own = question(examples[item], request.template.fields)
        if own in asked or not fits(item):
            continue
        asked.add(own)
        repeats.add(item)
        count[int(groups[item])] += 1
        if take(Step(item, -np.inf)):
            return Steps(taken, "k", repeats)
    return Steps(taken, "token_budget" if refused else "exhausted", repeats)


def _fitted(
    steps: Sequence[Step], shortlist: list[Example], relevance: np.ndarray, request: Request
) -> tuple[list[Step], int | None]:
    """Return the steps in prompt order and the number of tokens of their text.

    The last steps are dropped where the whole text is longer than the sum of its parts, because a tokenizer may cut
    differently at a seam.
    """
    for size in range(len(steps), 0, -1):
        places = prompt_order([float(relevance[step.item]) for step in steps[:size]])
        ordered = [steps[place] for place in places]
        if request.token_budget is None:
            return ordered, None
        [tokens] = _tokens([[shortlist[step.item] for step in ordered]], request)
        if tokens <= request.token_budget:
            return ordered, tokens
    return [], None if request.token_budget is None else 0


def _tokens(prompts: Sequence[Sequence[Example]], request: Request) -> list[int]:
    """Return the number of tokens of the text of each list of examples."""
    assert request.count_tokens is not None
    expected = "count_tokens takes a list of texts and gives one whole number for each"
    texts = [examples_text(request.template, examples) for examples in prompts]
    try:
        counts = np.asarray(request.count_tokens(texts))
    except (TypeError, AttributeError) as error:
        raise UserError(f"{expected}; given a list, it raised {type(error).__name__}: {error}") from error
    if counts.shape != (len(prompts),) or not np.issubdtype(counts.dtype, np.integer):
        raise UserError(f"{expected}; for {len(prompts)} of them it gave {counts.tolist()!r:.80}")
    return [int(tokens) for tokens in counts]


def _groups(shortlist: Sequence[Example], request: Request) -> np.ndarray:
    """Return a number for each example, the same for equal values of the field that is balanced."""
    if request.balance is None:
        return np.zeros(len(shortlist), np.intp)
    read, numbers = field_reader(request.balance, request.output_key), dict[str | None, int]()
    groups = [numbers.setdefault(read(example), len(numbers)) for example in shortlist]
    if numbers.keys() == {None}:
        check_field("balance", request.balance, shortlist, request, "label")
    return np.array(groups, np.intp)

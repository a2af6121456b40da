"""The choice for one query: shortlist, greedy MAP, and when to stop."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ceil_jax.dpp.greedy_numpy import Step, greedy_steps
from ceil_jax.dpp.kernel import similarity
from ceil_jax.errors import UserError, unknown_name
from ceil_jax.lm.prompts import examples_text, prompt_order
from ceil_jax.selector.bank import View
from ceil_jax.selector.options import CountTokens, Filter
from ceil_jax.selector.selection import Displaced, Selected, Selection, Stopped
from ceil_jax.tasks.example import Example, Template


class Request(NamedTuple):
    """`Options`, checked and filled in, with the selector's own settings."""

    k: int | None
    token_budget: int | None
    trade_off: float
    near_duplicate: float | None
    filter: Filter | None
    balanced: bool
    shortlist: int
    template: Template
    count_tokens: CountTokens | None


def choose(view: View, query: Example, cosines: np.ndarray, request: Request) -> Selection:
    """Return the selection for one query.

    Args:
        view: the bank.
        query: the query; an example of the bank with its id is not chosen.
        cosines: float32 [N], the query's row of `View.cosines`.
        request: what was asked for.

    Raises:
        UserError: balance over more outputs than the shortlist is long; a filter on a field no example has.
    """
    n = max(request.shortlist, request.k or 0)
    if request.balanced and view.labels > n:
        raise UserError(
            f"balance='label': the bank has {view.labels} different outputs, more than the shortlist of {n}; "
            "balance is for tasks with few labels"
        )
    passes = _test(request.filter)

    def keep(example: Example) -> bool:
        return (not query.id or example.id != query.id) and passes(example)

    per_label = -(-n // max(view.labels, 1)) if request.balanced else None
    rows = view.nearest(cosines, n, keep, per_label)
    if not rows:
        _check_fields(request.filter, view)
    shortlist = [view.examples[row] for row in rows]
    return choose_among(query, shortlist, view.vectors(rows), cosines[rows], request)


def choose_among(
    query: Example, shortlist: list[Example], vectors: np.ndarray, cosines: np.ndarray, request: Request
) -> Selection:
    """Return the selection from a shortlist.

    Args:
        query: the query.
        shortlist: n examples, the nearest first.
        vectors: their unit vectors, float32 [n, D].
        cosines: their cosines with the query, float32 [n].
        request: what was asked for.
    """
    relevance = similarity(cosines)
    groups = _outputs(shortlist) if request.balanced else None
    steps, stopped = _steps(shortlist, vectors, relevance, groups, request)
    chosen, tokens = _fitted(steps, shortlist, relevance, request)
    if len(chosen) < len(steps):
        stopped = "token_budget"
    picks = tuple(Selected(shortlist[i], float(relevance[i]), gain) for i, gain in chosen)
    order = tuple(sorted(range(len(chosen)), key=lambda place: steps.index(chosen[place])))
    return Selection(
        query,
        picks,
        stopped,
        tokens,
        request.template,
        trade_off=request.trade_off,
        order=order,
        best=float(relevance.max(initial=0)),
        displaced=_displaced([i for i, _ in chosen], shortlist, vectors, relevance),
    )


def _displaced(
    chosen: Sequence[int], shortlist: list[Example], vectors: np.ndarray, relevance: np.ndarray
) -> tuple[Displaced, ...]:
    """Return the examples that would have been chosen by relevance alone and were not, most relevant first."""
    by_relevance = np.argsort(-relevance, kind="stable")[: len(chosen)].tolist()
    passed_over = [i for i in by_relevance if i not in chosen]
    cosines = vectors[passed_over] @ vectors[list(chosen)].T
    return tuple(
        Displaced(shortlist[i], float(relevance[i]), shortlist[chosen[nearest]], float(row[nearest]))
        for i, row in zip(passed_over, cosines, strict=True)
        for nearest in [int(np.argmax(row))]
    )


def _steps(
    shortlist: list[Example],
    vectors: np.ndarray,
    relevance: np.ndarray,
    groups: np.ndarray | None,
    request: Request,
) -> tuple[list[Step], Stopped]:
    """Return the greedy steps, each among the examples that still fit, and why there are no more."""
    # Python's own integers: a budget may be larger than numpy's
    costs = [0] * len(shortlist)
    remaining = request.token_budget
    if remaining is not None and shortlist:
        costs = _tokens([[example] for example in shortlist], request)
    refused = False
    taken: list[Step] = []

    def repeats(item: int) -> bool:
        if request.near_duplicate is None or not taken:
            return False
        return bool(np.max(vectors[[step.item for step in taken]] @ vectors[item]) >= request.near_duplicate)

    def fits(item: int) -> bool:
        nonlocal refused
        fitting = remaining is None or costs[item] <= remaining
        refused |= not fitting
        return fitting

    for step in greedy_steps(vectors, relevance, request.trade_off, groups, fits, repeats):
        taken.append(step)
        if remaining is not None:
            remaining -= costs[step.item]
        if len(taken) == request.k:
            return taken, "k"
    return taken, "token_budget" if refused else "exhausted"


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


def _outputs(shortlist: Sequence[Example]) -> np.ndarray:
    """Return a number for each example, the same for equal outputs."""
    numbers: dict[str, int] = {}
    return np.array([numbers.setdefault(e.output, len(numbers)) for e in shortlist], np.intp)


def _test(wanted: Filter | None) -> Callable[[Example], bool]:
    if wanted is None:
        return lambda example: True
    if callable(wanted):
        return wanted
    if not isinstance(wanted, Mapping):
        raise UserError(f"filter is {wanted!r}; expected {{'field': value}} or a function of an Example")
    accepted = {name: _texts(value) for name, value in wanted.items()}
    return lambda example: all(_field(example, name) in values for name, values in accepted.items())


def _field(example: Example, name: str) -> str | None:
    return example.output if name == "output" else example.fields.get(name)


def _texts(value: Any) -> set[str]:
    several = isinstance(value, Collection) and not isinstance(value, (str, Mapping))
    return {str(one) for one in value} if several else {str(value)}


def _check_fields(wanted: Filter | None, view: View) -> None:
    """Raise if a filter let nothing pass because its field is misspelt."""
    if not isinstance(wanted, Mapping) or not view.live.any():
        return
    known = {name for example in view for name in example.fields} | {"output"}
    for name in wanted:
        if name not in known:
            raise unknown_name("field in filter", name, known)

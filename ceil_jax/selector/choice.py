"""The choice for one query: shortlist, greedy MAP, and when to stop."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ceil_jax.dpp.greedy_numpy import Step, greedy_steps
from ceil_jax.dpp.kernel import similarity
from ceil_jax.errors import UserError, unknown_name
from ceil_jax.lm.prompts import examples_text, prompt_order
from ceil_jax.selector.bank import View
from ceil_jax.selector.options import CheckedSettings, Filter
from ceil_jax.selector.selection import Displaced, Selected, Selection, Stopped
from ceil_jax.tasks.example import Example


class Request(NamedTuple):
    """`Options`, checked, with the settings that hold for this call."""

    settings: CheckedSettings
    k: int | None
    token_budget: int | None
    filter: Filter | None
    balance: str | None

    @property
    def size(self) -> int:
        """The length of the shortlist."""
        return max(self.settings.shortlist, self.k or 0)


def choose(view: View, query: Example, cosines: np.ndarray, request: Request) -> Selection:
    """Return the selection for one query.

    Args:
        view: the bank.
        query: the query; an example of the bank with its id is not chosen.
        cosines: float32 [N], the query's row of `View.cosines`.
        request: what was asked for.

    Raises:
        UserError: balance over more values than the shortlist is long; a filter or balance on a field no example has.
    """
    passes = _test(request.filter, request.settings.output_key)

    def keep(example: Example) -> bool:
        return (not query.id or example.id != query.id) and passes(example)

    group, per_group = _reader(request.balance or "output", request.settings.output_key), None
    if request.balance is not None:
        values = view.values(request.balance, group)
        if len(values) > request.size:
            raise UserError(
                f"balance={request.balance!r}: the bank has {len(values)} different values, more than the shortlist "
                f"of {request.size}; balance is for fields with few values"
            )
        per_group = -(-request.size // max(len(values), 1))
    rows = view.nearest(cosines, request.size, keep, group, per_group)
    if not rows and isinstance(request.filter, Mapping) and view.live.any():
        for name in request.filter:
            _check_field("field in filter", name, view, request)
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

    Raises:
        UserError: balance on a field that no example has.
    """
    relevance = similarity(cosines)
    groups = _groups(shortlist, request)
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
        request.settings.template,
        trade_off=request.settings.trade_off,
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
    costs, remaining = [0] * len(shortlist), 0
    if request.token_budget is not None and shortlist:
        # Python's own integers: a budget may be larger than numpy's
        costs, remaining = _tokens([[example] for example in shortlist], request), request.token_budget
    refused = False
    taken: list[Step] = []
    trade_off, threshold = request.settings.trade_off, request.settings.near_duplicate

    def repeats(item: int) -> bool:
        cosines = vectors[[step.item for step in taken]] @ vectors[item]
        return threshold is not None and bool(cosines.max(initial=-1) >= threshold)

    def fits(item: int) -> bool:
        nonlocal refused
        refused |= costs[item] > remaining
        return costs[item] <= remaining

    for step in greedy_steps(vectors, relevance, trade_off, groups, fits, repeats):
        taken.append(step)
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
    count_tokens = request.settings.count_tokens
    assert count_tokens is not None
    expected = "count_tokens takes a list of texts and gives one whole number for each"
    texts = [examples_text(request.settings.template, examples) for examples in prompts]
    try:
        counts = np.asarray(count_tokens(texts))
    except (TypeError, AttributeError) as error:
        raise UserError(f"{expected}; given a list, it raised {type(error).__name__}: {error}") from error
    if counts.shape != (len(prompts),) or not np.issubdtype(counts.dtype, np.integer):
        raise UserError(f"{expected}; for {len(prompts)} of them it gave {counts.tolist()!r:.80}")
    return [int(tokens) for tokens in counts]


def _groups(shortlist: Sequence[Example], request: Request) -> np.ndarray | None:
    """Return a number for each example, the same for equal values of the field that is balanced."""
    if request.balance is None:
        return None
    read, numbers = _reader(request.balance, request.settings.output_key), dict[str | None, int]()
    groups = [numbers.setdefault(read(example), len(numbers)) for example in shortlist]
    if numbers.keys() == {None}:
        _check_field("balance", request.balance, shortlist, request, "label")
    return np.array(groups, np.intp)


def _test(wanted: Filter | None, output_key: str) -> Callable[[Example], bool]:
    if wanted is None:
        return lambda example: True
    if callable(wanted):
        return wanted
    if not isinstance(wanted, Mapping):
        raise UserError(f"filter is {wanted!r}; expected {{'field': value}} or a function of an Example")
    accepted = [(_reader(name, output_key), _texts(value)) for name, value in wanted.items()]
    return lambda example: all(read(example) in values for read, values in accepted)


def _reader(name: str, output_key: str) -> Callable[[Example], str | None]:
    """Return what reads a field of an example."""
    if name in ("output", output_key):
        return lambda example: example.output
    return lambda example: example.fields.get(name)


def _texts(value: Any) -> set[str]:
    several = isinstance(value, Collection) and not isinstance(value, (str, Mapping))
    return {str(one) for one in value} if several else {str(value)}


def _check_field(what: str, name: str, examples: Iterable[Example], request: Request, *others: str) -> None:
    """Raise if no example has the field."""
    known = {name for example in examples for name in example.fields}
    known |= {"output", request.settings.output_key, *others}
    if name not in known:
        raise unknown_name(what, name, known)

"""One query's choice: shortlist, greedy MAP, and when to stop."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypedDict

import numpy as np

from ceil_jax.dpp.greedy_numpy import Step, greedy_steps
from ceil_jax.dpp.kernel import similarity
from ceil_jax.errors import UserError, unknown_name
from ceil_jax.selector.bank import View
from ceil_jax.tasks.example import Example, Template

Filter = Mapping[str, Any] | Callable[[Example], bool]
"""{"field": value, or list of values}, compared as text, all to hold; or a function of an Example."""

CountTokens = Callable[[Sequence[str]], Any]
"""Texts to one token count each: `LanguageModel.count_tokens`, or a tokenizer in a lambda."""

Stopped = Literal["k", "token_budget", "exhausted"]
"""As many as asked for; what is left does not fit; nothing is left that passes the filter and does not repeat
what was chosen."""


class Options(TypedDict, total=False):
    """What one call of `select` may ask for."""

    k: int | None
    """Examples at most."""
    token_budget: int | None
    """Tokens at most, of the examples as they stand in the template, separators included."""
    diversity: float | None
    """λ of the conditional kernel, in place of the selector's own."""
    filter: Filter | None
    """Which examples may be chosen."""
    balance: Literal["label"] | None
    """As many examples of each output as of any other, or one more."""


class Selected(NamedTuple):
    """One chosen example."""

    example: Example
    relevance: float
    """(1 + cos)/2 with the query."""
    gain: float
    """What it added to log det L'_S when it was chosen."""


@dataclass(frozen=True)
class Selection:
    """What was chosen for one query."""

    query: Example
    picks: tuple[Selected, ...]
    """In prompt order: the most relevant last, next to the query; equal ones in reverse order of choice."""
    stopped: Stopped
    """Why there are no more."""
    tokens: int | None
    """Of `text`, where a token budget was given."""
    template: Template

    @property
    def examples(self) -> list[Example]:
        """In prompt order."""
        return [pick.example for pick in self.picks]

    @property
    def text(self) -> str:
        """The examples as they stand before the query, each followed by the separator."""
        return _text(self.template, self.examples)

    @property
    def prompt(self) -> str:
        """`text` and the query, up to where the answer begins."""
        return self.text + self.template.query(self.query)


class Wish(NamedTuple):
    """`Options`, checked and filled in, with what the selector itself has set."""

    k: int | None
    token_budget: int | None
    diversity: float
    filter: Filter | None
    balanced: bool
    shortlist: int
    template: Template
    count_tokens: CountTokens | None


def choose(view: View, query: Example, cosines: np.ndarray, wish: Wish) -> Selection:
    """The selection for one query.

    Args:
        cosines: float32 [N], the query's row of `View.cosines`.

    Raises:
        UserError: balance over more outputs than the shortlist is long; a filter on a field no example has.
    """
    n = max(wish.shortlist, wish.k or 0)
    if wish.balanced and view.labels > n:
        raise UserError(
            f"balance='label': the bank has {view.labels} different outputs, more than the shortlist of {n}; "
            "balance is for tasks with few labels"
        )
    passes = _test(wish.filter)

    def keep(example: Example) -> bool:
        return (not query.id or example.id != query.id) and passes(example)

    per_label = -(-n // max(view.labels, 1)) if wish.balanced else None
    rows = view.nearest(cosines, n, keep, per_label)
    if not rows:
        _check_fields(wish.filter, view)
    shortlist = [view.examples[row] for row in rows]
    relevance = similarity(cosines[rows])
    groups = _outputs(shortlist) if wish.balanced else None
    steps, stopped = _steps(shortlist, view.vectors(rows), relevance, groups, wish)
    chosen, tokens = _fitted(steps, shortlist, relevance, wish)
    if len(chosen) < len(steps):
        stopped = "token_budget"
    picks = tuple(Selected(shortlist[i], float(relevance[i]), gain) for i, gain in chosen)
    return Selection(query, picks, stopped, tokens, wish.template)


def _steps(
    shortlist: list[Example],
    vectors: np.ndarray,
    relevance: np.ndarray,
    groups: np.ndarray | None,
    wish: Wish,
) -> tuple[list[Step], Stopped]:
    """The steps taken, each the greedy one among the examples that still fit, and why there are no more."""
    costs = np.zeros(len(shortlist), np.intp)
    left = np.inf if wish.token_budget is None else wish.token_budget
    if wish.token_budget is not None and shortlist:
        costs = _tokens([[example] for example in shortlist], wish)
    refused = False

    def fits(item: int) -> bool:
        nonlocal refused
        refused |= bool(costs[item] > left)
        return bool(costs[item] <= left)

    taken: list[Step] = []
    for step in greedy_steps(vectors, relevance, wish.diversity, groups, fits):
        taken.append(step)
        left -= costs[step.item]
        if len(taken) == wish.k:
            return taken, "k"
    return taken, "token_budget" if refused else "exhausted"


def _fitted(
    steps: Sequence[Step], shortlist: list[Example], relevance: np.ndarray, wish: Wish
) -> tuple[list[Step], int | None]:
    """The steps in prompt order and the tokens of their text, without the last ones where that is longer than
    the sum of its parts: a tokenizer may cut differently at a seam."""
    for count in range(len(steps), 0, -1):
        ordered = _prompt_order(steps[:count], relevance)
        if wish.token_budget is None:
            return ordered, None
        [tokens] = _tokens([[shortlist[step.item] for step in ordered]], wish)
        if tokens <= wish.token_budget:
            return ordered, int(tokens)
    return [], None if wish.token_budget is None else 0


def _prompt_order(steps: Sequence[Step], relevance: np.ndarray) -> list[Step]:
    last_first = steps[::-1]
    return sorted(last_first, key=lambda step: relevance[step.item])


def _tokens(prompts: Sequence[Sequence[Example]], wish: Wish) -> np.ndarray:
    """Tokens of the text of each of several lists of examples."""
    assert wish.count_tokens is not None
    expected = "count_tokens takes a list of texts and gives one whole number for each"
    try:
        counts = np.asarray(wish.count_tokens([_text(wish.template, examples) for examples in prompts]))
    except (TypeError, AttributeError) as error:
        raise UserError(f"{expected}; given a list, it raised {type(error).__name__}: {error}") from error
    if counts.shape != (len(prompts),) or not np.issubdtype(counts.dtype, np.integer):
        raise UserError(f"{expected}; for {len(prompts)} of them it gave {counts.tolist()!r:.80}")
    return counts


def _text(template: Template, examples: Sequence[Example]) -> str:
    return "".join(template.example(example) + template.separator for example in examples)


def _outputs(shortlist: Sequence[Example]) -> np.ndarray:
    """A number for each different output."""
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
    """Whether a filter let nothing pass because its field is misspelt."""
    if not isinstance(wanted, Mapping) or not view.live.any():
        return
    known = {name for example in view for name in example.fields} | {"output"}
    for name in wanted:
        if name not in known:
            raise unknown_name("field in filter", name, known)

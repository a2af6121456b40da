"""One query's choice: shortlist, greedy MAP, and when to stop."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypedDict

import numpy as np

from ceil_jax.errors import UserError, unknown_name
from ceil_jax.selector.bank import View
from ceil_jax.stepwise import Step, greedy_steps
from ceil_jax.tasks.base import Example, Template

Filter = Mapping[str, Any] | Callable[[Example], bool]
"""{"field": value, or list of values}, compared as text, all to hold; or a function of an Example."""

CountTokens = Callable[[Sequence[str]], Any]
"""Texts to one token count each: `LanguageModel.count_tokens`, or a tokenizer in a lambda."""

Stopped = Literal["k", "token_budget", "exhausted"]
"""As many as asked for; the next one did not fit; nothing is left that passes the filter and does not repeat
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
    relevance = (1 + cosines[rows]) / 2
    groups = _outputs(shortlist) if wish.balanced else None
    steps = greedy_steps(view.vectors(rows), relevance, wish.diversity, groups)
    chosen, stopped, tokens = _until(steps, shortlist, relevance, wish)
    picks = tuple(Selected(shortlist[i], float(relevance[i]), gain) for i, gain in chosen)
    return Selection(query, picks, stopped, tokens, wish.template)


def _until(
    steps: Iterable[Step], shortlist: list[Example], relevance: np.ndarray, wish: Wish
) -> tuple[list[Step], Stopped, int | None]:
    """The steps taken, in prompt order, why there are no more, and the tokens of their text."""
    taken: list[Step] = []
    stopped: Stopped = "exhausted"
    spent = 0
    for step in steps:
        if wish.token_budget is not None:
            spent += _tokens([shortlist[step.item]], wish)
            if spent > wish.token_budget:
                stopped = "token_budget"
                break
        taken.append(step)
        if len(taken) == wish.k:
            stopped = "k"
            break
    if wish.token_budget is None:
        return _prompt_order(taken, relevance), stopped, None
    while True:
        ordered = _prompt_order(taken, relevance)
        tokens = _tokens([shortlist[step.item] for step in ordered], wish)
        if tokens <= wish.token_budget or not taken:
            return ordered, stopped, tokens
        # a tokenizer may cut differently at a seam, and the whole be longer than the sum of its parts
        taken.pop()
        stopped = "token_budget"


def _prompt_order(steps: Sequence[Step], relevance: np.ndarray) -> list[Step]:
    last_first = steps[::-1]
    return sorted(last_first, key=lambda step: relevance[step.item])


def _tokens(examples: Sequence[Example], wish: Wish) -> int:
    """Tokens of the examples' text; none for no text, whatever a tokenizer would put before it."""
    if not examples:
        return 0
    assert wish.count_tokens is not None
    expected = "count_tokens takes a list of texts and gives one whole number for each"
    try:
        counts = np.asarray(wish.count_tokens([_text(wish.template, examples)]))
    except (TypeError, AttributeError) as error:
        raise UserError(f"{expected}; given a list, it raised {type(error).__name__}: {error}") from error
    if counts.shape != (1,) or not np.issubdtype(counts.dtype, np.integer):
        raise UserError(f"{expected}; for one text it gave {counts.tolist()!r}")
    return int(counts[0])


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

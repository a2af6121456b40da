"""The settings of a selector and the options of one call, with the checks of both."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict

import numpy as np

from ceil_jax.errors import UserError, unknown_name
from ceil_jax.selector.folder.card import Card
from ceil_jax.selector.rows import Keys
from ceil_jax.tasks.example import Context, Example, Template

DEFAULT_TEMPLATE = Template("{input}\n{output}", separator="\n\n")
CONTEXTS = ("input", "example")

Filter = Mapping[str, Any] | Callable[[Example], bool]
"""{"field": value or list of values}, compared as text, all of which must hold; or a function of an Example."""

CountTokens = Callable[[Sequence[str]], Any]
"""Texts → the number of tokens of each: `LanguageModel.count_tokens`, or a tokenizer in a lambda."""


class Settings(TypedDict, total=False):
    """The settings that a selector is made with."""

    trade_off: float
    """λ: a small one weighs relevance, a large one diversity; 0.1 by default."""
    near_duplicate: float | None
    """The cosine from which an example repeats one that is chosen already: above 0 and at most 1; 0.8 by default.
    Such examples are chosen last, for places that would stay empty. None: they are chosen like any other."""
    shortlist: int
    """n: the nearest examples among which to choose; 100 by default."""
    template: Template | str
    """How an example appears in a prompt; input, a line break, output by default."""
    context: Context
    """The text of a bank example that is encoded: its "input" (default), or input and output ("example")."""
    count_tokens: CountTokens | None
    """Texts → token counts; a token budget needs it. It is not saved."""
    card: Card | None
    """The content of the model card."""
    input_key: str
    """The name of the input in examples, queries and files; "input" by default."""
    output_key: str
    """The name of the output in them; "output" by default."""


@dataclass(eq=False, repr=False)
class CheckedSettings:
    """`Settings`, complete and checked when they are made.

    Raises:
        UserError: a setting of the wrong type or range.
    """

    trade_off: float = 0.1
    """The larger end of the papers' range: with it, examples that say much the same do not fill a prompt."""
    near_duplicate: float | None = 0.8
    """With all-MiniLM-L6-v2, invoices that differ in their numbers have cosines from 0.80 to 0.98 with one another.
    Of 1,500 film reviews 99.3 % have no other review this near, and with 150 queries no choice of 8 changes."""
    shortlist: int = 100
    template: Template = DEFAULT_TEMPLATE
    context: Context = "input"
    count_tokens: CountTokens | None = None
    card: Card = field(default_factory=Card)
    input_key: str = "input"
    output_key: str = "output"

    def __post_init__(self) -> None:
        self.trade_off = positive("trade_off", self.trade_off)
        self.shortlist = count("shortlist", self.shortlist)
        if self.near_duplicate is not None:
            self.near_duplicate = positive("near_duplicate", self.near_duplicate)
            if self.near_duplicate > 1:
                raise UserError(
                    f"near_duplicate is {self.near_duplicate!r}; expected a cosine above 0 and at most 1, or None"
                )
        if self.context not in CONTEXTS:
            raise unknown_name("context", str(self.context), CONTEXTS)
        for name in ("input_key", "output_key"):
            if not isinstance(getattr(self, name), str) or not getattr(self, name):
                raise UserError(f"{name} is {getattr(self, name)!r}; expected the name of a field")
        if self.input_key == self.output_key:
            raise UserError(f"input_key and output_key are both {self.input_key!r}; expected two fields")

    @property
    def keys(self) -> Keys:
        """The names of the input and the output in rows."""
        return Keys(self.input_key, self.output_key)


class Options(TypedDict, total=False):
    """The options of one call of `select`."""

    k: int | None
    """The largest number of examples."""
    token_budget: int | None
    """The largest number of tokens of the examples as they appear in the template, separators included."""
    trade_off: float | None
    """λ of the conditional kernel, in place of the selector's own."""
    near_duplicate: float | None
    """The cosine from which an example repeats a chosen one, in place of the selector's own; None for no limit."""
    filter: Filter | None
    """Which examples may be chosen."""
    balance: str | None
    """A metadata field: the numbers of examples of any two of its values differ by at most one; examples without it
    count as one value. "label" is the output."""


def check_names(given: Iterable[str], known: Iterable[str]) -> None:
    """Check the names of keyword arguments.

    Raises:
        UserError: an argument that does not exist, with the nearest one that does.
    """
    for name in given:
        if name == "diversity":
            raise UserError("diversity=… is called trade_off=… now: λ has one name everywhere")
        if name not in known:
            raise unknown_name("argument", name, known)


def positive(name: str, value: Any) -> float:
    """Return the value as a float.

    Raises:
        UserError: not a finite number above 0.
    """
    number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    if not number or not 0 < value < np.inf:
        raise UserError(f"{name} is {value!r}; expected a number above 0")
    return float(value)


def count(name: str, value: Any, least: int = 1) -> int:
    """Return the value as an int.

    Raises:
        UserError: not a whole number, or below `least`.
    """
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < least:
        raise UserError(f"{name} is {value!r}; expected a whole number from {least}")
    return int(value)

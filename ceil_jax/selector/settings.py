"""The settings of a selector, and what one call may ask for; both are checked when they are set."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from numbers import Integral, Real
from typing import Any, Required, TypedDict

import numpy as np

from ceil_jax.errors import UserError, check_options
from ceil_jax.selector.card import Card
from ceil_jax.selector.vectors import Encodes
from ceil_jax.tasks.example import Context, Example, Template, column_template
from ceil_jax.tasks.rows import Columns

DEFAULT_TEMPLATE = Template("{input}\n{output}", separator="\n\n")

Filter = Mapping[str, Any] | Callable[[Example], bool]
"""{"field": value or list of values}, all of which must hold; or a function of an Example. See
`filters`."""


def check_names(call: str, settings: Iterable[str], kind: type[Settings]) -> None:
    """Raise a UserError, which suggests a known name, for a setting that there is not.

    Args:
        call: what the user called, such as "select".
        settings: names as given.
        kind: the class whose fields are the settings.
    """
    check_options(call, settings, [setting.name for setting in fields(kind)])


@dataclass(eq=False, repr=False)
class Settings:
    """The settings of a selector: arguments of what makes one, and attributes of it that may be
    set.

    Raises:
        UserError: a setting of the wrong type or range.
    """

    trade_off: float = 0.1
    """λ: a small one weighs relevance, a large one diversity. 0.1 is the larger end of the papers'
    range: with it, examples that say much the same do not fill a prompt."""
    near_duplicate: float | None = 0.8
    """The cosine from which an example repeats one that is chosen already: above 0 and at most 1.
    Such examples are chosen last, for places that would stay empty. None: they are chosen like any
    other. With all-MiniLM-L6-v2, invoices that differ in their numbers have cosines from 0.80 to
    0.98 with one another; of 1,500 film reviews 99.3 % have no other review this near."""
    min_relevance: float | None = None
    """The relevance, (1 + cos) / 2, below which no example is chosen: where none is near, a
    selection has fewer or none. None: whatever is nearest is chosen. The scale is the encoder's
    own: print `selection.explain()` for some queries before you set it."""
    own_answer: bool = False
    """Whether an example that asks the query's own question may be chosen, so that the prompt holds
    the answer. An application whose users ask questions of the bank may want that; a score measured
    with it means nothing."""
    fixed: tuple[str, ...] = ()
    """The ids of examples that stand first in every prompt, in this order: a prefix that a
    provider's cache keeps. They count among k; behind them come near ones. Where fewer fit, the
    first of them are left out. Filters and balance are for the others."""
    balance: str | None = None
    """A field: the numbers of examples of any two of its values differ by at most one; examples
    without it count as one value. "output" and "label" are the output, unless a field is called
    so."""
    shortlist: int = 100
    """n: the nearest examples among which to choose."""
    input_key: str = "input"
    """The name of the input in examples, queries and files."""
    output_key: str = "output"
    """The name of the output in them."""
    template: Template = DEFAULT_TEMPLATE
    """How an example appears in a prompt: a Template, or a pattern, which may use the keys
    above."""
    context: Context = "input"
    """The text of a bank example that is encoded: its "input", or input and output ("example")."""
    count_tokens: Callable[[Sequence[str]], Any] | None = None
    """Texts → the number of tokens of each: `LanguageModel.count_tokens`, or a tokenizer in a
    lambda. A token budget needs it. It is not saved."""
    card: Card = field(default_factory=Card)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "template" and isinstance(value, str):
            value = column_template(value, "\n", self.input_key, self.output_key)
        if name == "fixed" and isinstance(value, list):
            value = tuple(value)
        if name in _ALLOWED:
            kind, allowed, expected = _ALLOWED[name]
            right = (
                isinstance(value, kind)
                and isinstance(value, bool) == (kind is bool)
                and allowed(value)
            )
            if not (right or (value is None and expected.endswith("None"))):
                raise UserError(f"{name} is {value!r}; expected {expected}")
        super().__setattr__(name, value)

    def __post_init__(self) -> None:
        if self.input_key == self.output_key:
            raise UserError(
                f"input_key and output_key are both {self.input_key!r}; expected two fields"
            )

    @property
    def settings(self) -> dict[str, Any]:
        """The settings as they are now, by name."""
        return {setting.name: getattr(self, setting.name) for setting in fields(Settings)}

    @property
    def columns(self) -> Columns:
        """The names of the input, the output and the template's other fields in rows."""
        return Columns((self.input_key,), self.output_key, self.template.fields)


_ALLOWED: dict[str, tuple[type, Callable[[Any], bool], str]] = {
    "trade_off": (Real, lambda value: 0 < value <= sys.float_info.max, "a number above 0"),
    "near_duplicate": (
        Real,
        lambda value: 0 < value <= 1,
        "a cosine above 0 and at most 1, or None",
    ),
    "min_relevance": (
        Real,
        lambda value: 0 <= value <= 1,
        "a relevance from 0 to 1, or None",
    ),
    "own_answer": (bool, lambda value: True, "True or False"),
    "template": (
        Template,
        lambda value: True,
        "a pattern such as '{input}\\n{output}', or a Template",
    ),
    "card": (Card, lambda value: True, "a Card"),
    "shortlist": (Integral, lambda value: value >= 1, "a whole number from 1"),
    "input_key": (str, bool, "the name of a field"),
    "output_key": (str, bool, "the name of a field"),
    "fixed": (
        tuple,
        lambda value: all(isinstance(id, str) for id in value) and len({*value}) == len(value),
        "a list of different ids of examples",
    ),
    "balance": (str, bool, "the name of a field, or None"),
    "context": (str, ("input", "example").__contains__, "'input' or 'example'"),
    "k": (Integral, lambda value: value >= 1, "a whole number from 1, or None"),
    "token_budget": (Integral, lambda value: value >= 0, "a whole number from 0, or None"),
}
"""The type of a setting, the check of its range, and what an error says that is expected."""


class SettingOptions(TypedDict, total=False):
    """`Settings` as keyword arguments; see there."""

    trade_off: float
    near_duplicate: float | None
    min_relevance: float | None
    own_answer: bool
    fixed: Sequence[str]
    balance: str | None
    shortlist: int
    input_key: str
    output_key: str
    template: Template | str
    context: Context
    count_tokens: Callable[[Sequence[str]], Any] | None
    card: Card


class FromExamples(SettingOptions, total=False):
    """The keyword arguments of `CeilSelector.from_examples`; see there."""

    encoder: Required[Encodes]
    query_encoder: Encodes | None
    vectors: np.ndarray | None


class Options(TypedDict, total=False):
    """The arguments of one call of `select`."""

    k: int | None
    """The largest number of examples."""
    token_budget: int | None
    """The largest number of tokens of the examples as they appear in the template, separators
    included."""
    trade_off: float
    """λ, in place of the selector's own, like the next four."""
    near_duplicate: float | None
    """The cosine from which an example repeats a chosen one; None for no limit."""
    min_relevance: float | None
    """The relevance below which no example is chosen; None for no limit."""
    own_answer: bool
    """Whether an example that asks the query's own question may be chosen."""
    balance: str | None
    """The field whose values have equal shares of the examples; None for no balance."""
    filter: Filter | None
    """Which examples may be chosen: {"field": value or list of values}, or a function of an
    Example."""


@dataclass(eq=False, repr=False)
class CallSettings(Settings):
    """The settings that hold for one call of `select`: those of the selector and the call's
    `Options`, checked."""

    k: int | None = None
    token_budget: int | None = None
    filter: Filter | None = None

    def __post_init__(self) -> None:
        if self.k is None and self.token_budget is None:
            raise UserError("select needs k=… (examples), token_budget=… (tokens) or both")
        if self.token_budget is not None and self.count_tokens is None:
            raise UserError(
                "token_budget needs the tokenizer of your language model: give the selector "
                "count_tokens=…, a function from texts to token counts, such as "
                "load_lm(…).count_tokens or lambda texts: [len(tokenizer.encode(text)) for text "
                "in texts]"
            )

    @property
    def size(self) -> int:
        """The length of the shortlist."""
        return max(self.shortlist, self.k or 0)

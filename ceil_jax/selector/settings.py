"""The settings of a selector, and what one call may ask for; both are checked when they are set."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, TypedDict

import numpy as np

from ceil_jax.errors import UserError, unknown_name
from ceil_jax.selector.card import Card
from ceil_jax.selector.rows import Keys
from ceil_jax.tasks.example import Context, Example, Template, column_template

DEFAULT_TEMPLATE = Template("{input}\n{output}", separator="\n\n")

Filter = Mapping[str, Any] | Callable[[Example], bool]
"""{"field": value or list of values}, all of which must hold; or a function of an Example. See `filters`."""

CountTokens = Callable[[Sequence[str]], Any]
"""Texts → the number of tokens of each: `LanguageModel.count_tokens`, or a tokenizer in a lambda."""


@dataclass(eq=False, repr=False)
class Settings:
    """The settings of a selector: arguments of what makes one, and attributes of it that may be set.

    Raises:
        UserError: a setting of the wrong type or range.
    """

    trade_off: float = 0.1
    """λ: a small one weighs relevance, a large one diversity. 0.1 is the larger end of the papers' range: with it,
    examples that say much the same do not fill a prompt."""
    near_duplicate: float | None = 0.8
    """The cosine from which an example repeats one that is chosen already: above 0 and at most 1. Such examples are
    chosen last, for places that would stay empty. None: they are chosen like any other. With all-MiniLM-L6-v2,
    invoices that differ in their numbers have cosines from 0.80 to 0.98 with one another; of 1,500 film reviews
    99.3 % have no other review this near."""
    own_answer: bool = False
    """Whether an example that asks the query's own question may be chosen, so that the prompt holds the answer. An
    application whose users ask questions of the bank may want that; a score measured with it means nothing."""
    shortlist: int = 100
    """n: the nearest examples among which to choose."""
    input_key: str = "input"
    """The name of the input in examples, queries and files."""
    output_key: str = "output"
    """The name of the output in them."""
    template: Template = DEFAULT_TEMPLATE
    """How an example appears in a prompt: a Template, or a pattern, which may use the keys above."""
    context: Context = "input"
    """The text of a bank example that is encoded: its "input", or input and output ("example")."""
    count_tokens: CountTokens | None = None
    """Texts → token counts; a token budget needs it. It is not saved."""
    card: Card = field(default_factory=Card)
    """The content of the model card."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "template" and isinstance(value, str):
            value = column_template(value, "\n", self.input_key, self.output_key)
        super().__setattr__(name, _CHECKS[name](name, value) if name in _CHECKS else value)

    def __post_init__(self) -> None:
        if self.input_key == self.output_key:
            raise UserError(f"input_key and output_key are both {self.input_key!r}; expected two fields")

    @property
    def settings(self) -> dict[str, Any]:
        """The settings as they are now, by name."""
        return {name: getattr(self, name) for name in SETTINGS}

    @property
    def keys(self) -> Keys:
        """The names of the input and the output in rows."""
        return Keys(self.input_key, self.output_key)


SETTINGS = tuple(one.name for one in fields(Settings))


class Options(TypedDict, total=False):
    """The arguments of one call of `select`."""

    k: int | None
    """The largest number of examples."""
    token_budget: int | None
    """The largest number of tokens of the examples as they appear in the template, separators included."""
    trade_off: float
    """λ, in place of the selector's own, like the next two."""
    near_duplicate: float | None
    """The cosine from which an example repeats a chosen one; None for no limit."""
    own_answer: bool
    """Whether an example that asks the query's own question may be chosen."""
    filter: Filter | None
    """Which examples may be chosen: {"field": value or list of values}, or a function of an Example."""
    balance: str | None
    """A metadata field: the numbers of examples of any two of its values differ by at most one; examples without it
    count as one value. "label" is the output."""


@dataclass(eq=False, repr=False)
class Request(Settings):
    """The settings that hold for one call, and what it asks for.

    Raises:
        UserError: neither k nor a budget; a budget without `count_tokens`; a value of the wrong type or range.
    """

    k: int | None = None
    token_budget: int | None = None
    filter: Filter | None = None
    balance: str | None = None

    def __post_init__(self) -> None:
        if self.k is None and self.token_budget is None:
            raise UserError("select needs k=… (examples), token_budget=… (tokens) or both")
        if self.token_budget is not None and self.count_tokens is None:
            raise UserError(
                "token_budget needs the tokenizer of your language model: give the selector count_tokens=…, a "
                "function from texts to token counts, such as load_lm(…).count_tokens or "
                "lambda texts: [len(tokenizer.encode(text)) for text in texts]"
            )

    @property
    def size(self) -> int:
        """The length of the shortlist."""
        return max(self.shortlist, self.k or 0)


def request(settings: Settings, options: Options) -> Request:
    """Return what a call with these options asks of a selector with these settings.

    Raises:
        UserError: an option that does not exist; see `Request`.
    """
    check_names(options, Options.__annotations__)
    return Request(**{**settings.settings, **options})


def check_names(given: Iterable[str], known: Iterable[str] = SETTINGS) -> None:
    """Check the names of keyword arguments.

    Raises:
        UserError: an argument that does not exist, with the nearest one that does.
    """
    for name in given:
        if name not in known:
            raise unknown_name("argument", name, known)


def _positive(name: str, value: Any) -> float:
    number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    if not number or not 0 < value < np.inf:
        raise UserError(f"{name} is {value!r}; expected a number above 0")
    return float(value)


def _cosine(name: str, value: Any) -> float | None:
    if value is not None and _positive(name, value) > 1:
        raise UserError(f"{name} is {value!r}; expected a cosine above 0 and at most 1, or None")
    return None if value is None else float(value)


def _whole(least: int, none: bool = False) -> Callable[[str, Any], int | None]:
    def check(name: str, value: Any) -> int | None:
        if none and value is None:
            return None
        if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < least:
            raise UserError(f"{name} is {value!r}; expected a whole number from {least}")
        return int(value)

    return check


def _truth(name: str, value: Any) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        raise UserError(f"{name} is {value!r}; expected True or False")
    return bool(value)


def _context(name: str, value: Any) -> str:
    if value not in ("input", "example"):
        raise unknown_name("context", str(value), ("input", "example"))
    return str(value)


def _field(name: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise UserError(f"{name} is {value!r}; expected the name of a field")
    return value


_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "trade_off": _positive,
    "near_duplicate": _cosine,
    "own_answer": _truth,
    "shortlist": _whole(1),
    "context": _context,
    "input_key": _field,
    "output_key": _field,
    "card": lambda name, value: value or Card(),
    "k": _whole(1, none=True),
    "token_budget": _whole(0, none=True),
    "balance": lambda name, value: "output" if value == "label" else value,
}
"""The check of each setting: its name and value → the value as it is kept."""

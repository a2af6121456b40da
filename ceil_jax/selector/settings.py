"""The settings of a selector, and the options of one call of `select`; both are checked when they
are set."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from numbers import Integral, Real
from typing import Any, Literal, NamedTuple, Required, TypedDict

import numpy as np

from ceil_jax.errors import UserError, check_options
from ceil_jax.lm.prompts import ORDERS, Prompt, instruction, names_labels
from ceil_jax.selector.card import Card
from ceil_jax.selector.vectors import Encodes
from ceil_jax.tasks.example import Context, Example, Template, column_template
from ceil_jax.tasks.rows import Columns

DEFAULT_TEMPLATE = Template("{input}\n{output}", separator="\n\n")

Filter = Mapping[str, Any] | Callable[[Example], bool]
"""{"field": value or list of values}, where every field must match; or a function of an Example.
See `filters`."""


def check_names(call: str, settings: Iterable[str], kind: type[Settings]) -> None:
    """Raise a UserError, which suggests a known name, for an unknown setting.

    Args:
        call: what the user called, such as "select".
        settings: names as given.
        kind: the class whose fields are the settings.
    """
    check_options(call, settings, [setting.name for setting in fields(kind)])


@dataclass(eq=False, repr=False)
class Settings:
    """The settings of a selector. They are keyword arguments of its constructors, and attributes
    that may be set later.

    Raises:
        UserError: a setting has a wrong type or value.
    """

    trade_off: float | None = None
    """λ of a set: a small value favours relevance, a large one diversity; the papers' range is 0.01
    to 0.1. None: the nearest examples, which no λ that we measured outperforms (docs/results.md)."""
    near_duplicate: float | None = None
    """An example with at least this cosine, on the scale of `origin`, to a chosen one counts as a
    repetition; above 0 and at most 1, such as 0.8. Repetitions are chosen only if no other examples
    are left. None: they are chosen like any other."""
    min_relevance: float | None = None
    """The lowest relevance of a chosen example, from 0 to 1: a query without near examples gets
    fewer or none. None: no limit. On the scale of `origin`, 0.5 is the mean similarity of two
    examples of the bank; print `selection.explain()` for some queries before you set it."""
    origin: float | None = None
    """The cosine that counts as 0 in relevance and similarity: cosines are (cos − origin) / (1 −
    origin). None: the mean cosine of all pairs of the bank, so that λ and the two limits above mean
    the same for encoders that give unrelated texts cosines of 0 and of 0.7. 0: cosines as they are,
    as in the papers, and in selectors that `ceil-jax export` and `tune` write."""
    own_answer: bool = False
    """Whether an example that is the query's own question may be chosen, so that the prompt
    contains the answer. This suits an application whose users ask questions that are in the bank; a
    score measured with it is meaningless."""
    fixed: tuple[str, ...] = ()
    """The ids of examples that come first in every prompt, in this order: a constant prefix, which
    a provider can cache. They count among the k; near examples follow them. If not all fit, the
    first of them are left out. Filters and balance apply to the others only."""
    balance: str | None = None
    """A field whose values get equal numbers of examples, up to a difference of one; examples
    without it count as one value. "output" and "label" mean the output, unless a field has that
    name."""
    shortlist: int = 100
    """n: the number of nearest examples to choose from."""
    input_key: str = "input"
    """The name of the input in examples, queries and files."""
    output_key: str = "output"
    """The name of the output in examples, queries and files."""
    template: Template = DEFAULT_TEMPLATE
    """The form of an example in a prompt: a Template, or a pattern that may use the keys above."""
    system: str = ""
    """The instruction, which comes once, before the examples. `{labels}` is replaced by the
    different outputs of the bank, also by those that are added later; a literal brace is written
    twice."""
    system_role: Literal["system", "user"] = "system"
    """The role of the instruction in `Selection.messages`; "user" puts it at the beginning of the
    first user's turn, for models without a system message."""
    order: str = "relevance"
    """The order of the examples in a prompt: the most relevant last, next to the query, or an order
    that `register_order` adds."""
    k: int | None = None
    """The most examples of a prompt, unless a call of `select` says otherwise; None for no limit."""
    context: Context = "input"
    """The text of a bank example that is encoded: its "input", or its input and output
    ("example")."""
    count_tokens: Callable[[Sequence[str]], Any] | None = None
    """A function from texts to the number of tokens of each: `LanguageModel.count_tokens`, or a
    lambda with a tokenizer. A token budget needs it. It is not saved."""
    card: Card = field(default_factory=Card)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "template" and isinstance(value, str):
            value = column_template(value, "\n", self.input_key, self.output_key)
        if name == "fixed" and isinstance(value, list | tuple):
            # rows may have numbers as ids, which are texts in examples
            is_number = [isinstance(id, Integral) and not isinstance(id, bool) for id in value]
            value = tuple(
                str(id) if number else id for id, number in zip(value, is_number, strict=True)
            )
        allowed = _ALLOWED.get(name)
        if allowed is not None and not allowed.allows(value):
            raise UserError(f"{name} is {value!r}; expected {allowed.expected}")
        super().__setattr__(name, value)

    def __post_init__(self) -> None:
        ORDERS.require(self.order)
        instruction(self.system, ["a label"])
        if self.input_key == self.output_key:
            raise UserError(
                f"input_key and output_key are both {self.input_key!r}; expected two fields"
            )

    def written(self, labels: Callable[[], Sequence[str]]) -> Prompt:
        """Return how a prompt is written. `labels` gives the bank's labels, if the instruction names
        them."""
        system = instruction(self.system, labels() if names_labels(self.system) else ())
        return Prompt(
            self.template, system, "turns", order=self.order, system_role=self.system_role
        )

    @property
    def settings(self) -> dict[str, Any]:
        """The current settings, by name."""
        return {setting.name: getattr(self, setting.name) for setting in fields(Settings)}

    @property
    def columns(self) -> Columns:
        """The names of the input, the output and the template's other fields in rows."""
        return Columns((self.input_key,), self.output_key, self.template.fields)


class _Allowed(NamedTuple):
    """The values that a setting may have."""

    kind: type
    expected: str
    """The words after "expected" in an error."""
    fits: Callable[[Any], bool] | None = None
    """Whether a value of that kind is allowed; None if every one is."""
    optional: bool = False
    """Whether the setting may also be None."""

    def allows(self, value: Any) -> bool:
        """Return whether a setting may have a value."""
        if value is None:
            return self.optional
        # truth values are integers in Python, but not numbers of examples
        has_kind = isinstance(value, self.kind) and isinstance(value, bool) == (self.kind is bool)
        return has_kind and (self.fits is None or self.fits(value))


def _is_positive(value: Any) -> bool:
    return 0 < value <= sys.float_info.max


def _is_share_above_zero(value: Any) -> bool:
    return 0 < value <= 1


def _is_below_one(value: Any) -> bool:
    return 0 <= value < 1


def _is_share(value: Any) -> bool:
    return 0 <= value <= 1


def _is_at_least_one(value: Any) -> bool:
    return value >= 1


def _is_not_negative(value: Any) -> bool:
    return value >= 0


def _is_not_empty(value: Any) -> bool:
    return len(value) > 0


def _are_different_ids(value: Any) -> bool:
    return all(isinstance(id, str) for id in value) and len(set(value)) == len(value)


def _is_context(value: Any) -> bool:
    return value in ("input", "example")


def _is_system_role(value: Any) -> bool:
    return value in ("system", "user")


_ALLOWED = {
    "trade_off": _Allowed(Real, "a number above 0, or None", _is_positive, optional=True),
    "origin": _Allowed(Real, "a cosine from 0 to below 1, or None", _is_below_one, optional=True),
    "near_duplicate": _Allowed(
        Real, "a cosine above 0 and at most 1, or None", _is_share_above_zero, optional=True
    ),
    "min_relevance": _Allowed(Real, "a relevance from 0 to 1, or None", _is_share, optional=True),
    "own_answer": _Allowed(bool, "True or False"),
    "template": _Allowed(Template, "a pattern such as '{input}\\n{output}', or a Template"),
    "card": _Allowed(Card, "a Card"),
    "shortlist": _Allowed(Integral, "a whole number from 1", _is_at_least_one),
    "input_key": _Allowed(str, "the name of a field", _is_not_empty),
    "output_key": _Allowed(str, "the name of a field", _is_not_empty),
    "fixed": _Allowed(tuple, "a list of different ids of examples", _are_different_ids),
    "balance": _Allowed(str, "the name of a field, or None", _is_not_empty, optional=True),
    "context": _Allowed(str, "'input' or 'example'", _is_context),
    "system": _Allowed(str, "an instruction as a text"),
    "system_role": _Allowed(str, "'system' or 'user'", _is_system_role),
    "order": _Allowed(str, "the name of an order"),
    "k": _Allowed(Integral, "a whole number from 0, or None", _is_not_negative, optional=True),
    "token_budget": _Allowed(
        Integral, "a whole number from 0, or None", _is_not_negative, optional=True
    ),
}
"""Setting → the values that it may have; other settings are not checked here."""


class SettingOptions(TypedDict, total=False):
    """`Settings` as keyword arguments; see there."""

    trade_off: float | None
    near_duplicate: float | None
    min_relevance: float | None
    origin: float | None
    own_answer: bool
    fixed: Sequence[str]
    balance: str | None
    shortlist: int
    input_key: str
    output_key: str
    template: Template | str
    system: str
    system_role: Literal["system", "user"]
    order: str
    k: int | None
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
    """The most examples; 0 for none, None for no limit. By default the selector's."""
    token_budget: int | None
    """The most tokens of the prompt before the query: the instruction and the examples, separators
    included."""
    trade_off: float | None
    """λ for this call, in place of the selector's; likewise for the next four."""
    near_duplicate: float | None
    """The cosine from which an example counts as a repetition; None for no limit."""
    min_relevance: float | None
    """The lowest relevance of a chosen example; None for no limit."""
    own_answer: bool
    """Whether an example that is the query's own question may be chosen."""
    balance: str | None
    """The field whose values have equal shares of the examples; None for no balance."""
    filter: Filter | None
    """Which examples may be chosen: {"field": value or list of values}, or a function of an
    Example."""


@dataclass(eq=False, repr=False)
class CallSettings(Settings):
    """The settings of one call of `select`: the selector's, with the call's `Options`."""

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

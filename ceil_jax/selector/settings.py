"""The settings of a selector, and the options of one call of `select`.

Both are checked when they are set.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from numbers import Integral
from typing import Annotated, Any, Literal, Required, TypedDict, get_type_hints

import numpy as np

from ceil_jax.errors import Expected, Range, UserError, check_options, check_value
from ceil_jax.lm.prompts import ORDERS, Prompt, instruction, names_labels
from ceil_jax.selector.card import Card
from ceil_jax.selector.vectors import Encodes
from ceil_jax.tasks.example import Context, Example, Template, column_template
from ceil_jax.tasks.rows import Columns

DEFAULT_TEMPLATE = Template("{input}\n{output}", separator="\n\n")

Filter = Mapping[str, Any] | Callable[[Example], bool]
"""{"field": value or list of values}, where every field must match; or a function of an Example.
See `filters`."""


_AT_LEAST_0 = Range(0, math.inf)
_FIELD = Expected("the name of a field", bool)


def _are_different_ids(value: tuple[Any, ...]) -> bool:
    return all(isinstance(id, str) for id in value) and len(set(value)) == len(value)


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
    """The settings of a selector.

    They are keyword arguments of its constructors, and attributes that may be set later.

    Raises:
        UserError: a setting has a wrong type or value.
    """

    trade_off: Annotated[float | None, Range(above=0)] = None
    """λ of a set: a small value favours relevance, a large one diversity; the papers' range is 0.01
    to 0.1. None: the nearest examples, which no λ that we measured outperforms (docs/results.md)."""
    near_duplicate: Annotated[float | None, Range(above=0, high=1)] = None
    """An example with at least this cosine, on the scale of `origin`, to a chosen one counts as a
    repetition; above 0 and at most 1, such as 0.8. Repetitions are chosen only if no other examples
    are left. None: they are chosen like any other."""
    min_relevance: Annotated[float | None, Range(0, 1)] = None
    """The lowest relevance of a chosen example, from 0 to 1: a query without near examples gets
    fewer or none. None: no limit. On the scale of `origin`, 0.5 is the mean similarity of two
    examples of the bank; print `selection.explain()` for some queries before you set it."""
    origin: Annotated[float | None, Range(0, below=1)] = None
    """The cosine that counts as 0 in relevance and similarity: cosines are (cos − origin) / (1 −
    origin). None: the mean cosine of all pairs of the bank, so that λ and the two limits above mean
    the same for encoders that give unrelated texts cosines of 0 and of 0.7. 0: cosines as they are,
    as in the papers, and in selectors that `ceil-jax export` and `tune` write."""
    own_answer: bool = False
    """Whether an example that is the query's own question may be chosen, so that the prompt
    contains the answer. This suits an application whose users ask questions that are in the bank; a
    score measured with it is meaningless."""
    fixed: Annotated[
        tuple[str, ...], Expected("a list of different ids of examples", _are_different_ids)
    ] = ()
    """The ids of examples that come first in every prompt, in this order: a constant prefix, which
    a provider can cache. They count among the k; near examples follow them. If not all fit, the
    first of them are left out. Filters and balance apply to the others only."""
    balance: Annotated[str | None, _FIELD] = None
    """A field whose values get equal numbers of examples, up to a difference of one; examples
    without it count as one value. "output" and "label" mean the output, unless a field has that
    name."""
    shortlist: Annotated[int, Range(1, math.inf)] = 100
    """n: the number of nearest examples to choose from."""
    input_key: Annotated[str, _FIELD] = "input"
    """The name of the input in examples, queries and files."""
    output_key: Annotated[str, _FIELD] = "output"
    """The name of the output in examples, queries and files."""
    template: Annotated[
        Template, Expected("a pattern such as '{input}\\n{output}', or a Template")
    ] = DEFAULT_TEMPLATE
    """The form of an example in a prompt: a Template, or a pattern that may use the keys above."""
    system: Annotated[str, Expected("an instruction as a text")] = ""
    """The instruction, which comes once, before the examples. `{labels}` is replaced by the
    different outputs of the bank, also by those that are added later; a literal brace is written
    twice."""
    system_role: Literal["system", "user"] = "system"
    """The role of the instruction in `Selection.messages`; "user" puts it at the beginning of the
    first user's turn, for models without a system message."""
    order: Annotated[str, Expected("the name of an order")] = "relevance"
    """The order of the examples in a prompt: the most relevant last, next to the query, or an order
    that `register_order` adds."""
    k: Annotated[int | None, _AT_LEAST_0] = None
    """The maximum number of examples in a prompt, unless a call of `select` says otherwise; None for no limit."""
    context: Context = "input"
    """The text of a bank example that is encoded: its "input", or its input and output
    ("example")."""
    count_tokens: Annotated[
        Callable[[Sequence[str]], Any] | None, Expected("a function from texts to token counts")
    ] = None
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
        if name in _hints():
            check_value(name, value, _hints()[name])
        super().__setattr__(name, value)

    def __post_init__(self) -> None:
        ORDERS.require(self.order)
        instruction(self.system, ["a label"])
        if self.input_key == self.output_key:
            raise UserError(
                f"input_key and output_key are both {self.input_key!r}; expected two fields"
            )

    def written(self, labels: Callable[[], Sequence[str]]) -> Prompt:
        """Return the form of prompts under these settings.

        `labels` gives the bank's labels, if the instruction names them.
        """
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
    """The maximum number of examples; 0 for none, None for no limit. By default the selector's."""
    token_budget: int | None
    """The maximum number of tokens of the prompt before the query: the instruction and the
    examples, separators included."""
    trade_off: float | None
    """λ for this call, in place of the selector's; the next four options likewise replace settings."""
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

    token_budget: Annotated[int | None, _AT_LEAST_0] = None
    filter: Annotated[Filter | None, Expected("{'field': value} or a function of an Example")] = (
        None
    )

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


@cache
def _hints() -> Mapping[str, Any]:
    """The type annotation of each setting, with what it allows."""
    return get_type_hints(CallSettings, include_extras=True)

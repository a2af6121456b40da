"""Which examples may be chosen: filters on their fields, and the query's own question, which may not.

Metadata are texts. A number in a filter is equal to texts that write it ("2020", "2020.0"), a truth value to "true"
or "false" in any case, None to a missing field; everything else is compared as text.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import numpy as np

from ceil_jax.errors import UserError, unknown_name
from ceil_jax.selector.settings import Request
from ceil_jax.tasks.example import Example, Template
from ceil_jax.tasks.words import question_key

Passes = Callable[[Example], bool]

SHOWN = 6
"""The number of values that a message names."""


def field_reader(name: str, output_key: str) -> Callable[[Example], str | None]:
    """Return what reads a field of an example; None where it has none."""
    if name in ("output", output_key):
        return lambda example: example.output
    return lambda example: example.fields.get(name)


def passes_filter(request: Request) -> Passes:
    """Return whether an example passes the filter of a request.

    Raises:
        UserError: the filter is neither a mapping nor a function, or holds an operator.
    """
    wanted = request.filter
    if wanted is None:
        return lambda example: True
    if callable(wanted):
        return wanted
    if not isinstance(wanted, Mapping):
        raise UserError(f"filter is {wanted!r}; expected {{'field': value}} or a function of an Example")
    tests = [(field_reader(name, request.output_key), _values(name, value)) for name, value in wanted.items()]
    return lambda example: all(
        any(same_value(read(example), value) for value in values) for read, values in tests
    )


def _values(name: str, value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        raise UserError(
            f"filter on {name!r} is {value!r:.60}, which holds an operator; expected a value or a list of values; "
            f"for anything else give a function: filter=lambda example: float(example.fields[{name!r}]) >= 2020"
        )
    several = isinstance(value, Collection) and not isinstance(value, (str, bytes))
    return [one.item() if isinstance(one, np.generic) else one for one in (value if several else [value])]


def same_value(text: str | None, wanted: Any) -> bool:
    """Return whether the text of a field says a value.

    >>> same_value("2020.0", 2020), same_value("true", True), same_value("2020.0", "2020"), same_value(None, None)
    (True, True, False, True)
    """
    if text is None or wanted is None:
        return text is wanted
    if isinstance(wanted, bool):
        return text.strip().lower() == str(wanted).lower() or _number(text) == wanted
    if isinstance(wanted, (int, float)):
        return _number(text) == wanted
    return text == str(wanted)


def _number(text: str) -> int | float | None:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return None


def check_filter(request: Request, examples: Iterable[Example]) -> None:
    """Explain a filter that nothing passes.

    Args:
        request: its filter was passed by no example; a function is not explained.
        examples: the bank; an empty one is no fault of the filter.

    Raises:
        UserError: no example has a field of that name, or none of the values that it is compared with.
    """
    bank = list(examples)
    if not bank or not isinstance(request.filter, Mapping):
        return
    for name, value in request.filter.items():
        check_field("field in filter", name, bank, request)
        read = field_reader(name, request.output_key)
        there = list(dict.fromkeys(map(read, bank)))
        values = _values(name, value)
        if not any(same_value(text, one) for text in there for one in values):
            shown = ", ".join(map(repr, there[:SHOWN])) + (" …" if len(there) > SHOWN else "")
            raise UserError(f"filter: no example has {name!r} = {value!r:.60}; its values are {shown}")


def check_field(what: str, name: str, examples: Iterable[Example], request: Request, *more: str) -> None:
    """Raise if no example has the field.

    Raises:
        UserError: so it is, with the nearest name that there is.
    """
    known = {name for example in examples for name in example.fields}
    known |= {"output", request.output_key, *more}
    if name not in known:
        raise unknown_name(what, name, known)


def question(example: Example, names: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the identity of an example's question: the words of its input and of some of its fields."""
    return tuple(
        question_key(text) for text in (example.input, *(example.fields.get(name, "") for name in names))
    )


def asks_the_same(query: Example, template: Template) -> Passes:
    """Return whether an example asks the query's own question: what a prompt shows of both before the answer.

    Args:
        query: its id says nothing, because it may come from another file.
        template: the fields that it names, and that the query has, are part of a question.
    """
    names = [name for name in template.fields if name in query.fields]
    own = question(query, names)
    return lambda example: question(example, names) == own

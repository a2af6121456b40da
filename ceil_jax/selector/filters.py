"""Which examples may be chosen: filters on their fields, and the query's own question, which may
not.

Metadata are texts. A number in a filter is equal to texts that write it ("2020", "2020.0"), a truth
value to "true" or "false" in any case, None to a missing field; everything else is compared as
text.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import numpy as np

from ceil_jax.errors import UserError, unknown_name
from ceil_jax.selector.settings import CallSettings
from ceil_jax.tasks.example import Example, Template
from ceil_jax.tasks.words import question_key


def field_reader(name: str, output_key: str) -> Callable[[Example], str | None]:
    """Return what reads a field of an example; None where it has none."""
    if name in ("output", output_key):
        return lambda example: example.output
    return lambda example: example.fields.get(name)


def passes_filter(call: CallSettings) -> Callable[[Example], bool]:
    """Return the test of a call's filter; a UserError if that is no mapping and no function, or
    holds an operator."""
    wanted = call.filter
    if wanted is None:
        return lambda example: True
    if callable(wanted):
        return wanted
    if not isinstance(wanted, Mapping):
        raise UserError(
            f"filter is {wanted!r}; expected {{'field': value}} or a function of an Example"
        )
    tests = [
        (field_reader(name, call.output_key), _values(name, value))
        for name, value in wanted.items()
    ]
    return lambda example: all(
        any(same_value(read(example), value) for value in values) for read, values in tests
    )


def _values(name: str, value: Any) -> Collection[Any]:
    if isinstance(value, Mapping):
        raise UserError(
            f"filter on {name!r} is {value!r:.60}, which holds an operator; expected a value or a "
            "list of values; for anything else give a function: filter=lambda example: "
            f"float(example.fields[{name!r}]) >= 2020"
        )
    return (
        value if isinstance(value, Collection) and not isinstance(value, (str, bytes)) else [value]
    )


def same_value(text: str | None, wanted: Any) -> bool:
    """Return whether the text of a field says a value.

    >>> same_value("2020.0", 2020), same_value("true", True), same_value("2020.0", "2020"), same_value(None, None)
    (True, True, False, True)
    """
    if text is None or wanted is None:
        return text is wanted
    text, said = text.strip(), str(wanted).strip()
    if isinstance(wanted, (bool, np.bool_)):
        return text.lower() == said.lower()
    if text == said or not isinstance(wanted, (int, float, np.number)):
        return text == said
    try:
        return float(text) == wanted
    except ValueError:
        return False


def check_filter(call: CallSettings, examples: Iterable[Example]) -> None:
    """Raise a UserError for a filter by a field that no example has, or by values that none has."""
    bank = list(examples)
    if not bank or not isinstance(call.filter, Mapping):
        return
    for name, value in call.filter.items():
        check_field("field in filter", name, bank, call)
        there = list(dict.fromkeys(map(field_reader(name, call.output_key), bank)))
        if not any(same_value(text, one) for text in there for one in _values(name, value)):
            shown = ", ".join(map(repr, there[:6])) + (" …" if len(there) > 6 else "")
            raise UserError(
                f"filter: no example has {name!r} = {value!r:.60}; its values are {shown}"
            )


def check_field(
    what: str, name: str, examples: Iterable[Example], call: CallSettings, *more: str
) -> None:
    """Raise a UserError with the nearest name that there is, if no example has the field."""
    known = {name for example in examples for name in example.fields}
    known |= {"output", call.output_key, *more}
    if name not in known:
        raise unknown_name(what, name, known)


def question(example: Example, names: Iterable[str]) -> tuple[str, ...]:
    """Return the identity of an example's question: the words of its input and of some of its
    fields."""
    shown = example.input, *(example.fields.get(name, "") for name in names)
    return tuple(map(question_key, shown))


def asks_the_same(query: Example, template: Template) -> Callable[[Example], bool]:
    """Return whether an example asks the query's own question: what a prompt shows of both before
    the answer.

    Ids say nothing, because they may come from different files.
    """
    names = [name for name in template.fields if name in query.fields]
    own = question(query, names)
    return lambda example: question(example, names) == own

"""Filters on the examples that may be chosen: by their fields, and never the query's own question.

Metadata are texts; `tasks.cells.says` compares them with the values of a filter. Names of fields are
compared as `question_key` does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from ceil_jax.errors import UserError, unknown_name
from ceil_jax.selector.settings import CallSettings
from ceil_jax.tasks.cells import plain, says
from ceil_jax.tasks.example import Example, Template
from ceil_jax.tasks.identity import question_key, same_text

ANSWER = ("output", "label")
"""Names for the output, whatever it is called, of a bank that has no column of this name."""


def of_this_bank(call: CallSettings, examples: Iterable[Example] | None) -> CallSettings:
    """Return a call whose `filter` and `balance` name the output as the selector does.

    "output" and "label" stand for the output, unless examples have a field of that name. A vector
    store, whose `examples` are None, reads its filter itself.
    """

    def meant(name: str) -> str:
        if name not in ANSWER or any(example.field(name) for example in examples or ()):
            return name
        return call.output_key

    balance = None if call.balance is None else meant(call.balance)
    if examples is None or not isinstance(call.filter, Mapping):
        return replace(call, balance=balance)
    wanted = {meant(name): value for name, value in call.filter.items()}
    return replace(call, balance=balance, filter=wanted)


def field_reader(name: str, call: CallSettings) -> Callable[[Example], str | None]:
    """Return what reads a field of an example, or its input, output or id; None where it has
    none."""
    if same_text(name, (call.output_key,)):
        return lambda example: example.output
    if same_text(name, (call.input_key,)):
        return lambda example: example.input
    if name == "id":
        return lambda example: example.field(name) or example.id
    return lambda example: example.field(name)


def group_reader(call: CallSettings) -> Callable[[Example], str | None]:
    """Return what reads the value that `balance` counts: texts that are the same are one value."""
    read = field_reader(call.balance or call.output_key, call)

    def group(example: Example) -> str | None:
        value = read(example)
        return None if value is None else question_key(value)

    return group


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
    tests = [(field_reader(name, call), _values(name, value)) for name, value in wanted.items()]
    return lambda example: all(
        any(says(read(example), value) for value in values) for read, values in tests
    )


def _values(name: str, value: Any) -> Collection[Any]:
    """The values of which an example must have one."""
    if isinstance(value, Mapping):
        raise UserError(
            f"filter on {name!r} is {value!r:.60}, which holds an operator; expected a value or a "
            "list of values; for anything else give a function: filter=lambda example: "
            f"float(example.fields[{name!r}]) >= 2020"
        )
    if isinstance(value, Iterator):
        raise UserError(
            f"filter on {name!r} is {value!r:.60}, which can be read once; expected a value or a "
            "list of values"
        )
    values = plain(value)
    several = isinstance(values, Collection) and not isinstance(values, str | bytes)
    return values if several else [value]


def check_filter(call: CallSettings, examples: Iterable[Example]) -> None:
    """Raise a UserError for a filter by a field that no example has, or by values that none has."""
    bank = list(examples)
    if not bank or not isinstance(call.filter, Mapping):
        return
    for name, value in call.filter.items():
        check_field("field in filter", name, bank, call)
        there = list(dict.fromkeys(map(field_reader(name, call), bank)))
        if not any(says(text, wanted) for text in there for wanted in _values(name, value)):
            listed = ", ".join(map(repr, there[:6])) + (" …" if len(there) > 6 else "")
            raise UserError(
                f"filter: no example has {name!r} = {value!r:.60}; its values are {listed}"
            )


def check_field(what: str, name: str, examples: Iterable[Example], call: CallSettings) -> None:
    """Check that some example has a field.

    Args:
        what: the kind of name in the message, such as "field of balance".
        name: the field; "output", "label", "id" and the selector's own keys are always there.
        examples: the bank.
        call: the settings, which name the keys of input and output.

    Raises:
        UserError: no example has it; the nearest name that there is is named.
    """
    known = {name for example in examples for name in example.fields}
    known |= {*ANSWER, "id", call.input_key, call.output_key}
    if same_text(name, known) is None:
        raise unknown_name(what, name, known)


def question(example: Example, names: Iterable[str]) -> tuple[str, ...]:
    """Return what identifies an example's question: the keys of its input and of the fields in
    `names`."""
    texts = example.input, *(example.field(name) or "" for name in names)
    return tuple(map(question_key, texts))


def asks_the_same(query: Example, template: Template) -> Callable[[Example], bool]:
    """Return whether an example asks the query's own question: what a prompt shows of both before
    the answer.

    Ids say nothing, because they may come from different files.
    """
    names = [name for name in template.fields if query.field(name) is not None]
    of_query = question(query, names)
    return lambda example: question(example, names) == of_query

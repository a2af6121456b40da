"""Datasets that LangSmith exported, as examples: its JSONL, JSON and CSV files, and the `Example`s
of its client."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ceil_jax.errors import UserError
from ceil_jax.selector.adapters.conversations import FIELD, conversation_examples
from ceil_jax.tasks.cells import plain
from ceil_jax.tasks.example import Example
from ceil_jax.tasks.files import TableLike, read_table
from ceil_jax.tasks.rows import examples_of, valid
from ceil_jax.tasks.spec import FieldError, Row, RowError
from ceil_jax.tasks.tables.table_rows import numbered_rows

_SIDES = {"inputs": "input_", "outputs": "output_", "metadata": "metadata_"}
"""The parts of a LangSmith example → the beginning of their columns' names in its CSV files."""

_CLIENT = ("id", "inputs", "outputs", "metadata")
"""The attributes that are read from an `Example` of the client."""


def langsmith_examples(
    source: TableLike | Iterable[Any],
    *,
    input: str | None = None,
    output: str | None = None,
) -> list[Example]:
    """Return the examples of a dataset that LangSmith exported.

    Each key of `inputs`, `outputs` and `metadata` becomes a field of the example for filters and
    templates. Ids are kept. Examples whose `inputs` hold `messages` become conversations
    (`conversations.conversation_examples`).

    Args:
        source: a file (.jsonl, .json or .csv), a data frame, a list of rows, or the examples of the
            client's `list_examples`.
        input: the key of `inputs` that is the input; by default all of its texts, one a line.
        output: the key of `outputs` that is the output; by default the only key, or all of them as
            JSON.

    Raises:
        UserError: the file cannot be read, or a row lacks inputs, outputs or a named key; the
            message names its line and field.

    Examples:
        >>> row = {"inputs": {"question": "2 + 2"}, "outputs": {"answer": "4"}}
        >>> example = langsmith_examples([{**row, "metadata": {"by": "Ann"}}])[0]
        >>> example.input, example.output, example.fields["by"]
        ('2 + 2', '4', 'Ann')
    """
    if isinstance(source, str | os.PathLike) or hasattr(source, "columns"):
        table = read_table(source)
    elif isinstance(source, Iterable) and not isinstance(source, Mapping):
        rows = [_row_of_client(row) for row in source]
        table = numbered_rows(rows, "LangSmith's examples")
    else:
        raise UserError(
            f"expected a file, a data frame or examples of LangSmith, found {type(source).__name__}"
        )

    def example(id: str, row: Row) -> Example:
        return _example(id, row, input, output)

    return examples_of(table, "langsmith", (), example)


def _row_of_client(row: Any) -> Any:
    """An example of the client, which is an object, as a mapping; other rows as they are."""
    if isinstance(row, Mapping) or not hasattr(row, "inputs"):
        return row
    return {name: getattr(row, name, None) for name in _CLIENT}


def _example(id: str, row: Row, input: str | None, output: str | None) -> Example:
    if isinstance(row, RowError):
        raise row
    inputs = _side(row, "inputs")
    outputs = _side(row, "outputs")
    if not inputs:
        expected = 'an object such as {"question": "…"}, or columns input_question'
        raise FieldError("inputs", expected, row.get("inputs"))
    if not outputs:
        expected = 'an object such as {"answer": "…"}, or columns output_answer'
        raise FieldError("outputs", expected, row.get("outputs"))
    own_id = row.get("id")
    if own_id not in (None, ""):
        id = str(own_id)
    fields = {**_side(row, "metadata"), **outputs, **inputs}
    texts = {name: _text(value) for name, value in fields.items()}
    conversation = _conversation(inputs, outputs)
    if conversation:
        [example] = conversation_examples([{"messages": conversation}])
        example_fields = {name: text for name, text in texts.items() if text and name != FIELD}
        example_fields[FIELD] = example.fields[FIELD]
        return valid(Example(id, example.input, example.output, fields=example_fields))
    input_values = _named(inputs, input, "inputs")
    output_values = _named(outputs, output, "outputs")
    if output is None and len(outputs) > 1:
        answer = json.dumps(outputs, ensure_ascii=False)
    else:
        answer = "\n".join(map(_text, output_values))
    question = "\n".join(text for text in map(_text, input_values) if text)
    example_fields = {name: text for name, text in texts.items() if text}
    return valid(Example(id, question, answer, fields=example_fields))


def _side(row: Row, name: str) -> dict[str, Any]:
    """A part of an example, from an object, from JSON, or from the columns of a CSV file."""
    value = plain(row.get(name))
    if isinstance(value, str) and value.lstrip()[:1] == "{":
        try:
            value = json.loads(value)
        except ValueError:
            raise FieldError(name, "an object of JSON", value) from None
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, str) and value:
        return {name.removesuffix("s"): value}
    prefix = _SIDES[name]
    return {
        column.removeprefix(prefix): _parsed(plain(cell))
        for column, cell in row.items()
        if column.startswith(prefix) and plain(cell) not in (None, "")
    }


def _parsed(cell: Any) -> Any:
    """The value of a cell of a CSV file, in which objects and lists are JSON."""
    if isinstance(cell, str) and cell.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(cell)
        except ValueError:
            return cell
    return cell


def _named(side: Mapping[str, Any], key: str | None, name: str) -> Sequence[Any]:
    """The value of a key, or all values without a key."""
    if key is None:
        return list(side.values())
    if key not in side:
        raise FieldError(name, f"a key {key!r}", ", ".join(side))
    return [side[key]]


def _conversation(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> list[Any]:
    """The messages of a chat dataset, the answer last; [] for other datasets."""
    messages = inputs.get("messages")
    if not isinstance(messages, list) or not messages:
        return []
    if not all(isinstance(message, Mapping) for message in messages):
        return []
    answer = outputs.get("messages", outputs.get("message", outputs.get("output")))
    if isinstance(answer, list):
        return [*messages, *answer]
    if isinstance(answer, Mapping):
        return [*messages, answer]
    text = answer if isinstance(answer, str) else _text(next(iter(outputs.values())))
    return [*messages, {"role": "assistant", "content": text}]


def _text(value: Any) -> str:
    """A value as text; "" for a missing value."""
    value = plain(value)
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)

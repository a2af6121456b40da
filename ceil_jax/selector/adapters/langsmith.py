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
"""The parts of a LangSmith example → what the names of their columns begin with in its CSV."""

_CLIENT = ("id", "inputs", "outputs", "metadata")
"""What is taken of the client's own `Example`s."""


def langsmith_examples(
    source: TableLike | Iterable[Any],
    *,
    input: str | None = None,
    output: str | None = None,
) -> list[Example]:
    """Return the examples of a dataset that LangSmith exported.

    Each key of `inputs`, `outputs` and `metadata` is a field of the example, which filters and
    templates may name; ids stay. Examples whose `inputs` hold `messages` become conversations
    (`conversations.conversation_examples`).

    Args:
        source: a file (.jsonl, .json or .csv), a data frame, rows in a list, or what the client's
            `list_examples` yields.
        input: the key of `inputs` by which examples are found; by default all of its texts, one a
            line.
        output: the key of `outputs` that is the answer; by default the only one, or all of them as
            JSON.

    Raises:
        UserError: a file that cannot be read; a row without inputs or outputs, or without a key
            that is named; the message names its line and field.

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
        table = numbered_rows("LangSmith's examples", rows, "row")
    else:
        raise UserError(
            f"expected a file, a data frame or examples of LangSmith, found {type(source).__name__}"
        )

    def example(id: str, row: Row) -> Example:
        return _example(id, row, input, output)

    return examples_of(table, "langsmith", (), example)


def _row_of_client(row: Any) -> Any:
    """A row as a mapping: the client's examples are objects."""
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
    own = row.get("id") if row.get("id") not in (None, "") else id
    fields = {**_side(row, "metadata"), **outputs, **inputs}
    texts = {name: _text(value) for name, value in fields.items()}
    conversation = _conversation(inputs, outputs)
    if conversation:
        [found] = conversation_examples([{"messages": conversation}])
        kept = {name: text for name, text in texts.items() if text and name != FIELD}
        kept[FIELD] = found.fields[FIELD]
        return valid(Example(str(own), found.input, found.output, fields=kept))
    asked = _named(inputs, input, "inputs")
    answered = _named(outputs, output, "outputs")
    if output is None and len(outputs) > 1:
        answer = json.dumps(outputs, ensure_ascii=False)
    else:
        answer = "\n".join(map(_text, answered))
    question = "\n".join(text for text in map(_text, asked) if text)
    kept = {name: text for name, text in texts.items() if text}
    return valid(Example(str(own), question, answer, fields=kept))


def _side(row: Row, name: str) -> dict[str, Any]:
    """One of the parts of an example: an object, JSON, or the columns of a CSV file."""
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
    """A cell of a CSV file, in which objects and lists are JSON."""
    if isinstance(cell, str) and cell.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(cell)
        except ValueError:
            return cell
    return cell


def _named(side: Mapping[str, Any], key: str | None, name: str) -> Sequence[Any]:
    """The value of a key, or all values."""
    if key is None:
        return list(side.values())
    if key not in side:
        raise FieldError(name, f"a key {key!r}", ", ".join(side))
    return [side[key]]


def _conversation(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> list[Any]:
    """The messages of a chat dataset, the answer last; [] of any other."""
    asked = inputs.get("messages")
    if not (isinstance(asked, list) and asked and all(isinstance(one, Mapping) for one in asked)):
        return []
    answer = outputs.get("messages", outputs.get("message", outputs.get("output")))
    if isinstance(answer, list):
        return [*asked, *answer]
    if isinstance(answer, Mapping):
        return [*asked, answer]
    text = answer if isinstance(answer, str) else _text(next(iter(outputs.values())))
    return [*asked, {"role": "assistant", "content": text}]


def _text(value: Any) -> str:
    """A value as text; "" where there is none."""
    value = plain(value)
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)

"""All checks of a user's data before a run.

Of a table (refused):
- `check_names`: two columns have one name
- `check_columns`: a column is missing
Of a row (refused, or left out with --skip-bad-rows):
- `needed`: a text is empty, is not a text or number, is too long, or holds half a character
- `check_end`: an output holds the string at which an answer ends, so that no answer could be right
- `choice_of`: an output is not among the choices
Of a task (`separated` and what it calls):
- `check_labels`: all outputs are one (refused where the LM chooses among labels, else a warning)
- `spelled_alike`: labels that look the same (one spelling is taken, with a warning)
- `warn_if_swapped`: the input repeats as labels do, and the output does not (warning)
- `separated`: a query's text or group in the bank, two rows of one text (left out, with a warning),
  two answers for one text (warning), and a column that may name groups (a line)
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ceil_jax.errors import UserError
from ceil_jax.tasks.cells import as_text, plain
from ceil_jax.tasks.example import Example, Task
from ceil_jax.tasks.identity import differing_answers, look_alikes, question_key, same_text
from ceil_jax.tasks.labels import are_labels
from ceil_jax.tasks.spec import NOT_EMPTY, FieldError, Row, RowError, text
from ceil_jax.tasks.words import first_of_each

log = logging.getLogger(__name__)

# --- a table


def check_names(names: Sequence[str], source: str) -> None:
    """Raise a UserError if two columns have the same name, compared by `question_key`.

    Columns without a name are ignored.

    Args:
        names: the names of all columns.
        source: the table's name in the message.
    """
    named = [name for name in names if name.strip()]
    if len({*map(question_key, named)}) < len(named):
        listed = ", ".join(map(ascii if look_alikes(named) else repr, names))
        raise UserError(f"{source}: two columns have one name: {listed}; rename one of them")


def check_columns(needed: Sequence[str], row: Row, source: str, hint: str = "") -> None:
    """Raise a UserError if a table lacks columns that are needed.

    Args:
        needed: their names, which are compared by `question_key`.
        row: the names of the table's columns, with the values of a row.
        source: the table's name in the message.
        hint: the remedy, for the message.
    """
    if absent := missing_names(needed, row):
        raise UserError(
            f"{source}: no column {', '.join(map(repr, absent))}; it has "
            f"{', '.join(map(repr, row))}{nested(row)}{hint and '; '}{hint}"
        )


def nested(row: Row) -> str:
    """Return a clause for messages on the columns of a row that hold lists or objects.

    "" if none does.
    """
    names = [repr(name) for name, value in row.items() if isinstance(value, list | Mapping)]
    if not names:
        return ""
    return (
        f" ({', '.join(names)}: lists or objects; write their contents as columns of text; "
        "conversations are read by conversation_examples of "
        "ceil_jax.selector.adapters.conversations)"
    )


def missing_names(needed: Sequence[str], names: Collection[str]) -> list[str]:
    """Return those of some column names that are not among `names`."""
    return [column for column in needed if same_text(column, names) is None]


# --- a row


def needed(name: str, value: Any, *, blank: bool = False) -> str:
    """Return the text of a cell in a column that is used.

    Args:
        name: the column, for messages.
        value: the cell.
        blank: whether the text may be empty.

    Raises:
        FieldError: the cell has no text, or none that can be written and read back.
    """
    written = as_text(value)
    if written is None or not (blank or written.strip()):
        raise FieldError(name, "a text or a finite number" if blank else NOT_EMPTY, plain(value))
    return check_text(name, written)


def check_text(name: str, text: str) -> str:
    """Return a text unchanged. A FieldError if it is longer than `CEIL_JAX_MAX_CELL` (by default
    200,000 characters), or contains half a character (a lone surrogate), as after a cut inside an
    emoji."""
    most = os.environ.get("CEIL_JAX_MAX_CELL", "200000")
    if not most.isdigit():
        raise UserError(f"CEIL_JAX_MAX_CELL is {most!r}: expected a whole number of characters")
    if len(text) > int(most):
        way = "cut it, drop the column, or set CEIL_JAX_MAX_CELL"
        raise FieldError(name, f"at most {int(most):,} characters, not {len(text):,} ({way})", text)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        half = f"text without half a character ({text[error.start]!r} at place {error.start})"
        raise FieldError(name, half, text) from None
    return text


def check_end(answer: str, ends: Iterable[str], name: str = "output") -> None:
    """Raise a FieldError if an answer contains a string that would end a generated answer."""
    for end in ends:
        if end in answer.rstrip():
            way = f"text without {end!r}, which ends an answer (--stop or stop=… names another end)"
            raise FieldError(name, way, answer)


def choice_of(answer: str, choices: Sequence[str], name: str = "output", source: str = "") -> str:
    """Return the choice that equals an answer by `question_key`, in the spelling of the choices.

    Args:
        answer: the text of the answer.
        choices: the choices.
        name: the field's name in messages.
        source: where the choices come from, for messages.

    Raises:
        FieldError: the answer is not among the choices.
    """
    choice = same_text(answer, choices)
    if choice is None:
        raise FieldError(name, f"one of the choices {', '.join(choices)}{source}", answer)
    return choice


def valid(example: Example, answered: bool = True, output: str = "output") -> Example:
    """Check that all texts of a user's example can be written, and return the example.

    They must be the same after they are read back.

    Raises:
        FieldError: a field is not such a text; the input is empty; or, if `answered`, the output is
            empty or not one of the choices. The message calls the output `output`.
    """
    single = {"id": example.id, "input": example.input, "output": example.output}
    texts = list(single.items())
    for name in ("choices", "references", "parts"):
        texts += [(name, value) for value in getattr(example, name)]
    texts += example.fields.items()
    for name, value in texts:
        if not isinstance(value, str):
            raise FieldError(name, "a text", value)
        check_text(name, value)
    # `text` refuses an empty one
    text(single, "input")
    if answered:
        text(single, "output")
    if not (answered and example.choices):
        return example
    return replace(example, output=choice_of(example.output, example.choices, output))


# --- a task


def check_labels(task: Task, source: str = "") -> None:
    """Raise a UserError if the LM has to choose among labels and the whole bank has one label.

    Warn if it has to write answers and the whole bank has one.

    Args:
        task: the bank and the queries.
        source: names the rows in the message; by default the task's name.
    """
    outputs = {example.output for example in task.train}
    if len(outputs) > 1 or len(task.train) < 2:
        return
    found = f"{source or task.name}: every row of the bank has the output {min(outputs)!r}"
    if task.validation[0].choices:
        raise UserError(
            f"{found}; give rows of at least two labels, or --metric exact_match to generate answers"
        )
    log.warning("%s: scores will say nothing about the choice of examples", found)


def spelled_alike(rows: Sequence[Example], source: str) -> list[Example]:
    """Return the rows with one spelling for each label, without surrounding white space.

    The most frequent one of spellings that look the same. A warning lists them.
    """
    rows = [replace(row, output=row.output.strip()) for row in rows]
    counts = Counter(row.output for row in rows)
    alike = look_alikes(counts)
    if not alike:
        return rows
    listed = "; ".join(", ".join(map(ascii, several)) for several in alike.values())
    log.warning(
        "%s: labels that look the same: %s; the most frequent spelling is used for all",
        source,
        listed,
    )
    spelling = {
        label: max(several, key=lambda other: counts[other])
        for several in alike.values()
        for label in several
    }
    return [replace(row, output=spelling.get(row.output, row.output)) for row in rows]


def warn_if_swapped(rows: Sequence[Example], input: str, output: str, source: str) -> None:
    """Warn if the inputs repeat as labels do and the outputs do not.

    The two columns may be swapped.

    Args:
        rows: all rows.
        input: the names of the input's columns, for the message.
        output: the name of the output's column.
        source: the name of the table.
    """
    inputs = {question_key(row.input) for row in rows}
    outputs = {question_key(row.output) for row in rows}
    if are_labels(len(inputs), len(rows)) and not are_labels(len(outputs), len(rows)):
        log.warning(
            "%s: did you swap input and output? The input (%s) has only %d different texts in %d "
            "rows, and the output (%s) has %d",
            source,
            input,
            len(inputs),
            len(rows),
            output,
            len(outputs),
        )


def separated(task: Task, source: str = "") -> Task:
    """Return the task without rows of the bank that are a query or repeat one another.

    No row of the bank then has a query's text (before the answer) or a query's group, and no two
    rows have the same text; the first is kept.

    The papers' tasks are not passed through here: they keep the papers' own rule. A query with the
    same id as a row of the bank, but another text, gets a new id. Warnings say how many rows are
    left out, and how many texts have several different answers, as when annotators disagree.

    Args:
        task: a task of the user's own.
        source: names the rows in messages; by default the task's name.

    Raises:
        UserError: an example cannot be used, such as one whose output contains a stop string; no
            row is left for the bank; or all rows have one label.
    """
    for name, examples in (("bank", task.train), ("queries", task.validation)):
        if not examples:
            raise UserError(f"{task.name}: no {name}")
    task = replace(
        task,
        train=_checked(task, "bank", task.train),
        validation=_checked(task, "queries", task.validation),
    )
    source = source or task.name
    rows = [*task.train, *task.validation]
    questions = [question_key(task.template.query(row)) for row in rows]
    of_queries = set(questions[len(task.train) :])
    groups = {task.group_of(row) for row in task.validation} - {""}
    apart = [
        (question, row)
        for question, row in zip(questions, task.train, strict=False)
        if task.group_of(row) not in groups
    ]
    others = [(question, row) for question, row in apart if question not in of_queries]
    if not others:
        shared = f"text or the {task.group!r}" if task.group else "text"
        raise UserError(
            f"{source}: every row has the {shared} of a query, so that none is left for the bank"
        )
    bank = [row for _, row in first_of_each(others, lambda pair: pair[0])]
    _warn_of_answers(rows, questions, source)
    for count, what in (
        (len(task.train) - len(apart), f"with a query's {task.group!r}"),
        (len(apart) - len(others), "with a query's text"),
        (len(others) - len(bank), "with the same text as another"),
    ):
        if count:
            noun = "row" if count == 1 else "rows"
            log.warning("%s: %d %s %s left out", source, count, noun, what)
    ids = {row.id for row in bank}
    queries = [
        replace(query, id=f"query-{query.id}") if query.id in ids else query
        for query in task.validation
    ]
    task = replace(task, train=bank, validation=queries)
    check_labels(task, source)
    return task


def note_groups(task: Task, source: str) -> None:
    """Log a line on a column that may name groups and has values in the bank and among queries.

    Groups are documents, customers or threads: there are ten or more, and two to twenty rows of
    each on average.
    """
    rows = [*task.train, *task.validation]
    for name in dict.fromkeys(name for row in rows for name in row.fields):
        sides = [
            {row.fields[name] for row in side if name in row.fields}
            for side in (task.train, task.validation)
        ]
        values = len(set.union(*sides))
        shared = len(set.intersection(*sides))
        if shared and values >= 10 and 2 <= sum(name in row.fields for row in rows) / values <= 20:
            log.info(
                "%s: %d values of the column %r are both in the bank and among the queries; if they "
                "are documents, customers or threads, --group %s keeps the rows of each on one side",
                source,
                shared,
                name,
                name,
            )
            return


def _checked(task: Task, side: str, examples: Sequence[Any]) -> list[Example]:
    """The examples of one side of a task, each of which is checked."""
    checked: dict[str, Example] = {}
    for number, example in enumerate(examples, 1):
        try:
            example = valid(example)
            if example.id in checked:
                raise FieldError("id", "an id that no other example has", example.id)
            check_end(example.output, () if example.choices else task.stop)
        except RowError as error:
            raise UserError(f"{task.name}, {side}, example {number}, {error}") from None
        checked[example.id] = example
    return [*checked.values()]


def _warn_of_answers(rows: Sequence[Example], questions: Sequence[str], source: str) -> None:
    """Warn of texts with several different answers."""
    differing = differing_answers(questions, [question_key(row.output) for row in rows])
    if differing:
        several = [rows[position] for position in differing[0]]
        log.warning(
            "%s: %d text%s more than one answer, such as %.60r with %s: the bank keeps the first "
            "row of each text",
            source,
            len(differing),
            " has" if len(differing) == 1 else "s have",
            several[0].input,
            ", ".join(f"{row.output!r:.40}" for row in several[:3]),
        )

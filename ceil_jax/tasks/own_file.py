"""A task made from a table of the user's own: `load_file` and its options."""

from __future__ import annotations

import logging
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypedDict, Unpack

from ceil_jax.errors import UserError, unknown_name
from ceil_jax.store.places import user_path
from ceil_jax.tasks.cells import as_text
from ceil_jax.tasks.draws import draw
from ceil_jax.tasks.example import Example, Task, Template, column_template
from ceil_jax.tasks.files import TableLike, read_table
from ceil_jax.tasks.identity import differing_answers, look_alikes, question_key
from ceil_jax.tasks.labels import are_labels, labels_of
from ceil_jax.tasks.registry import TASKS
from ceil_jax.tasks.rows import (
    Columns,
    choice_of,
    examples_of,
    ids_of_rows,
    row_example,
    valid,
)
from ceil_jax.tasks.spec import FieldError, Row
from ceil_jax.tasks.tables.table_rows import TableRows, numbered_rows
from ceil_jax.tasks.words import first_of_each
from ceil_jax.tasks.written import default_limit, default_stop

log = logging.getLogger(__name__)

DATABASE = "database"
"""The column with the path of a row's SQLite file, relative to the data file; the metric
sql_execution needs it."""


@dataclass(frozen=True)
class FileOptions:
    """How a user's table becomes a task."""

    input: str | Sequence[str] = "input"
    """The column that retrievers see. Several columns, such as premise and hypothesis, are
    joined."""
    output: str = "output"
    """The column with the answer: text, a truth value or a finite number."""
    template: str | Template | None = None
    """The text of an example in a prompt, with column names in braces; it ends with the output's.
    `{input}` and `{output}` stand for the two roles unless another column has that name. By default
    each column stands on a line of its own, behind its name."""
    metric: str | None = None
    """A name in `ceil_jax.metrics.METRICS`, which a run checks; by default accuracy with `choices`
    or where the outputs are labels (`tasks.labels.labels_of`), else exact_match. With accuracy and
    no `choices`, the distinct answers of the table are the choices."""
    choices: Iterable[Any] | None = None
    """The answers to choose from; every output must be one of them. None by default."""
    seed: int = 0
    """Draws the queries that are held out, and what `limit` and `bank_limit` keep."""
    validation: float | TableLike = 0.1
    """The fraction of the distinct inputs that is held out as queries, or a table of queries."""
    separator: str | None = None
    """The text between examples; by default an empty line, or `stop` on a line of its own where an
    empty line does not hold it. A Template brings its own."""
    max_new_tokens: int | None = None
    """The most LM tokens of a generated answer; by default from the longest output
    (`tasks.written.default_limit`)."""
    stop: str | Sequence[str] | None = None
    """Strings that end a generated answer; by default from the outputs
    (`tasks.written.default_stop`): a newline, or an empty line if outputs have several lines or are
    JSON."""
    delimiter: str | None = None
    """The separator between values of a text table; by default found from the content."""
    skip_bad_rows: bool = False
    """Leave out rows that cannot be used, with a warning that lists them; refused by default."""
    limit: int | None = None
    """The most queries to keep; all by default."""
    bank_limit: int | None = None
    """The most examples of the bank to keep; all by default."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """The columns of the input."""
        return (self.input,) if isinstance(self.input, str) else tuple(self.input)

    @property
    def stops(self) -> tuple[str, ...] | None:
        """The strings that end a generated answer; None if they are to be found from the
        outputs."""
        if self.stop is None:
            return None
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop)


class FileKeywords(TypedDict, total=False):
    """The fields of `FileOptions` as keywords of `load_file`."""

    input: str | Sequence[str]
    output: str
    template: str | Template | None
    metric: str | None
    choices: Iterable[Any] | None
    seed: int
    validation: float | TableLike
    separator: str | None
    max_new_tokens: int | None
    stop: str | Sequence[str] | None
    delimiter: str | None
    skip_bad_rows: bool
    limit: int | None
    bank_limit: int | None


def load_file(
    path: TableLike, options: FileOptions | None = None, **keywords: Unpack[FileKeywords]
) -> Task:
    """Return a task made of a user's own table: `load_file("films.csv", input="text", output="label")`.

    The columns that are used are checked; the others are kept in `Example.fields` if they are text
    or numbers. A column `id` whose values do not repeat gives the examples' ids. The bank is
    de-duplicated by the text that a prompt shows before the answer, and rows with the same such
    text as a query are left out (compared by `question_key`). Rows with equal inputs stay on one
    side of the split.

    Args:
        path: a file, or a table in memory: see `read_table`.
        options: the roles of the columns, the metric, the queries; the defaults of `FileOptions`.
        keywords: fields of `FileOptions`, in place of those of `options`.

    Raises:
        UserError: a field cannot be read (the message names file, lines and field); an output is
            not among the choices, or contains a stop string, so that no generated answer could
            equal it; the template names a column that does not exist; no row is left for the bank;
            an unknown keyword.
    """
    known = FileKeywords.__annotations__
    for name in keywords:
        if name not in known:
            raise unknown_name("argument of load_file", name, known)
    options = replace(options or FileOptions(), **keywords)
    choices = _choices(options.choices)
    metric = options.metric or ("accuracy" if choices else "exact_match")
    table = read_table(path, options.delimiter)
    reader = _Reader(options, metric, _template(options, table), choices)
    rows = reader.examples(table, "train")
    _warn_if_swapped(rows, options, table.source)
    if isinstance(options.validation, int | float):
        reader, rows = _with_labels(reader, rows, None, table.source)
        bank, queries = _hold_out(rows, options.validation, options.seed, table.source)
    else:
        table_of_queries = read_table(options.validation, options.delimiter)
        reader, bank = _with_labels(reader, rows, table_of_queries, table.source)
        queries = reader.examples(table_of_queries, "validation")
    outputs = [row.output for row in (*bank, *queries)]
    stops = options.stops
    if stops is None:
        stops = ("\n",) if reader.choices else (default_stop(outputs),)
    file = Path(table.source).name
    stem = file.split(".")[0]  # no file may pass for a task of the papers
    task = Task(
        name=file if stem in TASKS else stem,
        train=bank,
        validation=queries,
        template=_separated_by(reader.template, options, stops),
        metric=reader.metric,
        max_new_tokens=options.max_new_tokens or default_limit(() if reader.choices else outputs),
        stop=stops,
        available=len(queries),
        # several columns are joined, and have no name together
        input_key=options.inputs[0] if len(options.inputs) == 1 else "input",
        output_key=options.output,
    )
    task = separated(task, table.source)
    return replace(
        task,
        train=draw(task.train, options.bank_limit, options.seed),
        validation=draw(task.validation, options.limit, options.seed),
    )


@dataclass(frozen=True)
class _Reader:
    """Turns the rows of a table into examples."""

    options: FileOptions
    metric: str
    template: Template
    choices: tuple[str, ...]
    """The answers to choose from; empty if answers are generated, or the choices are not known
    yet."""
    source: str = ""
    """Where the choices come from, for messages."""

    def examples(self, table: TableRows, name: str) -> list[Example]:
        """Return the example of each row. Its id is the value of the column `id`, else `name` and
        the row's number."""
        needs_database = self.metric == "sql_execution"
        field_names = (*self.template.fields, *((DATABASE,) if needs_database else ()))
        columns = Columns(self.options.inputs, self.options.output, field_names)
        hint = "--input, --output and --template name columns"
        if needs_database:
            hint += (
                f", and the metric {self.metric} needs the path of an SQLite file in {DATABASE!r}"
            )
        ids = ids_of_rows(table)

        def read(id: str, row: Row) -> Example:
            example = self._checked(row_example(id, row, columns, ids=ids))
            return _with_database(example, table.source) if needs_database else example

        examples = examples_of(
            table,
            name,
            columns.used,
            read,
            skip_bad_rows=self.options.skip_bad_rows,
            hint=hint,
        )
        columns.note(table.source)
        return examples

    def _checked(self, example: Example) -> Example:
        """The example with its choices. A FieldError if its output is not one of them, or contains
        a stop string."""
        output = self.options.output
        if self.choices:
            choice = choice_of(example.output.strip(), self.choices, output, self.source)
            return replace(example, output=choice, choices=self.choices)
        if self.metric != "accuracy":  # a choice may contain a stop string
            _check_ends(example.output, self.options.stops or (), output)
        return example


def _with_database(example: Example, source: str) -> Example:
    """The example with the path of its database, which the table gives relative to its own
    folder."""
    file = Path(source).parent / user_path(example.field(DATABASE) or "")
    return replace(example, fields={**example.fields, DATABASE: str(file)})


def _warn_if_swapped(rows: Sequence[Example], options: FileOptions, source: str) -> None:
    """Warn if the inputs repeat as labels do and the outputs do not: the two columns may have been
    named the wrong way round."""
    inputs = {question_key(row.input) for row in rows}
    outputs = {question_key(row.output) for row in rows}
    if are_labels(len(inputs), len(rows)) and not are_labels(len(outputs), len(rows)):
        log.warning(
            "%s: did you swap input and output? The input (%s) has %d different texts in %d rows, "
            "as labels have, and the output (%s) has %d",
            source,
            ", ".join(options.inputs),
            len(inputs),
            len(rows),
            options.output,
            len(outputs),
        )


def _with_labels(
    reader: _Reader, rows: list[Example], queries: TableRows | None, source: str
) -> tuple[_Reader, list[Example]]:
    """The reader and the rows of the bank, now that their outputs are known.

    Outputs that are labels get one spelling each. Their metric is accuracy if nothing else was
    said, and with accuracy they are the choices.

    Args:
        reader: has read the rows.
        rows: the rows of the bank.
        queries: the table of queries, if there is one.
        source: the file of the rows, for messages.
    """
    is_choosing = reader.metric == "accuracy"
    if reader.choices or not (is_choosing or labels_of(rows)):
        return reader, rows
    rows = _spelled_alike(rows, source)
    if not reader.options.metric:
        others = [] if queries is None else reader.examples(queries, "validation")
        reader = replace(reader, metric=_metric_of_labels(rows, others, source))
    if reader.metric != "accuracy":
        return reader, rows
    choices = tuple(sorted({row.output for row in rows}))
    reader = replace(reader, choices=choices, source=f" (the answers in {source})")
    return reader, [replace(row, choices=choices) for row in rows]


def _metric_of_labels(rows: Sequence[Example], others: Sequence[Example], source: str) -> str:
    """The default metric when the bank's outputs are labels: accuracy, which is logged, or
    exact_match if a separate table of queries (`others`) has outputs that are not among the
    labels."""
    labels = {question_key(row.output) for row in rows}
    if not all(question_key(row.output) in labels for row in others):
        return "exact_match"
    log.info(
        "%s: the answers are %d labels, of which one is to be chosen: --metric accuracy (with "
        "--metric exact_match they are written freely)",
        source,
        len(labels),
    )
    return "accuracy"


def _separated_by(template: Template, options: FileOptions, stops: Sequence[str]) -> Template:
    """Return the template with the default separator, unless the user has given one: an empty line
    if that contains a stop string or there is none, else the first stop string on a line of its
    own."""
    if options.separator is not None or isinstance(options.template, Template):
        return template
    empty_line = "\n\n"
    if not stops or any(end in empty_line for end in stops):
        return replace(template, separator=empty_line)
    return replace(template, separator=f"\n{stops[0]}\n")


def _spelled_alike(rows: Sequence[Example], source: str) -> list[Example]:
    """The rows with one spelling for each label, without surrounding white space: of spellings that
    look the same, the most frequent one. A warning lists them."""
    rows = [replace(row, output=row.output.strip()) for row in rows]
    counts = Counter(row.output for row in rows)
    alike = look_alikes(counts)
    if not alike:
        return rows
    listed = "; ".join(", ".join(map(ascii, several)) for several in alike.values())
    log.warning(
        "%s: labels that look the same: %s; each is read as the spelling of most rows",
        source,
        listed,
    )
    spelling = {
        label: max(several, key=lambda other: counts[other])
        for several in alike.values()
        for label in several
    }
    return [replace(row, output=spelling.get(row.output, row.output)) for row in rows]


def _choices(choices: Iterable[Any] | None) -> tuple[str, ...]:
    """The choices as texts, in order."""
    if isinstance(choices, str | Mapping):
        raise UserError(f"choices are {choices!r:.80}; expected a list of texts")
    written = [as_text(choice) for choice in (() if choices is None else choices)]
    texts = tuple(text.strip() for text in written if text)
    if len({*texts}) < len(written) or look_alikes(texts):
        raise UserError(f"choices are {written!r:.80}; expected different texts")
    return texts


def _template(options: FileOptions, table: TableRows) -> Template:
    """The template for the table: from the user's pattern or template, else a line for each
    column."""
    inputs = options.inputs
    output = options.output
    separator = "\n\n" if options.separator is None else options.separator
    pattern = options.template
    Columns(inputs, output)  # refuses a column in both roles
    if pattern is None and len(inputs) == 1:
        roles = {"{input}": inputs[0], "{output}": output}
        return Template(named_lines(roles), separator)
    if pattern is None:
        pattern = named_lines({f"{{{name}}}": name for name in (*inputs, output)})
    if isinstance(pattern, Template):
        separator = pattern.separator
        pattern = pattern.pattern
    only_input = inputs[0] if len(inputs) == 1 else ""
    template = column_template(pattern, separator, only_input, output, table.columns())
    shows_question = len(template.names) > 1
    if not shows_question:
        raise UserError(
            f"template {pattern!r} shows nothing but the answer; it needs a column of the "
            "question too"
        )
    return template


def named_lines(columns: Mapping[str, str]) -> str:
    """Return a template that has each column on a line of its own, behind its name: an LM is told
    what the texts are, and what is asked.

    Args:
        columns: what stands for a column in a template, and the name of the column.

    >>> named_lines({"{question}": "question", "{sql_query}": "sql_query"})
    'Question: {question}\\nSql query: {sql_query}'
    """
    lines = []
    for field, column in columns.items():
        # braces and line ends would be read as parts of the template
        words = " ".join(re.sub(r"[{}_\s]+", " ", column).split())
        lines.append(f"{words[:1].upper()}{words[1:]}: {field}")
    return "\n".join(lines)


def _hold_out(
    examples: list[Example], fraction: float, seed: int, path: str
) -> tuple[list[Example], list[Example]]:
    """Return (bank, queries). A query without an id gets `validation-` and its position in the
    file."""
    if not 0 < fraction < 1:
        raise UserError(f"validation is {fraction}: expected a fraction between 0 and 1, or a file")
    keys = [question_key(example.input) for example in examples]
    distinct = list(dict.fromkeys(keys))
    if len(distinct) < 2:
        raise UserError(
            f"{path}: all rows have one input; at least 2 different ones make a bank and a query"
        )
    held_out_keys = set(
        draw(distinct, min(math.ceil(fraction * len(distinct)), len(distinct) - 1), seed)
    )
    queries = []
    bank = []
    for position, (example, key) in enumerate(zip(examples, keys, strict=True)):
        if key not in held_out_keys:
            bank.append(example)
        elif example.id == f"train-{position}":
            queries.append(replace(example, id=f"validation-{position}"))
        else:
            queries.append(example)
    return bank, queries


def _check_ends(answer: str, ends: Iterable[str], name: str = "output") -> None:
    for end in ends:
        if end in answer.rstrip():
            way = f"text without {end!r}, which ends an answer (--stop or stop=… names another end)"
            raise FieldError(name, way, answer)


def _checked(task: Task) -> Task:
    """Return a task with checked examples. A UserError names the first one that cannot be used,
    such as one whose output contains a stop string."""

    def side(name: str, rows: Sequence[Any]) -> list[Example]:
        ids: set[str] = set()

        def check(_: str, row: Any) -> Example:
            example = valid(row)
            if example.id in ids:
                raise FieldError("id", "an id that no other example has", example.id)
            ids.add(example.id)
            _check_ends(example.output, () if example.choices else task.stop)
            return example

        if not rows:
            raise UserError(f"{task.name}: no {name}")
        return examples_of(numbered_rows(rows, f"{task.name}, {name}", "example"), "", (), check)

    return replace(
        task, train=side("bank", task.train), validation=side("queries", task.validation)
    )


def separated(task: Task, source: str = "") -> Task:
    """Return a task whose bank has no row with the same text before the answer as a query, and no
    two such rows; the first is kept.

    The papers' tasks are not passed through here: they keep the papers' own rule. A query with the
    same id as a row of the bank, but another text, gets a new id. Warnings say how many rows are
    left out, and how many texts have several different answers, as when annotators disagree.

    Args:
        task: a task of the user's own.
        source: names the rows in messages; by default the task's name.

    Raises:
        UserError: no row is left for the bank, or an example is not valid for this task.
    """
    task = _checked(task)
    source = source or task.name

    rows = [*task.train, *task.validation]
    questions = [question_key(task.template.query(row)) for row in rows]
    answers = [question_key(row.output) for row in rows]
    of_queries = set(questions[len(task.train) :])
    others = [
        (question, row)
        for question, row in zip(questions, task.train, strict=False)
        if question not in of_queries
    ]
    if not others:
        raise UserError(
            f"{source}: every row has the text of a query, so that none is left for the bank"
        )
    bank = [row for _, row in first_of_each(others, lambda pair: pair[0])]
    differing = differing_answers(questions, answers)
    if differing:
        several = [rows[position] for position in differing[0]]
        log.warning(
            "%s: %d text%s more than one answer, such as %.60r with %s: labels that differ are no "
            "copies; the bank keeps each text's first row",
            source,
            len(differing),
            " has" if len(differing) == 1 else "s have",
            several[0].input,
            ", ".join(f"{row.output!r:.40}" for row in several[:3]),
        )
    for count, what in (
        (len(task.train) - len(others), "with a query's text"),
        (len(others) - len(bank), "with another's text"),
    ):
        if count:
            noun = "row" if count == 1 else "rows"
            log.warning("%s: %d %s %s left out", source, count, noun, what)
    ids = {row.id for row in bank}
    queries = [
        replace(query, id=f"query-{query.id}") if query.id in ids else query
        for query in task.validation
    ]
    return replace(task, train=bank, validation=queries)

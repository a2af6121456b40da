"""A task made from a user's table: `load_file` and its options."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, TypedDict, Unpack

from ceil_jax.errors import Range, UserError, check_options, check_ranges
from ceil_jax.store.places import user_path
from ceil_jax.tasks.cells import as_text
from ceil_jax.tasks.checks import (
    check_end,
    choice_of,
    note_groups,
    separated,
    spelled_alike,
    warn_if_swapped,
)
from ceil_jax.tasks.draws import draw
from ceil_jax.tasks.example import Example, Task, Template, column_template
from ceil_jax.tasks.identity import look_alikes, question_key
from ceil_jax.tasks.labels import labels_of
from ceil_jax.tasks.registry import TASKS
from ceil_jax.tasks.rows import Columns, examples_of, ids_of_rows, row_example
from ceil_jax.tasks.spec import Row
from ceil_jax.tasks.structures import structure_parser_of
from ceil_jax.tasks.tables import Table, TableLike, read_table
from ceil_jax.tasks.written import default_limit, default_stop, only_number

log = logging.getLogger(__name__)

DATABASE = "database"
"""The column with the path of a row's SQLite file, relative to the data file; the metric
sql_execution needs it."""


OF_LABELS = ("accuracy", "macro_f1", "balanced_accuracy")
"""The metrics for labels; with them, the LM chooses among the labels."""

FREE_WORDS = 5
"""The mean number of words from which outputs count as free text."""


@dataclass(frozen=True)
class FileOptions:
    """The options for a user's table: how it is read, and what its columns mean.

    The options are keywords of `load_file`, and flags of every command that takes --data.
    """

    input: Sequence[str] = ("input",)
    """The column with the input; name both columns of a pair, such as premise and hypothesis."""
    output: Sequence[str] = ("output",)
    """The one column with the answer: texts, truth values or finite numbers."""
    template: str | None = None
    """The text of an example in a prompt by its columns, such as '{text} It is {label}', which ends
    with the output's; {input} and {output} also name the two, unless another column has that name.
    By default each column has a line that begins with its name, 'Text: {text}' and 'Label:
    {label}'."""
    metric: str | None = None
    """accuracy, macro_f1 or balanced_accuracy (these two weight all labels equally): the LM chooses
    among the distinct outputs of the file. exact_match, number_match (the answer's only number is
    that of the output), squad_em (equal except for articles, case and punctuation), char_bleu
    (overlap of characters), lf_em (equal QDMR graphs), sql_execution (equal results of the query),
    or one that --plugin registers; by default accuracy where outputs are labels, number_match where
    all are numbers, else exact_match."""
    stop: Sequence[str] | None = None
    """The text that ends a generated answer, also used between examples; by default a newline, or
    an empty line if outputs have several lines or are JSON."""
    max_new_tokens: Annotated[int | None, Range(1)] = None
    """The maximum number of tokens of a generated answer, reasoning included; by default half the
    bytes of the longest output, from 128 to 2,048."""
    delimiter: str | None = None
    """The character between the values of a .csv or .tsv file, such as ':'; by default the one of
    , ; | and tab that its header shows."""
    encoding: str = "utf-8"
    """The encoding of a text file, such as cp1252 or utf-16."""
    group: str | None = None
    """The column that names a row's document, customer or thread. Rows with the same value are
    either all examples or all queries."""
    skip_bad_rows: bool = False
    """Leave out the file's rows that cannot be used, and list them."""

    def __post_init__(self) -> None:
        check_ranges(self)
        if not isinstance(self.output, str) and len(self.output) != 1:
            raise UserError(
                f"--output {' '.join(self.output)}: expected one column; join several in the table, "
                "or run once for each"
            )

    @property
    def answer(self) -> str:
        """The column of the output."""
        return self.output if isinstance(self.output, str) else self.output[0]

    @property
    def inputs(self) -> tuple[str, ...]:
        """The columns of the input."""
        return (self.input,) if isinstance(self.input, str) else tuple(self.input)

    @property
    def stops(self) -> tuple[str, ...] | None:
        """The strings that end a generated answer; None to derive them from the outputs."""
        if self.stop is None:
            return None
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop)


class FileKeywords(TypedDict, total=False):
    """The fields of `FileOptions` as keywords of `load_file`."""

    input: Sequence[str]
    output: Sequence[str]
    template: str | None
    metric: str | None
    stop: Sequence[str] | None
    max_new_tokens: int | None
    delimiter: str | None
    encoding: str
    group: str | None
    skip_bad_rows: bool


def load_file(
    path: TableLike,
    options: FileOptions | None = None,
    *,
    validation: float | TableLike = 0.1,
    choices: Iterable[Any] | None = None,
    separator: str | None = None,
    seed: int = 0,
    limit: int | None = None,
    bank_limit: int | None = None,
    **keywords: Unpack[FileKeywords],
) -> Task:
    """Return a task made of a user's own table: `load_file("films.csv", input="text", output="label")`.

    The columns that are used are checked; the others are kept in `Example.fields` if they are text
    or numbers. A column `id` whose values do not repeat gives the examples' ids. The bank is
    de-duplicated by the text that a prompt shows before the answer, and rows with the same such
    text as a query are left out (compared by `question_key`). Rows with equal inputs stay on one
    side of the split. All checks are in `tasks.checks`.

    Args:
        path: a file, or a table in memory: see `tables.read_table`.
        options: how the table is read; the defaults of `FileOptions`.
        validation: the fraction of the distinct inputs that is held out as queries, or a table of
            queries.
        choices: the answers to choose from; every output must be one of them. By default, where
            the metric is one of labels, the distinct answers of the table.
        separator: the text between examples; by default an empty line, or the first of `stop` on a
            line of its own where an empty line does not hold it.
        seed: draws the queries that are held out, and what `limit` and `bank_limit` keep.
        limit: the most queries to keep; all by default.
        bank_limit: the most examples of the bank to keep; all by default.
        keywords: fields of `FileOptions`, in place of those of `options`.

    Raises:
        UserError: a field cannot be read (the message names file, lines and field); an output is
            not among the choices, or contains a stop string, so that no generated answer could
            equal it; the template names a column that does not exist; no row is left for the bank;
            an unknown keyword.
    """
    check_options("load_file", keywords, FileKeywords.__annotations__)
    options = replace(options or FileOptions(), **keywords)
    named = _choices(choices)
    metric = options.metric or ("accuracy" if named else "exact_match")
    table = read_table(path, options.delimiter, options.encoding)
    reader = _Reader(options, metric, _template(options, separator, table), named)
    rows = reader.examples(table, "train")
    warn_if_swapped(rows, ", ".join(options.inputs), options.answer, table.source)
    if isinstance(validation, int | float):
        reader, rows = _with_labels(reader, rows, None, table.source)
        bank, queries = _hold_out(rows, validation, seed, table.source, options.group)
    else:
        table_of_queries = read_table(validation, options.delimiter, options.encoding)
        reader, bank = _with_labels(reader, rows, table_of_queries, table.source)
        queries = reader.examples(table_of_queries, "validation")
    outputs = [row.output for row in (*bank, *queries)]
    stops = options.stops
    if stops is None:
        stops = ("\n",) if reader.choices else (default_stop(outputs),)
    template = reader.template
    if separator is None and stops and not any(end in template.separator for end in stops):
        template = replace(template, separator=f"\n{stops[0]}\n")
    file = Path(table.source).name
    stem = file.split(".")[0]  # no file may pass for a task of the papers
    metric = reader.metric
    if not options.metric and not reader.choices:
        metric = _metric_of_texts(bank, table.source)
    task = Task(
        name=file if stem in TASKS else stem,
        train=bank,
        validation=queries,
        template=template,
        metric=metric,
        max_new_tokens=options.max_new_tokens or default_limit(() if reader.choices else outputs),
        stop=stops,
        available=len(queries),
        # several columns are joined, and have no name together
        input_key=options.inputs[0] if len(options.inputs) == 1 else "input",
        output_key=options.answer,
        group=options.group or "",
    )
    task = separated(task, table.source)
    if not task.group:
        note_groups(task, table.source)
    return replace(
        task,
        train=draw(task.train, bank_limit, seed),
        validation=draw(task.validation, limit, seed),
    )


@dataclass(frozen=True)
class _Reader:
    """A converter of a table's rows to examples."""

    options: FileOptions
    metric: str
    template: Template
    choices: tuple[str, ...]
    """The answers to choose from; empty if answers are generated, or the choices are not known
    yet."""
    source: str = ""
    """Where the choices come from, for messages."""

    def examples(self, table: Table, name: str) -> list[Example]:
        """Return the example of each row.

        Its id is the value of the column `id`, else `name` and the row's number.
        """
        needs_database = self.metric == "sql_execution"
        group = filter(None, [self.options.group])
        field_names = (*self.template.fields, *group, *((DATABASE,) if needs_database else ()))
        columns = Columns(self.options.inputs, self.options.answer, field_names)
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
        """Return an example with its answer options filled in, and its output checked against them.

        A FieldError if its output is not one of them, or contains a stop string.
        """
        output = self.options.answer
        if self.choices:
            choice = choice_of(example.output.strip(), self.choices, output, self.source)
            return replace(example, output=choice, choices=self.choices)
        if self.metric not in OF_LABELS:  # a choice may contain a stop string
            check_end(example.output, self.options.stops or (), output)
        return example


def _with_database(example: Example, source: str) -> Example:
    """Return the example with the path of its database.

    The table gives it relative to its own folder.
    """
    file = Path(source).parent / user_path(example.field(DATABASE) or "")
    return replace(example, fields={**example.fields, DATABASE: str(file)})


def _with_labels(
    reader: _Reader, rows: list[Example], queries: Table | None, source: str
) -> tuple[_Reader, list[Example]]:
    """The reader and the rows of the bank, now that their outputs are known.

    Outputs that are labels get one spelling each. Their metric is accuracy if nothing else was
    said, and with a metric of labels they are the choices.

    Args:
        reader: has read the rows.
        rows: the rows of the bank.
        queries: the table of queries, if there is one.
        source: the file of the rows, for messages.
    """
    is_choosing = reader.metric in OF_LABELS
    if reader.choices or not (is_choosing or labels_of(rows)):
        return reader, rows
    rows = spelled_alike(rows, source)
    if not reader.options.metric:
        others = [] if queries is None else queries.texts(reader.options.answer)
        reader = replace(reader, metric=_metric_of_labels(rows, others, source))
    if reader.metric not in OF_LABELS:
        return reader, rows
    choices = tuple(sorted({row.output for row in rows}))
    reader = replace(reader, choices=choices, source=f" (the answers in {source})")
    return reader, [replace(row, choices=choices) for row in rows]


def _metric_of_labels(rows: Sequence[Example], others: Sequence[str], source: str) -> str:
    """The default metric when the bank's outputs are labels: accuracy; or exact_match if a
    separate table of queries has an output (`others`) that is not among the labels. Either is
    logged."""
    labels = {question_key(row.output) for row in rows}
    for output in others:
        if question_key(output) not in labels:
            log.info(
                "%s: the queries have the answer %.80r, which the bank does not have: --metric "
                "exact_match, and answers are written freely",
                source,
                output,
            )
            return "exact_match"
    log.info(
        "%s: the answers are %d labels, and the LM chooses one of them: --metric accuracy (with "
        "--metric exact_match it generates any text)",
        source,
        len(labels),
    )
    return "accuracy"


def _metric_of_texts(bank: Sequence[Example], source: str) -> str:
    """The default metric when the bank's outputs are no labels: number_match if all are numbers,
    else exact_match. Numbers are logged, and free text with the other metrics that there are:
    mostly different outputs of FREE_WORDS words or more on average, and no programs."""
    outputs = [example.output for example in bank]
    if all(len(output.split()) == 1 and only_number(output) is not None for output in outputs):
        log.info(
            "%s: the answers are numbers: --metric number_match, which counts an answer as right "
            "if its only number is that of the output (--metric exact_match compares the texts)",
            source,
        )
        return "number_match"
    words = sum(len(output.split()) for output in outputs) / len(outputs)
    different = 2 * len(set(outputs)) >= len(outputs)
    if words >= FREE_WORDS and different and not structure_parser_of(bank):
        log.info(
            "%s: the answers are free text, and --metric exact_match counts one as right only if "
            "it equals the output; others are squad_em (ignores articles, case and punctuation), "
            "char_bleu (overlap of characters) or a metric of your own (--plugin, "
            "docs/extending.md)",
            source,
        )
    return "exact_match"


def _choices(choices: Iterable[Any] | None) -> tuple[str, ...]:
    """The choices as texts, in order."""
    if isinstance(choices, str | Mapping):
        raise UserError(f"choices are {choices!r:.80}; expected a list of texts")
    written = [as_text(choice) for choice in (() if choices is None else choices)]
    texts = tuple(text.strip() for text in written if text)
    if len({*texts}) < len(written) or look_alikes(texts):
        raise UserError(f"choices are {written!r:.80}; expected different texts")
    return texts


def _template(options: FileOptions, separator: str | None, table: Table) -> Template:
    """The template for the table: from the user's pattern, else a line for each column."""
    inputs = options.inputs
    output = options.answer
    between = "\n\n" if separator is None else separator
    pattern = options.template
    Columns(inputs, output)  # refuses a column in both roles
    if pattern is None and len(inputs) == 1:
        roles = {"{input}": inputs[0], "{output}": output}
        return Template(named_lines(roles), between)
    if pattern is None:
        pattern = named_lines({f"{{{name}}}": name for name in (*inputs, output)})
    only_input = inputs[0] if len(inputs) == 1 else ""
    template = column_template(pattern, between, only_input, output, table.columns)
    shows_question = len(template.names) > 1
    if not shows_question:
        raise UserError(f"template {pattern!r} shows only the answer; add a column of the question")
    return template


def named_lines(columns: Mapping[str, str]) -> str:
    """Return a template with a line for each column, which begins with the column's name.

    So an LM is told what the texts are.

    Args:
        columns: the placeholder of each column in a template, and the column's name.

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
    examples: list[Example], fraction: float, seed: int, path: str, group: str | None
) -> tuple[list[Example], list[Example]]:
    """Return (bank, queries) of the rows of a table.

    Rows with equal inputs, or with equal values of the field `group`, stay together. A query
    without an id gets `validation-` and its position in the file.
    """
    if not 0 < fraction < 1:
        raise UserError(f"validation is {fraction}: expected a fraction between 0 and 1, or a file")
    keys = [question_key((group and example.field(group)) or example.input) for example in examples]
    distinct = list(dict.fromkeys(keys))
    if len(distinct) < 2:
        raise UserError(
            f"{path}: all rows have one {group or 'input'}; at least 2 different ones make a bank "
            "and a query"
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

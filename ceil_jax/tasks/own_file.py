"""A task of the user's own table: `load_file`."""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ceil_jax.errors import UserError
from ceil_jax.tasks.draws import draw
from ceil_jax.tasks.example import Example, Task, Template, column_template
from ceil_jax.tasks.files import TableLike, TableRows, numbered_rows, read_table
from ceil_jax.tasks.registry import TASKS
from ceil_jax.tasks.rows import Columns, as_text, examples_of, row_example, valid
from ceil_jax.tasks.spec import FieldError, Row
from ceil_jax.tasks.words import first_of_each, question_key

log = logging.getLogger(__name__)

DATABASE = "database"
"""The column with the path of a row's SQLite file, relative to the data file; sql_execution needs
it."""


def load_file(
    path: TableLike,
    *,
    input: str | Sequence[str] = "input",
    output: str = "output",
    template: str | Template | None = None,
    metric: str | None = None,
    choices: Sequence[str] | None = None,
    seed: int = 0,
    validation: float | TableLike = 0.1,
    separator: str | None = None,
    max_new_tokens: int = 128,
    stop: Sequence[str] = ("\n",),
    delimiter: str | None = None,
    skip_bad_rows: bool = False,
    limit: int | None = None,
    bank_limit: int | None = None,
) -> Task:
    """Return a task made of a user's own table: a file (JSON, JSON lines, CSV, TSV, parquet) or a
    data frame.

    The columns that are used are checked; the others come along in `Example.fields` if they are
    text or numbers. The bank is de-duplicated by the text that a prompt shows before the answer,
    and has no row that shows that of a query (`question_key` compares). Rows of equal inputs stay
    on one side of the split.

    Args:
        path: the file, or a pandas or polars data frame.
        input: the column that retrievers see; of several, such as premise and hypothesis, the
            joined text.
        output: the column with the answer: text, a truth value or a finite number.
        template: how an example stands in a prompt, by names of columns; it ends with the output's.
            `{input}` and `{output}` stand for the pair where no other column is called so. By
            default input, tab, output.
        metric: a name in `ceil_jax.metrics.METRICS`, which a run checks; accuracy by default with
            `choices`, else exact_match. With accuracy and no `choices`, the distinct answers of
            `path` are the choices.
        choices: the answers to choose from; every output must be one of them. None by default.
        seed: draws the queries that are held out.
        validation: the fraction of the distinct inputs that is held out as queries (0.1), or a
            table of queries.
        separator: what stands between examples; by default an empty line, or `stop` on a line of
            its own where an empty line does not hold it. A Template brings its own.
        max_new_tokens: the longest answer that is generated, in tokens of the LM (128).
        stop: strings that end a generated answer; a line's end by default.
        delimiter: what separates the values of a text file; by default a tab in .tsv, else a comma.
        skip_bad_rows: leave out rows that cannot be used, with a warning that lists them; refused
            by default.
        limit: how many queries to keep at most; all by default.
        bank_limit: how many examples of the bank to keep at most; all by default.

    Raises:
        UserError: fields cannot be read (the message names file, lines and field); an output is not
            among the choices, or has a stop string in it where answers are generated, so that it
            could never be right; the template names what is no column; no row is left for the bank.
    """
    options, options_of = _options(choices), ""
    stop = (stop,) if isinstance(stop, str) else tuple(stop)
    metric = metric or ("accuracy" if options else "exact_match")
    inputs = (input,) if isinstance(input, str) else tuple(input)
    # a choice is not generated: it may hold what would end an answer
    ends = () if options or metric == "accuracy" else stop
    if separator is None:
        separator = (
            "\n\n" if any(end in "\n\n" for end in stop) else f"\n{stop[0] if stop else ''}\n"
        )
    table = read_table(path, delimiter)
    Columns(inputs, output)  # refuses a column in both roles
    shape = _shape(template, separator, inputs, output, table)
    named, hint = shape.fields, "--input, --output and --template name columns"
    if metric == "sql_execution":
        named = (*named, DATABASE)
        hint += f", and the metric {metric} needs the path of an SQLite file in {DATABASE!r}"

    def examples(table: TableRows, name: str) -> list[Example]:
        columns = Columns(inputs, output, named)

        def read(id: str, row: Row) -> Example:
            example = replace(row_example(id, row, columns), choices=options)
            if options and example.output not in options:
                raise FieldError(output, f"one of {', '.join(options)}{options_of}", example.output)
            _check_ends(example.output, ends, output)
            if metric == "sql_execution":
                file = Path(table.source).parent / Path(example.fields[DATABASE]).expanduser()
                example = replace(example, fields={**example.fields, DATABASE: str(file)})
            return example

        found = examples_of(table, name, columns.used, read, skip_bad_rows=skip_bad_rows, hint=hint)
        columns.note(table.source)
        return found

    rows = examples(table, "train")
    if metric == "accuracy" and not options:
        options, options_of = (
            tuple(sorted({row.output for row in rows})),
            f" (the answers in {table.source})",
        )
        rows = [replace(row, choices=options) for row in rows]
        alike = Counter(map(question_key, options))
        if odd := [option for option in options if alike[question_key(option)] > 1]:
            log.warning(
                "%s: labels that look the same: %s", table.source, ", ".join(map(ascii, odd))
            )
    if isinstance(validation, int | float):
        bank, queries = _hold_out(rows, validation, seed, table.source)
    else:
        bank, queries = rows, examples(read_table(validation, delimiter), "validation")
    file = Path(table.source).name
    stem = file.split(".")[0]  # no file may pass for a task of the papers
    task = Task(
        name=file if stem in TASKS else stem,
        train=bank,
        validation=queries,
        template=shape,
        metric=metric,
        max_new_tokens=max_new_tokens,
        stop=stop,
        available=len(queries),
    )
    task = separated(task, table.source)
    kept = draw(task.train, bank_limit, seed)
    return replace(task, train=kept, validation=draw(task.validation, limit, seed))


def _options(choices: Iterable[Any] | None) -> tuple[str, ...]:
    """The choices as texts, in order."""
    if isinstance(choices, str | Mapping):
        raise UserError(f"choices are {choices!r:.80}; expected a list of texts")
    found = [as_text(choice) for choice in (() if choices is None else choices)]
    texts = tuple(text.strip() for text in found if text)
    if len({*texts}) < len(found):
        raise UserError(f"choices are {found!r:.80}; expected different texts")
    return texts


def _shape(
    template: str | Template | None,
    separator: str,
    inputs: tuple[str, ...],
    output: str,
    table: TableRows,
) -> Template:
    if template is None and len(inputs) == 1:
        return Template("{input}\t{output}", separator)
    if template is None:
        template = "".join(f"{{{name}}}\t" for name in inputs) + f"{{{output}}}"
    if isinstance(template, Template):
        separator, template = template.separator, template.pattern
    only = inputs[0] if len(inputs) == 1 else ""
    shape = column_template(template, separator, only, output, table.columns())
    if not shape.names[:-1]:
        raise UserError(
            f"template {template!r} shows nothing but the answer; it needs a column of the "
            "question too"
        )
    return shape


def _hold_out(
    examples: list[Example], fraction: float, seed: int, path: str
) -> tuple[list[Example], list[Example]]:
    """Return (bank, queries); a query's id is `validation-` and its position in the file."""
    if not 0 < fraction < 1:
        raise UserError(f"validation is {fraction}: expected a fraction between 0 and 1, or a file")
    keys = [question_key(example.input) for example in examples]
    distinct = list(dict.fromkeys(keys))
    if len(distinct) < 2:
        raise UserError(
            f"{path}: all rows have one input; at least 2 different ones make a bank and a query"
        )
    held = set(draw(distinct, min(math.ceil(fraction * len(distinct)), len(distinct) - 1), seed))
    rows = list(zip(examples, keys, strict=True))
    queries = [
        replace(row, id=row.id.replace("train", "validation", 1))
        for row, key in rows
        if key in held
    ]
    return [row for row, key in rows if key not in held], queries


def _check_ends(answer: str, ends: Iterable[str], name: str = "output") -> None:
    for end in ends:
        if end in answer:
            way = f"text without {end!r}, which ends an answer (--stop or stop=… names another end)"
            raise FieldError(name, way, answer)


def _check(task: Task) -> None:
    """Raise a UserError that names the first example that cannot be used, or the output that no
    answer can be."""

    def check(_: str, example: Any) -> Example:
        if valid(example).id in seen:
            raise FieldError("id", "an id that no other example has", example.id)
        seen.add(example.id)
        _check_ends(example.output, () if example.choices else task.stop)
        return example

    sides: dict[str, Sequence[Any]] = {"bank": task.train, "queries": task.validation}
    for name, rows in sides.items():
        seen: set[str] = set()
        if not rows:
            raise UserError(f"{task.name}: no {name}")
        examples_of(numbered_rows(f"{task.name}, {name}", rows, "example"), "", (), check)


def separated(task: Task, source: str = "") -> Task:
    """Return a task with a bank whose rows show no query's text before the answer; of equals, the
    first is kept.

    The papers' tasks keep the papers' rule. It is the text that tells questions apart: a query that
    has the id of a row of the bank gets another id. `source` (by default the task's name) names the
    rows in a warning that says how many are left out; that all of them are, or that one is no
    example of this task, is a UserError.
    """
    _check(task)
    path, rows, queries, template = source or task.name, task.train, task.validation, task.template
    asked = {question_key(template.query(query)) for query in queries}
    others = [row for row in rows if question_key(template.query(row)) not in asked]
    if not others:
        raise UserError(
            f"{path}: every row has the text of a query, so that none is left for the bank"
        )
    bank = first_of_each(others, lambda row: question_key(template.query(row)))
    for count, what in (
        (len(rows) - len(others), "with a query's text"),
        (len(others) - len(bank), "with another's text"),
    ):
        if count:
            log.warning("%s: %d row%s %s left out", path, count, "s" * (count > 1), what)
    ids = {row.id for row in bank}
    queries = [
        replace(query, id=f"query-{query.id}") if query.id in ids else query for query in queries
    ]
    return replace(task, train=bank, validation=queries)

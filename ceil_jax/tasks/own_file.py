"""A task of the user's own file: `load_file`."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from ceil_jax.errors import UserError
from ceil_jax.tasks.draws import draw
from ceil_jax.tasks.example import Example, Task, Template, renamed
from ceil_jax.tasks.files import read_examples, read_split
from ceil_jax.tasks.registry import TASKS
from ceil_jax.tasks.spec import FieldError, Row, text
from ceil_jax.tasks.words import first_of_each, question_key

log = logging.getLogger(__name__)


def load_file(
    path: str | os.PathLike[str],
    *,
    input: str = "input",
    output: str = "output",
    template: str | Template = "{input}\n{output}",
    metric: str | None = None,
    choices: Sequence[str] | None = None,
    seed: int = 0,
    validation: float | str | os.PathLike[str] = 0.1,
    separator: str = "\n\n",
    max_new_tokens: int = 128,
    stop: Sequence[str] = ("\n",),
) -> Task:
    """Return a task made of a user's own JSONL, JSON, CSV or parquet file.

    The bank is de-duplicated by the text that a prompt shows before the answer, and has no row that shows that of a
    query (`question_key` compares). Rows of equal inputs stay on one side of the split.

    Args:
        path: the file. It may be as large as `CEIL_JAX_MAX_DATA_MB` says (1,000), and a field as long as
            `CEIL_JAX_MAX_CELL` says (200,000 characters).
        input: the column that retrievers see.
        output: the column with the answer: text, or a finite number.
        template: how an example stands in a prompt. It may name any column; `{input}` and `{output}` are the pair's,
            whatever their columns are called.
        metric: a name in `ceil_jax.metrics.METRICS`, which a run checks; accuracy by default with `choices`, else
            exact_match. With accuracy and no `choices`, the distinct answers of `path` are the choices.
        choices: the answers to choose from; every output must be one of them. None by default.
        seed: draws the queries that are held out.
        validation: the fraction of the distinct inputs that is held out as queries (0.1), or a file of queries.
        separator: what stands between examples; a Template brings its own.
        max_new_tokens: the longest answer that is generated, in tokens of the LM (128).
        stop: strings that end a generated answer; a line's end by default.

    Raises:
        UserError: a field cannot be read (the message names file, line and field); an output is not among the
            choices, or has a stop string in it where answers are generated, so that it could never be right; the
            template names what is no column; no row is left for the bank.
    """
    metric = metric or ("accuracy" if choices else "exact_match")
    # the column's own name would ask every query for it
    shape = template if isinstance(template, Template) else Template(template, separator)
    shape = replace(shape, pattern=renamed(shape.pattern, input, "input"))
    named = tuple(name for name in shape.names if name not in ("input", "output"))

    def examples(
        file: str | os.PathLike[str], name: str, options: tuple[str, ...], source: str
    ) -> list[Example]:
        read = _reader(input, output, named, options, source, ends)
        return read_examples(read_split(Path(file).expanduser()), name, (input, output, *named), read)

    options, source = tuple(choices or ()), ""
    # a choice is not generated: it may hold what would end an answer
    ends = () if options or metric == "accuracy" else tuple(stop)
    rows = examples(path, "train", options, source)
    if metric == "accuracy" and not options:
        options, source = tuple(sorted({row.output for row in rows})), f" (the answers in {path})"
        rows = [replace(row, choices=options) for row in rows]
    if isinstance(validation, (int, float)):
        bank, queries = _hold_out(rows, validation, seed, str(path))
    else:
        bank, queries = rows, examples(validation, "validation", options, source)
    return Task(
        name=_name(Path(path).name),
        train=_bank(bank, queries, shape, str(path)),
        validation=queries,
        template=shape,
        metric=metric,
        max_new_tokens=max_new_tokens,
        stop=tuple(stop),
        available=len(queries),
    )


def _name(file: str) -> str:
    """The name up to the first dot; all of it where that is a task of the papers, which no file must pass for."""
    name = file.split(".")[0]
    return file if name in TASKS else name


def _reader(
    input: str,
    output: str,
    named: tuple[str, ...],
    choices: tuple[str, ...],
    source: str,
    stop: tuple[str, ...],
) -> Callable[[str, Row], Example]:
    """Return what reads a row; its other columns of text and numbers are there for the template."""

    def read(id: str, row: Row) -> Example:
        answer = str(row[output]) if _is_number(row[output]) else row[output]
        answer = text({output: answer}, output).strip()
        if choices and answer not in choices:
            raise FieldError(output, f"one of {', '.join(choices)}{source}", answer)
        for end in stop:
            if end in answer:
                raise FieldError(output, f"text without {end!r}, which ends an answer", answer)
        fields = {
            name: str(value)
            for name, value in row.items()
            if name not in ("input", "output") and (isinstance(value, (str, bool)) or _is_number(value))
        }
        for name in named:
            if name not in fields:
                raise FieldError(name, "text or a finite number, which the template names", row[name])
        return Example(id, text(row, input).strip(), answer, choices, fields=fields)

    return read


def _is_number(value: object) -> bool:
    """Whether a value is a number that can stand in a prompt; NaN and infinity mark what is missing."""
    return (isinstance(value, int) and not isinstance(value, bool)) or (
        isinstance(value, float) and math.isfinite(value)
    )


def _hold_out(
    examples: list[Example], fraction: float, seed: int, path: str
) -> tuple[list[Example], list[Example]]:
    """Return (bank, queries); a query's id is `validation-` and its position in the file."""
    if not 0 < fraction < 1:
        raise UserError(f"validation is {fraction}: expected a fraction between 0 and 1, or a file")
    keys = [question_key(example.input) for example in examples]
    distinct = list(dict.fromkeys(keys))
    if len(distinct) < 2:
        raise UserError(f"{path}: all rows have one input; at least 2 different ones make a bank and a query")
    held = set(draw(distinct, min(math.ceil(fraction * len(distinct)), len(distinct) - 1), seed))
    bank, queries = [], []
    for example, key in zip(examples, keys, strict=True):
        if key in held:
            queries.append(replace(example, id=example.id.replace("train", "validation", 1)))
        else:
            bank.append(example)
    return bank, queries


def _bank(
    rows: Sequence[Example], queries: Sequence[Example], template: Template, path: str
) -> list[Example]:
    """Return the rows that show no query's text before the answer, first of equals; say how many are left out."""
    asked = {question_key(template.query(query)) for query in queries}
    others = [row for row in rows if question_key(template.query(row)) not in asked]
    if not others:
        raise UserError(f"{path}: every row has the text of a query, so that none is left for the bank")
    if len(others) < len(rows):
        log.warning("%s: %s", path, _left_out(len(rows) - len(others), "has", "have", "a query's text"))
    bank = first_of_each(others, lambda row: question_key(template.query(row)))
    if len(bank) < len(others):
        repeated = _left_out(len(others) - len(bank), "repeats", "repeat", "another's text")
        log.warning("%s: %s", path, repeated)
    return bank


def _left_out(count: int, one: str, many: str, what: str) -> str:
    if count == 1:
        return f"1 row {one} {what} and was left out"
    return f"{count:,} rows {many} {what} and were left out"

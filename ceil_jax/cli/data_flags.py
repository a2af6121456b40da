"""The task of a command: one of TASKS, or a file of the user."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated

from ceil_jax.errors import Range, UserError, check_ranges
from ceil_jax.pipeline.config import RunConfig
from ceil_jax.tasks.example import Task

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class OwnData:
    """A file of your own instead of a named task."""

    data: Path | None = None
    """A JSON, JSONL, CSV, TSV, parquet or Arrow file, also packed. compare holds out a tenth of its
    inputs as queries; tune a fifth, because its final rows are looked at once and judge several
    prompts."""
    validation: Path | None = None
    """Take the queries from this file, and hold nothing out."""
    input: tuple[str, ...] = ("input",)
    """The column that retrievers see; name both of a pair, such as premise and hypothesis."""
    output: str = "output"
    """The column with the answer."""
    template: str | None = None
    """The text of an example in a prompt by its columns, such as '{text} It is {label}'; by default
    each column on a line behind its name, 'Text: {text}' and 'Label: {label}'."""
    metric: str | None = None
    """accuracy (the LM chooses among the distinct outputs of the file), exact_match, squad_em
    (equal but for articles, case and punctuation), char_bleu (overlap of characters), lf_em (equal
    QDMR graphs), sql_execution (equal results of the query), or one that --plugin registers; by
    default accuracy where outputs are labels, else exact_match."""
    stop: tuple[str, ...] | None = None
    """The end of a written answer, also between examples; by default a line's end, or an empty line
    where outputs have several lines or are JSON."""
    max_new_tokens: Annotated[int | None, Range(1)] = None
    """Tokens of a written answer at most, reasoning included; by default half the bytes of the
    longest output, from 128 to 2,048."""
    delimiter: str | None = None
    """Between the values of a text file, such as ';' or '\\t'; by default what its content fits."""
    skip_bad_rows: bool = False
    """Leave out the file's rows that cannot be used, and list them."""

    def __post_init__(self) -> None:
        check_ranges(self)


NO_FILE = OwnData()
"""No file: use the task that `--task` names."""


def check_flags(config: RunConfig, file: OwnData) -> None:
    """Raise a UserError for flags of `--data` without it, and for `--task` beside it."""
    if file.data is None:
        # the length of answers is a setting of every task
        file = replace(file, max_new_tokens=None)
        names = [f.name for f in fields(file) if getattr(file, f.name) != getattr(NO_FILE, f.name)]
        if names:
            flags = ", ".join(f"--{name.replace('_', '-')}" for name in names)
            raise UserError(
                f"{flags}: only with --data FILE; a named task has its own columns and metric"
            )
    elif config.task != RunConfig().task:
        raise UserError(
            f"--task {config.task}: not beside --data, which is a task of its own; give one of them"
        )


def read_data(config: RunConfig, file: OwnData, held_out: float = 0.1) -> Task:
    """Load the task of `--data`, or of `--task` without it, and log its size and the output folder.

    Args:
        config: the settings of the run.
        file: the file of the user, if there is one.
        held_out: the share of the file's inputs that become queries, unless --validation has them.

    Raises:
        UserError: the data cannot be read.
    """
    task = _named_task(config, file) if file.data is None else _own_task(config, file, held_out)
    limited = " (--limit)" if len(task.validation) < task.available else ""
    cut = " (--bank-limit)" if len(task.train) == config.bank_limit else ""
    bank = f"{len(task.train):,} examples in the bank{cut}"
    if not task.validation[0].choices:
        ends = ", ".join(map(repr, task.stop)) or "the LM alone"
        limit = f"{task.max_new_tokens:,} tokens at most (--max-new-tokens)"
        log.info("%s: answers are written, %s, ended by %s (--stop)", task.name, limit, ends)
    log.info("%s: %s, %s%s; writing into %s", task.name, bank, task.asked, limited, config.out)
    return task


def _named_task(config: RunConfig, file: OwnData) -> Task:
    from ceil_jax.tasks.load import load_task

    limit = file.max_new_tokens
    task = load_task(
        config.task, config.data_dir, config.limit, config.data_seed, bank_limit=config.bank_limit
    )
    return replace(task, max_new_tokens=limit or task.max_new_tokens)


def _own_task(config: RunConfig, file: OwnData, held_out: float) -> Task:
    from ceil_jax.cli.propose import check_named
    from ceil_jax.tasks.own_file import FileOptions, load_file

    assert file.data is not None
    delimiter = file.delimiter and _unescaped(file.delimiter)
    if file.input == NO_FILE.input or file.output == NO_FILE.output:
        check_named(file.data, file.input, file.output, delimiter)
    options = FileOptions(
        input=file.input,
        output=file.output,
        template=file.template and _unescaped(file.template),
        metric=file.metric,
        seed=config.data_seed,
        validation=file.validation or held_out,
        stop=None if file.stop is None else [_unescaped(end) for end in file.stop],
        max_new_tokens=file.max_new_tokens,
        delimiter=delimiter,
        skip_bad_rows=file.skip_bad_rows,
        limit=config.limit,
        bank_limit=config.bank_limit,
    )
    return load_file(file.data, options)


def _unescaped(text: str) -> str:
    """A text of the command line, in which \\t and \\n are two characters each, and \\\\ is a
    backslash."""
    marks = {r"\t": "\t", r"\n": "\n", r"\\": "\\"}
    if re.search(r"(?<!\\)\\[tn](?=[a-z])", text):
        log.info(r"%s: read with \t as a tab and \n as a line's end; \\ is a backslash", text)
    return re.sub(r"\\[tn\\]", lambda match: marks[match[0]], text)

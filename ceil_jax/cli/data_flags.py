"""The task of a command: one of TASKS, or a file of the user."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated

from ceil_jax.errors import Range, UserError, check_ranges
from ceil_jax.metrics import METRICS
from ceil_jax.pipeline.config import RunConfig
from ceil_jax.tasks.example import Task
from ceil_jax.tasks.files import existing_file

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

    def check(self) -> None:
        """Check what can be checked before data are read.

        Raises:
            UserError: flags of `--data` without it, a file that does not exist, or an unknown
                metric.
        """
        if self.data is None:
            # the length of answers is a setting of every task
            given = replace(self, max_new_tokens=None)
            names = [
                field.name
                for field in fields(given)
                if getattr(given, field.name) != getattr(NO_OWN_DATA, field.name)
            ]
            if names:
                flags = ", ".join(f"--{name.replace('_', '-')}" for name in names)
                raise UserError(
                    f"{flags}: only with --data FILE; a named task has its own columns and metric"
                )
        for path in filter(None, (self.data, self.validation)):
            existing_file(path)
        if self.metric is not None:
            METRICS.require(self.metric)

    def read(self, config: RunConfig, held_out: float = 0.1) -> Task:
        """Load the task of `--data`, or of `--task` without it, and log its size and the output
        folder.

        Args:
            config: the settings of the run.
            held_out: the share of the file's inputs that become queries, unless --validation has
                them.

        Raises:
            UserError: the data cannot be read.
        """
        task = self._own_task(config, held_out) if self.data else self._named_task(config)
        limited = " (--limit)" if len(task.validation) < task.available else ""
        cut = " (--bank-limit)" if len(task.train) == config.bank_limit else ""
        bank = f"{len(task.train):,} examples in the bank{cut}"
        if not task.validation[0].choices:
            ends = ", ".join(map(repr, task.stop)) or "the LM alone"
            limit = f"{task.max_new_tokens:,} tokens at most (--max-new-tokens)"
            log.info("%s: answers are written, %s, ended by %s (--stop)", task.name, limit, ends)
        log.info("%s: %s, %s%s; writing into %s", task.name, bank, task.asked, limited, config.out)
        return task

    def _own_task(self, config: RunConfig, held_out: float) -> Task:
        from ceil_jax.cli.propose import check_named
        from ceil_jax.tasks.own_file import FileOptions, load_file

        assert self.data is not None
        delimiter = None if self.delimiter is None else _unescaped(self.delimiter)
        if self.input == NO_OWN_DATA.input or self.output == NO_OWN_DATA.output:
            check_named(self.data, self.input, self.output, delimiter)
        options = FileOptions(
            input=self.input,
            output=self.output,
            template=self.template and _unescaped(self.template),
            metric=self.metric,
            seed=config.data_seed,
            validation=self.validation or held_out,
            stop=None if self.stop is None else [_unescaped(end) for end in self.stop],
            max_new_tokens=self.max_new_tokens,
            delimiter=delimiter,
            skip_bad_rows=self.skip_bad_rows,
            limit=config.limit,
            bank_limit=config.bank_limit,
        )
        return load_file(self.data, options)

    def _named_task(self, config: RunConfig) -> Task:
        from ceil_jax.tasks.load import load_task

        task = load_task(
            config.task,
            config.data_dir,
            config.limit,
            config.data_seed,
            bank_limit=config.bank_limit,
        )
        return replace(task, max_new_tokens=self.max_new_tokens or task.max_new_tokens)


NO_OWN_DATA = OwnData()
"""No file: use the task that `--task` names."""


def _unescaped(text: str) -> str:
    """A text of the command line, in which \\t and \\n are two characters each, and \\\\ is a
    backslash."""
    marks = {r"\t": "\t", r"\n": "\n", r"\\": "\\"}
    if re.search(r"(?<!\\)\\[tn](?=[a-z])", text):
        log.info(r"%s: read with \t as a tab and \n as a line's end; \\ is a backslash", text)
    return re.sub(r"\\[tn\\]", lambda match: marks[match[0]], text)

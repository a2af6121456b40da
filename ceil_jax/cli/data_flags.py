"""The data of a command: a task named in TASKS, or a file of the user."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

import tyro

from ceil_jax.errors import UserError
from ceil_jax.metrics import METRICS
from ceil_jax.pipeline.config import RunConfig
from ceil_jax.tasks.example import Task
from ceil_jax.tasks.own_file import FileOptions, load_file
from ceil_jax.tasks.tables import existing_file

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class OwnData:
    """A file of your own instead of a named task."""

    data: Path | None = None
    """A .csv, .tsv, .jsonl, .json (a list of objects) or .parquet file, also compressed. compare
    holds out a tenth of its inputs as queries; tune holds out a fifth, because its final rows are
    used once, to compare several prompts."""
    validation: Path | None = None
    """Take the queries from this file, and hold nothing out."""
    options: Annotated[FileOptions, tyro.conf.arg(name="")] = field(default_factory=FileOptions)

    def check(self) -> None:
        """Check the flags, as far as possible before data are read.

        Raises:
            UserError: flags of `--data` without it, a file that does not exist, or an unknown
                metric.
        """
        if self.data is None:
            # the length of answers is a setting of every task
            given = {
                **vars(replace(self.options, max_new_tokens=None)),
                "validation": self.validation,
            }
            usual = {**vars(NO_OWN_DATA.options), "validation": None}
            names = [name for name, value in given.items() if value != usual[name]]
            if names:
                flags = ", ".join(f"--{name.replace('_', '-')}" for name in names)
                raise UserError(
                    f"{flags}: only with --data FILE; a named task has its own columns and metric"
                )
        for path in filter(None, (self.data, self.validation)):
            existing_file(path)
        if self.options.metric is not None:
            METRICS.require(self.options.metric)

    def read(self, config: RunConfig, held_out: float = 0.1) -> Task:
        """Load the task of `--data` or `--task`, and log its size and the output folder.

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
            log.info(
                "%s: the LM writes its answers: %s, ended by %s (--stop)", task.name, limit, ends
            )
        log.info("%s: %s, %s%s; results go to %s", task.name, bank, task.asked, limited, config.out)
        return task

    def _own_task(self, config: RunConfig, held_out: float) -> Task:
        from ceil_jax.cli.propose import check_named

        assert self.data is not None
        options = self.options
        options = replace(
            options,
            template=options.template and _unescaped(options.template),
            stop=options.stop and [_unescaped(end) for end in options.stop],
            delimiter=options.delimiter and _unescaped(options.delimiter),
        )
        if "input" in options.input or options.answer == "output":
            check_named(self.data, options)
        return load_file(
            self.data,
            options,
            validation=self.validation or held_out,
            seed=config.data_seed,
            limit=config.limit,
            bank_limit=config.bank_limit,
        )

    def _named_task(self, config: RunConfig) -> Task:
        from ceil_jax.tasks.load import load_task

        task = load_task(
            config.task,
            config.data_dir,
            config.limit,
            config.data_seed,
            bank_limit=config.bank_limit,
        )
        limit = self.options.max_new_tokens
        return replace(task, max_new_tokens=limit or task.max_new_tokens)


NO_OWN_DATA = OwnData()
"""No file: use the task that `--task` names."""


def _unescaped(text: str) -> str:
    """Return a text from the command line with `\\t`, `\\n` and `\\\\` replaced by a tab, a newline
    and a backslash."""
    marks = {r"\t": "\t", r"\n": "\n", r"\\": "\\"}
    if re.search(r"(?<!\\)\\[tn](?=[a-z])", text):
        log.info(r"%s: \t is read as a tab and \n as a newline; write \\ for a backslash", text)
    return re.sub(r"\\[tn\\]", lambda match: marks[match[0]], text)

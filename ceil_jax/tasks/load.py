"""Rows to tasks: from the hub, from local files, made here, or a user's own."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from ceil_jax.errors import UserError
from ceil_jax.tasks.draws import draw
from ceil_jax.tasks.example import Example, Task, Template, renamed
from ceil_jax.tasks.files import Split, find_split, read_split
from ceil_jax.tasks.hub import hub_split
from ceil_jax.tasks.registry import task_spec
from ceil_jax.tasks.spec import FieldError, Row, TaskSpec, text
from ceil_jax.tasks.words import bert_words, first_of_each

log = logging.getLogger(__name__)


def load_task(
    name: str | TaskSpec,
    data_dir: str | os.PathLike[str] | None = None,
    limit: int | None = None,
    seed: int = 0,
    *,
    bank_limit: int | None = None,
) -> Task:
    """A task of `TASKS` by its name, or one that the caller describes by a TaskSpec.

    Embedded tasks are made here. Others come from `data_dir/<folder>/<split>.jsonl` (or .jsonl.gz, .json,
    .csv, .parquet; the hub's column names) where `data_dir` is given, else from the hub.

    The bank is de-duplicated by the words of its retrieval text, as Table 1's "#Train" is; the queries are
    not. At most `limit` queries and `bank_limit` examples of the bank are kept, drawn by `seed` and left in
    their order. Ids say the split and the row's position in it (`train-17`), whatever is drawn.

    Raises:
        UserError: an unknown name, a missing file, split or column, or a row that cannot be read.
    """
    spec = task_spec(name) if isinstance(name, str) else name
    check_limits(limit=limit, bank_limit=bank_limit)
    root = None if data_dir is None else Path(data_dir).expanduser()
    source = spec if spec.bank_of is None else task_spec(spec.bank_of)
    bank = _examples(source, source.train, root)
    if source.deduplicate:
        bank = first_of_each(bank, lambda example: example.input)
    few_shot = _examples(spec, (spec.few_shot,), root)[::-1] if spec.few_shot else []
    queries = _examples(spec, spec.validation, root, spec.keep)
    return Task(
        name=spec.name,
        train=draw(bank, spec.bank_size if bank_limit is None else bank_limit, seed),
        validation=draw(queries, limit, seed),
        template=spec.template,
        metric=spec.metric,
        max_new_tokens=spec.max_new_tokens,
        stop=spec.stop,
        few_shot=few_shot,
        more_metrics=spec.more_metrics,
        language=spec.language,
        available=len(queries),
    )


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
    """A task of a user's own JSONL, JSON, CSV or parquet file; columns `input` and `output` name the pair.

    The template may name any column; `{input}` and `{output}` are the pair's, under whatever name, so that a
    text alone is a query. With `choices`, every output must be one of them. The metric is
    accuracy with choices, else exact match; for accuracy without choices the distinct outputs of `path` are
    the choices. `validation` is a second file, or the fraction of the distinct inputs held out by `seed`; rows
    of equal words stay on one side.

    The bank is de-duplicated by the words that a prompt shows before the answer, and has no row that shows
    those of a query.

    Raises:
        UserError: the file, line and field that cannot be read; an output outside the choices, or, without
            choices, with a stop string in it, for such an answer could never be right; a template that names what
            is not a column; no row left for the bank.
    """
    metric = metric or ("accuracy" if choices else "exact_match")
    # the column's own name would ask every query for it
    if isinstance(template, str):
        shape = Template(renamed(template, input, "input"), separator)
    else:
        shape = replace(template, pattern=renamed(template.pattern, input, "input"))
    named = tuple(name for name in shape.names if name not in ("input", "output"))

    def examples(
        file: str | os.PathLike[str], name: str, options: tuple[str, ...], source: str
    ) -> list[Example]:
        split = read_split(Path(file).expanduser())
        read = partial(
            _own, input=input, output=output, named=named, choices=options, source=source, stop=ends
        )
        return _read(split, name, (input, output, *named), read)

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
        name=Path(path).name.split(".")[0],
        train=_bank(bank, queries, shape, str(path)),
        validation=queries,
        template=shape,
        metric=metric,
        max_new_tokens=max_new_tokens,
        stop=tuple(stop),
        available=len(queries),
    )


def check_limits(**limits: int | None) -> None:
    """Refuse a limit below 1, with a UserError that names it."""
    for name, limit in limits.items():
        if limit is not None and limit < 1:
            raise UserError(f"{name} is {limit}: expected at least 1, or none for all")


def _examples(
    spec: TaskSpec, names: Sequence[str], root: Path | None, keep: Callable[[Row], bool] | None = None
) -> list[Example]:
    if spec.enrich is not None and root is None:
        raise UserError(f"task {spec.name!r} needs files the hub does not have ({spec.note}): give data_dir")
    enrich = spec.enrich(root) if spec.enrich is not None and root is not None else None
    examples: list[Example] = []
    for name in names:
        split = _split(spec, name, root)
        if split is not None:
            examples += _read(split, name, spec.columns, spec.example, keep, enrich)
    if not examples:
        raise UserError(f"task {spec.name!r}: no row of {', '.join(names)} is one of its queries")
    return examples


def _split(spec: TaskSpec, name: str, root: Path | None) -> Split | None:
    """The rows of one split from where the task has them; None for an optional one that is not there."""
    if spec.embedded is not None:
        rows = spec.embedded()[name]
        return Split(f"task {spec.name!r}, split {name!r}", rows, range(1, len(rows) + 1), unit="row")
    if root is None and spec.hub is not None:
        return hub_split(spec, name)
    wanted = (
        f"{spec.folder}/{name}.jsonl (or .jsonl.gz, .json, .csv, .parquet; columns {', '.join(spec.columns)})"
    )
    if root is None:
        raise UserError(f"task {spec.name!r} has no hub copy: give a data_dir that holds {wanted}")
    found = find_split(root / spec.folder, name, *filter(None, [spec.files.get(name)]))
    if found is None:
        if name in spec.optional:
            log.warning("%s: %s has no split %r; going on without it", spec.name, root / spec.folder, name)
            return None
        raise UserError(f"task {spec.name!r}: no split {name!r}; looked for {wanted} under {root}")
    file, whole = found
    if not whole:
        log.warning("%s: split %r is partial, from %s", spec.name, name, file.name)
    return read_split(file)


def _read(
    split: Split,
    name: str,
    columns: Sequence[str],
    example: Callable[[str, Row], Example],
    keep: Callable[[Row], bool] | None = None,
    enrich: Callable[[Row], Row] | None = None,
) -> list[Example]:
    """Each row's example; ids count the split's rows, those that are not kept too."""
    examples = []
    for position, row in enumerate(split.rows):
        missing = [column for column in columns if column not in row]
        if missing:
            raise UserError(
                f"{split.where(position)}: no field {', '.join(map(repr, missing))}; it has {', '.join(row)}"
            )
        if keep is not None and not keep(row):
            continue
        try:
            examples.append(example(f"{name}-{position}", enrich(row) if enrich else row))
        except FieldError as error:
            raise UserError(f"{split.where(position)}, {error}") from None
    return examples


def _own(
    id: str,
    row: Row,
    *,
    input: str,
    output: str,
    named: tuple[str, ...],
    choices: tuple[str, ...],
    source: str,
    stop: tuple[str, ...],
) -> Example:
    """A row of a user's file; its columns of text and numbers are there for the template."""
    answer = row[output]
    if isinstance(answer, (int, float)) and not isinstance(answer, bool):
        answer = str(answer)
    answer = text({output: answer}, output).strip()
    if choices and answer not in choices:
        raise FieldError(output, f"one of {', '.join(choices)}{source}", answer)
    for end in stop:
        if end in answer:
            raise FieldError(output, f"text without {end!r}, which ends an answer", answer)
    fields = {
        name: str(value)
        for name, value in row.items()
        if name not in ("input", "output") and isinstance(value, (str, int, float))
    }
    for name in named:
        if name not in fields:
            raise FieldError(name, "text or a number, which the template names", row[name])
    return Example(id, text(row, input).strip(), answer, choices, fields=fields)


def _hold_out(
    examples: list[Example], fraction: float, seed: int, path: str
) -> tuple[list[Example], list[Example]]:
    """(bank, validation); a validation example's id is `validation-` and its position in the file."""
    if not 0 < fraction < 1:
        raise UserError(f"validation is {fraction}: expected a fraction between 0 and 1, or a file")
    words = [bert_words(example.input) for example in examples]
    distinct = list(dict.fromkeys(words))
    if len(distinct) < 2:
        raise UserError(f"{path}: all rows have one input; at least 2 different ones make a bank and a query")
    held = set(draw(distinct, min(math.ceil(fraction * len(distinct)), len(distinct) - 1), seed))
    bank = [example for example, key in zip(examples, words, strict=True) if key not in held]
    queries = [
        replace(example, id=example.id.replace("train", "validation", 1))
        for example, key in zip(examples, words, strict=True)
        if key in held
    ]
    return bank, queries


def _bank(
    rows: Sequence[Example], queries: Sequence[Example], template: Template, path: str
) -> list[Example]:
    """The rows that show no query's words before the answer, the first of each; says how many are left out."""
    asked = {bert_words(template.query(query)) for query in queries}
    others = [row for row in rows if bert_words(template.query(row)) not in asked]
    if not others:
        raise UserError(f"{path}: every row has the words of a query, so that none is left for the bank")
    if len(others) < len(rows):
        log.warning("%s: %s", path, _left_out(len(rows) - len(others), "has", "have", "a query's words"))
    bank = first_of_each(others, template.query)
    if len(bank) < len(others):
        repeated = _left_out(len(others) - len(bank), "repeats", "repeat", "another's words")
        log.info("%s: %s", path, repeated)
    return bank


def _left_out(count: int, one: str, many: str, what: str) -> str:
    return (
        f"1 row {one} {what} and was left out"
        if count == 1
        else f"{count:,} rows {many} {what} and were left out"
    )

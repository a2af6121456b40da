"""Loading of a named task from the hub, from local files or from a generator.

`load_file`, for the user's own file, is in `own_file`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from ceil_jax.errors import UserError
from ceil_jax.store.places import user_path
from ceil_jax.tasks.draws import draw
from ceil_jax.tasks.example import Example, Task
from ceil_jax.tasks.own_file import load_file
from ceil_jax.tasks.registry import TASKS
from ceil_jax.tasks.rows import examples_of
from ceil_jax.tasks.spec import Hub, Row, TaskSpec
from ceil_jax.tasks.tables import Table, read_table
from ceil_jax.tasks.words import bert_words, first_of_each

__all__ = ["load_file", "load_task"]

log = logging.getLogger(__name__)

SUFFIXES = (".jsonl", ".jsonl.gz", ".json", ".json.gz", ".csv", ".csv.gz", ".parquet")


def load_task(
    name: str | TaskSpec,
    data_dir: str | os.PathLike[str] | None = None,
    limit: int | None = None,
    seed: int = 0,
    *,
    bank_limit: int | None = None,
) -> Task:
    """Load a task, by its name in `TASKS` or from a `TaskSpec`.

    Some tasks are generated or come with a package. The others come from
    `data_dir/FOLDER/SPLIT.jsonl` (or .jsonl.gz, .json, .csv, .parquet, with the hub's column names)
    where `data_dir` is given, else from the Hugging Face hub. The bank is de-duplicated by the
    words of its retrieval text, as Table 1 of CEIL counts "#Train"; the queries are not.

    Args:
        name: a key of `TASKS`, or a TaskSpec.
        data_dir: the folder of local data sets; None takes the hub.
        limit: how many queries to keep at most; all by default.
        seed: draws the sample if there is a limit. Order and ids do not depend on it: `train-17` is
            row 17 of the split.
        bank_limit: how many examples of the bank to keep at most; by default as many as the papers,
            or all.

    Raises:
        UserError: an unknown name; a missing file, split or column; a row that cannot be read.
    """
    spec = TASKS[name] if isinstance(name, str) else name
    root = None if data_dir is None else user_path(data_dir)
    source = spec if spec.bank_of is None else TASKS[spec.bank_of]
    bank = _examples(source, source.train, root)
    if source.deduplicate:
        bank = first_of_each(bank, lambda example: bert_words(example.input))
    few_shot: list[Example] = []
    if spec.few_shot:
        # last example first, as the released code has it
        few_shot = _examples(spec, (spec.few_shot,), root)[::-1]
    available = _examples(spec, spec.validation, root, spec.keep)
    return Task(
        name=spec.name,
        train=draw(bank, spec.bank_size if bank_limit is None else bank_limit, seed),
        validation=draw(available, limit, seed),
        template=spec.template,
        metric=spec.metric,
        per_token=spec.per_token,
        max_new_tokens=spec.max_new_tokens,
        stop=spec.stop,
        few_shot=few_shot,
        more_metrics=spec.more_metrics,
        language=spec.language,
        available=len(available),
    )


def _examples(
    spec: TaskSpec,
    names: Sequence[str],
    root: Path | None,
    keep: Callable[[Row], bool] | None = None,
) -> list[Example]:
    enrich = spec.enrich(root) if spec.enrich and root else lambda row: row
    hint = "take files, or a revision of the hub's data set, that have the column"
    examples: list[Example] = []
    for name in names:
        if split := _split(spec, name, root):
            examples += examples_of(
                split,
                name,
                spec.columns,
                lambda id, row: spec.example(id, enrich(row)),
                keep,
                hint=hint,
            )
    if not examples:
        raise UserError(f"task {spec.name!r}: no row of {', '.join(names)} is one of its queries")
    return examples


def _split(spec: TaskSpec, name: str, root: Path | None) -> Table | None:
    """Return the rows of one split; None for an optional split that is not there."""
    if spec.embedded is not None:
        return Table(spec.embedded()[name], f"task {spec.name!r}, split {name!r}")
    if root is None and spec.hub is not None:
        return _hub_split(spec, spec.hub, name)
    columns = ", ".join(spec.columns)
    expected_file = (
        f"{spec.folder}/{name}.jsonl (or .jsonl.gz, .json, .csv, .parquet; columns {columns})"
    )
    if root is None:
        raise UserError(
            f"task {spec.name!r} has no hub copy: give a data_dir that holds {expected_file}"
        )
    folder = root / spec.folder
    stems = [name, *filter(None, [spec.files.get(name)])]
    whole = [folder / f"{stem}{suffix}" for stem in stems for suffix in SUFFIXES]
    # a part of a split has an addition to its name, as in train_sample.jsonl
    parts = [
        file
        for stem in stems
        for suffix in SUFFIXES
        for file in sorted(folder.glob(f"{stem}_*{suffix}"))
    ]
    file = next((file for file in (*whole, *parts) if file.is_file()), None)
    if file is None and name in spec.optional:
        log.warning("%s: %s has no split %r; going on without it", spec.name, folder, name)
        return None
    if file is None:
        raise UserError(
            f"task {spec.name!r}: no split {name!r}; looked for {expected_file} under {root}"
        )
    if file not in whole:
        log.warning("%s: split %r is partial, from %s", spec.name, name, file.name)
    return read_table(file)


def _hub_split(spec: TaskSpec, hub: Hub, name: str) -> Table:
    import datasets

    source = f"{hub.repo}{f' ({hub.config})' if hub.config else ''} at revision {hub.revision}"
    try:
        data = datasets.load_dataset(hub.repo, hub.config, split=name, revision=hub.revision)
    except (OSError, ValueError, RuntimeError, datasets.exceptions.DatasetsError) as error:
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise UserError(
            f"cannot load split {name!r} of {source}: {reason[0]}; without the hub, give a "
            f"data_dir that holds {spec.folder}/{name}.jsonl with the columns "
            f"{', '.join(spec.columns)}"
        ) from None
    return Table(data.to_list(), f"{source}, split {name!r}")

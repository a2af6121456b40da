"""Rows from the Hugging Face hub, at the revision that an entry names."""

from __future__ import annotations

from ceil_jax.errors import UserError
from ceil_jax.tasks.files import Split
from ceil_jax.tasks.spec import Hub, TaskSpec


def hub_split(spec: TaskSpec, name: str) -> Split:
    """Return one split of a task's data set on the hub. Its columns are checked before a row is read.

    Args:
        spec: an entry with a hub.
        name: the split.

    Raises:
        UserError: the hub cannot be reached, has no such dataset, config or split, or a column is missing;
            the message names the revision.
    """
    import datasets

    assert spec.hub is not None
    source = describe(spec.hub)
    try:
        data = datasets.load_dataset(spec.hub.repo, spec.hub.config, split=name, revision=spec.hub.revision)
    except (OSError, ValueError, RuntimeError, datasets.exceptions.DatasetsError) as error:
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise UserError(
            f"cannot load split {name!r} of {source}: {reason[0]}; without the hub, give a data_dir that "
            f"holds {spec.folder}/{name}.jsonl with the columns {', '.join(spec.columns)}"
        ) from None
    missing = [column for column in spec.columns if column not in data.column_names]
    if missing:
        raise UserError(
            f"{source}, split {name!r}: no column {', '.join(map(repr, missing))}; it has "
            f"{', '.join(data.column_names)}. The dataset has changed: name a revision that has the column"
        )
    if not len(data):
        raise UserError(f"{source}, split {name!r} holds no rows")
    rows = data.select_columns(list(spec.columns)).to_list()
    return Split(f"{source}, split {name!r}", rows, range(1, len(rows) + 1), unit="row")


def describe(hub: Hub) -> str:
    """Return `OWNER/NAME (CONFIG) at revision R`, for messages."""
    return f"{hub.repo}{f' ({hub.config})' if hub.config else ''} at revision {hub.revision}"

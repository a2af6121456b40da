"""Rows to examples: from the hub, from local files, or made here."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from typing import TypeVar

from ceil_jax.errors import UserError
from ceil_jax.tasks import TASKS, Example, Task, TaskSpec, task_spec
from ceil_jax.tasks.words import first_of_each

T = TypeVar("T")


def load_task(
    name: str,
    data_dir: str | os.PathLike[str] | None = None,
    limit: int | None = None,
    seed: int = 0,
    *,
    bank_limit: int | None = None,
) -> Task:
    """The task of that name in `TASKS`.

    At most `limit` validation examples and `bank_limit` of the bank are kept: drawn by `seed`, in their
    original order, and with their original ids.
    """
    spec = task_spec(name)
    assert spec.embedded is not None
    splits = spec.embedded()
    train = first_of_each(_examples(spec, splits, spec.train), lambda example: example.input)
    validation = _examples(spec, splits, spec.validation)
    return Task(
        name=spec.name,
        train=draw(train, bank_limit, seed),
        validation=draw(validation, limit, seed),
        template=spec.template,
        metric=spec.metric,
        max_new_tokens=spec.max_new_tokens,
        stop=spec.stop,
    )


def _examples(spec, splits, names) -> list[Example]:
    return [spec.example(f"{split}-{i}", row) for split in names for i, row in enumerate(splits[split])]


def draw(items: Sequence[T], limit: int | None, seed: int) -> Sequence[T]:
    """`limit` of the items by a seeded permutation, in their original order; all where there are fewer."""
    if limit is None or limit >= len(items):
        return items
    kept = sorted(random.Random(seed).sample(range(len(items)), limit))
    return [items[i] for i in kept]

"""`Run`, which resolves lazy values: from memory, from disk, or by computing them."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterable
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from ceil_jax.lm.cached import CachedLM
from ceil_jax.lm.readings import Readings
from ceil_jax.pipeline.models import Models, NamedLM
from ceil_jax.store.cost import Cost
from ceil_jax.store.folder import complete, finished
from ceil_jax.store.kept import Lazy, Noted, Work, closure, lazies
from ceil_jax.store.progress import running_bar

T = TypeVar("T")

_IN_MEMORY = 64
"""Number of values that a run holds in memory; other values are read from disk again."""


class Run:
    """Resolves lazy values: from memory, from disk, or by computing them, dependencies first.

    Args:
        root: the folder that holds the values' folders.
        models: loads LMs and encoders; shared with other runs.
    """

    def __init__(self, root: Path, models: Models) -> None:
        self.root = root
        self.models = models
        self._values: OrderedDict[str, Any] = OrderedDict()
        self._lms: dict[str, CachedLM] = {}

    @cached_property
    def readings(self) -> Readings:
        """The cache of LM outputs in the run's folder."""
        return Readings(self.root)

    def lm(self, lm: NamedLM) -> CachedLM:
        """Return the LM with a cache of its outputs, so that it reads each prompt once."""
        if lm.key not in self._lms:
            self._lms[lm.key] = CachedLM(lm.get(), self.readings, lm.reader())
        return self._lms[lm.key]

    def folder(self, lazy: Lazy[Any]) -> Path:
        """Return the folder of a value."""
        return self.root / lazy.key

    def notes(self, lazy: Lazy[Any] | None) -> dict[str, Any]:
        """Return the notes of a value, with its cost.

        Empty if it is not on disk, or there is none.
        """
        if lazy is None or lazy.in_memory:
            return {}
        return finished(self.folder(lazy)) or {}

    def get(self, lazy: Lazy[T]) -> T:
        """Return a value from memory or disk, or by computing it.

        Its dependencies are computed first. If another process is computing it, it is awaited.
        """
        if lazy.key in self._values:
            self._values.move_to_end(lazy.key)
        else:
            self._values[lazy.key] = self._loaded(lazy)
        value = self._values[lazy.key]
        while len(self._values) > _IN_MEMORY:
            self._values.popitem(last=False)
        return value

    def value(self, given: Any) -> Any:
        """Return the value of a lazy argument, also inside a tuple.

        Other arguments are returned unchanged.
        """
        if isinstance(given, Lazy):
            return self.get(given)
        if isinstance(given, tuple) and any(True for _ in lazies(given)):
            return tuple(map(self.value, given))
        return given

    def _loaded(self, lazy: Lazy[Any]) -> Any:
        self._ensure(lazy)
        files = lazy.function.files
        if files is None:
            return self._call(lazy)
        return files.load(self, lazy, self.folder(lazy))

    def _ensure(self, lazy: Lazy[Any]) -> None:
        """Compute a value with files unless it is complete on disk, dependencies first.

        The same for values that its loading reads.
        """
        if not lazy.in_memory and not self.notes(lazy):
            for need in lazy.needs:
                self.get(need)
            complete(self.folder(lazy), lazy.content, lambda: self._computed(lazy))
        for other in lazy.reads:
            self._ensure(other)

    def _call(self, lazy: Lazy[Any]) -> Any:
        """Return the result of the function for its arguments."""
        function = lazy.function
        filled = {"run": self, "folder": self.folder(lazy)}
        arguments = {
            name: given if name in function.lazily else self.value(given)
            for name, given in lazy.given.items()
        }
        return function.function(**{name: filled[name] for name in function.from_run}, **arguments)

    def _computed(self, lazy: Lazy[Any]) -> dict[str, Any]:
        """Compute a value into its folder, and return its notes with its cost."""
        with ExitStack() as stack:
            if progress := running_bar.get():
                stack.enter_context(progress.running(lazy.key, lazy.what))
            lms = [self.lm(lm) for lm in lms_of(lazy)]
            began = time.perf_counter()
            meters = [stack.enter_context(lm.metered(lazy.what)) for lm in lms]
            value = self._call(lazy)
            value, notes = value if isinstance(value, Noted) else (value, {})
            assert lazy.function.files is not None, (
                "values in memory are not computed into a folder"
            )
            lazy.function.files.save(self.folder(lazy), value)
        cost = sum((meter.cost for meter in meters), Cost())
        # the time from scratch: the wall time, with this run's reading time replaced by the time
        # that all of the value's readings took when they were first read
        reading = sum(meter.now.seconds for meter in meters)
        seconds = time.perf_counter() - began - reading + cost.seconds
        return {**notes, "cost": [round(seconds, 3), cost.tokens]}

    def estimate(self, lazy: Lazy[Any]) -> Work:
        """Return the work of computing a value, without that of its dependencies.

        A value is estimated once for each folder, by all runs that share models: the cells of a
        table are planned in a run each, and share values. Another folder has an estimate of its own,
        because an estimate may read the needs that are on disk."""
        key = ("estimate", self.root, lazy.key)
        return self.models.once(key, lambda: lazy.function.work(self, lazy))

    def own_cost(self, lazy: Lazy[Any]) -> Cost:
        """Return the cost of a value, without that of its dependencies; zero if it is not on disk."""
        return Cost(*self.notes(lazy).get("cost", ()))

    def costs(self, targets: Iterable[Lazy[Any]]) -> dict[str, tuple[str, Cost]]:
        """Return the description and cost of the targets and of all their dependencies, by key."""
        return {lazy.key: (lazy.what, self.own_cost(lazy)) for lazy in closure(targets)}

    def cost(self, targets: Iterable[Lazy[Any]]) -> Cost:
        """Return the cost of the targets and of all their dependencies, each counted once."""
        return sum((cost for _, cost in self.costs(targets).values()), Cost())

    def missing(self, targets: Iterable[Lazy[Any]]) -> list[Lazy[Any]]:
        """Return the values that have to be computed for the targets, dependencies first.

        Nothing on disk changes.
        """
        return [lazy for lazy in closure(targets, self._is_whole) if not lazy.in_memory]

    def _is_whole(self, lazy: Lazy[Any]) -> bool:
        return bool(self.notes(lazy)) and all(map(self._is_whole, lazy.reads))


def lms_of(lazy: Lazy[Any]) -> list[NamedLM]:
    """Return the LMs whose outputs a lazy value is computed from.

    They are arguments that are an LM, or that have one, such as a `Prompting`.
    """
    values = (
        getattr(value, "lm", value) for value in lazy.given.values() if not isinstance(value, Lazy)
    )
    return [value for value in values if isinstance(value, NamedLM)]

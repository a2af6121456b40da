"""A run is a graph of stages: `Stage` and its key, and `Run`, which computes stages and walks over
the graph.

A stage is a value. Its fields are its settings; a field that is a stage is a need. The key is the
stage's kind and a digest of its version, its settings that are not at their default, the keys of
its needs, and the data that it holds; a field marked `unkeyed` is left out. So all keys are known
before anything is computed, as soon as the models that are in them are loaded.
"""

from __future__ import annotations

import dataclasses
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from ceil_jax.lm.cached import CachedLM
from ceil_jax.lm.readings import Readings
from ceil_jax.pipeline.models import Models, NamedLM
from ceil_jax.store.code import code_digest
from ceil_jax.store.cost import Cost
from ceil_jax.store.folder import complete, finished
from ceil_jax.store.hashing import NO_KEY, canonical, text_digest
from ceil_jax.store.progress import running_bar

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

FLAT = {"flat": True}
"""The metadata of a field of a dataclass whose value's fields stand in keys as if they were the
dataclass's own."""

_IN_MEMORY = 64
"""Number of values that a run holds in memory; the others are on disk."""


class Work(NamedTuple):
    """The estimated work of a stage."""

    read: float = 0.0
    """LM tokens to read."""
    written: float = 0.0
    """LM tokens to generate."""
    parameters: float = 0.0
    encoded: float = 0.0
    """Tokens to encode × parameters of the encoder, padding included."""
    trained: float = 0.0
    """Tokens to train on × parameters of the encoder, padding included."""
    steps: int = 0


class Stage(Generic[T_co]):
    """A value that is computed once and kept. Subclasses are frozen dataclasses.

    `compute` writes files into a folder and returns a summary as JSON values; `load` reads them.
    Stages with the same key are equal.
    """

    version: ClassVar[int] = 1
    """Raised when the same settings give another value, or when a default changes, because keys
    leave out defaults."""
    in_memory: ClassVar[bool] = False
    """Whether `load` alone makes the value from the values of its needs, without files."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        # a dataclass would compare fields, which fails for arrays; it keeps methods that the class
        # already has
        cls.__eq__ = Stage.__eq__  # type: ignore[method-assign]
        cls.__hash__ = Stage.__hash__  # type: ignore[method-assign]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stage) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    @property
    def kind(self) -> str:
        """The beginning of its folder's name, which stays the same if the class is renamed."""
        return type(self).__name__.lower()

    @property
    def what(self) -> str:
        """The stage in words, for progress bars and tables."""
        return self.kind

    @cached_property
    def key(self) -> str:
        """KIND-DIGEST, the name of its folder."""
        return f"{self.kind}-{text_digest(self.content.encode())}"

    @cached_property
    def content(self) -> str:
        """The settings and keys that the digest is made from, as JSON."""
        version = {"version": self.version} if self.version != 1 else {}
        return canonical(version | _changed(self) | _code(self))

    @cached_property
    def needs(self) -> tuple[Stage[Any], ...]:
        """The stages among its fields, in order."""
        return tuple(_stages([value for _, value in _fields(self)]))

    @property
    def registered(self) -> tuple[Any, ...]:
        """The registered functions that its fields name, such as a metric. The code of a plugin's
        functions becomes part of the key."""
        return ()

    @property
    def reads(self) -> tuple[Stage[Any], ...]:
        """Further stages whose files `load` reads directly, without `get`."""
        return ()

    @property
    def lms(self) -> list[NamedLM]:
        """The LMs that it uses: fields that are an LM, or that have one, such as a `Prompting`."""
        values = (
            getattr(value, "lm", value)
            for _, value in _fields(self)
            if not isinstance(value, Stage)
        )
        return [value for value in values if isinstance(value, NamedLM)]

    def compute(self, run: Run, folder: Path) -> Mapping[str, Any]:
        """Write the value's files into a folder and return a summary. `run.get` gives the values of
        its needs."""
        raise NotImplementedError

    def load(self, run: Run, folder: Path) -> T_co:
        """Return the value, read from its folder."""
        raise NotImplementedError

    def estimate(self, run: Run) -> Work:
        """Return the work of computing it, without its needs."""
        return Work()


def unkeyed(default: Any = dataclasses.MISSING) -> Any:
    """Return a dataclass field that is left out of a stage's key, such as a label."""
    return dataclasses.field(default=default, metadata=NO_KEY)


def keyed(value: Any) -> Any:
    """Return a value as it stands in keys: its own `key` if it has one, or the fields of a
    dataclass that are not at their defaults."""
    if isinstance(key := getattr(value, "key", None), str | list):
        return key
    if isinstance(value, tuple | list):
        return [keyed(part) for part in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        version = getattr(value, "version", 1)
        name = type(value).__name__ + (f"-{version}" if version != 1 else "")
        return {"": name, **_changed(value), **_code(value)}
    return value


def _code(value: Any) -> dict[str, str]:
    """A digest of the plugin code of a stage or setting, and of the registered functions that its
    fields name (its property `registered`); empty for our own code."""
    code = code_digest(type(value), *getattr(value, "registered", ()))
    return {"code": code} if code else {}


def _fields(value: Any) -> list[tuple[dataclasses.Field[Any], Any]]:
    return [(field, getattr(value, field.name)) for field in dataclasses.fields(value)]


def _changed(value: Any) -> dict[str, Any]:
    changed: dict[str, Any] = {}
    for field, setting in _fields(value):
        if field.metadata.get("flat"):
            changed |= _changed(setting)
        elif field.metadata.get("key", True) and not _is_default(field, setting):
            changed[field.name] = keyed(setting)
    return changed


def _is_default(field: dataclasses.Field[Any], value: Any) -> bool:
    default = field.default
    if field.default_factory is not dataclasses.MISSING:
        default = field.default_factory()
    if default is dataclasses.MISSING:
        return False
    # 1 is no default of True or 1.0, which are equal in Python; a stage or an array in place of a
    # default is not compared with it
    return type(default) is type(value) and bool(default == value)


def _stages(value: Any) -> Iterator[Stage[Any]]:
    if isinstance(value, Stage):
        yield value
    elif isinstance(value, tuple | list):
        for part in value:
            yield from _stages(part)


class Run:
    """Gives the values of stages: from memory, from disk, or computed, needs first.

    Args:
        root: the folder that holds the stages' folders.
        models: loads LMs and encoders; shared with other runs.
    """

    def __init__(self, root: Path, models: Models) -> None:
        self.root = root
        self.models = models
        self._values: OrderedDict[str, Any] = OrderedDict()
        self._lms: dict[str, CachedLM] = {}

    @cached_property
    def readings(self) -> Readings:
        """What LMs have read for the stages of the folder."""
        return Readings(self.root)

    def lm(self, lm: NamedLM) -> CachedLM:
        """Return the LM behind a cache, so that it reads each prompt once."""
        if lm.key not in self._lms:
            self._lms[lm.key] = CachedLM(lm.get(), self.readings, lm.reader())
        return self._lms[lm.key]

    def folder(self, stage: Stage[Any]) -> Path:
        """Return the folder of a stage."""
        return self.root / stage.key

    def summary(self, stage: Stage[Any] | None) -> dict[str, Any]:
        """Return the summary of a stage; empty if the stage is not on disk, or there is none."""
        if stage is None or stage.in_memory:
            return {}
        return finished(self.folder(stage)) or {}

    def get(self, stage: Stage[T]) -> T:
        """Return a stage's value. If it is not on disk it is computed, needs first, or awaited if
        another process is computing it."""
        if stage.key in self._values:
            self._values.move_to_end(stage.key)
        else:
            self._ensure(stage)
            self._values[stage.key] = stage.load(self, self.folder(stage))
        value = self._values[stage.key]
        while len(self._values) > _IN_MEMORY:
            self._values.popitem(last=False)
        return value

    def value(self, setting: T | Stage[T]) -> T:
        """Return the value of a setting that may be a stage: the stage's value, or the setting
        itself."""
        return self.get(setting) if isinstance(setting, Stage) else setting

    def _ensure(self, stage: Stage[Any]) -> None:
        """Compute a stage unless it is complete on disk, needs first; likewise the stages that its
        `load` reads."""
        if not stage.in_memory and not self.summary(stage):
            for need in stage.needs:
                self.get(need)
            complete(self.folder(stage), stage.content, lambda: self._compute(stage))
        for other in stage.reads:
            self._ensure(other)

    def _compute(self, stage: Stage[Any]) -> dict[str, Any]:
        """Compute a stage into its folder, and return its summary with its cost."""
        with ExitStack() as stack:
            if progress := running_bar.get():
                stack.enter_context(progress.running(stage.key, stage.what))
            lms = [self.lm(lm) for lm in stage.lms]
            began = time.perf_counter()
            meters = [stack.enter_context(lm.metered(stage.what)) for lm in lms]
            summary = stage.compute(self, self.folder(stage))
        cost = sum((meter.cost for meter in meters), Cost())
        # the time from scratch: the wall time, with this run's reading time replaced by the time
        # that all of the stage's readings took when they were first read
        reading = sum(meter.now.seconds for meter in meters)
        seconds = time.perf_counter() - began - reading + cost.seconds
        return {**summary, "cost": [round(seconds, 3), cost.tokens]}

    def estimate(self, stage: Stage[Any]) -> Work:
        """Return the work of computing a stage, without its needs.

        A stage is estimated once for each folder, by all runs that share models: the cells of a
        table are planned in a run each, and share stages. Another folder has an estimate of its
        own, because an estimate may read the needs that are on disk."""
        key = ("estimate", self.root, stage.key)
        return self.models.once(key, lambda: stage.estimate(self))

    def own_cost(self, stage: Stage[Any]) -> Cost:
        """Return the cost of a stage, without its needs; zero if it is not on disk."""
        return Cost(*self.summary(stage).get("cost", ()))

    def costs(self, targets: Iterable[Stage[Any]]) -> dict[str, tuple[str, Cost]]:
        """Return the description and cost of the targets and all stages that they need, by key."""
        return {stage.key: (stage.what, self.own_cost(stage)) for stage in closure(targets)}

    def cost(self, targets: Iterable[Stage[Any]]) -> Cost:
        """Return the cost of the targets and all stages that they need, each counted once."""
        return sum((cost for _, cost in self.costs(targets).values()), Cost())

    def missing(self, targets: Iterable[Stage[Any]]) -> list[Stage[Any]]:
        """Return the stages that would have to be computed for the targets, needs first. Nothing on
        disk changes."""
        stages = closure(targets, self._is_whole)
        return [stage for stage in stages if not stage.in_memory]

    def _is_whole(self, stage: Stage[Any]) -> bool:
        return bool(self.summary(stage)) and all(map(self._is_whole, stage.reads))


def closure(
    targets: Iterable[Stage[Any]], without: Callable[[Stage[Any]], bool] = lambda stage: False
) -> list[Stage[Any]]:
    """Return the targets and all stages that they need, each once, needs first. Stages for which
    `without` is true are left out, together with their needs."""
    needed: dict[str, Stage[Any]] = {}

    def visit(stage: Stage[Any]) -> None:
        if stage.key not in needed and not without(stage):
            for need in stage.needs:
                visit(need)
            needed[stage.key] = stage

    for target in targets:
        visit(target)
    return list(needed.values())

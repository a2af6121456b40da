"""Functions whose results are kept on disk, and lazy values.

A run is a graph of `Lazy` values, which `pipeline.run.Run` computes once and keeps.

Calling a kept function computes nothing. It returns a `Lazy`: the function with what it was given,
some of which may be lazy itself. The key of a lazy value is the function's kind and a digest of its
version, of the arguments that are not at their defaults, and of the keys of those that are lazy. So
all keys are known before anything is computed, as soon as the models that are in them are loaded.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from ceil_jax.store.code import code_digest
from ceil_jax.store.folder import load_arrays, read_json, save_arrays, write_json
from ceil_jax.store.hashing import canonical, text_digest

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

FLAT = {"flat": True}
"""Metadata of a dataclass field whose own fields enter keys as if they were the dataclass's."""

_FROM_RUN = ("run", "folder")
"""Parameters of a kept function that the run fills in: itself, and the folder of the value."""


class Work(NamedTuple):
    """The estimated work of computing a value."""

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


class Noted(NamedTuple):
    """A value with notes as JSON values, which a kept function may return in place of the value.

    The notes are in the value's folder (`pipeline.run.Run.notes`).
    """

    value: Any
    notes: Mapping[str, Any]


class Files(NamedTuple):
    """The functions that write values to disk and read them."""

    save: Callable[[Path, Any], None]
    """Writes a value into its folder."""
    load: Callable[[Any, Lazy[Any], Path], Any]
    """Reads the value, given the run, the lazy value and its folder."""


def arrays(file: str, kind: Callable[..., Any] = dict) -> Files:
    """Return the files of a value that is a NamedTuple or a dict of arrays."""

    def save(folder: Path, value: Any) -> None:
        save_arrays(folder / file, **(value if isinstance(value, dict) else value._asdict()))

    return Files(save, lambda run, lazy, folder: kind(**load_arrays(folder / file)))


def array(file: str, name: str) -> Files:
    """Return the files of a value that is one array."""
    return Files(
        lambda folder, value: save_arrays(folder / file, **{name: value}),
        lambda run, lazy, folder: load_arrays(folder / file)[name],
    )


def json_file(file: str) -> Files:
    """Return the files of a value of JSON values."""
    return Files(
        lambda folder, value: write_json(folder / file, value),
        lambda run, lazy, folder: read_json(folder / file),
    )


def in_notes(load: Callable[[Mapping[str, Any]], Any]) -> Files:
    """Return the files of a value that is made from its notes alone."""
    return Files(lambda folder, value: None, lambda run, lazy, folder: load(run.notes(lazy)))


@dataclasses.dataclass(frozen=True)
class Kept(Generic[T]):
    """A function whose values are kept; see `kept`."""

    function: Callable[..., Any]
    kind: str | Callable[[Any], str]
    files: Files | None
    version: int
    what: str | Callable[[Any], str]
    work: Callable[[Any, Any], Work]
    registered: Callable[[Any], tuple[Any, ...]]
    unkeyed: tuple[str, ...]
    lazily: tuple[str, ...]
    reads: Callable[[Any], tuple[Lazy[Any], ...]]

    @cached_property
    def parameters(self) -> Mapping[str, inspect.Parameter]:
        """The parameters of the function by name, without those that the run fills in."""
        every = inspect.signature(self.function).parameters
        return {name: parameter for name, parameter in every.items() if name not in _FROM_RUN}

    @cached_property
    def from_run(self) -> tuple[str, ...]:
        """The parameters that the run fills in."""
        return tuple(set(_FROM_RUN) & set(inspect.signature(self.function).parameters))

    def __call__(self, *arguments: Any, **named: Any) -> Lazy[T]:
        bound = inspect.Signature(list(self.parameters.values())).bind(*arguments, **named)
        bound.apply_defaults()
        return Lazy(self, bound.arguments)


def kept(
    kind: str | Callable[[Any], str],
    *,
    files: Files | None = None,
    version: int = 1,
    what: str | Callable[[Any], str] = "",
    work: Callable[[Any, Any], Work] = lambda run, lazy: Work(),
    registered: Callable[[Any], tuple[Any, ...]] = lambda lazy: (),
    unkeyed: tuple[str, ...] = (),
    lazily: tuple[str, ...] = (),
    reads: Callable[[Any], tuple[Lazy[Any], ...]] = lambda lazy: (),
) -> Callable[[Callable[..., T | Noted]], Kept[T]]:
    """Return a decorator for functions whose values are computed once and kept.

    Args:
        kind: the beginning of the folder's name, which stays the same if the function is renamed;
            or a function of the lazy value, as `what`.
        files: how values stand on disk; None for values that are cheap to make again, which stay in
            memory.
        version: raised when the same arguments give another value, or when a default changes,
            because keys leave out defaults.
        what: the step in words, for progress bars and tables; `kind` by default.
        work: run, lazy value → the work of computing it, without what it needs.
        registered: lazy value → the registered functions that its arguments name, such as a metric.
            The code of a plugin's functions becomes part of the key.
        unkeyed: parameters that are left out of the key, such as a label.
        lazily: parameters that the function gets as they are, and not their values.
        reads: lazy value → others that have to be on disk when it is loaded.
    """
    return lambda function: Kept(
        function, kind, files, version, what or kind, work, registered, unkeyed, lazily, reads
    )


class Lazy(Generic[T_co]):
    """The future result of a kept function.

    The function's arguments are attributes. Lazy values with the same key are equal.
    """

    def __init__(self, function: Kept[Any], given: Mapping[str, Any]) -> None:
        self.function = function
        self.given = dict(given)

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["given"][name]
        except KeyError:
            raise AttributeError(name) from None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Lazy) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return self.key

    def changed(self, **arguments: Any) -> Lazy[T_co]:
        """Return the value of the same function with some other arguments."""
        return Lazy(self.function, self.given | arguments)

    def is_of(self, *functions: Kept[Any]) -> bool:
        """Return whether the value is a result of one of some kept functions."""
        return self.function in functions

    @property
    def kind(self) -> str:
        """The kind of the value, with which the folder's name begins."""
        kind = self.function.kind
        return kind if isinstance(kind, str) else kind(self)

    @property
    def what(self) -> str:
        """A description of the step, for progress bars and tables."""
        what = self.function.what
        return what if isinstance(what, str) else what(self)

    @property
    def in_memory(self) -> bool:
        """True if the value has no files."""
        return self.function.files is None

    @cached_property
    def key(self) -> str:
        """The name of the value's folder, KIND-DIGEST."""
        return f"{self.kind}-{text_digest(self.content.encode())}"

    @cached_property
    def content(self) -> str:
        """The arguments and keys that the digest is made from, as JSON."""
        function = self.function
        content: dict[str, Any] = {} if function.version == 1 else {"version": function.version}
        for name, value in self.given.items():
            default = function.parameters[name].default
            if name not in function.unkeyed and not _is_same(default, value):
                content[name] = keyed(value)
        code = code_digest(function.function, *function.registered(self))
        return canonical(content | ({"code": code} if code else {}))

    @cached_property
    def needs(self) -> tuple[Lazy[Any], ...]:
        """The lazy values among the arguments, in order."""
        return tuple(lazies(list(self.given.values())))

    @property
    def reads(self) -> tuple[Lazy[Any], ...]:
        """Other lazy values that have to be on disk when it is loaded."""
        return self.function.reads(self)


def lazies(value: Any) -> Iterator[Lazy[Any]]:
    """Yield the lazy values in a value or in a sequence of values."""
    if isinstance(value, Lazy):
        yield value
    elif isinstance(value, tuple | list):
        for part in value:
            yield from lazies(part)


def keyed(value: Any) -> Any:
    """Return the form of a value in keys.

    Its own `key` if it has one, or the fields of a dataclass that are not at their defaults.
    """
    if isinstance(key := getattr(value, "key", None), str | list):
        return key
    if isinstance(value, tuple | list):
        return [keyed(part) for part in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        version = getattr(value, "version", 1)
        name = type(value).__name__ + (f"-{version}" if version != 1 else "")
        code = code_digest(type(value), *getattr(value, "registered", ()))
        return {"": name, **_changed(value), **({"code": code} if code else {})}
    return value


def _changed(value: Any) -> dict[str, Any]:
    changed: dict[str, Any] = {}
    for field in dataclasses.fields(value):
        setting = getattr(value, field.name)
        default = field.default
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        if field.metadata.get("flat"):
            changed |= _changed(setting)
        elif field.metadata.get("key", True) and not _is_same(default, setting):
            changed[field.name] = keyed(setting)
    return changed


def _is_same(default: Any, value: Any) -> bool:
    # 1 is not a default of True or 1.0, which are equal in Python; a lazy value or an array in place of
    # a default is not compared with it
    return type(default) is type(value) and bool(default == value)


def closure(
    targets: Iterable[Lazy[Any]], without: Callable[[Lazy[Any]], bool] = lambda lazy: False
) -> list[Lazy[Any]]:
    """Return the targets and all lazy values that they need, each once, dependencies first.

    Values for which `without` is true are left out, together with their needs.
    """
    needed: dict[str, Lazy[Any]] = {}

    def visit(lazy: Lazy[Any]) -> None:
        if lazy.key not in needed and not without(lazy):
            for need in lazy.needs:
                visit(need)
            needed[lazy.key] = lazy

    for target in targets:
        visit(target)
    return list(needed.values())

"""Registries that users can extend, plugins, and functions that are named as `module:function`."""

from __future__ import annotations

import importlib
import inspect
import logging
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from ceil_jax.errors import UserError, unknown_name

log = logging.getLogger(__name__)

T = TypeVar("T")


class Registry(dict[str, T]):
    """Values by name, in the order of registration.

    For an unknown name, `registry[name]` raises a `UserError` that suggests a known one.

    `kind` names its values in messages, such as "retriever"; `hint` ends the message about an
    unknown name.

    >>> metrics = Registry("metric")
    >>> metrics.register("accuracy", 1)
    >>> metrics["acuracy"]
    Traceback (most recent call last):
        ...
    ceil_jax.errors.UserError: unknown metric 'acuracy'; did you mean 'accuracy'? Known: accuracy.
    """

    def __init__(self, kind: str, hint: str = "") -> None:
        super().__init__()
        self.kind = kind
        self.hint = hint

    def register(self, name: str, value: T, *, replace: bool = False) -> None:
        """Add a value under a name. A name that is taken is a UserError, unless `replace` is set."""
        if name in self and not replace:
            raise UserError(
                f"a {self.kind} {name!r} is registered already; take another name, or pass "
                "replace=True"
            )
        self[name] = value

    def require(self, name: str) -> None:
        """Raise a UserError, which suggests a known name, for a name that is not registered."""
        self[name]

    @contextmanager
    def temporarily(self) -> Iterator[Registry[T]]:
        """Return a context manager that restores the registry at its end; for tests.

        >>> metrics = Registry("metric")
        >>> with metrics.temporarily():
        ...     metrics.register("accuracy", 1)
        >>> list(metrics)
        []
        """
        before = dict(self)
        try:
            yield self
        finally:
            self.clear()
            self.update(before)

    def __missing__(self, name: str) -> T:
        raise unknown_name(self.kind, name, self, self.hint)


def is_function(name: str) -> bool:
    """Return whether a name has the form `module:function`."""
    return re.fullmatch(r"\w+(\.\w+)*:[^\W\d]\w*", name) is not None


def tell_of_folder(kind: str, name: str) -> None:
    """Log a warning if a registered name is also the name of a folder in the current folder.

    The registered name is the one that is used.
    """
    if Path(name).is_dir():
        log.warning(
            "%s %s: the registered one of this name is used, not the folder %s; write "
            "./%s for the folder",
            kind,
            name,
            name,
            name,
        )


def imported_module(name: str) -> ModuleType:
    """Import a module, also from the current folder, as `python -m` does."""
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    return importlib.import_module(name)


@cache
def load_plugins() -> None:
    """Import the plugins of installed packages, once, so that they register their parts.

    They are the modules named as entry points `ceil_jax.plugins`.

    Raises:
        UserError: one of them cannot be imported.
    """
    for point in entry_points(group="ceil_jax.plugins"):
        try:
            point.load()
        except (ImportError, AttributeError, ValueError) as error:
            package = point.dist.name if point.dist is not None else point.name
            raise UserError(
                f"the plugin {point.value} of the installed package {package}: {error}; reinstall "
                "or remove that package"
            ) from None


def imported(kind: str, name: str, known: Iterable[str] = ()) -> Callable[[], Any]:
    """Import the function named `module:function`, also from the current folder.

    `kind` is what it makes, for messages.

    Raises:
        UserError: there is no such module or function; or the name has another form, for which one
            of the `known` names is suggested.
    """
    if not is_function(name):
        raise unknown_name(kind, name, known)
    module_name, _, function = name.partition(":")
    try:
        module = imported_module(module_name)
    except ModuleNotFoundError as error:
        raise UserError(
            f"{kind} {name!r}: {error}; expected module:function, importable from this folder"
        ) from None
    value = getattr(module, function, None)
    if value is None:
        raise unknown_name(
            f"function in {module_name}", function, [n for n in vars(module) if n[0] != "_"]
        )
    if not callable(value) or isinstance(value, type):
        raise UserError(f"{name} is {value!r}; expected a function that returns the {kind}")
    return value


def made_by(function: Callable[[], Any], kind: str, name: str, expected: type[T]) -> T:
    """Return the value that a user's function makes.

    Args:
        function: takes no arguments.
        kind: what it makes, for messages, such as "LM".
        name: the function's name as the user gave it.
        expected: the type that it must return.

    Raises:
        UserError: it returns another type, or takes arguments.
    """
    try:
        inspect.signature(function).bind()
    except (TypeError, ValueError) as error:
        raise UserError(
            f"{name}: {error}; a function that makes the {kind} takes no arguments"
        ) from None
    result = function()
    if not isinstance(result, expected):
        raise UserError(f"{name} returned {type(result).__name__}; expected {expected.__name__}")
    return result

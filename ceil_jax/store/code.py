"""The code of plugins as part of keys, so that changed code does not reuse the results of the old
code.

In a key, a registered function or class of a plugin, such as a retriever, a metric or a loss, is
identified by its name and by a digest of the file of its module and of those of the user's own
modules that this one uses. Data files and installed libraries are ignored.
"""

from __future__ import annotations

import functools
import inspect
import sys
import sysconfig
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from ceil_jax.store.hashing import digest, file_sha256

_PACKAGE = __name__.partition(".")[0]

_INSTALLED = tuple(
    {sysconfig.get_path(kind) for kind in ("stdlib", "platstdlib", "purelib", "platlib")}
)
"""The folders of the standard library and of installed libraries."""

_SIMPLE = (str, bytes, int, float, complex, bool, type(None))


def code_digest(*values: Any) -> str:
    """Return a digest of the source code of some values and of what this code imports.

    It has 16 hex digits. It is "" if all of the code is this package's or Python's own.

    Args:
        values: functions, classes, instances, or dataclasses and partial functions of these.
    """
    texts: dict[str, str] = {}
    for value in values:
        for part in _parts(value):
            if isinstance(part, _SIMPLE):
                texts[f"value {part!r}"] = ""
            elif _top(part.__module__) not in (_PACKAGE, *sys.stdlib_module_names):
                _add(part, texts)
    # values of arguments alone do not make a plugin of this package's own functions
    if all(name.startswith("value ") for name in texts):
        return ""
    return digest(texts)


def _parts(value: Any) -> Iterator[Any]:
    """Yield the functions, classes and simple values that a value consists of."""
    if isinstance(value, _SIMPLE):
        yield value
    elif isinstance(value, functools.partial):
        for part in (value.func, *value.args, *value.keywords.items()):
            yield from _parts(part)
    elif isinstance(value, tuple | list):
        for part in value:
            yield from _parts(part)
    elif isinstance(value, type):
        yield value
    elif inspect.ismethod(value):
        yield from _parts(value.__self__)
        yield from _parts(value.__func__)
    elif isinstance(value, FunctionType):
        yield inspect.unwrap(value)
        for cell in value.__closure__ or ():
            yield from _parts(cell.cell_contents)
    elif is_dataclass(value):
        yield type(value)
        for field in fields(value):
            yield from _parts(getattr(value, field.name))
    elif not isinstance(value, ModuleType):
        yield type(value)


def _add(part: Callable[..., Any], texts: dict[str, str]) -> None:
    """Add the digest of the module of a function or class.

    The modules that it uses by name are added too.
    """
    module = sys.modules.get(str(part.__module__))
    if module is None or not getattr(module, "__file__", None):
        _add_object(part, texts)
    elif part.__module__ not in texts:
        _add_module(module, texts)


def _add_module(module: ModuleType, texts: dict[str, str]) -> None:
    name = module.__name__
    if name in texts:
        return
    texts[name] = file_sha256(Path(str(module.__file__)))
    for value in list(vars(module).values()):
        used = value if isinstance(value, ModuleType) else sys.modules.get(_module_name(value))
        if used is not None and used.__name__ not in texts and _is_own(used, name):
            _add_module(used, texts)


def _module_name(value: Any) -> str:
    name = getattr(value, "__module__", None)
    return name if isinstance(name, str) else ""


def _is_own(module: ModuleType, plugin: str) -> bool:
    """Return whether a module is the user's own, or belongs to the plugin's package."""
    file = getattr(module, "__file__", None)
    if not file or _top(module.__name__) == _PACKAGE:
        return False
    return _top(module.__name__) == _top(plugin) or not file.startswith(_INSTALLED)


def _top(name: str | None) -> str:
    """The top-level package of a module name."""
    return str(name).partition(".")[0]


def _add_object(part: Any, texts: dict[str, str]) -> None:
    """Add the code of a function or class that was defined in a session or notebook.

    Others of the session that it uses are added too.
    """
    name = f"{part.__module__}.{part.__qualname__}"
    if name in texts:
        return
    texts[name] = ""
    functions = [part] if isinstance(part, FunctionType) else _functions_of(part)
    for function in functions:
        texts[name] += digest(_plain(function.__code__))
        for used in function.__code__.co_names:
            value = function.__globals__.get(used)
            if isinstance(value, type | FunctionType) and value.__module__ == part.__module__:
                _add_object(value, texts)
            elif isinstance(value, _SIMPLE):
                texts[f"value {used} {value!r}"] = ""


def _functions_of(kind: type) -> list[FunctionType]:
    return [value for value in vars(kind).values() if isinstance(value, FunctionType)]


def _plain(code: CodeType) -> list[Any]:
    """The content of compiled code, without its file and line numbers."""
    constants = [_plain(c) if isinstance(c, CodeType) else repr(c) for c in code.co_consts]
    return [code.co_code.hex(), constants, list(code.co_names), list(code.co_varnames)]

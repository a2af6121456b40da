"""Command-line flags, which tyro derives from the fields of settings dataclasses.

The flags of a method begin with its name. The help of a flag is the docstring of its setting as one
paragraph, with its range.

tyro itself keeps the line breaks of such a docstring.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import cache, partial
from itertools import pairwise
from typing import Annotated, Any, get_type_hints

from tyro.constructors import (
    ConstructorRegistry,
    PrimitiveConstructorSpec,
    StructConstructorSpec,
    StructFieldSpec,
    StructTypeInfo,
)

from ceil_jax.errors import range_of
from ceil_jax.methods.base import Method
from ceil_jax.methods.registry import method_named
from ceil_jax.pipeline.config import TUNE, RunConfig, method_flags

SEARCHED = ("shots", "trade_off")
"""Settings of a run that `tune` searches itself, and that are therefore not flags of `tune`."""


def flag_registry() -> ConstructorRegistry:
    """Return the registry with which tyro makes the flags of all commands."""
    registry = ConstructorRegistry()
    registry.struct_rule(_of_dataclass)
    return registry


def _of_dataclass(info: StructTypeInfo) -> StructConstructorSpec | None:
    """Return the specification by which tyro builds a dataclass from flags.

    None, for tyro's own way, for generic types and for those without a default instance.
    """
    is_generic = hasattr(info.type, "__parameters__")
    if not is_dataclass(info.type) or is_generic or not isinstance(info.default, info.type):
        return None
    settings = {field.name: getattr(info.default, field.name) for field in fields(info.type)}
    instantiate: Callable[..., Any] = partial(replace, info.default)
    methods: dict[str, Method] = {}
    if isinstance(info.default, RunConfig):
        # the settings of methods are groups of flags by the methods' names
        methods = method_flags(info.default)
        instantiate = partial(_config, info.default, [*methods])
        for name in ("methods", *(SEARCHED if info.default == TUNE else ())):
            del settings[name]
    flags = [_flag(info.type, name, default) for name, default in settings.items()]
    flags += [_method_flag(name, method) for name, method in methods.items()]
    return StructConstructorSpec(instantiate=instantiate, fields=tuple(flags))


def _flag(kind: type, name: str, default: Any) -> StructFieldSpec:
    hint = _hints(kind)[name]
    # docstrings are read from the source only when help is printed
    help_text = partial(_help, kind, name, hint)
    return StructFieldSpec(name, _METHOD if hint is Method else hint, default, help_text)


@cache
def _hints(kind: type) -> Mapping[str, Any]:
    return get_type_hints(kind, include_extras=True)


def _method_flag(name: str, method: Method) -> StructFieldSpec:
    """Return the flags for a method's settings, whose names begin with the method's: --ceil.epochs."""
    summary = " ".join((inspect.getdoc(type(method)) or "").partition("\n\n")[0].split())
    return StructFieldSpec(name, type(method), method, summary)


def _config(default: RunConfig, names: Sequence[str], **settings: Any) -> RunConfig:
    """Return a configuration with some settings in place of the defaults.

    Those in `names` are methods.
    """
    methods = tuple(settings.pop(name) for name in names)
    return replace(default, **settings, methods=methods)


_METHOD = Annotated[
    Method,
    PrimitiveConstructorSpec(
        nargs=1,
        metavar="METHOD",
        instance_from_str=lambda words: method_named(words[0]),
        is_instance=lambda value: isinstance(value, Method),
        str_from_instance=lambda method: [method.name],
    ),
]
"""A flag whose value is the name of a method."""


def _help(kind: type, name: str, hint: Any) -> str:
    """Return the docstring of a field on one line, with its range if it has one."""
    allowed = range_of(hint)
    docstrings = (_docstrings(base).get(name) for base in kind.__mro__ if is_dataclass(base))
    docstring = next(filter(None, docstrings), "")
    return docstring if allowed is None else f"{docstring} Range: {allowed}."


@cache
def _docstrings(kind: type) -> Mapping[str, str]:
    """The docstrings of the fields that a dataclass itself defines, each on one line."""
    try:
        source = inspect.getsource(kind)
    except (OSError, TypeError):
        return {}
    [definition] = ast.parse(textwrap.dedent(source)).body
    assert isinstance(definition, ast.ClassDef)
    docstrings = {}
    for field, next_statement in pairwise(definition.body):
        match field, next_statement:
            case ast.AnnAssign(target=ast.Name(id=field_name)), ast.Expr(
                value=ast.Constant(value=str(text))
            ):
                docstrings[field_name] = " ".join(text.split())
    return docstrings

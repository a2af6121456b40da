"""Help texts of dataclass fields: each field's docstring as one paragraph, and the range of its
numbers.

tyro reads a field's docstring with the indentation of its source and keeps its line breaks.
`asked_for_help` makes a registry for `tyro.cli` that joins the lines instead. `--help` shows the
settings in COMMON, `--help-all` all.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from dataclasses import fields, is_dataclass
from functools import partial
from itertools import pairwise
from typing import Any, get_type_hints

import tyro
from tyro.constructors import (
    ConstructorRegistry,
    StructConstructorSpec,
    StructFieldSpec,
    StructTypeInfo,
)

from ceil_jax.errors import range_of

_COMMON = """
task encoder lm shots limit trade_off out data input output template metric methods ks lm_tokens minutes
"""
COMMON = frozenset(_COMMON.split())
"""The settings of a run and of a file of one's own that most people need."""

SHORTENED = ("RunConfig", "OwnData", "TuneConfig")
"""The dataclasses of which `--help` shows the settings in COMMON only, with all that are inside
them."""


def asked_for_help(arguments: list[str]) -> tuple[list[str], ConstructorRegistry]:
    """Return the arguments as tyro knows them, and the registry that prints as much help as they
    ask for."""
    short = "--help-all" not in arguments and not {"-h", "--help"}.isdisjoint(arguments)
    registry = ConstructorRegistry()
    # settings are left out for printing help only: tyro takes no argument that it does not show
    registry.struct_rule(partial(_of_dataclass, short))
    return ["--help" if argument == "--help-all" else argument for argument in arguments], registry


def _of_dataclass(short: bool, info: StructTypeInfo) -> StructConstructorSpec | None:
    """Build a dataclass from flags; generic types, and those without a default instance, are left
    to tyro."""
    generic = hasattr(info.type, "__parameters__")
    if not is_dataclass(info.type) or generic or not isinstance(info.default, info.type):
        return None
    hints = get_type_hints(info.type, include_extras=True)
    # a marker, which a type checker takes for a generic alias
    suppress: Any = tyro.conf.Suppress
    cut = short and info.type.__name__ in SHORTENED
    return StructConstructorSpec(
        instantiate=info.type,
        fields=tuple(
            StructFieldSpec(
                field.name,
                suppress[hints[field.name]]
                if cut and field.name not in COMMON
                else hints[field.name],
                getattr(info.default, field.name),
                # read from the source only when help is asked for
                helptext=partial(_help, info.type, field.name, hints[field.name]),
            )
            for field in fields(info.type)
        ),
    )


def _help(kind: type, name: str, hint: Any) -> str:
    """Return a field's docstring on one line, followed by its range if it has one."""
    allowed = range_of(hint)
    docstrings = (_docstring(base, name) for base in kind.__mro__ if is_dataclass(base))
    docstring = next(filter(None, docstrings), "")
    return docstring if allowed is None else f"{docstring} Range: {allowed}."


def _docstring(kind: type, name: str) -> str:
    """The docstring below a field of a dataclass, on one line; "" if the field is inherited."""
    try:
        source = inspect.getsource(kind)
    except (OSError, TypeError):
        return ""
    [definition] = ast.parse(textwrap.dedent(source)).body
    assert isinstance(definition, ast.ClassDef)
    for field, after in pairwise(definition.body):
        match field, after:
            case ast.AnnAssign(target=ast.Name(id=field_name)), ast.Expr(
                value=ast.Constant(value=str(text))
            ):
                if field_name == name:
                    return " ".join(text.split())
    return ""

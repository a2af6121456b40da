"""Help texts of dataclass fields: each field's docstring as one paragraph, and the range of its numbers.

tyro reads a field's docstring with the indentation of its source and keeps its line breaks. `ONE_PARAGRAPH` is a
registry for `tyro.cli` that joins the lines instead.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from dataclasses import fields, is_dataclass
from functools import partial
from itertools import pairwise
from typing import Any, get_type_hints

from tyro.constructors import ConstructorRegistry, StructConstructorSpec, StructFieldSpec, StructTypeInfo

from ceil_jax.errors import range_of

ONE_PARAGRAPH = ConstructorRegistry()


@ONE_PARAGRAPH.struct_rule
def _of_dataclass(info: StructTypeInfo) -> StructConstructorSpec | None:
    """Build a dataclass from flags; generic types, and those without a default instance, are left to tyro."""
    if not is_dataclass(info.type) or hasattr(info.type, "__parameters__"):
        return None
    if not isinstance(info.default, info.type):
        return None
    hints = get_type_hints(info.type, include_extras=True)
    return StructConstructorSpec(
        instantiate=info.type,
        fields=tuple(
            StructFieldSpec(
                field.name,
                hints[field.name],
                getattr(info.default, field.name),
                # read from the source only when help is asked for
                helptext=partial(_help, info.type, field.name, hints[field.name]),
            )
            for field in fields(info.type)
        ),
    )


def _help(kind: type, name: str, hint: Any) -> str | None:
    """Return a field's docstring, followed by its range if it has one."""
    text, allowed = _docstring(kind, name), range_of(hint)
    return text if allowed is None else f"{text or ''} Range: {allowed}."


def _docstring(kind: type, name: str) -> str | None:
    """Return a field's docstring on one line; None if it has none."""
    [definition] = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(definition, ast.ClassDef)
    for field, after in pairwise(definition.body):
        match field, after:
            case ast.AnnAssign(target=ast.Name(id=found)), ast.Expr(value=ast.Constant(value=str(text))):
                if found == name:
                    return " ".join(text.split())
    return None

"""Help that is wrapped where the terminal ends, not where a docstring's lines do."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from types import MappingProxyType
from typing import get_type_hints


def join_lines(*kinds: type) -> None:
    """Give the fields of dataclasses, and of dataclasses in them, their docstrings as a line each.

    tyro reads a field's docstring with the indentation of its source, and takes an indented line for one that
    is to stand alone.
    """
    from docstring_parser import parse_from_object

    for kind in kinds:
        types = get_type_hints(kind)
        written = {param.arg_name: param.description or "" for param in parse_from_object(kind).params}
        for field in fields(kind):
            if written.get(field.name):
                line = " ".join(written[field.name].split())
                field.metadata = MappingProxyType({**field.metadata, "help": line})
            if is_dataclass(types[field.name]):
                join_lines(types[field.name])

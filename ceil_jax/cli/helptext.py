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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache, partial
from itertools import pairwise
from typing import Annotated, Any, get_type_hints

import tyro
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
from ceil_jax.pipeline.config import RunConfig, method_flags

_COMMON = """
task data_dir encoder lm shots limit bank_limit trade_off min_relevance token_budget text context seed out endpoint
data validation input output template metric stop max_new_tokens delimiter skip_bad_rows
method ks trade_offs encoders lm_tokens minutes tolerance
api_key_env chat context_length tokenizer concurrency max_tokens
"""
COMMON = frozenset(_COMMON.split())
"""The settings that the pages for users name: those of a run, of a file of one's own, of a search
and of a server."""

SEARCHED = frozenset({"shots", "trade_off"})
"""The settings of a run that `tune` searches: it refuses them, and its help leaves them out."""

SHORTENED = ("RunConfig", "OwnData", "TuneConfig", "EndpointConfig")
"""The dataclasses of which `--help` shows the settings in COMMON only."""


def asked_for_help(arguments: list[str]) -> tuple[list[str], ConstructorRegistry]:
    """Return the arguments as tyro knows them, and the registry that prints as much help as they
    ask for."""
    everything = "--help-all" in arguments
    short = not everything and not {"-h", "--help"}.isdisjoint(arguments)
    # settings are left out for printing help only: tyro takes no argument that it does not show
    left_out = SEARCHED if arguments[:1] == ["tune"] and (short or everything) else frozenset()
    registry = ConstructorRegistry()
    registry.struct_rule(partial(_of_dataclass, short, left_out))
    return ["--help" if argument == "--help-all" else argument for argument in arguments], registry


def _of_dataclass(
    short: bool, left_out: frozenset[str], info: StructTypeInfo
) -> StructConstructorSpec | None:
    """Build a dataclass from flags; generic types, and those without a default instance, are left
    to tyro. The help has no settings that are `left_out` of a run's."""
    generic = hasattr(info.type, "__parameters__")
    if not is_dataclass(info.type) or generic or not isinstance(info.default, info.type):
        return None
    cut = short and info.type.__name__ in SHORTENED
    settings = {field.name: getattr(info.default, field.name) for field in fields(info.type)}
    instantiate: Callable[..., Any] = info.type
    hidden = {name for name in settings if cut and name not in COMMON}
    if isinstance(info.default, RunConfig):
        hidden |= left_out
    flags = [_flag(info.type, name, default, name in hidden) for name, default in settings.items()]
    if isinstance(info.default, RunConfig):
        flags = [flag for flag in flags if flag.name != "methods"]
        methods = method_flags(info.default)
        flags += [_method_flag(name, method, cut) for name, method in methods.items()]
        instantiate = partial(_config, [*methods])
    return StructConstructorSpec(instantiate=instantiate, fields=tuple(flags))


def _flag(kind: type, name: str, default: Any, hidden: bool) -> StructFieldSpec:
    hint = _hints(kind)[name]
    if hint is Method:
        hint = _METHOD
    elif hidden:
        hint = _hidden(hint)
    # read from the source only when help is asked for
    return StructFieldSpec(name, hint, default, helptext=partial(_help, kind, name, hint))


@cache
def _hints(kind: type) -> Mapping[str, Any]:
    return get_type_hints(kind, include_extras=True)


def _method_flag(name: str, method: Method, cut: bool) -> StructFieldSpec:
    """The settings of a method as flags behind its name: --ceil.epochs."""
    kind = type(method)
    summary = " ".join((inspect.getdoc(kind) or "").partition("\n\n")[0].split())
    return StructFieldSpec(name, _hidden(kind) if cut else kind, method, helptext=summary)


def _hidden(hint: Any) -> Any:
    # a marker, which a type checker takes for a generic alias
    suppress: Any = tyro.conf.Suppress
    return suppress[hint]


def _config(names: Sequence[str], **settings: Any) -> RunConfig:
    """The configuration whose methods came as settings of these names."""
    methods = tuple(settings.pop(name) for name in names)
    return RunConfig(**settings, methods=methods)


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
"""A method by its name; its settings are those of the flags behind that name."""


def _help(kind: type, name: str, hint: Any) -> str:
    """Return a field's docstring on one line, followed by its range if it has one."""
    allowed = range_of(hint)
    docstrings = (_docstrings(base).get(name) for base in kind.__mro__ if is_dataclass(base))
    docstring = next(filter(None, docstrings), "")
    return docstring if allowed is None else f"{docstring} Range: {allowed}."


@cache
def _docstrings(kind: type) -> Mapping[str, str]:
    """The docstrings below the fields that a dataclass itself defines, each on one line."""
    try:
        source = inspect.getsource(kind)
    except (OSError, TypeError):
        return {}
    [definition] = ast.parse(textwrap.dedent(source)).body
    assert isinstance(definition, ast.ClassDef)
    docstrings = {}
    for field, after in pairwise(definition.body):
        match field, after:
            case ast.AnnAssign(target=ast.Name(id=field_name)), ast.Expr(
                value=ast.Constant(value=str(text))
            ):
                docstrings[field_name] = " ".join(text.split())
    return docstrings

"""The help texts of flags: the docstring of each setting as one paragraph, and its range.

tyro keeps the indentation and the line breaks of a docstring; `help_registry` makes a registry for
it that joins the lines. `--help` shows only the settings in COMMON, `--help-all` all.
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
task data_dir encoder lm shots limit bank_limit trade_off min_relevance token_budget system form
text context seed out endpoint
data validation options input output template metric stop max_new_tokens delimiter encoding
skip_bad_rows
method ks trade_offs encoders lm_tokens minutes tolerance
api_key_env chat context_length tokenizer concurrency max_tokens
"""
COMMON = frozenset(_COMMON.split())
"""The settings that the pages for users name: of a run, of a user's file, of a search and of a
server."""

SEARCHED = frozenset({"shots", "trade_off"})
"""The settings of a run that `tune` refuses and does not show, because it searches them."""

SHORTENED = ("RunConfig", "OwnData", "FileOptions", "TuneConfig", "EndpointConfig")
"""The dataclasses of which `--help` shows only the settings in COMMON."""


def help_registry(arguments: list[str]) -> tuple[list[str], ConstructorRegistry]:
    """Return the arguments in tyro's words, and the registry for as much help as they ask for."""
    everything = "--help-all" in arguments
    short = not everything and ("-h" in arguments or "--help" in arguments)
    # settings are left out only when help is printed, because tyro refuses flags that it does not
    # show
    prints_help = short or everything
    left_out = SEARCHED if prints_help and arguments[:1] == ["tune"] else frozenset()
    registry = ConstructorRegistry()
    registry.struct_rule(partial(_of_dataclass, short, left_out))
    return ["--help" if argument == "--help-all" else argument for argument in arguments], registry


def _of_dataclass(
    short: bool, left_out: frozenset[str], info: StructTypeInfo
) -> StructConstructorSpec | None:
    """Return how tyro builds a dataclass from flags; None, for tyro's own way, for generic types and
    for those without a default instance.

    Args:
        short: whether the help shows only the settings in COMMON of the classes in SHORTENED.
        left_out: settings of a run that the help does not show either.
        info: tyro's view of the dataclass, with its default instance.
    """
    is_generic = hasattr(info.type, "__parameters__")
    if not is_dataclass(info.type) or is_generic or not isinstance(info.default, info.type):
        return None
    cut = short and info.type.__name__ in SHORTENED
    settings = {field.name: getattr(info.default, field.name) for field in fields(info.type)}
    instantiate: Callable[..., Any] = info.type
    # hidden flags work, but are not shown
    hidden = {name for name in settings if name not in COMMON} if cut else set()
    if isinstance(info.default, RunConfig):
        hidden |= left_out
    flags = [_flag(info.type, name, default, name in hidden) for name, default in settings.items()]
    if isinstance(info.default, RunConfig):
        # the settings of methods are groups of flags by the methods' names
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
    # docstrings are read from the source only when help is printed
    return StructFieldSpec(name, hint, default, helptext=partial(_help, kind, name, hint))


@cache
def _hints(kind: type) -> Mapping[str, Any]:
    return get_type_hints(kind, include_extras=True)


def _method_flag(name: str, method: Method, cut: bool) -> StructFieldSpec:
    """The settings of a method as flags that begin with its name: --ceil.epochs."""
    kind = type(method)
    summary = " ".join((inspect.getdoc(kind) or "").partition("\n\n")[0].split())
    return StructFieldSpec(name, _hidden(kind) if cut else kind, method, helptext=summary)


def _hidden(hint: Any) -> Any:
    # type checkers take this marker for a generic alias
    suppress: Any = tyro.conf.Suppress
    return suppress[hint]


def _config(names: Sequence[str], **settings: Any) -> RunConfig:
    """A configuration from settings, of which those in `names` are methods."""
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

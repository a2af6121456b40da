"""Mistakes in a command line: a message of one line about the first one, in place of pages of
help."""

from __future__ import annotations

import difflib
import functools
import io
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from typing import Any, TypeVar

from ceil_jax.errors import UserError

Result = TypeVar("Result")

RENAMED = {"--methods": "--method", "--retriever": "--method", "--k": "--shots"}
"""Flags that people type by mistake, and the flags that they mean."""

Parse = Callable[[list[str]], Callable[[], Result]]
"""Reads the words of a command line, and returns the command with its arguments, to be called
later."""


def deferred(command: Callable[..., Result]) -> Callable[..., Callable[[], Result]]:
    """Return a function with the same parameters that returns the command with its arguments,
    without calling it."""

    @functools.wraps(command)
    def bound(*args: Any, **kwargs: Any) -> Callable[[], Result]:
        return functools.partial(command, *args, **kwargs)

    return bound


def parsed(
    arguments: Sequence[str],
    parse: Parse[Result],
    commands: Sequence[str],
    shared: Mapping[str, str],
) -> Callable[[], Result]:
    """Return the command of a command line with its arguments, to be called later.

    Args:
        arguments: the words of the command line.
        parse: reads these words; after a mistake it writes to stderr and raises SystemExit(2).
        commands: the names of all sub-commands.
        shared: flags that are no flags of a sub-command, with what to say about them.

    Raises:
        UserError: the command line has a mistake.
    """
    errors = io.StringIO()
    try:
        with redirect_stderr(errors):
            return parse(list(arguments))
    except SystemExit as end:
        # --help ends with 0
        if not end.code:
            raise
    raise UserError(_mistake(arguments, parse, commands, shared) or _first_sentence(errors))


def flags_of(command: str, parse: Parse[Any]) -> set[str]:
    """Return the flags of a sub-command, read from its full help."""
    text = io.StringIO()
    try:
        with redirect_stdout(text):
            parse([command, "--help-all"])
    except SystemExit:
        pass
    lines = re.findall(r"^[│\s]*(-.*)", text.getvalue(), re.M)
    # the help of a flag begins behind two blanks
    return {flag for line in lines for flag in re.findall(r"--[a-z][\w.-]*", line.split("  ")[0])}


def _mistake(
    arguments: Sequence[str],
    parse: Parse[Any],
    commands: Sequence[str],
    shared: Mapping[str, str],
) -> str:
    """Return a message about an unknown command or flag; "" if all are known."""
    command = arguments[0] if arguments else ""
    if command not in commands:
        problem = f"unknown command {command!r}" if command else "name a command"
        listed = f"{', '.join(commands)} (ceil-jax --help)"
        return f"{problem}{_near(command, commands) or '.'} Known: {listed}"
    known = flags_of(command, parse)
    for word in arguments[1:]:
        flag = word.split("=")[0].replace("_", "-")
        if not re.match(r"--[a-z]", flag) or flag in known:
            continue
        if flag in shared:
            return f"{flag}: {shared[flag]}"
        meant = RENAMED.get(flag, "")
        guess = f"; did you mean {meant}?" if meant in known else _near(flag, known, 0.8)
        if not guess:
            others = [name for name in commands if flag in flags_of(name, parse)]
            guess = f"; it is one of {' and '.join(others)}" if others else _near(flag, known)
        return f"{command} has no flag {flag}{guess} (all flags: ceil-jax {command} --help-all)"
    return ""


def _near(word: str, known: Sequence[str] | set[str], cutoff: float = 0.6) -> str:
    near = difflib.get_close_matches(word, sorted(known), n=1, cutoff=cutoff)
    return f"; did you mean {near[0]}?" if near else ""


def _first_sentence(errors: io.StringIO) -> str:
    """The first sentence of tyro's message, without its box, the causes and the advice."""
    # a terminal without Unicode gets the box in ASCII
    lines = [line.strip(" │|") for line in errors.getvalue().splitlines()[1:]]
    message = " ".join(line for line in lines if line.strip("─-+╭╮╰╯ "))
    message = re.split(r" ?(?:Got errors:|Argument helptext:|For full helptext)", message)[0]
    value = re.match(
        r"Error parsing (\S+): no type matching (\S+) could be instantiated from (.*)\.$", message
    )
    if value:
        kinds = " or ".join(kind.strip("{}") for kind in value[2].split("|"))
        return f"{value[1]}: expected {kinds}, found {value[3]}"
    return message or "the command line cannot be read"

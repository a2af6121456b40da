"""The one exception for bad input, and the wording of "unknown name"."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """Bad input. The message names the file, row or field, what was expected, and how to fix it.

    The command line prints the message alone and exits with code 2; a traceback means a bug of ours.
    """


def unknown_name(kind: str, name: str, known: Iterable[str], hint: str = "") -> UserError:
    """Return the error for a name that is not known, for the caller to raise.

    Args:
        kind: what the name stands for, such as "task".
        name: the name that was given.
        known: the names that would have been accepted.
        hint: a sentence to add at the end; none by default.

    >>> print(unknown_name("task", "sst6", ["sst5", "mrpc"]))
    unknown task 'sst6'; did you mean 'sst5'? Known: mrpc, sst5.
    """
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.4)
    guess = f"; did you mean {near[0]!r}?" if near else "."
    tail = f" {hint}" if hint else ""
    return UserError(f"unknown {kind} {name!r}{guess} Known: {', '.join(names)}.{tail}")

"""What a user did that we cannot carry out, said in one line."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """Bad input: the message names the file, row or field and says what was expected and how to mend it.

    The command line prints the message alone and exits with code 2; a traceback is for our own bugs.
    """


def unknown_name(kind: str, name: str, known: Iterable[str], hint: str = "") -> UserError:
    """`unknown task 'sst6'; did you mean 'sst5'? Known tasks: …`, for an exception to raise."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.4)
    guess = f"; did you mean {near[0]!r}?" if near else "."
    tail = f" {hint}" if hint else ""
    return UserError(f"unknown {kind} {name!r}{guess} Known: {', '.join(names)}.{tail}")

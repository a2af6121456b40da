"""Checks that bad input is refused in one line."""

import pytest

from ceil_jax.errors import UserError


def refused(message: str):
    """Return a context in which a UserError has to be raised whose text the regular expression is
    found in."""
    return pytest.raises(UserError, match=message)

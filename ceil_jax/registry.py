"""One kind of thing by name, to which users may add: the one rule of all registries."""

from __future__ import annotations

from typing import TypeVar

from ceil_jax.errors import UserError, unknown_name

T = TypeVar("T")


class Registry(dict[str, T]):
    """Values by name, in the order of registration.

    `registry[name]` raises a `UserError` that suggests a known name; `name in registry` and `get` work as in a dict.

    Args:
        kind: what a name stands for, such as "retriever"; messages say it.
        hint: a sentence that ends the message about an unknown name; none by default.

    >>> metrics = Registry("metric")
    >>> metrics.register("accuracy", 1)
    >>> metrics["acuracy"]
    Traceback (most recent call last):
        ...
    ceil_jax.errors.UserError: unknown metric 'acuracy'; did you mean 'accuracy'? Known: accuracy.
    """

    def __init__(self, kind: str, hint: str = "") -> None:
        super().__init__()
        self.kind, self.hint = kind, hint

    def register(self, name: str, value: T, *, replace: bool = False) -> None:
        """Add a value.

        Args:
            name: its name.
            value: the value.
            replace: whether it takes the place of one that has this name; by default that is refused.

        Raises:
            UserError: the name is taken.
        """
        if name in self and not replace:
            raise UserError(
                f"a {self.kind} {name!r} is registered already; take another name, or pass replace=True"
            )
        self[name] = value

    def __missing__(self, name: str) -> T:
        raise unknown_name(self.kind, name, self, self.hint)

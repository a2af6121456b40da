"""What may be asked of a server, and what was."""

from __future__ import annotations

import threading

from ceil_jax.errors import UserError


class Budget:
    """A running total of requests and tokens with an optional end. Any thread may use it.

    Requests that are under way when the tokens run out are still answered, so their total may pass the limit
    by what was in flight.
    """

    def __init__(self, where: str, max_requests: int | None = None, max_tokens: int | None = None) -> None:
        self.requests = self.tokens = 0
        self._where, self._max_requests, self._max_tokens = where, max_requests, max_tokens
        self._lock = threading.Lock()

    @property
    def counts_tokens(self) -> bool:
        """Whether the tokens have an end, so that a server must state them."""
        return self._max_tokens is not None

    def ask(self) -> None:
        """Before a request.

        Raises:
            UserError: the budget is spent.
        """
        with self._lock:
            spent = [
                name
                for name, used, most in (
                    ("requests", self.requests, self._max_requests),
                    ("tokens", self.tokens, self._max_tokens),
                )
                if most is not None and used >= most
            ]
            if spent:
                raise UserError(
                    f"{self._where}: the budget of {spent[0]} is spent ({self._total()}); finished work is kept: "
                    f"raise --endpoint.max-{spent[0]} and run the same command again"
                )
            self.requests += 1

    def add(self, tokens: int) -> None:
        """What an answer says was read and written."""
        with self._lock:
            self.tokens += tokens

    def __str__(self) -> str:
        with self._lock:
            return self._total()

    def _total(self) -> str:
        def of(most: int | None) -> str:
            return "" if most is None else f" of {most:,}"

        return (
            f"{self.requests:,}{of(self._max_requests)} requests, "
            f"{self.tokens:,}{of(self._max_tokens)} tokens"
        )

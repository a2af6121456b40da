"""The requests and tokens that a run may spend on a server."""

from __future__ import annotations

import threading

from ceil_jax.errors import UserError


class RequestBudget:
    """A running total of requests and tokens, with an optional limit. Any thread may use it.

    Requests that are under way when the tokens run out are still answered, so the total may pass the limit by
    what was in flight.

    Args:
        where: the server's address, for messages.
        max_requests: the most requests, retries counted; None for no limit.
        max_tokens: the tokens after which nothing more is asked; None for no limit.
    """

    def __init__(self, where: str, max_requests: int | None = None, max_tokens: int | None = None) -> None:
        self.requests = self.tokens = 0
        self._where, self._max_requests, self._max_tokens = where, max_requests, max_tokens
        self._lock = threading.Lock()

    @property
    def limits_tokens(self) -> bool:
        """Whether tokens have a limit, so that a server must state how many it read and wrote."""
        return self._max_tokens is not None

    def ask(self) -> None:
        """Count one request that is about to be sent.

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
        """Count the tokens that an answer says were read and written."""
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

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

    def ask(self) -> None:
        """Count one request that is about to be sent.

        Raises:
            UserError: the budget is spent.
        """
        with self._lock:
            for name, used, most in self._counts():
                if most is not None and used >= most:
                    raise UserError(
                        f"{self._where}: the budget of {name} is spent ({self}); finished work is kept: "
                        f"raise --endpoint.max-{name} and run the same command again"
                    )
            self.requests += 1

    def add(self, tokens: int) -> None:
        """Count the tokens that an answer says were read and written."""
        with self._lock:
            self.tokens += tokens

    def __str__(self) -> str:
        limits = (
            f"{used:,}{'' if most is None else f' of {most:,}'} {name}" for name, used, most in self._counts()
        )
        return ", ".join(limits)

    def _counts(self) -> list[tuple[str, int, int | None]]:
        return [("requests", self.requests, self._max_requests), ("tokens", self.tokens, self._max_tokens)]

"""JSON over HTTP to one server: retries, a deadline, a limit on what runs at once, a budget."""

from __future__ import annotations

import json
import os
import random
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

from tqdm.auto import tqdm

from ceil_jax.errors import UserError
from ceil_jax.lm.openai.budget import Budget
from ceil_jax.lm.openai.config import EndpointConfig

LONGEST_WAIT = 60.0
"""Seconds between two attempts at most, unless the server asks for more."""
LONGEST_RETRY_AFTER = 900.0
"""A server that asks for more than a quarter of an hour will not answer this run."""
IN_PASSING = {408, 425, 429}
"""Statuses below 500 that another attempt may mend."""

In = TypeVar("In")
Out = TypeVar("Out")


class _Passing(Exception):
    """A failure that another attempt may mend."""

    def __init__(self, reason: str, after: float | None = None, reached: bool = True) -> None:
        super().__init__(reason)
        self.after, self.reached = after, reached


class Client:
    """Talks JSON with the server at `base`. Any thread may use it.

    A request fails for good at 4xx (408, 425 and 429 apart), at a redirect, at HTML and at other JSON than an
    object; anything else is tried again after a wait that doubles, drawn between half of it and all of it so
    that clients do not come back together. Where the server says Retry-After, at least so long. A server that
    cannot be reached at all the first time is not tried again.

    Raises:
        UserError: with the server's own message, in which the key, should it stand there, is replaced.
    """

    def __init__(
        self,
        base: str,
        config: EndpointConfig,
        *,
        wait: Callable[[float], Any] | None = None,
    ) -> None:
        try:
            import httpx2
        except ModuleNotFoundError:
            raise UserError("httpx2 is not installed; pip install 'ceil-jax[endpoint]'") from None

        self.base = base
        self.budget = Budget(base, config.max_requests, config.max_tokens)
        self._config = config
        self._key = read_key(config.api_key_env)
        self._stopped = threading.Event()
        self._wait = self._stopped.wait if wait is None else wait
        self._answered = False
        self._errors = httpx2
        self._http = httpx2.Client(
            timeout=config.timeout,
            limits=httpx2.Limits(max_connections=config.concurrency),
            headers={"Authorization": f"Bearer {self._key}"} if self._key else {},
        )

    def get(self, path: str) -> dict[str, Any]:
        """The answer to a GET, which costs nothing."""
        return self._asked("GET", path, None)

    def post(self, path: str, body: dict[str, Any], *, free: bool = False) -> dict[str, Any]:
        """The answer to a POST; `free` of the budget where no model works for it."""
        answer = self._asked("POST", path, body, free)
        if not free:
            self.budget.add(self._tokens(answer, path))
        return answer

    def map(self, work: Callable[[In], Out], items: Sequence[In], what: str) -> list[Out]:
        """`work` of each item, in order, as many at a time as the limit allows.

        At the first failure nothing more is begun, and waits end.
        """
        if len(items) < 2:
            return [work(item) for item in items]
        pool = ThreadPoolExecutor(min(self._config.concurrency, len(items)), "endpoint")
        try:
            with tqdm(total=len(items), desc=what, leave=False, unit="request") as bar:

                def counted(item: In) -> Out:
                    result = work(item)
                    bar.set_postfix_str(str(self.budget), refresh=False)
                    bar.update()
                    return result

                return list(pool.map(counted, items))
        except BaseException:
            self._stopped.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        finally:
            pool.shutdown(wait=True)
            self._stopped.clear()

    def _asked(
        self, method: str, path: str, body: dict[str, Any] | None, free: bool = True
    ) -> dict[str, Any]:
        for attempt in range(1, self._config.attempts + 1):
            if not free:
                self.budget.ask()
            try:
                return self._once(method, path, body)
            except _Passing as failure:
                last = failure
            if not (last.reached or self._answered):
                raise UserError(f"{self._url(path)}: {last}; is the server running there?") from None
            if attempt < self._config.attempts and not self._stopped.is_set():
                self._wait(self._delay(attempt, last.after, path))
        raise UserError(
            f"{self._url(path)}: {last}; given up after {self._config.attempts} attempts. Finished work is "
            "kept: run the same command again once the server answers"
        )

    def _once(self, method: str, path: str, body: dict[str, Any] | None) -> dict[str, Any]:
        deadline = time.monotonic() + self._config.timeout
        late = f"no whole answer within {self._config.timeout:g} s"
        pieces = []
        try:
            with self._http.stream(method, self._url(path), json=body) as response:
                self._answered = True
                # the library's own limit is on each read: a body that trickles would never meet it
                for piece in response.iter_bytes():
                    pieces.append(piece)
                    if time.monotonic() > deadline:
                        raise _Passing(late)
        except self._errors.ConnectError as error:
            raise _Passing(f"cannot connect ({error})", reached=False) from None
        except self._errors.TimeoutException:
            raise _Passing(late) from None
        except self._errors.RequestError as error:
            raise _Passing(f"the connection was lost ({type(error).__name__})") from None
        text = b"".join(pieces).decode(errors="replace")
        return self._read(path, response.status_code, response.headers, text)

    def _read(self, path: str, status: int, headers: Any, text: str) -> dict[str, Any]:
        """The object in a whole answer, or what went wrong."""
        if status in IN_PASSING or status >= 500:
            raise _Passing(f"HTTP {status}: {self._message(text)}", _retry_after(headers.get("retry-after")))
        if 300 <= status < 400:
            raise UserError(
                f"{self._url(path)} redirects to {headers.get('location')}; give that address instead"
            )
        if status >= 400:
            raise UserError(f"{self._url(path)}: HTTP {status}: {self._message(text)}")
        if text.lstrip().startswith("<"):
            raise UserError(
                f"{self._url(path)} answers with a web page, not JSON; give the address of the interface, "
                "which often ends in /v1"
            )
        try:
            answer = json.loads(text)
        except ValueError:
            raise _Passing(f"an answer of {len(text)} characters that is not whole JSON") from None
        if not isinstance(answer, dict) or "error" in answer:
            raise UserError(f"{self._url(path)}: expected a JSON object, found {self._message(text)}")
        return answer

    def _delay(self, attempt: int, after: float | None, path: str) -> float:
        if after is not None and after > LONGEST_RETRY_AFTER:
            raise UserError(
                f"{self._url(path)} asks to come back after {after:,.0f} s; finished work is kept: run the same "
                "command again then"
            )
        back_off = min(self._config.back_off * 2 ** (attempt - 1), LONGEST_WAIT) * random.uniform(0.5, 1)
        return max(back_off, after or 0.0)

    def _tokens(self, answer: dict[str, Any], path: str) -> int:
        usage = answer.get("usage") or {}
        parts = [usage.get(name) or 0 for name in ("prompt_tokens", "completion_tokens")]
        total = usage.get("total_tokens") or sum(parts)
        if not total and self.budget.counts_tokens:
            raise UserError(
                f"{self._url(path)} does not state its usage, so tokens cannot be counted; "
                "use --endpoint.max-requests in place of --endpoint.max-tokens"
            )
        return int(total)

    def _message(self, text: str) -> str:
        """What an error's body says, in one line of at most 200 characters, without the key."""
        try:
            content = json.loads(text)
        except ValueError:
            content = None
        said: Any = text
        if isinstance(content, dict):
            error = content.get("error")
            inner = error.get("message") if isinstance(error, dict) else error
            said = inner or content.get("message") or content.get("detail") or text
        line = " ".join(str(said).split())
        if self._key:
            line = line.replace(self._key, "***")
        return line[:200] or "no message"

    def _url(self, path: str) -> str:
        return self.base + path if path != "/tokenize" else self.base.removesuffix("/v1") + path


def read_key(variable: str | None) -> str | None:
    """The key in the environment variable of that name; None where no name is given.

    Raises:
        UserError: the variable is not set, or holds what cannot stand in a header.
    """
    if variable is None:
        return None
    key = os.environ.get(variable, "").strip()
    if not key:
        raise UserError(f"the environment variable {variable} is not set; it should hold the endpoint's key")
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise UserError(f"the environment variable {variable} holds characters that no key has")
    return key


def _retry_after(value: str | None) -> float | None:
    """Seconds: a header holds a number of them or a date; None where it holds neither."""
    if value is None:
        return None
    try:
        return max(float(value), 0.0)
    except ValueError:
        pass
    try:
        return max(parsedate_to_datetime(value).timestamp() - time.time(), 0.0)
    except ValueError:
        return None

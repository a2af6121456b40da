"""Requests to one server by the openai package's client, many at a time.

They are within a budget, and each has a deadline.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import nullcontext
from functools import cache
from typing import Any, TypeVar

from ceil_jax.errors import UserError
from ceil_jax.lm.openai.config import EndpointConfig, headers_of
from ceil_jax.store.progress import bar

try:
    import openai
except ModuleNotFoundError as missing:
    raise UserError(f"{missing.name} is not installed; pip install 'ceil-jax[endpoint]'") from None

log = logging.getLogger(__name__)

KEPT = "Finished work is kept: run the same command again once the server answers"
HINTS: Mapping[int, str] = {
    400: "If a text is too long, give --endpoint.context-length or a smaller --token-budget; a field "
    "that the server does not take is left out by --endpoint.fields NAME=null",
    401: "--endpoint.api-key-env NAME names the environment variable with this server's key",
    403: "--endpoint.api-key-env NAME names the environment variable with this server's key",
    404: "An address often ends in /v1, and a model is named as the server names it: "
    "http://host:port/v1#model",
    413: "Send less at a time: --endpoint.batch 1, or a smaller --token-budget",
    422: "Send less at a time by --endpoint.batch, or leave out a field that the server does not "
    "take by --endpoint.fields NAME=null",
    429: "The limit did not pass in two minutes: a smaller --endpoint.concurrency stays below it. "
    + KEPT,
}
"""HTTP status → what the user can do."""
CONNECT_SECONDS = 10.0
"""Seconds that a server may take to accept a connection."""
FIRST_ATTEMPTS = 3
"""Number of attempts at the first requests, which find out whether a server is there: few, so that
a failure is reported soon."""
BREACH = "; the server does not follow the OpenAI API"
"""The end of error messages about incomplete answers."""
HIDDEN = "***"
"""The text that replaces a key."""
LONG_KEY = 16
"""The length from which a key is unlikely to occur in an answer by chance."""
BYTES_A_TOKEN = 4
"""The estimated number of UTF-8 bytes of a token."""
SENT = (
    "host",
    "accept",
    "accept-encoding",
    "connection",
    "content-type",
    "content-length",
    "user-agent",
)
"""The headers that are sent besides those of the settings. The openai package adds others, some
from environment variables that are meant for another server."""
_WORDS = 500
"""The maximum number of characters that an error message quotes from a server."""

In = TypeVar("In")
Out = TypeVar("Out")


class Refused(UserError):
    """A refusal by the server; or, with status 200, an answer that does not follow the interface.

    Args:
        message: the message for the user.
        status: the HTTP status.
    """

    def __init__(self, message: str, status: int = 200) -> None:
        super().__init__(message)
        self.status = status


class Client:
    """Sends requests to a server, `config.concurrency` at a time. Any thread may use it.

    The openai package tries temporary failures again: 408, 409, 429 and 5xx, time-outs and lost
    connections. Everything else fails at once, in one line: the server's own words, without the
    key, and what the user can do (`HINTS`). Requests run in an event loop in a thread of its own.

    Raises:
        UserError: from every method; here, if the key is not set, or a proxy of the environment
            cannot be used.
    """

    def __init__(self, base: str, config: EndpointConfig) -> None:
        self.base = base
        self.requests = 0
        self.tokens = 0
        self.shapes_answers = config.shapes_answers
        self._config = config
        self._told: set[str] = set()
        """Warnings that were logged, each once."""
        self._connect()

    def _connect(self) -> None:
        """Read the key and create the HTTP client; after unpickling, the other process creates its own."""
        config = self._config
        self._headers, self._secrets = headers_of(config)
        self._worker = threading.local()
        self._running: set[Future[Any]] = set()
        self._places = asyncio.Semaphore(config.concurrency)
        hooks: Mapping[str, list[Callable[..., Any]]] = {
            "request": [self._before_attempt],
            "response": [self._behind_attempt],
        }
        timeout = openai.Timeout(config.timeout, connect=min(CONNECT_SECONDS, config.timeout))
        try:
            http = openai.DefaultAsyncHttpxClient(
                timeout=timeout, follow_redirects=False, event_hooks=hooks
            )
        except Exception:
            # the message of a proxy's address that cannot be read may repeat a password, and its
            # errors have no class in common
            raise UserError(
                f"the environment names a proxy that cannot be used for {self.base}; put the host "
                "into NO_PROXY if it is reached without one, or unset ALL_PROXY, HTTP_PROXY and "
                "HTTPS_PROXY"
            ) from None
        self._openai = openai.AsyncOpenAI(
            base_url=self.base,
            # `_before_attempt` adds the key; without arguments, the package would look for others
            api_key="none",
            admin_api_key="",
            timeout=timeout,
            http_client=http,
        )

    def __getstate__(self) -> dict[str, Any]:
        """The client to be pickled, without the key: the other process reads its own environment."""
        made = ("_headers", "_secrets", "_worker", "_running", "_places", "_openai")
        return {name: value for name, value in vars(self).items() if name not in made}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._connect()

    def __deepcopy__(self, memo: dict[int, Any]) -> Client:
        """The client itself, so that copies share its budget."""
        return self

    @property
    def tokens_read(self) -> int:
        """The number of tokens that the server has reported.

        Inside `each`, only those of the current worker count.
        """
        return getattr(self._worker, "tokens", self.tokens)

    def ask(
        self,
        path: str,
        body: Mapping[str, Any] | None,
        read: Callable[[Any], Out],
        attempts: int | None = None,
    ) -> Out:
        """Return `read(answer)` of the server's JSON answer.

        Args:
            path: the path after the base address.
            body: the body of a POST; None for a GET.
            read: takes what is needed from the answer. If something is missing there or has a wrong
                type, a `Refused` is raised.
            attempts: the most attempts; by default those of the settings.
        """
        [result] = self.ask_all(path, [(body, read)], attempts=attempts)
        return result

    def ask_all(
        self,
        path: str,
        asked: Sequence[tuple[Mapping[str, Any] | None, Callable[[Any], Out]]],
        what: str = "",
        attempts: int | None = None,
    ) -> list[Out]:
        """Return the results of `ask` for pairs of a body and its `read`, in order.

        The first failure ends the others. `what` is the name in the progress bar.
        """
        retries = (attempts or self._config.attempts) - 1

        in_worker = hasattr(self._worker, "tokens")
        # what calls the workers of `each` has a bar
        shown = bar(len(asked), what) if len(asked) > 1 and not in_worker else nullcontext()

        async def one(
            body: Mapping[str, Any] | None, read: Callable[[Any], Out]
        ) -> tuple[Out, int]:
            result = await self._asked(path, body, read, retries)
            if progress is not None:
                progress.update()
            return result

        async def all_of_them() -> list[tuple[Out, int]]:
            tasks = [asyncio.create_task(one(body, read)) for body, read in asked]
            try:
                return await asyncio.gather(*tasks)
            finally:
                for task in tasks:
                    task.cancel()

        with shown as progress:
            read = self._run(all_of_them())
        if in_worker:
            self._worker.tokens += sum(tokens for _, tokens in read)
        return [result for result, _ in read]

    def _run(self, work: Coroutine[Any, Any, Out]) -> Out:
        """Run work in the event loop and return its result; cancel the work if the caller is interrupted."""
        future = asyncio.run_coroutine_threadsafe(work, _event_loop())
        self._running.add(future)
        try:
            return future.result()
        finally:
            future.cancel()
            self._running.discard(future)

    def each(self, work: Callable[[In], Out], items: Sequence[In]) -> Iterator[tuple[int, Out]]:
        """Run `work` on all items concurrently, and yield the index and the result of each as it ends.

        `work` asks this client. As many items are worked on at a time as the configuration allows.

        After the first failure nothing more is started; running work is awaited and yielded before
        the failure is raised.
        """

        def start() -> None:
            self._worker.tokens = 0

        failure: BaseException | None = None
        with ThreadPoolExecutor(self._config.concurrency, initializer=start) as pool:
            numbers: dict[Future[Out], int] = {
                pool.submit(work, item): number for number, item in enumerate(items)
            }
            try:
                for future in as_completed(numbers):
                    if future.cancelled():
                        continue
                    error = future.exception()
                    if error is None:
                        yield numbers[future], future.result()
                    elif failure is None:
                        failure = error
                        for waiting in numbers:
                            waiting.cancel()
            except BaseException:
                # an interruption, or whoever reads the results has failed
                pool.shutdown(wait=False, cancel_futures=True)
                while not all(future.done() for future in numbers):
                    for running in list(self._running):
                        running.cancel()
                    time.sleep(0.02)  # a worker may be about to ask
                raise
        if failure is not None:
            raise failure

    # in the event loop

    async def _before_attempt(self, request: Any) -> None:
        """Give a request the headers of the settings and no others, and count it in the budget."""
        for name in set(request.headers) - set(SENT):
            del request.headers[name]
        request.headers.update(self._headers)
        if request.method == "POST":
            limits = {"requests": self._config.max_requests, "tokens": self._config.max_tokens}
            for name, most in limits.items():
                if most is not None and getattr(self, name) >= most:
                    raise UserError(
                        f"{self.base}: the budget of {name} is spent ({self.requests:,} requests, "
                        f"{self.tokens:,} tokens); finished work is kept: raise "
                        f"--endpoint.max-{name} and run the same command again"
                    )
            self.requests += 1

    async def _behind_attempt(self, response: Any) -> None:
        if response.status_code == 429:
            self._tell_once(f"{self.base}: HTTP 429; waiting for the limit to pass")

    def _tell_once(self, line: str) -> None:
        if line not in self._told:
            self._told.add(line)
            log.warning("%s", line)

    async def _asked(
        self, path: str, body: Mapping[str, Any] | None, read: Callable[[Any], Out], retries: int
    ) -> tuple[Out, int]:
        """Return the result of `read`, and the tokens of the answer."""
        text = await self._text(path, body, retries)
        where = f"{self.base}{path}"
        try:
            answer = json.loads(text)
        except (ValueError, RecursionError):
            shown = one_line(text, 60) or "nothing"
            raise Refused(f"{where}: an answer that is not JSON: {shown}{BREACH}") from None
        try:
            tokens = 0 if body is None else self._counted(path, body, text, answer)
            return read(answer), tokens
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as odd:
            reason = self._clean(odd)
            if isinstance(odd, KeyError):
                # what is there in its place may say why
                reason = f"no {odd} in the answer, {self._clean(text)}"
            raise Refused(f"{where}: {reason}{BREACH}") from None

    async def _text(self, path: str, body: Mapping[str, Any] | None, retries: int) -> str:
        """The text of an answer, in which long keys are hidden; a short one may be a word of it."""
        where = f"{self.base}{path}"
        seconds = 2 * self._config.timeout
        options: openai.RequestOptions = {"max_retries": retries}
        try:
            async with self._places, asyncio.timeout(seconds):
                if body is None:
                    text = await self._openai.get(path, cast_to=str, options=options)
                else:
                    sent = self._config.body(body)
                    text = await self._openai.post(path, cast_to=str, body=sent, options=options)
                return self._without_keys(text.removeprefix("\ufeff"), LONG_KEY)
        except UnicodeEncodeError as error:
            half = error.object[error.start : error.start + 1]
            raise UserError(
                f"{where}: a text has {half!r}, one half of a character, which cannot be sent; take "
                "it out of the data"
            ) from None
        except openai.APIStatusError as error:
            status = error.status_code
            if error.code == "content_filter" and path == "/chat/completions":
                # a filter refuses this text, which an answer says in this form
                return '{"choices": [{"finish_reason": "content_filter"}]}'
            inner = error.body.get("message") if isinstance(error.body, dict) else None
            words = inner if isinstance(inner, str) and inner.strip() else error.response.text
            said = self._clean(words) or "no message"
            raise Refused(f"{where}: HTTP {status}: {said}. {hint_for(status)}", status) from None
        except TimeoutError:
            raise UserError(
                f"{where}: no whole answer within {seconds:g} s; --endpoint.timeout allows more. "
                f"{KEPT}"
            ) from None
        except openai.APITimeoutError as error:
            silent = type(error.__cause__).__name__
            raise UserError(
                f"{where}: no sign of an answer, at each of {retries + 1} attempts ({silent}); is "
                f"the server running there? --endpoint.timeout waits longer for an answer. {KEPT}"
            ) from None
        except openai.APIConnectionError as error:
            cause = self._clean(error.__cause__ or error)
            raise UserError(
                f"{where}: the connection failed ({cause}); is the server running there, and is it "
                f"{self.base.partition(':')[0]}? {KEPT}"
            ) from None

    def _counted(self, path: str, body: Mapping[str, Any], text: str, answer: Any) -> int:
        """Add the tokens of an answer to the budget.

        They are those that the server states, else one for four bytes of the request and of the
        answer.
        """
        tokens = stated_tokens(answer)
        if not tokens:
            self._tell_once(
                f"{self.base}{path} does not state its usage: the tokens read and written are "
                f"estimated, one for {BYTES_A_TOKEN} bytes"
            )
            sent = len(json.dumps(body))
            # vectors are written as text, and are not tokens
            received = 0 if path == "/embeddings" else len(text)
            tokens = -(-(sent + received) // BYTES_A_TOKEN)
        self.tokens += tokens
        return tokens

    def _clean(self, message: Any) -> str:
        # keys are hidden before the text is cut, because half a key would not be found
        return one_line(self._without_keys(_shown(message)), _WORDS)

    def _without_keys(self, text: str, shortest: int = 1) -> str:
        for secret in self._secrets:
            if len(secret) >= shortest:
                text = text.replace(secret, HIDDEN)
        return text


@cache
def _event_loop() -> asyncio.AbstractEventLoop:
    """The event loop of all clients, in a thread of its own.

    Callers may have a loop in theirs, as notebooks do.
    """
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="requests to servers", daemon=True).start()
    return loop


def hint_for(status: int) -> str:
    """Return what the user can do after a refusal with an HTTP status."""
    if status < 400:
        # not followed, because it may lead to another host
        return "The server has moved: give its new address"
    return HINTS.get(status, KEPT if status >= 500 else HINTS[400])


def in_order(entries: Sequence[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    """Return the `count` entries of an answer in the order of their indices.

    A ValueError if these do not match.
    """
    by_index = {entry.get("index", number): entry for number, entry in enumerate(entries)}
    if len(entries) != count or set(by_index) != set(range(count)):
        raise ValueError(
            f"{len(entries)} answers with indices {list(by_index)[:9]} for {count} texts"
        )
    return [by_index[number] for number in range(count)]


def stated_tokens(answer: Any) -> int:
    """Return the number of tokens, read and generated, in the usage of an answer.

    0 if it has none.
    """
    usage = answer.get("usage") or {}
    return count_of(usage, "total") or count_of(usage, "prompt") + count_of(usage, "completion")


def count_of(usage: Any, kind: str) -> int:
    """Return how many tokens of a kind a server's usage states; 0 if it states none.

    A ValueError if the number is negative or implausibly large.
    """
    number = int(usage.get(f"{kind}_tokens") or 0)
    if not 0 <= number < 2**31:
        raise ValueError(f"a usage of {one_line(number, 40)} tokens")
    return number


def one_line(value: Any, limit: int = 200) -> str:
    """Return a value from a server as one printable line of at most `limit` characters."""
    line = " ".join(_shown(value).split())[:limit]
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in line)


def _shown(value: Any) -> str:
    try:
        return str(value)
    except (RecursionError, ValueError):
        # nested too deeply, or a number of thousands of digits
        return f"a {type(value).__name__} that cannot be shown"

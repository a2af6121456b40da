"""JSON requests to one server: many at a time, within a budget, each with a deadline."""

from __future__ import annotations

import logging
import math
import os
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from functools import partial
from typing import Any, TypeVar
from urllib.parse import urlsplit

from ceil_jax.errors import UserError
from ceil_jax.lm.openai.address import Address
from ceil_jax.lm.openai.config import EndpointConfig, read_key
from ceil_jax.lm.openai.error_bodies import body_of, error_message
from ceil_jax.lm.openai.http import HIDDEN, PAID, FailedAnswer, Http, Refused, RequestBudget
from ceil_jax.lm.openai.listing import Listed, listed_model, one_line, whole_number
from ceil_jax.store.progress import bar as progress_bar

try:
    import httpx2
    import openai
except ModuleNotFoundError as missing:
    raise UserError(f"{missing.name} is not installed; pip install 'ceil-jax[endpoint]'") from None

log = logging.getLogger(__name__)

_OTHERWISE = {
    "max_tokens": "max_completion_tokens",
    "temperature": "",
    "seed": "",
    "stop": "",
    "stream": "",
    "encoding_format": "",
}
"""Fields that some servers refuse → the field to send instead; "" for none."""
_PATHS = ("", "/openai/v1", "/api/v1")
"""Paths of interfaces that are not under /v1: Infinity's and Perplexity's, Azure's and Groq's,
OpenRouter's."""
BREACH = "; the server does not keep to the interface"
"""The end of messages about incomplete answers."""
CUT = re.compile(r"output limit|max_(completion_)?tokens.{0,40}reached")
"""The errors of servers that give none of an answer which the token limit cuts."""
BYTES_A_TOKEN = 4
"""The estimated number of UTF-8 bytes of a token."""
_KEYS = ("OPENAI_API_KEY", "AZURE_OPENAI_API_KEY", "OPENROUTER_API_KEY", "LITELLM_API_KEY")
"""Environment variables that often hold keys; a message names them, but they are never read."""

In = TypeVar("In")
Out = TypeVar("Out")


class Client:
    """Sends requests to the server of an address. Any thread may use it.

    The openai package retries temporary failures: 408, 409, 429 and 5xx, time-outs, lost
    connections and incomplete JSON. It waits as long as the server's Retry-After says, and gives up
    if that is more than two minutes. Everything else fails at once: other 4xx statuses, redirects,
    HTML, a spent quota, and a server that cannot be reached the first time.

    Raises:
        UserError: from every method, with the server's message without the key; here, if the key is
            not set, or a proxy of the environment cannot be used.
    """

    def __init__(self, address: Address, config: EndpointConfig) -> None:
        self.base = address.base
        self.budget = RequestBudget(self.base, config)
        self._address = address
        self._config = config
        self._spelt: dict[str, str] = {}
        """Fields that the server has refused → the names under which they are sent instead."""
        self._estimates = False
        self._connect()

    def _connect(self) -> None:
        """Read the key and make what sends the requests, which another process makes anew."""
        config = self._config
        self._key = read_key(config.api_key_env)
        self._http = Http(self.base, self.budget, config, self._key)
        self._worker = threading.local()
        version = self._address.api_version
        self._openai = openai.OpenAI(
            base_url=self.base,
            # `Http` sends the key; without an argument, the package would look for one
            api_key="none",
            max_retries=config.attempts - 1,
            timeout=self._http.timeout,
            http_client=self._http,
            default_query=None if version is None else {"api-version": version},
        )

    def __getstate__(self) -> dict[str, Any]:
        """The client to be pickled, without the key: the other process reads its own environment."""
        made = ("_key", "_http", "_worker", "_openai")
        return {name: value for name, value in vars(self).items() if name not in made}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._connect()

    def __deepcopy__(self, memo: dict[int, Any]) -> Client:
        """The client itself, so that copies share its budget."""
        return self

    def post(self, path: str, body: dict[str, Any], read: Callable[[Any], Out]) -> Out:
        """Send a POST request, count the tokens of its answer, and return `read(answer)`.

        If the server refuses a field of `_OTHERWISE`, this and every later request is sent with the
        other name of the field, or without it. If `read` fails because something is missing or has
        a wrong type, a `Refused` is raised.
        """
        sent = self._accepted(path, body)
        try:
            answer = self._asked(path, sent)
        except Refused as refusal:
            if not self._gives_way(refusal, path, sent):
                raise
            return self.post(path, body, read)
        if path.endswith(PAID):
            self._count(path, body, answer)
        return self._read(path, answer, read)

    def _accepted(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """A body with the names of fields that the server accepts, without those that it refuses
        under every name."""
        fields = dict(body)
        if path.endswith("/completions"):
            # some gateways stream unless told otherwise
            fields["stream"] = False
        accepted = {}
        for name, value in fields.items():
            accepted_name = self._spelt.get(name, name)
            if accepted_name:
                accepted[accepted_name] = value
        return accepted

    def _gives_way(self, refusal: Refused, path: str, sent: dict[str, Any]) -> bool:
        """Return whether the server has refused a field that can be sent under another name or left
        out; note that it is from now on."""
        message = refusal.said
        name = next(
            (name for name in _OTHERWISE if name in sent and re.search(rf"\b{name}\b", message)),
            None,
        )
        if refusal.status not in (400, 422) or name is None or CUT.search(message):
            return False
        # of a field that keeps its name, the number may be what is refused
        has_new_name = path.startswith("/chat") or "max_completion_tokens" in message
        if name == "max_tokens" and not has_new_name:
            return False
        if name not in self._spelt:
            self._spelt[name] = _OTHERWISE[name]
            log.warning(
                "%s; from now on %s is sent in its place", refusal, _OTHERWISE[name] or "nothing"
            )
        return True

    def _count(self, path: str, body: dict[str, Any], answer: Any) -> None:
        """Add the tokens of an answer to the budget: those that the server states, else an
        estimate."""
        tokens = self._read(path, answer, stated_tokens)
        if not tokens:
            tokens = estimated_tokens(body) + estimated_tokens(answer)
            if not self._estimates:
                self._estimates = True
                log.warning(
                    "%s%s does not state its usage: the tokens read and written are estimated, "
                    "one for %g bytes",
                    self.base,
                    path,
                    BYTES_A_TOKEN,
                )
        self.budget.add(tokens)

    def _read(self, path: str, answer: Any, read: Callable[[Any], Out]) -> Out:
        try:
            return read(answer)
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as odd:
            if isinstance(odd, FailedAnswer):
                raise Refused(f"{self.base}{path}: {self._clean(odd)}. {_GIVEN_UP}") from None
            reason = self._clean(odd)
            if isinstance(odd, KeyError):
                # what is there in its place may say why
                reason = f"no {odd} in the answer, {self._clean(error_message(answer))}"
            raise Refused(f"{self.base}{path}: {reason}{BREACH}") from None

    def listed(self, model: str | None) -> Listed:
        """Return the server's model of a name, or its only model if `model` is None.

        If a server has no list of models, or an unusual one, the name is used unchecked.
        """
        try:
            return self.at_its_path(lambda: self._listed(model))
        except Refused as refusal:
            if refusal.status == 401:
                raise
            if model is None:
                raise UserError(
                    f"{self.base} lists no models; name one, as in {self.base}#model-name"
                ) from None
        return Listed(model)

    def at_its_path(self, ask: Callable[[], Out]) -> Out:
        """Return `ask()`. If there is nothing under /v1, it is asked under the server's root and, if
        the address has no other path, under `_PATHS`; all later requests are sent to where it was
        answered.
        """
        try:
            return ask()
        except Refused as refusal:
            base = self.base
            if refusal.status != 404 or not base.endswith("/v1"):
                raise
            for path in _PATHS if urlsplit(base).path == "/v1" else ("",):
                self.base = base.removesuffix("/v1") + path
                try:
                    return ask()
                except Refused as other:
                    if other.status in (401, 403):
                        raise
            self.base = base
            raise

    def _listed(self, model: str | None) -> Listed:
        read = partial(listed_model, model=model, base=self.base)
        return self._read("/models", self._asked("/models"), read)

    @property
    def tokens_read(self) -> int:
        """The number of tokens that the server has reported; inside `each`, only for the current
        worker."""
        return self.budget.tokens_of_thread if self._works else self.budget.tokens

    @property
    def _works(self) -> bool:
        """Whether the current thread is a worker thread of `each`."""
        return getattr(self._worker, "works", False)

    def map(self, work: Callable[[In], Out], items: Sequence[In], what: str) -> list[Out]:
        """Return the result of `work` for each item, in order, with as many at a time as the
        configuration allows.

        After the first failure, nothing more is started. `what` is the name in the progress bar.
        """
        # a worker of `each` does not start workers of its own
        if len(items) < 2 or self._works:
            return [work(item) for item in items]
        done: dict[int, Out] = {}
        with progress_bar(len(items), what) as bar:
            for number, result in self.each(work, items):
                done[number] = result
                bar.set_postfix_str(str(self.budget), refresh=False)
                bar.update()
        return [done[number] for number in range(len(items))]

    def each(self, work: Callable[[In], Out], items: Sequence[In]) -> Iterator[tuple[int, Out]]:
        """Yield the number and the result of `work` for each item as they finish, with as many at a
        time as the configuration allows.

        After the first failure nothing more is started; running work is awaited and yielded before
        the failure is raised.
        """

        def start() -> None:
            self._worker.works = True

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
                        self._http.stopped.set()
                        for waiting in numbers:
                            waiting.cancel()
            finally:
                # also after an interrupt
                self._http.stopped.set()
                pool.shutdown(cancel_futures=True)
                self._http.stopped.clear()
        if failure is not None:
            raise failure

    def _asked(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """The server's JSON answer to a POST of the body, or to a GET without one."""
        url = self.base + path if path in _UNDER_BASE else self.base.removesuffix("/v1") + path
        ask = self._openai.get if body is None else partial(self._openai.post, body=body)
        try:
            response = ask(url, cast_to=httpx2.Response)
        except openai.APIStatusError as error:
            response = error.response
            status = error.status_code
            said = self._without_key(error_message(body_of(response.text)))
            failure = f"HTTP {status}: {one_line(said) or 'no message'}"
            for header, meaning in (
                ("location", "redirects to"),
                ("retry-after", "asks to come back after"),
            ):
                if header in response.headers:
                    failure += f"; it {meaning} {self._clean(response.headers[header])}"
            passes = status in (408, 409, 429) or status >= 500
            if passes and response.headers.get("x-should-retry") != "false":
                raise Refused(f"{url}: {failure}. {_GIVEN_UP}", status, said) from None
            raise Refused(f"{url}: {failure}{self._about_key(status)}", status, said) from None
        except openai.APITimeoutError:
            failure = f"no whole answer within {self._config.timeout:g} s"
        except openai.APIConnectionError as error:
            failure = f"the connection failed ({self._clean(error.__cause__)})"
        else:
            answer = response.extensions["json"]
            if isinstance(answer, dict) and answer.get("error"):
                said = self._without_key(error_message(answer))
                raise Refused(f"{url}: {one_line(said)}", said=said)
            return answer
        raise UserError(f"{url}: {failure}. {_GIVEN_UP}")

    def _about_key(self, status: int) -> str:
        """Advice to add to the message of a server that wants a key."""
        if status not in (401, 403):
            return ""
        if self._key is not None:
            return f"; the key in {self._config.api_key_env} is sent and not accepted"
        known = next((name for name in _KEYS if os.environ.get(name)), None)
        example = f" {known}, which is set here" if known else " NAME of a variable that holds it"
        return f"; no key was sent: give --endpoint.api-key-env{example}"

    def _clean(self, message: Any) -> str:
        # the key is removed before the text is cut, because half a key would not be found
        return one_line(self._without_key(one_line(message, _WHOLE)))

    def _without_key(self, text: str) -> str:
        return text.replace(self._key, HIDDEN) if self._key else text


_GIVEN_UP = "Given up; finished work is kept: run the same command again once the server answers"
_WHOLE = 100_000
"""The most characters of a message that are searched, before it is cut for display."""
_TEXTS = ("prompt", "content", "input", "text", "reasoning_content")
"""The fields of requests and answers whose texts count as tokens."""
_UNDER_BASE = ("/models", "/completions", "/chat/completions", "/embeddings")
"""The paths below the base address; others, such as /tokenize, are beside /v1."""


def in_order(entries: Sequence[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    """Return the `count` entries of an answer in the order of their indices. A ValueError if these
    do not match."""
    by_index = {entry.get("index", number): entry for number, entry in enumerate(entries)}
    if len(entries) != count or set(by_index) != set(range(count)):
        raise ValueError(
            f"{len(entries)} answers with indices {list(by_index)[:9]} for {count} texts"
        )
    return [by_index[number] for number in range(count)]


def stated_tokens(answer: Any) -> int:
    """Return the number of tokens, read and generated, in the usage of an answer; 0 if it has
    none."""
    usage = answer.get("usage") or {}

    def tokens(kind: str) -> int:
        return whole_number(usage.get(f"{kind}_tokens") or 0, "usage of")

    return tokens("total") or tokens("prompt") + tokens("completion")


def estimated_tokens(value: Any, name: str = "") -> int:
    """Return an estimate of the tokens of the texts in a request or an answer.

    >>> estimated_tokens({"model": "a-long-name", "prompt": ["seven b", "seven b"]})
    4
    """
    if isinstance(value, str):
        if name not in _TEXTS:
            return 0
        return math.ceil(len(value.encode(errors="replace")) / BYTES_A_TOKEN)
    if isinstance(value, list):
        return sum(estimated_tokens(item, name) for item in value)
    if isinstance(value, dict):
        return sum(estimated_tokens(item, inner) for inner, item in value.items())
    return 0

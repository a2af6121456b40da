"""Requests of JSON to one server, many at a time, within a budget; each answer's body by a
deadline."""

from __future__ import annotations

import hashlib
import logging
import re
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from typing import Any, TypeVar

from ceil_jax.errors import UserError, unknown_name
from ceil_jax.lm.openai.config import EndpointConfig, read_key
from ceil_jax.store.progress import bar as progress_bar

try:
    import httpx2
    import openai
except ModuleNotFoundError as missing:
    raise UserError(f"{missing.name} is not installed; pip install 'ceil-jax[endpoint]'") from None

log = logging.getLogger(__name__)

_PAID = ("/completions", "/embeddings")
"""The ends of paths behind which a model works; other requests are not counted."""
_SENT = {
    "host",
    "accept",
    "accept-encoding",
    "connection",
    "content-type",
    "content-length",
    "user-agent",
}
"""The headers that are sent, with the key's. The openai package adds others, some from environment
variables that are meant for another server."""
_OTHERWISE = {"max_tokens": "max_completion_tokens", "temperature": "", "seed": "", "stop": ""}
"""Fields that some servers refuse, and the field to send in place of each; "" for none."""
_LENGTHS = ("max_model_len", "context_length", "context_window")
"""Names that servers give to a model's context length."""


class Refused(UserError):
    """A refusal of the server with its HTTP status, or (status 200) an answer that is not of the
    interface."""

    def __init__(self, message: str, status: int = 200) -> None:
        super().__init__(message)
        self.status = status


In = TypeVar("In")
Out = TypeVar("Out")


class RequestBudget:
    """Running totals of requests and tokens, with optional limits. Any thread may use it.

    Requests that are under way when the tokens run out are still answered, so the total may pass
    the limit.
    """

    def __init__(self, where: str, config: EndpointConfig) -> None:
        self.requests = self.tokens = 0
        self._where, self._limits = (
            where,
            {"requests": config.max_requests, "tokens": config.max_tokens},
        )
        self._lock = threading.Lock()

    def ask(self) -> None:
        """Count one request that is about to be sent, or raise `UserError` because the budget is
        spent."""
        with self._lock:
            for name, most in self._limits.items():
                if most is not None and getattr(self, name) >= most:
                    raise UserError(
                        f"{self._where}: the budget of {name} is spent ({self}); finished work is "
                        f"kept: raise --endpoint.max-{name} and run the same command again"
                    )
            self.requests += 1

    def add(self, tokens: int) -> None:
        with self._lock:
            self.tokens += tokens

    def __str__(self) -> str:
        return ", ".join(
            f"{getattr(self, name):,}{'' if most is None else f' of {most:,}'} {name}"
            for name, most in self._limits.items()
        )


class Http(httpx2.Client):
    """The HTTP client of an `openai.OpenAI`, which calls `send` for each attempt and repeats those
    that fail.

    An error of httpx2 is followed by another attempt; a `UserError` is not.
    """

    def __init__(self, budget: RequestBudget, config: EndpointConfig, key: str | None) -> None:
        super().__init__(
            timeout=config.timeout, limits=httpx2.Limits(max_connections=config.concurrency)
        )
        self.stopped = threading.Event()
        self._budget, self._seconds, self._key = budget, config.timeout, key
        self._connected = False

    def send(self, request: httpx2.Request, **settings: Any) -> httpx2.Response:
        """Return the whole response to a request, and the JSON of a success as an extension of
        it."""
        if self.stopped.is_set():
            raise UserError(f"{request.url}: not asked, because another request has failed")
        request.headers = httpx2.Headers(
            {n: value for n, value in request.headers.items() if n in _SENT}
        )
        if self._key is not None:
            request.headers["authorization"] = f"Bearer {self._key}"
        if request.url.path.endswith(_PAID):
            self._budget.ask()
        end = time.monotonic() + self._seconds
        try:
            response = super().send(request, **{**settings, "stream": True})
        except httpx2.ConnectError as error:
            if self._connected:
                raise
            said = f"{request.url}: cannot connect ({error}); is the server running there?"
            raise UserError(said) from None
        self._connected = True
        pieces = []
        with closing(response):
            for piece in response.iter_raw():
                pieces.append(piece)
                if time.monotonic() > end:
                    raise httpx2.ReadTimeout("the deadline has passed", request=request)
        whole = httpx2.Response(
            response.status_code,
            headers=response.headers,
            content=b"".join(pieces),
            request=request,
        )
        if whole.is_success:
            try:
                whole.extensions["json"] = whole.json()
            except ValueError:
                if whole.content.lstrip().startswith(b"<"):
                    raise UserError(
                        f"{request.url} answers with a web page, not JSON; give the address of the "
                        "interface, which often ends in /v1"
                    ) from None
                said = f"an answer of {len(whole.content)} bytes that is not whole JSON"
                raise httpx2.RemoteProtocolError(said, request=request) from None
        return whole


class Client:
    """Asks the server at `base`, an address without a slash at its end. Any thread may use it.

    The openai package repeats what fails in passing: 408, 409, 429 and 5xx, time-outs, lost
    connections and answers that are not whole JSON. It waits as long as the server's Retry-After
    says, and gives up where that is more than two minutes. Everything else fails at once: other
    statuses of 4xx, redirects, HTML, and a server that cannot be reached the first time.

    Raises:
        UserError: by every method, with the server's own message, from which the key is removed;
            here, for a key that is not set.
    """

    def __init__(self, base: str, config: EndpointConfig) -> None:
        self.base = base
        self.budget = RequestBudget(base, config)
        self._config = config
        self._key = read_key(config.api_key_env)
        self._http = Http(self.budget, config, self._key)
        self._spelt: dict[str, str] = {}
        """The fields that the server has refused, with what is sent in place of each."""
        self._openai = openai.OpenAI(
            base_url=base,
            # `Http` sends the key; without an argument, the package would look for one
            api_key="none",
            max_retries=config.attempts - 1,
            timeout=config.timeout,
            http_client=self._http,
        )

    def post(self, path: str, body: dict[str, Any], read: Callable[[Any], Out]) -> Out:
        """Return what `read` takes from the JSON that answers a POST, and count the tokens that it
        states.

        Where the server refuses a field of `_OTHERWISE`, this and every later request is sent
        without it. `read` may raise what Python raises where something is missing or odd; that is a
        refusal of the answer.
        """
        sent = {self._spelt.get(name, name): value for name, value in body.items()}
        sent.pop("", None)
        try:
            answer = self._asked(path, sent)
        except Refused as refusal:
            name = next(
                (n for n in _OTHERWISE if n in sent and re.search(rf"\b{n}\b", str(refusal))), None
            )
            # it may be the number that is refused, where the field has no other name
            own = path.startswith("/chat") or "max_completion_tokens" in str(refusal)
            unlimited = name == "max_tokens" and not own
            if refusal.status not in (400, 422) or name is None or unlimited:
                raise
            if name not in self._spelt:
                self._spelt[name] = _OTHERWISE[name]
                log.warning(
                    "%s; from now on %s is sent in its place",
                    refusal,
                    _OTHERWISE[name] or "nothing",
                )
            return self.post(path, body, read)
        if path.endswith(_PAID):
            tokens = self._read(path, answer, _tokens)
            if not tokens and self._config.max_tokens is not None:
                raise UserError(
                    f"{self.base}{path} does not state its usage, so tokens cannot be counted; "
                    "use --endpoint.max-requests in place of --endpoint.max-tokens"
                )
            self.budget.add(tokens)
        return self._read(path, answer, read)

    def _read(self, path: str, answer: Any, read: Callable[[Any], Out]) -> Out:
        try:
            return read(answer)
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as odd:
            said = f"no {odd}" if isinstance(odd, KeyError) else one_line(odd)
            raise Refused(
                f"{self.base}{path}: {said}; the server does not keep to the interface"
            ) from None

    def served(self, model: str | None) -> tuple[str, str, int | None]:
        """Return the model of that name, or without one the only model of the server; its name for
        results; and its context length in tokens, None where the server does not say.

        The name for results has what the server says of the model (owner, root, context length) but
        not the address: two servers of the same model share results.
        """
        try:
            known = self._read("/models", self._asked("/models"), _models)
        except Refused as refusal:
            if refusal.status not in (403, 404, 405):
                raise
            known = {model: {}} if model else {}
        if model is None:
            if len(known) != 1:
                names = ", ".join(one_line(name, 60) for name in sorted(known)[:8]) or "no models"
                raise UserError(
                    f"{self.base} lists {names}; name one, as in {self.base}#model-name"
                )
            [model] = known
        if model not in known:
            raise unknown_name(f"model of {self.base}", model, known)
        entry = known[model]
        length = next((entry[name] for name in _LENGTHS if entry.get(name)), None)
        owner = one_line(entry.get("owned_by") or "endpoint", 60)
        digits = hashlib.sha256(
            f"{model} {owner} {entry.get('root')} {length}".encode()
        ).hexdigest()[:8]
        return model, f"{model}@{owner}-{digits}", length if isinstance(length, int) else None

    def map(self, work: Callable[[In], Out], items: Sequence[In], what: str) -> list[Out]:
        """Return `work` of each item, in order, as many at a time as the configuration allows.

        At the first failure, nothing more is begun. `what` is the progress bar's name.
        """
        if len(items) < 2:
            return [work(item) for item in items]
        with (
            progress_bar(len(items), what) as bar,
            ThreadPoolExecutor(self._config.concurrency) as pool,
        ):
            done: list[Out] = []
            try:
                for result in pool.map(work, items):
                    done.append(result)
                    bar.set_postfix_str(str(self.budget), refresh=False)
                    bar.update()
            except BaseException:
                self._http.stopped.set()
                pool.shutdown(cancel_futures=True)
                self._http.stopped.clear()
                raise
        return done

    def _asked(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """The JSON that the server answers to a POST of the body, or to a GET."""
        url = self.base + path if path != "/tokenize" else self.base.removesuffix("/v1") + path
        ask = self._openai.get if body is None else partial(self._openai.post, body=body)
        try:
            response = ask(url, cast_to=httpx2.Response)
        except openai.APIStatusError as error:
            response, status = error.response, error.status_code
            failure = f"HTTP {status}: {self._clean(_said(error.body)) or 'no message'}"
            for header, meaning in (
                ("location", "redirects to"),
                ("retry-after", "asks to come back after"),
            ):
                if header in response.headers:
                    failure += f"; it {meaning} {self._clean(response.headers[header])}"
            if status not in (408, 409, 429) and status < 500:
                raise Refused(f"{url}: {failure}", status) from None
        except openai.APITimeoutError:
            failure = f"no whole answer within {self._config.timeout:g} s"
        except openai.APIConnectionError as error:
            failure = f"the connection failed ({self._clean(error.__cause__)})"
        else:
            answer = response.extensions["json"]
            if isinstance(answer, dict) and answer.get("error"):
                raise Refused(f"{url}: {self._clean(_said(answer['error']))}")
            return answer
        raise UserError(
            f"{url}: {failure}. Given up; finished work is kept: run the same command again once "
            "the server answers"
        )

    def _clean(self, said: Any) -> str:
        # the key goes first: half a key could not be found
        return one_line(str(said).replace(self._key, "***") if self._key else said)


def in_order(entries: Sequence[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    """Return the `count` entries of an answer in the order of their indices; a ValueError if these
    do not fit."""
    by_index = {entry.get("index", place): entry for place, entry in enumerate(entries)}
    if len(entries) != count or set(by_index) != set(range(count)):
        raise ValueError(
            f"{len(entries)} answers with indices {sorted(by_index)[:9]} for {count} texts"
        )
    return [by_index[place] for place in range(count)]


def one_line(value: Any, limit: int = 200) -> str:
    """Return a value of a server's as one printable line of at most `limit` characters."""
    text = " ".join(str(value).split())[:limit]
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in text)


def _models(answer: Any) -> dict[str, dict[str, Any]]:
    listed = answer if isinstance(answer, list) else answer["data"]
    return {entry["id"]: entry for entry in listed}


def _tokens(answer: Any) -> int:
    usage = answer.get("usage") or {}
    total, read, written = (
        int(usage.get(f"{kind}_tokens") or 0) for kind in ("total", "prompt", "completion")
    )
    if min(total, read, written) < 0:
        raise ValueError(f"usage {usage!r:.80}")
    return total or read + written


def _said(error: Any) -> Any:
    """The message of an error, before the code and the field that it names."""
    if not isinstance(error, dict):
        return error
    message = error.get("message") or error.get("detail") or ""
    return str(message) + "".join(
        f" ({error[name]})" for name in ("code", "param") if error.get(name)
    )

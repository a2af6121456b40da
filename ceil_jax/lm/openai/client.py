"""Requests of JSON to one server, many at a time, within a budget."""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

from ceil_jax.errors import UserError, unknown_name
from ceil_jax.lm.openai.answers import (
    AnyAnswer,
    Model,
    Models,
    Refused,
    checked,
    one_line,
    tokens_stated,
)
from ceil_jax.lm.openai.config import EndpointConfig, read_key
from ceil_jax.store.progress import bar as progress_bar

try:
    import httpx2
    import openai

    from ceil_jax.lm.openai.http import PAID, RETRIES, Http, RequestBudget
except ModuleNotFoundError as missing:
    raise UserError(f"{missing.name} is not installed; pip install 'ceil-jax[endpoint]'") from None

log = logging.getLogger(__name__)

_OTHERWISE = {"max_tokens": "max_completion_tokens", "temperature": "", "seed": "", "stop": ""}
"""Fields that some servers refuse, and the field to send in place of each; "" for none."""
_KEPT = "Finished work is kept: run the same command again"


class Served(NamedTuple):
    """A model of a server."""

    model: str
    name: str
    """The model's name and what the server says of it (owner, root, context length), without the address: two
    servers of the same model share results."""
    context_length: int | None
    """The context length in tokens; None where the server does not say."""


In = TypeVar("In")
Out = TypeVar("Out")


class Client:
    """Asks the server at `base`. Any thread may use it.

    The openai package repeats what fails in passing: 408, 409, 429 and 5xx, time-outs, lost connections and
    answers that are not whole JSON. It waits as long as the server's Retry-After says, and gives up where that is
    more than two minutes. Everything else fails at once: other statuses of 4xx, redirects, HTML, and a server that
    cannot be reached the first time.

    Args:
        base: the address, without a slash at its end.
        config: the settings of requests.

    Raises:
        UserError: by every method, with the server's own message, from which the key is removed; here, for a key
            that is not set.
    """

    def __init__(self, base: str, config: EndpointConfig) -> None:
        self.base = base
        self.budget = RequestBudget(base, config.max_requests, config.max_tokens)
        self._config = config
        self._key = read_key(config.api_key_env)
        self._http = Http(self.budget, config, self._key)
        self._refused: set[str] = set()
        self._openai = openai.OpenAI(
            base_url=base,
            # `Http` sends the key; without an argument, the package would look for one
            api_key="none",
            max_retries=config.attempts - 1,
            timeout=config.timeout,
            http_client=self._http,
        )

    def post(self, path: str, body: dict[str, Any], kind: type[AnyAnswer]) -> AnyAnswer:
        """Return the answer to a POST, checked, and count the tokens that it states.

        Where the server refuses a field of `_OTHERWISE`, this and every later request is sent without it.
        """
        sent = {
            _OTHERWISE[name] if name in self._refused else name: value
            for name, value in body.items()
            if name not in self._refused or _OTHERWISE[name]
        }
        try:
            found = self._asked(path, sent)
        except Refused as refusal:
            name = next((n for n in _OTHERWISE if n in sent and re.search(rf"\b{n}\b", str(refusal))), None)
            if refusal.status not in (400, 422) or name is None:
                raise
            if name not in self._refused:
                self._refused.add(name)
                log.warning("%s; from now on %s is sent in its place", refusal, _OTHERWISE[name] or "nothing")
            return self.post(path, body, kind)
        answer = checked(kind, found, self.base + path)
        if path.endswith(PAID):
            tokens = tokens_stated(found)
            if not tokens and self._config.max_tokens is not None:
                raise UserError(
                    f"{self.base}{path} does not state its usage, so tokens cannot be counted; "
                    "use --endpoint.max-requests in place of --endpoint.max-tokens"
                )
            self.budget.add(tokens)
        return answer

    def served(self, model: str | None) -> Served:
        """Return the model of that name; without a name, the only one that the server lists.

        Raises:
            UserError: the server lists models, but not this one; none is named, and there are several or no list.
        """
        try:
            listed = checked(Models, self._asked("/models"), f"{self.base}/models").data
        except Refused as refusal:
            if refusal.status not in (403, 404, 405):
                raise
            if model is None:
                raise UserError(f"{refusal}; name the model, as in {self.base}#model-name") from None
            listed = [Model.model_validate({"id": model})]
        known = {entry.id: entry for entry in listed}
        if model is None and len(known) != 1:
            names = ", ".join(one_line(name, 60) for name in sorted(known)[:8]) or "none"
            raise UserError(f"{self.base} serves {names}; name one, as in {self.base}#model-name")
        model = model or next(iter(known))
        if model not in known:
            raise unknown_name(f"model of {self.base}", model, known)
        entry, length = known[model], known[model].max_model_len
        owner = one_line(entry.owned_by or "endpoint", 60)
        digits = hashlib.sha256(f"{model} {owner} {entry.root} {length}".encode()).hexdigest()[:8]
        return Served(
            model, f"{model}@{owner}-{digits}", length if type(length) is int and length > 0 else None
        )

    def map(self, work: Callable[[In], Out], items: Sequence[In], what: str) -> list[Out]:
        """Return `work` of each item, in order, as many at a time as the configuration allows.

        At the first failure, nothing more is begun. `what` is the progress bar's name.
        """
        if len(items) < 2:
            return [work(item) for item in items]
        pool = ThreadPoolExecutor(min(self._config.concurrency, len(items)), "endpoint")
        try:
            with progress_bar(len(items), what) as bar:

                def counted(item: In) -> Out:
                    result = work(item)
                    bar.set_postfix_str(str(self.budget), refresh=False)
                    bar.update()
                    return result

                return list(pool.map(counted, items))
        except BaseException:
            self._http.stopped.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        finally:
            pool.shutdown(wait=True)
            self._http.stopped.clear()

    def _asked(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """The JSON that the server answers to a POST of the body, or to a GET."""
        url = self.base + path if path != "/tokenize" else self.base.removesuffix("/v1") + path
        try:
            if body is None:
                response = self._openai.get(url, cast_to=httpx2.Response)
            else:
                response = self._openai.post(url, cast_to=httpx2.Response, body=body)
        except openai.APIStatusError as error:
            raise self._refusal(url, error.response) from None
        except openai.APIConnectionError as error:
            failure = f"the connection failed ({self._clean(error.__cause__ or type(error).__name__)})"
            if isinstance(error, openai.APITimeoutError):
                failure = f"no whole answer within {self._config.timeout:g} s"
            raise UserError(self._given_up(url, failure, self._config.attempts)) from None
        answer = response.extensions["json"]
        if isinstance(answer, dict) and answer.get("error"):
            raise Refused(f"{url}: {self._clean(_said(answer))}")
        return answer

    def _refusal(self, url: str, response: httpx2.Response) -> UserError:
        """The error for the last answer to a request, whose status is no success."""
        status, later = response.status_code, response.headers.get("retry-after")
        attempts = 1 + int(response.request.headers.get(RETRIES, 0))
        if 300 <= status < 400:
            place = self._clean(response.headers.get("location"))
            return UserError(f"{url} redirects to {place}; give that address instead")
        try:
            said = _said(response.json())
        except (ValueError, RecursionError):
            said = response.text
        failure = f"HTTP {status}: {self._clean(said) or 'no message'}"
        if status not in (408, 409, 429) and status < 500:
            refused = Refused(f"{url}: {failure}")
            refused.status = status
            return refused
        if later is not None and attempts < self._config.attempts:
            asked = f"it asks to come back later (Retry-After: {self._clean(later)})"
            return UserError(f"{url}: {failure}; {asked}. {_KEPT} then")
        return UserError(self._given_up(url, failure, attempts))

    def _given_up(self, url: str, failure: str, attempts: int) -> str:
        return f"{url}: {failure}; given up after {attempts} attempts. {_KEPT} once the server answers"

    def _clean(self, said: Any) -> str:
        # the key goes first: half a key could not be found
        return one_line(str(said).replace(self._key, "***") if self._key else said)


def _said(content: Any) -> Any:
    """The message in the content of an error, behind the code and the field that it names."""
    if not isinstance(content, dict):
        return content
    error = content.get("error")
    if isinstance(error, dict) and error.get("message"):
        message = str(error["message"])
        more = [str(error[name]) for name in ("code", "param") if error.get(name)]
        return message + "".join(f" ({one})" for one in more if one not in message)
    return error or content.get("message") or content.get("detail") or content

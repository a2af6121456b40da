"""Requests of JSON to one server, many at a time."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

from tqdm.auto import tqdm

from ceil_jax.errors import UserError, unknown_name
from ceil_jax.lm.openai.config import EndpointConfig, read_key

try:
    import httpx2
    import openai

    from ceil_jax.lm.openai.attempt import ANSWER, ATTEMPT, AttemptClient, RequestBudget, said
    from ceil_jax.lm.openai.cleaning import HIDDEN, LONGEST, one_line, without_key
    from ceil_jax.lm.openai.schema import AnyAnswer, Models, Paid, checked
except ModuleNotFoundError as missing:
    raise UserError(f"{missing.name} is not installed; pip install 'ceil-jax[endpoint]'") from None


class Served(NamedTuple):
    """A model that a server lists."""

    model: str
    """The name by which requests ask for it."""
    name: str
    """The model's name and what the server says of it (owner, root, context length), without the address: two
    servers of the same model share results."""
    context_length: int | None
    """The context length in tokens; None where the server does not say."""


In = TypeVar("In")
Out = TypeVar("Out")

_KEPT = "Finished work is kept: run the same command again"


class Client:
    """Asks the server at `base`. Any thread may use it.

    The openai package repeats what fails in passing: 408, 409, 429 and 5xx, time-outs, lost connections and
    answers that are not whole JSON. It waits as long as the server's Retry-After says, and gives up where that is
    more than two minutes. Everything else fails at once: other statuses of 4xx, redirects, HTML, JSON that is no
    object, and a server that cannot be reached the first time.

    Args:
        base: the address, without a slash at its end.
        config: how the server is asked.

    Raises:
        UserError: by every method, with the server's own message, in which the key, should it stand there, is
            replaced, and for an answer that is not of the kind asked for; here, for a key that is not set.
    """

    def __init__(self, base: str, config: EndpointConfig) -> None:
        self.base = base
        self.budget = RequestBudget(base, config.max_requests, config.max_tokens)
        self._config = config
        self._key = read_key(config.api_key_env)
        self._http = AttemptClient(self.budget, config, self._key)
        self._openai = openai.OpenAI(
            base_url=base,
            # `AttemptClient` sends the key; without an argument, the package would look for one
            api_key="none",
            max_retries=config.attempts - 1,
            timeout=config.timeout,
            http_client=self._http,
        )

    def get(self, path: str, kind: type[AnyAnswer]) -> AnyAnswer:
        """Return the answer to a GET, checked."""
        answer = self._asked(path, lambda url: self._openai.get(url, cast_to=httpx2.Response))
        return checked(kind, answer, self.base + path)

    def post(self, path: str, body: dict[str, Any], kind: type[AnyAnswer]) -> AnyAnswer:
        """Return the answer to a POST, checked, and count the tokens that it states.

        Raises:
            UserError: also where tokens are limited and the answer states none.
        """
        found = self._asked(path, lambda url: self._openai.post(url, cast_to=httpx2.Response, body=body))
        answer = checked(kind, found, self.base + path)
        if isinstance(answer, Paid):
            tokens = answer.usage.tokens() if answer.usage else 0
            if not tokens and self._config.max_tokens is not None:
                raise UserError(
                    f"{self.base}{path} does not state its usage, so tokens cannot be counted; "
                    "use --endpoint.max-requests in place of --endpoint.max-tokens"
                )
            self.budget.add(tokens)
        return answer

    def served(self, model: str | None) -> Served:
        """Return the model of that name among those that the server lists.

        Args:
            model: its name; None for the only one.

        Raises:
            UserError: there is no such model, or there are several and none is named; its name holds the key, is
                longer than 200 characters or does not print, and so cannot be written.
        """
        known = {entry.id: entry for entry in self.get("/models", Models).data or ()}
        if model is None and len(known) != 1:
            names = ", ".join(one_line(name, 60) for name in sorted(known)[:8]) or "none"
            raise UserError(f"{self.base} serves {names}; name one, as in {self.base}#model-name")
        model = model or next(iter(known))
        if model not in known:
            near = difflib.get_close_matches(model, list(known)[:1000], n=8, cutoff=0.0)
            raise unknown_name(
                f"model of {self.base}", one_line(model), [one_line(name, 60) for name in near]
            )
        if HIDDEN in model or len(model) > LONGEST or not model.isprintable():
            raise UserError(
                f"{self.base}: the model {one_line(model, 60)!r} has a name that cannot be written: expected at most "
                f"{LONGEST} printable characters without the key"
            )
        entry = known[model]
        length, owner = entry.max_model_len, one_line(entry.owned_by or "endpoint", 60)
        digits = hashlib.sha256(f"{model} {owner} {entry.root} {length}".encode()).hexdigest()[:8]
        stated = isinstance(length, int) and not isinstance(length, bool) and 0 < length < 2**31
        return Served(model, f"{model}@{owner}-{digits}", length if stated else None)

    def map(self, work: Callable[[In], Out], items: Sequence[In], what: str) -> list[Out]:
        """Return `work` of each item, in order, as many at a time as the configuration allows.

        At the first failure, nothing more is begun.

        Args:
            work: makes requests of this client.
            items: what to work on.
            what: the progress bar's name.
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
            self._http.stopped.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        finally:
            pool.shutdown(wait=True)
            self._http.stopped.clear()

    def _asked(self, path: str, ask: Callable[[str], httpx2.Response]) -> dict[str, Any]:
        url = self.base + path if path != "/tokenize" else self.base.removesuffix("/v1") + path
        try:
            response = ask(url)
        except openai.APIStatusError as error:
            raise UserError(self._refusal(url, error.response)) from None
        except openai.APIConnectionError as error:
            cause = one_line(without_key(str(error.__cause__ or type(error).__name__), self._key))
            failure = f"the connection failed ({cause})"
            if isinstance(error, openai.APITimeoutError):
                failure = f"no whole answer within {self._config.timeout:g} s"
            raise UserError(self._given_up(url, failure, self._config.attempts)) from None
        return response.extensions[ANSWER]

    def _refusal(self, url: str, response: httpx2.Response) -> str:
        """Why an answer with another status than success is the last one."""
        status, asked = response.status_code, response.headers.get("retry-after")
        if 300 <= status < 400:
            return f"{url} redirects to {response.headers.get('location')}; give that address instead"
        failure = f"HTTP {status}: {said(response.content, self._key)}"
        if status not in (408, 409, 429) and status < 500:
            return f"{url}: {failure}"
        if asked is not None and response.extensions[ATTEMPT] < self._config.attempts:
            return f"{url}: {failure}; it asks to come back later (Retry-After: {asked}). {_KEPT} then"
        return self._given_up(url, failure, response.extensions[ATTEMPT])

    def _given_up(self, url: str, failure: str, attempts: int) -> str:
        return f"{url}: {failure}; given up after {attempts} attempts. {_KEPT} once the server answers"

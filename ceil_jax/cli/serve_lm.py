"""`ceil-jax serve-lm`: an LM and an encoder of this machine behind an OpenAI-compatible interface."""

from __future__ import annotations

import hmac
import secrets
import socket
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ceil_jax.errors import UserError
from ceil_jax.lm.base import TokenScorer
from ceil_jax.lm.openai.alignment import continuation_tokens

if TYPE_CHECKING:
    from ceil_jax.encoders.encoder import Encoder

Body = dict[str, Any]


class Service:
    """The answers to requests, computed one at a time because a model's passes share its memory.

    Every method takes the JSON object of a request and returns that of its answer.

    Args:
        lm: scores and generates.
        model: the name by which requests ask for the LM.
        encoder: embeds; None for no embeddings.
        encoder_model: the name by which requests ask for the encoder.

    Raises:
        UserError: by every method, for a request that is wrong.
    """

    def __init__(
        self, lm: TokenScorer, model: str, encoder: Encoder | None = None, encoder_model: str = ""
    ) -> None:
        self.lm, self.model, self.encoder, self.encoder_model = lm, model, encoder, encoder_model
        self._lock = threading.Lock()

    def models(self, body: Body) -> Body:
        """Answer /v1/models; `root` names the weights and their dtype."""
        entries: list[Body] = [
            {"id": self.model, "root": self.lm.name, "max_model_len": self.lm.context_length}
        ]
        if self.encoder is not None:
            entries.append({"id": self.encoder_model, "root": self.encoder.fingerprint})
        shared = {"object": "model", "owned_by": "ceil_jax"}
        return {"object": "list", "data": [{**entry, **shared} for entry in entries]}

    def completions(self, body: Body) -> Body:
        """Answer /v1/completions, with `echo` and `logprobs`; `max_tokens` may be 0, which generates nothing."""
        self._check_model(body, self.model)
        prompts = _texts(body, "prompt")
        with self._lock:
            written = self._written(body, prompts, default=16)
            scores: list[Body | None] = [None] * len(prompts)
            if body.get("logprobs") is not None:
                scores = self._log_probs(prompts, written, bool(body.get("echo")))
        texts = [
            (prompt if body.get("echo") else "") + text for prompt, text in zip(prompts, written, strict=True)
        ]
        choices = [
            {"index": place, "text": text, "logprobs": score, "finish_reason": self._reason(body, done, 16)}
            for place, (text, score, done) in enumerate(zip(texts, scores, written, strict=True))
        ]
        return self._answer("text_completion", choices, prompts, written)

    def chat(self, body: Body) -> Body:
        """Answer /v1/chat/completions."""
        self._check_model(body, self.model)
        messages = body.get("messages")
        if not isinstance(messages, list) or not messages:
            raise UserError(f"messages is {str(messages)[:60]}; expected a list of at least one")
        for message in messages:
            if not isinstance(message, dict) or not isinstance(message.get("content"), str):
                raise UserError(f"a message is {str(message)[:60]}; expected a role and a content of text")
        with self._lock:
            prompt = _chat_prompt(self.lm, messages)
            [text] = self._written(body, [prompt], default=256)
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": text},
            "finish_reason": self._reason(body, text, 256),
        }
        return self._answer("chat.completion", [choice], [prompt], [text])

    def embeddings(self, body: Body) -> Body:
        """Answer /v1/embeddings."""
        if self.encoder is None:
            raise UserError("no encoder is served; start the server with --encoder")
        self._check_model(body, self.encoder_model)
        texts = _texts(body, "input")
        with self._lock:
            vectors = self.encoder.encode(texts)
        tokens = sum(int(count) for count in self.lm.count_tokens(texts))
        return {
            "object": "list",
            "model": self.encoder_model,
            "data": [
                {"object": "embedding", "index": place, "embedding": vector.tolist()}
                for place, vector in enumerate(vectors)
            ],
            "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
        }

    def tokenize(self, body: Body) -> Body:
        """Answer /tokenize as vLLM does, without the ids."""
        [text] = _texts(body, "prompt")
        return {"count": int(self.lm.count_tokens([text])[0]), "max_model_len": self.lm.context_length}

    def _check_model(self, body: Body, known: str) -> None:
        if body.get("model", known) != known:
            raise UserError(f"the model {str(body['model'])[:60]!r} is not served here; {known!r} is")
        if body.get("stream") or body.get("n", 1) != 1:
            raise UserError("neither stream nor n is served here; leave them out")

    def _written(self, body: Body, prompts: Sequence[str], default: int) -> list[str]:
        """The text that the LM generates after each prompt."""
        limit = _whole(body, "max_tokens", default)
        if limit == 0:
            return [""] * len(prompts)
        return self.lm.generate(
            prompts,
            limit,
            [] if body.get("stop") in (None, "", []) else _texts(body, "stop"),
            temperature=_number(body, "temperature", 1.0),
            seed=_whole(body, "seed", secrets.randbelow(2**31)),
        )

    def _log_probs(self, prompts: Sequence[str], written: Sequence[str], echo: bool) -> list[Body | None]:
        """The log-probabilities of the prompts' tokens, where they are echoed, and of the generated ones."""
        scores: list[Body] = [{"tokens": [], "token_logprobs": []} for _ in prompts]
        if echo:
            for score, read in zip(scores, self.lm.token_log_probs(prompts), strict=True):
                score["tokens"] += read.tokens
                score["token_logprobs"] += read.log_probs
        rows = [row for row, text in enumerate(written) if text]
        texts = [prompts[row] + written[row] for row in rows]
        for row, text, read in zip(rows, texts, self.lm.token_log_probs(texts) if rows else [], strict=True):
            for place in continuation_tokens(read.tokens, text, len(prompts[row])):
                scores[row]["tokens"].append(read.tokens[place])
                scores[row]["token_logprobs"].append(read.log_probs[place])
        for score in scores:
            ends = [sum(map(len, score["tokens"][:place])) for place in range(len(score["tokens"]))]
            score |= {"text_offset": ends, "top_logprobs": None}
        return list(scores)

    def _reason(self, body: Body, text: str, default: int) -> str:
        limit = _whole(body, "max_tokens", default)
        return "length" if self.lm.count_tokens([text])[0] >= limit else "stop"

    def _answer(self, kind: str, choices: list[Body], prompts: Sequence[str], written: Sequence[str]) -> Body:
        read, wrote = (int(self.lm.count_tokens(texts).sum()) for texts in (prompts, written))
        return {
            "id": f"{kind}-{secrets.token_hex(8)}",
            "object": kind,
            "created": int(time.time()),
            "model": self.model,
            "choices": choices,
            "usage": {"prompt_tokens": read, "completion_tokens": wrote, "total_tokens": read + wrote},
        }


def create_app(service: Service, key: str | None = None) -> Any:
    """Return the service as an ASGI application.

    A wrong request is answered with status 400 and one line, an unknown address with 404.

    Args:
        service: answers the requests.
        key: requests must carry it as a bearer token and are answered with 401 otherwise; None for no key.
    """
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    def refused(status: int, message: str) -> JSONResponse:
        return JSONResponse({"error": {"message": message, "code": status}}, status)

    def route(path: str, method: str, work: Callable[[Body], Body]) -> Route:
        async def answer(request: Request) -> JSONResponse:
            given = request.headers.get("authorization", "")
            if key is not None and not hmac.compare_digest(given.encode(), f"Bearer {key}".encode()):
                return refused(401, "the key is missing or wrong")
            try:
                body = await request.json() if method == "POST" else {}
            except ValueError:
                return refused(400, "the request's body is not JSON")
            if not isinstance(body, dict):
                return refused(400, "the request's body is not a JSON object")
            try:
                return JSONResponse(await run_in_threadpool(work, body))
            except UserError as error:
                return refused(400, str(error))

        return Route(path, answer, methods=[method])

    return Starlette(
        routes=[
            route("/v1/models", "GET", service.models),
            route("/v1/completions", "POST", service.completions),
            route("/v1/chat/completions", "POST", service.chat),
            route("/v1/embeddings", "POST", service.embeddings),
            route("/tokenize", "POST", service.tokenize),
        ]
    )


def serve_lm(
    lm: str,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    encoder: str | None = None,
    dtype: str = "auto",
    device_map: str | None = None,
    api_key_env: str | None = None,
) -> None:
    """Serve an LM, and an encoder, until interrupted.

    Args:
        lm: A packaged name, a folder or a hub id, as in compare --lm.
        host: 127.0.0.1 serves this machine only; 0.0.0.0 serves others too, for which a key is wise.
        port: The port to listen at; 0 takes a free one.
        encoder: An encoder for /v1/embeddings, as in compare --encoder.
        dtype: The LM's dtype: auto, bfloat16 or float32.
        device_map: For an LM too large for one device: transformers' device_map, such as "auto".
        api_key_env: The environment variable with the key that requests must carry.
    """
    if not 0 <= port < 2**16:
        raise UserError(f"--port {port}: expected 0 to 65535")
    try:
        import uvicorn
    except ModuleNotFoundError:
        raise UserError("uvicorn is not installed; pip install 'ceil-jax[endpoint]'") from None
    from ceil_jax.encoders.registry import load_encoder
    from ceil_jax.lm import load_lm
    from ceil_jax.lm.openai.config import read_key

    key = read_key(api_key_env)
    model = load_lm(lm, dtype=dtype, device_map=device_map)
    if not isinstance(model, TokenScorer):
        raise UserError(f"{lm} is behind an endpoint already; serve a model of this machine")
    service = Service(model, lm, None if encoder is None else load_encoder(encoder), encoder or "")
    try:
        listener = socket.create_server((host, port))
    except OSError as error:
        raise UserError(
            f"cannot listen at {host}:{port}: {error.strerror or error}; try another --port"
        ) from None
    print(f"serving {model.name} at http://{host}:{listener.getsockname()[1]}/v1#{lm}", flush=True)
    config = uvicorn.Config(create_app(service, key), log_level="warning", ws="none", lifespan="off")
    uvicorn.Server(config).run(sockets=[listener])


def _chat_prompt(lm: TokenScorer, messages: list[dict[str, str]]) -> str:
    """The messages by the LM's own chat template, or line by line where it has none."""
    template = getattr(lm, "chat_prompt", None)
    return template(messages) if template else "\n".join(message["content"] for message in messages)


def _texts(body: Body, field: str) -> list[str]:
    """The texts in a field that may hold one text or a list of them."""
    value = body.get(field)
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
        raise UserError(
            f"{field} is {str(value)[:60]}; expected a text or a list of texts (not of token ids)"
        )
    return texts


def _number(body: Body, field: str, default: float) -> float:
    value = body.get(field)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 2**63:
        raise UserError(f"{field} is {str(value)[:40]}; expected a number from 0, below 2^63")
    return value


def _whole(body: Body, field: str, default: int) -> int:
    value = _number(body, field, default)
    if value != int(value):
        raise UserError(f"{field} is {value}; expected a whole number")
    return int(value)

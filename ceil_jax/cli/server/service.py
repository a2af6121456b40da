"""The answers of the server: completions, chats, embeddings, counts of tokens."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Sequence
from threading import Event
from typing import TYPE_CHECKING

from ceil_jax.cli.server.fields import Body, number, token_limit, whole
from ceil_jax.cli.server.fields import texts as texts_of
from ceil_jax.errors import UserError
from ceil_jax.lm.base import TokenScorer
from ceil_jax.lm.openai.alignment import continuation_tokens

if TYPE_CHECKING:
    from ceil_jax.encoders.encoder import Encoder

PROMPTS, TEXTS = 8, 64
"""The prompts, or texts to embed, that are computed together; after each batch, a client that has left is noticed.
They are those of a request by `EndpointLM`, so that it gets the numbers of one batch."""


class Left(Exception):
    """The client has left: its answer is no longer wanted."""


class Service:
    """The answers to requests, to be computed one at a time because a model's passes share its memory.

    Every method takes the JSON object of a request and an event that is set once its client has left, and returns
    the JSON object of its answer.

    Args:
        lm: scores and generates.
        model: the name by which requests ask for the LM.
        encoder: embeds; None for no embeddings.
        encoder_model: the name by which requests ask for the encoder.

    Raises:
        UserError: by every method, for a request that is wrong.
        Left: by every method, at the first batch or written token after the client has left.
    """

    def __init__(
        self, lm: TokenScorer, model: str, encoder: Encoder | None = None, encoder_model: str = ""
    ) -> None:
        self.lm, self.model, self.encoder, self.encoder_model = lm, model, encoder, encoder_model

    def models(self, body: Body, left: Event) -> Body:
        """Answer /v1/models; `root` names the weights and their dtype."""
        entries: list[Body] = [
            {"id": self.model, "root": self.lm.name, "max_model_len": self.lm.context_length}
        ]
        if self.encoder is not None:
            entries.append({"id": self.encoder_model, "root": self.encoder.fingerprint})
        shared = {"object": "model", "owned_by": "ceil_jax"}
        return {"object": "list", "data": [{**entry, **shared} for entry in entries]}

    def completions(self, body: Body, left: Event) -> Body:
        """Answer /v1/completions, with `echo` and `logprobs`; `max_tokens` may be 0, which generates nothing."""
        self._check_model(body, self.model)
        prompts = texts_of(body, "prompt")
        written: list[str] = []
        scores: list[Body | None] = []
        for batch in _batches(prompts, PROMPTS, left):
            texts = self._written(body, batch, default=16)
            written += texts
            if body.get("logprobs") is None:
                scores += [None] * len(batch)
            else:
                scores += self._log_probs(batch, texts, bool(body.get("echo")))
        texts = [
            (prompt if body.get("echo") else "") + text for prompt, text in zip(prompts, written, strict=True)
        ]
        choices = [
            {"index": place, "text": text, "logprobs": score, "finish_reason": self._reason(body, done, 16)}
            for place, (text, score, done) in enumerate(zip(texts, scores, written, strict=True))
        ]
        return self._answer("text_completion", choices, prompts, written)

    def chat(self, body: Body, left: Event) -> Body:
        """Answer /v1/chat/completions."""
        self._check_model(body, self.model)
        messages = body.get("messages")
        if not isinstance(messages, list) or not messages:
            raise UserError(f"messages is {str(messages)[:60]}; expected a list of at least one")
        for message in messages:
            if not isinstance(message, dict) or not all(
                isinstance(message.get(name), str) for name in ("role", "content")
            ):
                raise UserError(f"a message is {str(message)[:60]}; expected a role and a content of text")
        [prompt] = next(_batches([_chat_prompt(self.lm, messages)], 1, left))
        [text] = self._written(body, [prompt], default=256)
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": text},
            "finish_reason": self._reason(body, text, 256),
        }
        return self._answer("chat.completion", [choice], [prompt], [text])

    def embeddings(self, body: Body, left: Event) -> Body:
        """Answer /v1/embeddings."""
        if self.encoder is None:
            raise UserError("no encoder is served; start the server with --encoder")
        self._check_model(body, self.encoder_model)
        texts = texts_of(body, "input")
        encode = self.encoder.encode
        vectors = [vector for batch in _batches(texts, TEXTS, left) for vector in encode(batch)]
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

    def tokenize(self, body: Body, left: Event) -> Body:
        """Answer /tokenize as vLLM does, without the ids."""
        texts = texts_of(body, "prompt")
        if len(texts) != 1:
            raise UserError(f"prompt holds {len(texts)} texts; expected one")
        [text] = next(_batches(texts, 1, left))
        return {"count": int(self.lm.count_tokens([text])[0]), "max_model_len": self.lm.context_length}

    def _check_model(self, body: Body, known: str) -> None:
        if body.get("model", known) != known:
            raise UserError(f"the model {str(body['model'])[:60]!r} is not served here; {known!r} is")
        if body.get("n") not in (None, 1):
            raise UserError("n is not served here; leave it out")

    def _written(self, body: Body, prompts: Sequence[str], default: int) -> list[str]:
        """The text that the LM generates after each prompt."""
        limit = token_limit(body, default)
        if limit == 0:
            return [""] * len(prompts)
        return self.lm.generate(
            prompts,
            limit,
            [] if body.get("stop") in (None, "", []) else texts_of(body, "stop"),
            temperature=number(body, "temperature", 1.0),
            seed=whole(body, "seed", secrets.randbelow(2**31)),
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
        limit = token_limit(body, default)
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


def _chat_prompt(lm: TokenScorer, messages: list[dict[str, str]]) -> str:
    """Return the messages by the LM's own chat template, or line by line where it has none."""
    template = getattr(lm, "chat_prompt", None)
    if template is None:
        return "\n".join(message["content"] for message in messages)
    from jinja2 import TemplateError

    try:
        return template(messages)
    except TemplateError as error:
        raise UserError(f"the model's chat template refuses these messages: {str(error)[:200]}") from None


def _batches(texts: Sequence[str], size: int, left: Event) -> Iterator[Sequence[str]]:
    """The texts in batches, as long as the client is there."""
    for start in range(0, len(texts), size):
        if left.is_set():
            raise Left
        yield texts[start : start + size]

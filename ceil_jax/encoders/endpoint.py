"""An encoder behind /v1/embeddings of an OpenAI-compatible server."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float

from ceil_jax.encoders.text_encoder import check_texts
from ceil_jax.errors import UserError
from ceil_jax.lm.openai.address import parse_address
from ceil_jax.lm.openai.client import Client, in_order
from ceil_jax.lm.openai.config import EndpointConfig
from ceil_jax.lm.openai.http import Refused
from ceil_jax.store.hashing import text_digest


class EndpointEncoder:
    """A `TextEncoder` whose vectors come from a server. It has no network here, so it cannot be
    trained or saved."""

    def __init__(self, spec: str, config: EndpointConfig) -> None:
        address = parse_address(spec)
        self._client = Client(address, config)
        self._batch = 8 * config.batch
        listed = self._client.listed(address.model)
        self._model = listed.model
        self.name = listed.name()
        # the name contains the server's description of the model
        self.fingerprint = text_digest(f"endpoint {self.name}".encode())

    @cached_property
    def dim(self) -> int:
        """The length D of a vector. The first access asks the server."""
        return self._embedded(["dimension"]).shape[1]

    def encode(self, texts: Sequence[str]) -> Float[np.ndarray, "n d"]:
        """Return the vector of each text, float32 [N, D], with a progress bar if there are several
        requests.

        Raises:
            UserError: see `Client`; or `texts` is not a list of strings; or an answer has a wrong
                number of vectors, vectors of different lengths, or numbers that are not finite.
        """
        check_texts(texts)
        size = self._batch
        batches = [texts[start : start + size] for start in range(0, len(texts), size)]
        vectors = self._client.map(self._in_parts, batches, f"encode ({self.name})")
        lengths = {batch.shape[1] for batch in vectors}
        if len(lengths) > 1:
            raise UserError(f"{self._client.base}/embeddings: vectors of {sorted(lengths)} numbers")
        return np.concatenate(vectors) if vectors else np.zeros((0, self.dim), np.float32)

    def _in_parts(self, texts: Sequence[str]) -> np.ndarray:
        """The vectors of some texts. If the server refuses so many at a time, they are sent in
        halves, and later requests are as small."""
        if len(texts) > self._batch:
            return self._halves(texts)
        try:
            return self._embedded(texts)
        except Refused as refusal:
            if refusal.status not in (400, 413, 422):
                raise
            if len(texts) == 1:
                what = f"a text of {len(texts[0]):,} characters, {texts[0][:60]!r}"
                raise Refused(
                    f"{refusal}; asked for the vector of {what}", refusal.status
                ) from None
            self._batch = min(self._batch, len(texts) // 2)
            return self._halves(texts)

    def _halves(self, texts: Sequence[str]) -> np.ndarray:
        middle = (len(texts) + 1) // 2
        return np.concatenate([self._in_parts(texts[:middle]), self._in_parts(texts[middle:])])

    def _embedded(self, texts: Sequence[str]) -> np.ndarray:
        body = {"model": self._model, "input": list(texts), "encoding_format": "float"}

        def read(answer: Any) -> np.ndarray:
            entries = in_order(answer["data"], len(texts))
            if any(_is_list_of_vectors(entry["embedding"]) for entry in entries):
                raise ValueError(
                    "expected a vector of each text, found vectors of its tokens: switch pooling on, "
                    "such as --pooling mean of llama.cpp"
                )
            vectors = np.array([entry["embedding"] for entry in entries], np.float64)
            if vectors.ndim != 2 or not (np.abs(vectors) <= np.finfo(np.float32).max).all():
                raise ValueError("expected vectors of finite numbers, all of one length")
            return vectors.astype(np.float32)

        return self._client.post("/embeddings", body, read)


def _is_list_of_vectors(embedding: Any) -> bool:
    return isinstance(embedding, list) and any(isinstance(item, list) for item in embedding)

"""An encoder behind /v1/embeddings of an OpenAI-compatible server."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np
from jaxtyping import Float

from ceil_jax.encoders.text_encoder import check_texts
from ceil_jax.errors import UserError
from ceil_jax.lm.openai.address import parse_address
from ceil_jax.lm.openai.client import Client, in_order
from ceil_jax.lm.openai.config import EndpointConfig
from ceil_jax.lm.openai.served import served_model
from ceil_jax.store.hashing import text_digest


class EndpointEncoder:
    """A `TextEncoder` whose vectors come from a server.

    Its network is not on this machine, so it cannot be trained or saved.
    """

    def __init__(self, spec: str, config: EndpointConfig) -> None:
        address = parse_address(spec)
        self._client = Client(address.base, config)
        self._batch = 8 * config.batch
        served = served_model(self._client, address.model)
        self._model = served.model
        self.name = served.name(self._client)
        # the name contains the server's description of the model, or its address
        self.fingerprint = text_digest(f"endpoint {self.name}".encode())

    @cached_property
    def dim(self) -> int:
        """The length D of a vector. The first access asks the server."""
        return self.encode(["dimension"]).shape[1]

    def encode(self, texts: Sequence[str]) -> Float[np.ndarray, "n d"]:
        """Return the vector of each text, float32 [N, D].

        A progress bar is shown if there are several requests.

        Raises:
            UserError: see `Client`; or `texts` is not a list of strings; or an answer has a wrong
                number of vectors, vectors of different lengths, or numbers that are not finite.
        """
        check_texts(texts)
        if not len(texts):
            return np.zeros((0, self.dim), np.float32)
        asked = []
        for start in range(0, len(texts), self._batch):
            batch = list(texts[start : start + self._batch])
            body = {"model": self._model, "input": batch, "encoding_format": "float"}
            asked.append((body, partial(_vectors, count=len(batch))))
        vectors = self._client.ask_all("/embeddings", asked, f"encode ({self.name})")
        lengths = {batch.shape[1] for batch in vectors}
        if len(lengths) > 1:
            raise UserError(f"{self._client.base}/embeddings: vectors of {sorted(lengths)} numbers")
        return np.concatenate(vectors)


def _vectors(answer: Any, count: int) -> Float[np.ndarray, "n d"]:
    entries = in_order(answer["data"], count)
    vectors = np.array([entry["embedding"] for entry in entries], np.float64)
    if vectors.ndim == 3:
        raise ValueError(
            "expected one vector for each text, found vectors of its tokens: switch pooling on"
        )
    if vectors.ndim != 2 or not (np.abs(vectors) <= np.finfo(np.float32).max).all():
        raise ValueError("expected vectors of finite numbers, all of one length")
    return vectors.astype(np.float32)

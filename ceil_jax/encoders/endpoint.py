"""An encoder behind /v1/embeddings."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ceil_jax.errors import UserError
from ceil_jax.lm.openai.address import parse_address
from ceil_jax.lm.openai.answers import find_model, in_order
from ceil_jax.lm.openai.client import Client
from ceil_jax.lm.openai.config import EndpointConfig

_NETWORK = {"params", "apply", "tokenizer", "checkpoint", "factory", "max_length", "_graphdef", "_jitted"}
"""Of an encoder whose network is here."""


class EndpointEncoder:
    """Vectors from a server, for whatever compares them: topk, mmr, dpp, skill_*, target_knn, a selector.

    It has no parameters, so EPR and CEIL cannot train it and it cannot be saved.

    Raises:
        UserError: see `Client`; anything that needs a network; an answer with another number of vectors than
            texts, or of several lengths, or with numbers that are none.
    """

    def __init__(self, spec: str, config: EndpointConfig, *, client: Client | None = None) -> None:
        address = parse_address(spec)
        self._client = client or Client(address.base, config)
        self._batch = 8 * config.batch
        served = find_model(self._client, address.model)
        self._model, self.name, self._identity = served.model, served.name, served.name
        self.dtype = "float32"

    def require_network(self) -> None:
        raise UserError(
            f"encoder {self.name} is behind an endpoint: its vectors can be compared but it cannot be trained or "
            "saved; EPR and CEIL take a local one, such as all-MiniLM-L6-v2"
        )

    def __getattr__(self, name: str) -> Any:
        if name in _NETWORK:
            self.require_network()
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    @cached_property
    def fingerprint(self) -> str:
        """16 hex digits of what the server says of the model: a key for cached vectors."""
        return hashlib.sha256(f"endpoint {self._identity}".encode()).hexdigest()[:16]

    @property
    def cached_as(self) -> str:
        """`fingerprint`."""
        return self.fingerprint

    @cached_property
    def dim(self) -> int:
        return self._embedded(["dimension"]).shape[1]

    def with_dtype(self, dtype: str) -> EndpointEncoder:
        """Itself: what the server computes in is the server's to say."""
        return self

    def encode(self, texts: Sequence[str], batch_size: int = 0, progress: bool = False) -> np.ndarray:
        """The vector of each text, float32, in the order given; `batch_size` is the texts of a request."""
        size = batch_size or self._batch
        if isinstance(texts, str):
            raise UserError(f"texts is one string, {texts[:40]!r}; expected a list of strings")
        batches = [texts[start : start + size] for start in range(0, len(texts), size)]
        vectors = self._client.map(self._embedded, batches, f"encode ({self.name})")
        if not vectors:
            return np.zeros((0, self.dim), np.float32)
        self._same_length(vectors)
        return np.concatenate(vectors)

    def _embedded(self, texts: Sequence[str]) -> np.ndarray:
        """float32 [N, D]."""
        where = f"{self._client.base}/embeddings"
        body = {"model": self._model, "input": list(texts), "encoding_format": "float"}
        answer = self._client.post("/embeddings", body)
        entries = [entry.get("embedding") for entry in in_order(answer, "data", len(texts), where)]
        try:
            vectors = np.array(entries, dtype=np.float32)
        except (TypeError, ValueError):
            vectors = np.zeros(0, np.float32)
        if vectors.ndim != 2 or not vectors.shape[1] or not np.isfinite(vectors).all():
            raise UserError(f"{where}: expected vectors of finite numbers, all of one length")
        return vectors

    def _same_length(self, batches: Sequence[np.ndarray]) -> None:
        lengths = {batch.shape[1] for batch in batches}
        if len(lengths) > 1:
            raise UserError(f"{self._client.base}/embeddings: vectors of {sorted(lengths)} numbers")

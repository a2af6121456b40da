"""Language models and encoders by name, loaded on first use."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from ceil_jax.encoders.text_encoder import sides
from ceil_jax.errors import UserError
from ceil_jax.lm import LanguageModel, load_lm
from ceil_jax.lm.counting import CountingLM, by_characters, counting_lm
from ceil_jax.lm.openai.address import is_address
from ceil_jax.lm.openai.config import EndpointConfig
from ceil_jax.lm.registry import key_without_weights

if TYPE_CHECKING:
    from ceil_jax.encoders.encoder import Encoder


class Models:
    """A cache of loaded LMs and encoders, each loaded once; runs may share one."""

    def __init__(self) -> None:
        self._loaded: dict[Hashable, Any] = {}

    def once(self, key: Hashable, load: Callable[[], Any]) -> Any:
        """Return the value of a key, which is made on first use."""
        if key not in self._loaded:
            self._loaded[key] = load()
        return self._loaded[key]

    def load_lm(self, lm: NamedLM) -> LanguageModel:
        """Load a language model."""
        return lm.loader()()

    def counting(self, lm: NamedLM) -> CountingLM:
        """Return an LM that only counts tokens, with the same tokenizer; for a server, it estimates
        them from characters."""

        def made() -> CountingLM:
            served = is_address(lm.spec)
            if not served and ":" not in lm.spec:
                return counting_lm(lm.spec, lm.dtype)
            loaded = lm.get()
            count = by_characters if served else loaded.count_tokens
            # a server reads a prompt again for each choice of several tokens
            return CountingLM(
                loaded.name,
                loaded.context_length,
                1,
                count,
                exact=not served,
                reads_rows=served,
            )

        return self.once(("counting", lm.spec, lm.dtype), made)


class CountingModels(Models):
    """Models whose LMs only count tokens, for dry runs: tokenizers are loaded, weights are not."""

    def load_lm(self, lm: NamedLM) -> LanguageModel:
        """Return a counting LM.

        Raises:
            UserError: the LM is a server or a function, whose tokens cannot be counted here.
        """
        if is_address(lm.spec) or ":" in lm.spec:
            raise UserError(
                f"--lm {lm.spec}: its tokens cannot be counted without asking it; name a local LM"
            )
        return counting_lm(lm.spec, lm.dtype)


@dataclass(frozen=True, eq=False)
class NamedLM:
    """A language model by name, loaded on first use. Its key is the loaded LM's key, which
    identifies weights, dtype and prompt format; for local models it is known without loading the
    weights."""

    models: Models
    spec: str
    dtype: str = "auto"
    device_map: str | None = None
    endpoint: EndpointConfig = field(default_factory=EndpointConfig)

    def get(self) -> LanguageModel:
        """Return the loaded LM."""
        key = "lm", self.spec, self.dtype, self.device_map, self.endpoint
        return self.models.once(key, lambda: self.models.load_lm(self))

    def loader(self) -> Callable[[], LanguageModel]:
        """Return a function that loads the LM, which may be sent to another process."""
        return partial(
            load_lm, self.spec, dtype=self.dtype, device_map=self.device_map, endpoint=self.endpoint
        )

    @property
    def can_score(self) -> bool:
        """Whether it gives log-probabilities. Local models do, so that they need not be loaded to
        know."""
        return key_without_weights(self.spec, self.dtype) is not None or self.get().can_score

    @cached_property
    def key(self) -> str:
        key = key_without_weights(self.spec, self.dtype)
        return self.get().key if key is None else key


@dataclass(frozen=True, eq=False)
class NamedEncoder:
    """An untrained encoder by name, loaded on first use. Its key identifies its weights, network
    and tokenizer."""

    models: Models
    name: str
    endpoint: EndpointConfig = field(default_factory=EndpointConfig)

    def get(self) -> Encoder:
        """Return the loaded encoder."""
        # imported late: jax takes a second to import, and a command may be refused before it is
        # needed
        from ceil_jax.encoders.registry import load_encoder

        endpoint = self.endpoint if is_address(self.name) else None
        return self.models.once(
            ("encoder", self.name, endpoint), lambda: load_encoder(self.name, endpoint=endpoint)
        )

    def check_trainable(self) -> None:
        """Raise a UserError if the encoder cannot be trained; see `require_network`."""
        from ceil_jax.encoders.encoder import require_network

        require_network(self.get())

    @property
    def encodes_alike(self) -> bool:
        """Whether it encodes queries and bank examples in the same way."""
        query, bank = sides(self.get())
        return query is bank

    @cached_property
    def key(self) -> str:
        return self.get().fingerprint

"""Language models and encoders by name, each loaded when it is first asked for."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

from ceil_jax.encoders.encoder import Encoder
from ceil_jax.encoders.registry import load_encoder
from ceil_jax.errors import UserError
from ceil_jax.lm import LanguageModel, load_lm
from ceil_jax.lm.counting import CountingLM, by_characters, counting_lm
from ceil_jax.lm.openai.address import is_address
from ceil_jax.lm.openai.config import EndpointConfig


class Models:
    """LMs and encoders by name, each loaded once; runs may share one `Models`."""

    def __init__(self) -> None:
        self._loaded: dict[Hashable, Any] = {}

    def once(self, key: Hashable, load: Callable[[], Any]) -> Any:
        """Return the value of a key, made when it is first asked for."""
        if key not in self._loaded:
            self._loaded[key] = load()
        return self._loaded[key]

    def load_lm(
        self, spec: str, dtype: str, device_map: str | None, endpoint: EndpointConfig
    ) -> LanguageModel:
        """Return a language model; see `ceil_jax.load_lm` for the arguments."""
        return load_lm(spec, dtype=dtype, device_map=device_map, endpoint=endpoint)

    def counting(self, lm: LM) -> CountingLM:
        """Return an LM with the same tokenizer that only counts; one that guesses from characters for a server."""
        return self.once(("counting", lm.spec, lm.dtype), lambda: self._counting(lm))

    def _counting(self, lm: LM) -> CountingLM:
        if is_address(lm.spec):
            loaded = lm.get()
            return CountingLM(loaded.name, loaded.context_length, 1, by_characters, exact=False)
        if ":" in lm.spec:
            loaded = lm.get()
            return CountingLM(loaded.name, loaded.context_length, 1, loaded.count_tokens)
        return counting_lm(lm.spec, lm.dtype)

    def parameters(self, lm: LM) -> float:
        """Return the number of an LM's parameters; 1 where it is not known."""
        return float(self.counting(lm).parameters)


class CountingModels(Models):
    """Models whose LMs only count: what a dry run needs."""

    def load_lm(
        self, spec: str, dtype: str, device_map: str | None, endpoint: EndpointConfig
    ) -> LanguageModel:
        """Return the LM's tokenizer and configuration, without its weights.

        Raises:
            UserError: a server or a function, whose tokens cannot be counted here.
        """
        if is_address(spec) or ":" in spec:
            raise UserError(f"--lm {spec}: its tokens cannot be counted without asking it; name a local LM")
        return counting_lm(spec, dtype)


@dataclass(frozen=True, eq=False)
class LM:
    """A language model by name. Its key is the name of the loaded one, which names weights and dtype."""

    models: Models
    spec: str
    dtype: str = "auto"
    device_map: str | None = None
    endpoint: EndpointConfig = field(default_factory=EndpointConfig)

    def get(self) -> LanguageModel:
        """Return the loaded LM."""
        given = (self.spec, self.dtype, self.device_map, self.endpoint)
        return self.models.once(("lm", *given), lambda: self.models.load_lm(*given))

    def loader(self) -> Callable[[], LanguageModel]:
        """Return a function that loads the LM in another process."""
        return partial(
            load_lm, self.spec, dtype=self.dtype, device_map=self.device_map, endpoint=self.endpoint
        )

    @cached_property
    def key(self) -> str:
        return self.get().name


@dataclass(frozen=True, eq=False)
class Pretrained:
    """An untrained encoder by name. Its key stands for its weights, its network and its tokenizer."""

    models: Models
    name: str
    endpoint: EndpointConfig = field(default_factory=EndpointConfig)

    def get(self) -> Encoder:
        """Return the loaded encoder."""
        asked = self.endpoint if is_address(self.name) else None
        return self.models.once(
            ("encoder", self.name, asked), lambda: load_encoder(self.name, endpoint=asked)
        )

    @cached_property
    def key(self) -> str:
        return self.get().cached_as

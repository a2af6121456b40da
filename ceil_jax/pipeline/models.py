"""Language models and encoders by name, loaded on first use."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ceil_jax.encoders.text_encoder import sides
from ceil_jax.lm import LanguageModel, load_lm
from ceil_jax.lm.cached import Reader
from ceil_jax.lm.counting import CountingLM, by_characters, counting_lm
from ceil_jax.lm.openai.address import is_address
from ceil_jax.lm.openai.config import EndpointConfig
from ceil_jax.lm.registry import key_without_weights
from ceil_jax.pipeline.config import RunConfig
from ceil_jax.registry import is_function
from ceil_jax.tasks.assets import ASSETS

if TYPE_CHECKING:
    from ceil_jax.encoders.encoder import Encoder


class Models:
    """A cache of LMs and encoders, so that each is loaded once, also by several runs."""

    def __init__(self) -> None:
        self._loaded: dict[Hashable, Any] = {}

    def once(self, key: Hashable, load: Callable[[], Any]) -> Any:
        """Return the value for a key, which is created on first use."""
        if key not in self._loaded:
            self._loaded[key] = load()
        return self._loaded[key]

    def load_lm(self, lm: NamedLM) -> LanguageModel:
        """Load a language model."""
        return lm.loader()()

    def counting(self, lm: NamedLM) -> CountingLM:
        """Return an LM that only counts tokens, with the same tokenizer.

        For a server, it estimates them from characters.
        """

        def made() -> CountingLM:
            if not (lm.is_served or lm.is_function):
                return counting_lm(lm.spec, lm.dtype)
            loaded = lm.get()
            count = by_characters if lm.is_served else loaded.count_tokens
            # a server reads a prompt again for each choice of several tokens
            return CountingLM(
                loaded.name,
                loaded.context_length,
                1,
                count,
                exact=not lm.is_served,
                reads_rows=lm.is_served,
                weighs=loaded.can_weigh,
            )

        return self.once(("counting", lm.spec, lm.dtype), made)


class CountingModels(Models):
    """Models for dry runs, which read no prompt.

    A local LM is loaded without its weights, with its tokenizer only. A server is asked what it can
    do, and a function's LM is made.
    """

    def load_lm(self, lm: NamedLM) -> LanguageModel:
        """Return a local LM that only counts tokens, or another LM as it is."""
        if lm.is_served or lm.is_function:
            return super().load_lm(lm)
        return counting_lm(lm.spec, lm.dtype)


@dataclass(frozen=True, eq=False)
class NamedModel:
    """A model by name, with the properties that are known before it is loaded."""

    models: Models
    spec: str
    """The model as given to `--lm` or `--encoder`: a name, a folder, a hub id, module:function or an address."""

    @cached_property
    def is_served(self) -> bool:
        """True if the model runs on a server."""
        return is_address(self.spec)

    @cached_property
    def is_function(self) -> bool:
        """True if a user's function makes the model."""
        return is_function(self.spec)

    @cached_property
    def is_on_hub(self) -> bool:
        """True if the name can only be a repository on the hub."""
        has_owner = re.fullmatch(r"[A-Za-z0-9][\w.-]*/[\w.-]+", self.spec) is not None
        return has_owner and self.spec not in ASSETS and not Path(self.spec).is_dir()


@dataclass(frozen=True, eq=False)
class NamedLM(NamedModel):
    """A language model by name, loaded on first use.

    Its key is the loaded LM's key, which identifies weights, dtype and prompt format; for local
    models it is known without loading the weights.
    """

    dtype: str = "auto"
    device_map: str | None = None
    endpoint: EndpointConfig = field(default_factory=EndpointConfig)
    actors: int = 0
    """Number of Ray actors that read its prompts; 0 to read them in this process."""

    def get(self) -> LanguageModel:
        """Return the loaded LM."""
        key = "lm", self.spec, self.dtype, self.device_map, self.endpoint
        return self.models.once(key, lambda: self.models.load_lm(self))

    def loader(self) -> Callable[[], LanguageModel]:
        """Return a function that loads the LM, which may be sent to another process."""
        return partial(
            load_lm, self.spec, dtype=self.dtype, device_map=self.device_map, endpoint=self.endpoint
        )

    def reader(self) -> Reader | None:
        """Return a reader that reads the LM's prompts in Ray actors; None if this process reads them."""
        if not self.actors:
            return None
        from ceil_jax.lm.ray_reading import actor_pool

        return actor_pool(self.loader(), self.key, self.actors)

    @property
    def libraries(self) -> list[str]:
        """The optional libraries that the LM needs."""
        libraries = []
        if self.is_served:
            libraries.append("openai")
        elif self.spec != "tiny" and not self.is_function:
            libraries.append("torch")
        if self.actors:
            libraries.append("ray")
        return libraries

    @property
    def can_score(self) -> bool:
        """True if the LM gives log-probabilities.

        Local models do, so that they need not be loaded to know.
        """
        return key_without_weights(self.spec, self.dtype) is not None or self.get().can_score

    @property
    def reads_messages(self) -> bool:
        """True if the LM takes the messages of a chat. Local models take texts."""
        return (self.is_served or self.is_function) and self.get().reads_messages

    def writer(self) -> LanguageModel:
        """Return an LM that renders messages as text and counts tokens as this LM does.

        A local one without its weights.
        """
        return self.get() if self.is_served or self.is_function else self.models.counting(self)

    @cached_property
    def key(self) -> str:
        key = key_without_weights(self.spec, self.dtype)
        return self.get().key if key is None else key


@dataclass(frozen=True, eq=False)
class NamedEncoder(NamedModel):
    """An untrained encoder by name, loaded on first use.

    Its key identifies its weights, network and tokenizer.
    """

    endpoint: EndpointConfig = field(default_factory=EndpointConfig)

    def get(self) -> Encoder:
        """Return the loaded encoder."""
        # imported late: jax takes a second to import, and a command may be refused before it is
        # needed
        from ceil_jax.encoders.registry import load_encoder

        endpoint = self.endpoint if self.is_served else None
        return self.models.once(
            ("encoder", self.spec, endpoint), lambda: load_encoder(self.spec, endpoint=endpoint)
        )

    def check_trainable(self) -> None:
        """Raise a UserError if the encoder cannot be trained; see `require_network`."""
        from ceil_jax.encoders.encoder import require_network

        require_network(self.get())

    @property
    def encodes_alike(self) -> bool:
        """True if the encoder encodes queries and bank examples in the same way."""
        query, bank = sides(self.get())
        return query is bank

    @cached_property
    def key(self) -> str:
        return self.get().fingerprint


class NamedModels(NamedTuple):
    """The models that the settings of a run name."""

    cache: Models
    lm: NamedLM
    """The LM that scores and answers."""
    skill_lm: NamedLM
    """The LM that rewrites inputs as skills."""
    encoder: NamedEncoder
    """The untrained encoder."""

    @property
    def on_hub(self) -> dict[str, str]:
        """The hub ids of those models that are on the hub, by flag."""
        models: dict[str, NamedModel] = {"--lm": self.lm, "--encoder": self.encoder}
        if self.skill_lm is not self.lm:
            models["--skills.lm"] = self.skill_lm
        return {flag: model.spec for flag, model in models.items() if model.is_on_hub}

    def ask_servers(self) -> None:
        """Load the models that are on servers; the first answers of a server show what it can do."""
        for lm in (self.lm, self.skill_lm):
            if lm.is_served:
                lm.get()
        if self.encoder.is_served:
            # a first request finds out the length of its vectors
            _ = self.encoder.get().dim


def named_models(config: RunConfig, models: Models) -> NamedModels:
    """Return the models that the settings of a run name; loaded ones come from `models`."""
    actors = config.actors if config.engine == "ray" else 0
    lm = NamedLM(models, config.lm, config.dtype, config.device_map, config.endpoint, actors)
    rewriter = config.skills.lm
    return NamedModels(
        models,
        lm,
        replace(lm, spec=rewriter) if rewriter else lm,
        NamedEncoder(models, config.encoder, config.endpoint),
    )

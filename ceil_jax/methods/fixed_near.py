"""A prompt that begins with fixed examples and ends with some near ones.

Most of a prompt is the same for every query, so that a provider can cache it (Golchin et al., arXiv
2507.16217).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar

from ceil_jax.errors import Range, UserError
from ceil_jax.methods.base import Learnt, Method, Steps
from ceil_jax.methods.fixed import FixedPrompt
from ceil_jax.methods.free import Free
from ceil_jax.store.hashing import NO_KEY


@dataclass(frozen=True)
class FixedNear(FixedPrompt):
    """A prompt whose first examples are fixed, and whose last few are the nearest to the query."""

    name: ClassVar[str] = "fixed_near"
    title: ClassVar[str] = "fixed prompt and near examples"
    near: Annotated[int, Range(1)] = field(default=2, metadata=NO_KEY)
    """Number of near examples, which come after the fixed ones; K counts both."""
    start: Method = field(default=Free(), metadata=NO_KEY)
    """The method whose vectors find the near examples."""

    @property
    def chain(self) -> tuple[Method, ...]:
        """The method, and the one whose vectors find near examples."""
        return self, *self.start.chain

    def learn(self, steps: Steps) -> Learnt:
        """Find the fixed examples; the start's encoders find the near ones."""
        fixed = self.found(steps)
        return replace(steps.learnt(self.start), fixed=fixed, training=fixed)

    @property
    def needs_log_probs(self) -> bool:
        """True if the method of the near examples needs log-probabilities."""
        return self.start.needs_log_probs

    @property
    def near_examples(self) -> int:
        """The number of near examples."""
        return self.near

    def configured(self, settings: Mapping[str, Method], above: tuple[str, ...] = ()) -> Method:
        """Return the method and its start with configured settings; see `Method.configured`."""
        method = settings.get(self.name, self)
        assert isinstance(method, FixedNear), "one name is one class"
        start = method.start.as_start(self.flag("start")).configured(settings)
        return replace(method, start=start)

    def fixed_count(self, shots: int) -> int:
        """Return how many of the `shots` examples of a prompt are fixed: all but the near ones.

        Raises:
            UserError: none would be fixed.
        """
        if shots <= self.near:
            raise UserError(
                f"--shots {shots}: {self.near} of them are near the query, and none would be fixed; "
                f"ask for more, or lower {self.flag('near')}"
            )
        return shots - self.near

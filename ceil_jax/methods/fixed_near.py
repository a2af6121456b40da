"""Fixed examples first, then some near ones: most of a prompt is the same for every query, so that
a provider can cache it (Golchin et al., arXiv 2507.16217)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar

from ceil_jax.errors import Range, UserError
from ceil_jax.methods.base import Method, method_flag
from ceil_jax.methods.fixed import FixedPart, FixedPrompt, WithFixedExamples
from ceil_jax.methods.free import Free
from ceil_jax.store.hashing import NO_KEY


@dataclass(frozen=True)
class FixedNear(WithFixedExamples):
    """A prompt whose first examples are fixed, and whose last few are the nearest to the query."""

    name: ClassVar[str] = "fixed_near"
    title: ClassVar[str] = "fixed prompt and near examples"
    near: Annotated[int, Range(1)] = field(default=2, metadata=NO_KEY)
    """Number of near examples, which stand behind the fixed ones; K counts both."""
    fixed: Method = field(default=FixedPrompt(), metadata=NO_KEY)
    """The method that finds the fixed examples, with its own settings."""
    start: Method = field(default=Free(), metadata=NO_KEY)
    """The method whose vectors find the near examples."""

    @property
    def chain(self) -> tuple[Method, ...]:
        """The method, and the one whose vectors find near examples."""
        return self, *self.start.chain

    @property
    def encoders_of(self) -> Method:
        """The method whose vectors find near examples."""
        return self.start

    @property
    def trains_networks(self) -> bool:
        """Whether the vectors that find near examples come from trained networks."""
        return self.start.trains_networks

    @property
    def near_examples(self) -> int:
        """The number of near examples."""
        return self.near

    @property
    def training_query_count(self) -> int:
        """The number of rows of the bank on which sets of fixed examples are scored."""
        return self.fixed.training_query_count

    def with_training_queries(self, count: int) -> Method:
        """Return the method with at most `count` rows on which sets are scored."""
        return replace(self, fixed=self.fixed.with_training_queries(count))

    def smaller(self) -> Method | None:
        """Return the method of the fixed examples with half the work."""
        return self.fixed.smaller()

    @property
    def needs_log_probs(self) -> bool:
        """Whether the method of the near examples needs log-probabilities."""
        return self.start.needs_log_probs

    def configured(self, settings: Mapping[str, Method], above: tuple[str, ...] = ()) -> Method:
        """Return the method, and the two methods that it uses, with configured settings. For the
        arguments see `Method.configured`.

        Raises:
            UserError: `fixed` is not a method that finds fixed examples, or a method would use
                itself.
        """
        if self.name in above:
            raise UserError(f"{method_flag(above[-1], 'start')} {self.name}: it cannot use itself")
        method = settings.get(self.name, self)
        assert isinstance(method, FixedNear), "one name is one class"
        if not isinstance(method.fixed, FixedPrompt):
            raise UserError(
                f"{self.flag('fixed')} {method.fixed.name}: it finds no fixed examples; `fixed` "
                "does"
            )
        fixed = method.fixed.configured(settings)
        start = method.start.configured(settings, (*above, self.name))
        start = start.as_start(self.flag("start"))
        return replace(method, fixed=fixed, start=start)

    def training_data(self, bank_size: int, summary: Mapping[str, Any]) -> str:
        """Return how the fixed examples were found."""
        return self.fixed.training_data(bank_size, summary)

    def fixed_part(self, shots: int, bank_size: int) -> FixedPart:
        """Return the fixed part of a prompt: all of its examples but the near ones.

        Args:
            shots: number of examples in a prompt.
            bank_size: number of examples in the bank.

        Raises:
            UserError: `shots` is not larger than the number of near examples, or the bank or the
                pool is too small.
        """
        if shots <= self.near:
            raise UserError(
                f"--shots {shots}: {self.near} of them are near the query, and none would be fixed; "
                f"ask for more, or lower {self.flag('near')}"
            )
        assert isinstance(self.fixed, FixedPrompt), "checked by `configured`"
        return self.fixed.fixed_part(shots - self.near, bank_size)

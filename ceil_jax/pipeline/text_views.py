"""What methods see of an example: its input, or the skills that an LM says it needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property

from ceil_jax.errors import UserError
from ceil_jax.lm import LanguageModel
from ceil_jax.pipeline.config import RunConfig
from ceil_jax.pipeline.methods import METHODS
from ceil_jax.skills.rewriter import Rewriter, load_demonstrations
from ceil_jax.store.rows import Cost
from ceil_jax.store.store import Store
from ceil_jax.tasks.example import Example, Task, context_text


class Inputs:
    """A run's inputs, rewritten when they are first asked for and no more often.

    Args:
        lm: gives an LM by its name; the run's own rewrites unless `--skills.lm` names another.
        costs: where rewriting's are noted.
    """

    def __init__(
        self,
        config: RunConfig,
        task: Task,
        store: Store,
        lm: Callable[[str], LanguageModel],
        costs: dict[str, Cost],
    ) -> None:
        self.config, self.task, self._store, self._lm, self._costs = config, task, store, lm, costs

    @cached_property
    def rewriter(self) -> Rewriter:
        """Of `--skills.lm` and `--skills.demonstrations`.

        Raises:
            UserError: the task has no demonstrations of its own and none are given; an order out of range.
        """
        config = self.config.skills
        source = config.demonstrations or self.task.language
        if not source:
            raise UserError(
                f"{self.task.name} has no demonstrations of skills: give --skills.demonstrations FILE"
            )
        if not 0 <= config.order < config.orders:
            raise UserError(
                f"--skills.order {config.order}: expected a number from 0 to below --skills.orders ({config.orders})"
            )
        lm = self._lm(config.lm or self.config.lm)
        demonstrations = load_demonstrations(source)
        return Rewriter(lm, demonstrations, self._store, orders=config.orders, seed=self.config.data_seed)

    def orders(self, name: str) -> list[int]:
        """The rewriter's orders whose skills a method compares, if any."""
        needs, config = METHODS[name].needs, self.config
        if needs.skills == "all":
            return list(range(config.skills.orders))
        one = needs.skills == "one" or (needs.text and config.text == "skill")
        return [config.skills.order] if one else []

    def rewrite(self, inputs: Sequence[str], orders: Sequence[int]) -> list[list[str]]:
        """The skills of each input, one for each of the orders."""
        skills = self.rewriter.rewrite(inputs, orders)
        self._costs |= {f"rewriting, order {order}": self.rewriter.costs[order] for order in orders}
        return skills

    def seen(self, examples: Sequence[Example]) -> Sequence[Example]:
        """The examples as retrievers see them: by `--text`, with a skill in place of the input."""
        if self.config.text == "input":
            return examples
        skills = self.rewrite([example.input for example in examples], [self.config.skills.order])
        return [replace(example, input=skill) for example, [skill] in zip(examples, skills, strict=True)]

    @cached_property
    def bank(self) -> Sequence[Example]:
        """The task's, as retrievers see it."""
        return self.seen(self.task.train)

    @cached_property
    def context(self) -> Sequence[Example]:
        """The bank as trained encoders see it: by `--context`, with the output after the input."""
        if self.config.context == "input":
            return self.bank
        return [replace(example, input=context_text(example, "example")) for example in self.bank]

    def report(self, methods: Sequence[str]) -> str:
        """How many rewrites failed, where these methods need any."""
        return self.rewriter.report() if any(self.orders(method) for method in methods) else ""


class JoinedInputs(Inputs):
    """The banks of several runs, one after another.

    Raises:
        UserError: --text skill, whose demonstrations are a task's own.
    """

    def __init__(self, own: Inputs, members: Sequence[Inputs]) -> None:
        super().__init__(own.config, own.task, own._store, own._lm, own._costs)
        if own.config.text != "input":
            raise UserError(f"--text {own.config.text}: tasks are trained on together with --text input only")
        self._members = members

    @cached_property
    def bank(self) -> Sequence[Example]:
        return [example for member in self._members for example in member.bank]

    @cached_property
    def context(self) -> Sequence[Example]:
        return [example for member in self._members for example in member.context]

"""A task under one configuration, which all rows of a comparison share."""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from ceil_jax.errors import UserError
from ceil_jax.lm.prompts import NAMES_LABELS, Prompt, PromptBuilder, instruction
from ceil_jax.methods.row import Row
from ceil_jax.metrics import METRICS
from ceil_jax.pipeline.config import RunConfig
from ceil_jax.pipeline.models import Models, NamedEncoder, NamedLM, NamedModels, named_models
from ceil_jax.pipeline.prompting import Prompting
from ceil_jax.pipeline.run import Run
from ceil_jax.registry import load_plugins
from ceil_jax.skills.rewriter import Demonstration, load_demonstrations
from ceil_jax.tasks.bank import Bank, Examples
from ceil_jax.tasks.checks import separated
from ceil_jax.tasks.example import Task
from ceil_jax.tasks.labels import label_names, labels_of
from ceil_jax.tasks.registry import TASKS

log = logging.getLogger(__name__)

TOLD = "earlier-stages.told"
"""The file that marks a folder whose stages of an earlier version have been reported to the user."""


@dataclass(frozen=True, eq=False)
class Setup:
    """A task under one configuration. `pipeline.row_stages` makes the stages of its rows.

    Args:
        config: everything that a number depends on besides the task's data.
        task: the bank, the queries, the template and the metric.
        models: loads LMs and encoders; shared with other setups.
        bank: the task's bank.
        queries: the task's queries.
        trained_by: the setup whose trained encoders this one takes; by default its own.

    Raises:
        UserError: an unknown metric, or settings that do not fit the task.
    """

    config: RunConfig
    task: Task
    models: Models
    bank: Bank
    queries: Examples
    trained_by: Setup | None = None

    def __post_init__(self) -> None:
        for metric in (self.task.metric, *self.task.more_metrics):
            # a misspelt name ends here, before the LM has answered anything
            METRICS.require(metric)
        shots = self.config.shots
        if not 0 <= shots < len(self.bank):
            raise UserError(
                f"--shots {shots}: the bank of {self.task.name} has {len(self.bank)} examples; "
                f"ask for 0 to {len(self.bank) - 1}"
            )

    def row(self, name: str) -> Row:
        """Return the row of a name with this configuration's settings; see `RunConfig.row`."""
        return self.config.row(name)

    @cached_property
    def for_all_seeds(self) -> Setup:
        """The setup with `data_seed` as its seed.

        It draws candidate sets and sets λ for all seeds, so that these share the LM's work.
        """
        if self.config.seed == self.config.data_seed:
            return self
        return replace(
            self,
            config=replace(self.config, seed=self.config.data_seed),
            trained_by=self.trained_by and self.trained_by.for_all_seeds,
        )

    # the models and the prompts

    @cached_property
    def _named(self) -> NamedModels:
        return named_models(self.config, self.models)

    @property
    def lm(self) -> NamedLM:
        """The LM that scores and answers."""
        return self._named.lm

    @property
    def skill_lm(self) -> NamedLM:
        """The LM that rewrites inputs as skills."""
        return self._named.skill_lm

    @property
    def untrained_encoder(self) -> NamedEncoder:
        """The untrained encoder."""
        return self._named.encoder

    @cached_property
    def demonstrations(self) -> tuple[Demonstration, ...]:
        """The demonstrations for the LM that rewrites inputs: inputs with their skills.

        Raises:
            UserError: the task has none of its own and none are given.
        """
        source = self.config.skills.demonstrations or self.task.language
        if not source:
            raise UserError(
                f"{self.task.name} has no demonstrations of skills: give --skills.demonstrations "
                "FILE"
            )
        return tuple(load_demonstrations(source))

    @cached_property
    def system(self) -> str:
        """The instruction as a pattern (`lm.prompts.instruction`).

        It is the user's; or for a chat LM whose answers are labels, one that names them.
        """
        if self.config.system is not None:
            return self.config.system
        names_labels = self.lm.reads_messages and bool(labels_of(self.bank.examples))
        return NAMES_LABELS if names_labels else ""

    @cached_property
    def prompt(self) -> Prompt:
        """The form of prompts.

        Raises:
            UserError: an instruction that names what there is not, or turns for an LM without a
                chat template.
        """
        bank = self.bank.examples
        system = instruction(self.system, label_names(bank) if labels_of(bank) else ())
        form = self.config.form or ("turns" if self.lm.reads_messages else "text")
        prompt = Prompt(
            self.task.template, system, form, self.config.order, tuple(self.task.few_shot)
        )
        if form == "turns" and not self.lm.writer().takes_system:
            return replace(prompt, system_role="user")
        return prompt

    @cached_property
    def prompting(self) -> Prompting:
        """The prompts that candidate sets are scored with."""
        return Prompting(
            self.lm,
            self.prompt,
            self.config.fit,
            per_token=self.task.per_token,
            max_new_tokens=self.task.max_new_tokens,
        )

    @cached_property
    def answering(self) -> Prompting:
        """The prompts that queries are answered with: like those for scoring, but within the token budget."""
        prompt = replace(self.prompt, token_budget=self.config.token_budget)
        return replace(self.prompting, prompt=prompt)


class Session(NamedTuple):
    """A run and a setup: `run.get(row_stages.metric(setup, row))` evaluates a row."""

    run: Run
    setup: Setup


def setup_of(
    config: RunConfig, task: Task, models: Models, trained_by: Setup | None = None
) -> Setup:
    """Return the setup of a task; for the arguments see `Setup`."""
    return Setup(config, task, models, Bank(task.train), Examples(task.validation), trained_by)


def tell_of_older_stages(root: Path) -> None:
    """Log a warning, once for each folder, if it has stages of an earlier version, whose keys
    differ.

    They are computed again, but cached LM outputs are kept.
    """
    marker = root / TOLD
    if marker.exists() or not any(root.glob("chosen-*/key.json")):
        return
    log.warning(
        "%s holds stages of an earlier version, which are computed again; cached LM outputs are "
        "kept, so that this takes no LM tokens",
        root,
    )
    with suppress(OSError):
        marker.touch()


def _check_prompt(setup: Setup) -> None:
    """Raise a UserError for a prompt that cannot be sent, and log what was added to it.

    Nothing has been computed yet. A prompt of one text without an instruction needs no LM, and is
    not checked here.
    """
    prompt = setup.answering.prompt
    if setup.config.system is None and setup.system:
        log.info(
            "the instruction is %r; --system TEXT gives another, --system '' none", prompt.system
        )
    if prompt.system_role == "user" and prompt.system:
        log.warning(
            "the chat template of %s takes no system message: the instruction is put at the "
            "beginning of the first user's turn",
            setup.config.lm,
        )
    if prompt.system or prompt.form == "turns":
        PromptBuilder(setup.lm.writer(), prompt, reserve=0)


def open_run(
    config: RunConfig, task: Task, models: Models | None = None, trained_by: Setup | None = None
) -> Session:
    """Return the `Run` that computes and keeps results, and the `Setup` of a task.

    Nothing is computed and no model is loaded yet. In your own task, rows of the bank with a
    query's text are removed (`tasks.checks.separated`).

    Args:
        config: everything that a number depends on besides the task's data.
        task: the bank, the queries, the template and the metric.
        models: loads LMs and encoders; shared with other runs.
        trained_by: the setup whose trained encoders this one takes; by default its own.

    Raises:
        UserError: an unknown metric, or settings that do not fit the task.

    Examples:
        >>> from ceil_jax import load_task
        >>> from ceil_jax.pipeline import row_stages
        >>> task = load_task("movie_reviews", limit=4, bank_limit=50)
        >>> run, setup = open_run(RunConfig(encoder="tiny", lm="tiny"), task)
        >>> row_stages.choice(setup, setup.row("bm25")).k
        8
    """
    load_plugins()
    if config.out.is_file():
        raise UserError(f"--out {config.out} is a file; name a folder")
    tell_of_older_stages(config.out)
    task = task if task.name in TASKS else separated(task)
    setup = setup_of(config, task, models or Models(), trained_by)
    _check_prompt(setup)
    return Session(Run(config.out, setup.models), setup)

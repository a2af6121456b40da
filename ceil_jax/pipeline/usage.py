"""The tokens that a row reads and writes for a query, for prices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ceil_jax.lm.price import Usage, usage_of
from ceil_jax.pipeline.answering import Answers, Predictions
from ceil_jax.pipeline.records import readings_of_queries
from ceil_jax.pipeline.stage import Run, Stage
from ceil_jax.pipeline.vectors import HiddenStates


@dataclass(frozen=True)
class PromptTokens(Stage[Usage]):
    """The mean number of tokens of a row's prompts and answers, and of the queries where an LM gives
    their hidden states."""

    what = "counting the tokens of prompts"
    kind = "usage"
    predictions: Answers

    def compute(self, run: Run, folder: Path) -> Mapping[str, Any]:
        usage = self._of_prompts(run)
        read = read_for_states(run, self.predictions)
        return usage._replace(prompt=usage.prompt + read)._asdict()

    def _of_prompts(self, run: Run) -> Usage:
        stage = self.predictions
        if not isinstance(stage, Predictions):
            return Usage()
        queries = stage.queries.examples
        prompts = [prompt.text for prompt in stage.prompts(run, queries, run.get(stage.choice))]
        answers = [row["prediction"] for row in run.get(stage)]
        lm = run.lm(stage.prompting.lm)
        return usage_of(prompts, answers, lm.count_tokens)

    def load(self, run: Run, folder: Path) -> Usage:
        summary = run.summary(self)
        return Usage(**{name: summary[name] for name in Usage._fields})


def read_for_states(run: Run, predictions: Answers) -> float:
    """Return the mean number of tokens that an LM reads of a query for its hidden states; 0 if
    these are not needed."""
    stages = [
        stage for stage in readings_of_queries(predictions) if isinstance(stage, HiddenStates)
    ]
    return sum(float(run.lm(stage.lm).count_tokens(stage.texts()).mean()) for stage in stages)

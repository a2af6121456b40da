"""The tokens of a row's prompts, for prices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ceil_jax.lm.price import Usage, usage_of
from ceil_jax.pipeline.answering import Predictions
from ceil_jax.pipeline.stage import Run, Stage


@dataclass(frozen=True)
class PromptTokens(Stage[Usage]):
    """The mean number of tokens of a row's prompts and answers."""

    what = "counting the tokens of prompts"
    kind = "usage"
    predictions: Predictions

    def compute(self, run: Run, folder: Path) -> Mapping[str, Any]:
        stage = self.predictions
        queries = stage.queries.examples
        prompts = [prompt.text for prompt in stage.prompts(run, queries, run.get(stage.choice))]
        answers = [row["prediction"] for row in run.get(stage)]
        lm = run.lm(stage.prompting.lm)
        return usage_of(prompts, answers, lm.count_tokens)._asdict()

    def load(self, run: Run, folder: Path) -> Usage:
        summary = run.summary(self)
        return Usage(**{name: summary[name] for name in Usage._fields})

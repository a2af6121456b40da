"""The tokens that a row reads and writes for a query, for prices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ceil_jax.lm.price import Usage, total, usage_of
from ceil_jax.pipeline.answering import Answers, Predictions
from ceil_jax.pipeline.records import readings_of_queries
from ceil_jax.pipeline.stage import Run, Stage


@dataclass(frozen=True)
class PromptTokens(Stage[Usage]):
    """The mean number of tokens of a row's prompts and answers, and of what an LM reads and writes of a
    query before."""

    version = 2
    what = "counting the tokens of prompts"
    kind = "usage"
    predictions: Answers

    def compute(self, run: Run, folder: Path) -> Mapping[str, Any]:
        before = before_answering(run, self.predictions)
        return total([self._of_prompts(run), *before])._asdict()

    def _of_prompts(self, run: Run) -> Usage:
        stage = self.predictions
        if not isinstance(stage, Predictions):
            return Usage()
        queries = stage.queries.examples
        prompts = [built.prompt for built in stage.prompts(run, queries, run.get(stage.choice))]
        answers = [row["prediction"] for row in run.get(stage)]
        lm = run.lm(stage.prompting.lm)
        return usage_of(prompts, answers, lm.count_tokens)

    def load(self, run: Run, folder: Path) -> Usage:
        summary = run.summary(self)
        return Usage(**{name: summary[name] for name in Usage._fields})


def before_answering(run: Run, predictions: Answers) -> list[Usage]:
    """Return the mean numbers of tokens that an LM reads and writes of a query before it is answered,
    one for each order in which it is rewritten as a skill."""
    return [stage.usage(run) for stage in readings_of_queries(predictions)]

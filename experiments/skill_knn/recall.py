"""recall@N: sampled answers are ranked by how often they were drawn."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ceil_jax.errors import UserError
from ceil_jax.methods.registry import ROWS
from ceil_jax.metrics import METRICS
from ceil_jax.pipeline import row_stages
from ceil_jax.pipeline.answering import answer, prompts_of
from ceil_jax.pipeline.evaluate import evaluate
from ceil_jax.pipeline.setup import Session
from ceil_jax.report.table import Table, Value
from skill_knn.analysis import recall_at

RANKS = (1, 2, 3, 5, 7, 10, 20, 50, 100)


def answered_prompts(session: Session, method: str) -> list[str]:
    """Return the prompt that each query was answered with."""
    run, setup = session
    stage = row_stages.predictions(setup, setup.row(method))
    assert stage.is_of(answer)
    choice = run.get(stage.choice)
    return [prompt.text for prompt in prompts_of(run, stage, setup.queries.examples, choice)]


def sample(session: Session, method: str, count: int, temperature: float) -> list[list[str]]:
    """Sample answers to each query, with the examples that greedy answering had.

    Samples are kept with all that the LM has read.

    Args:
        session: the run.
        method: a name in ROWS.
        count: number of answers per query.
        temperature: sampling temperature.

    Raises:
        UserError: a task whose answers are chosen, a temperature of 0 or less, no samples.
    """
    run, setup = session
    task = setup.task
    lm = run.lm(setup.lm)
    if task.validation[0].choices:
        raise UserError(
            f"{task.name}: its answers are chosen among options, so there is nothing to sample"
        )
    if temperature <= 0 or count < 1:
        raise UserError(f"--samples {count} --temperature {temperature}: both must be above 0")
    prompts = answered_prompts(session, method)
    copies = [prompt for prompt in prompts for _ in range(count)]
    seeds = [*range(count)] * len(prompts)
    with lm.metered(f"sampling: {ROWS[method].label}"):
        texts = lm.generate(
            copies, task.max_new_tokens, task.stop, temperature=temperature, seed=seeds
        )
    return [[text.strip() for text in texts[i : i + count]] for i in range(0, len(texts), count)]


def recall_table(session: Session, methods: Sequence[str], count: int, temperature: float) -> str:
    """Return a Markdown table of each method's recall, in percent, at the RANKS up to `count`.

    Args:
        session: the run.
        methods: names in ROWS, the rows.
        count: number of answers per query.
        temperature: sampling temperature.
    """
    run, setup = session
    task = setup.task
    metric = METRICS[task.metric]

    def right(answers: Sequence[str], owners: Sequence[int]) -> np.ndarray:
        return metric.per_example(answers, [task.validation[owner] for owner in owners]) > 0

    ranks = [n for n in RANKS if n <= count]
    rows: list[list[Value]] = []
    for method in methods:
        recalls = recall_at(sample(session, method, count, temperature), right, ranks)
        greedy = evaluate(run, setup, setup.row(method)).value
        rows.append([ROWS[method].label, greedy, *(recalls[n] for n in ranks)])
    title = (
        f"{task.name}: {task.metric} in percent, {len(task.validation):,} queries, {count} samples "
        f"at temperature {temperature:g}, {setup.lm.key}"
    )
    table = Table(["method", "greedy", *(f"recall@{n}" for n in ranks)], rows)
    return f"{title}\n\n{table.markdown()}"

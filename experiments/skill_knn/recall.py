"""recall@N: sampled answers are ranked by how often they were drawn."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ceil_jax.errors import UserError
from ceil_jax.metrics import metric_named
from ceil_jax.pipeline.methods import METHODS
from ceil_jax.pipeline.run import Run
from ceil_jax.report.table import Table, Value
from skill_knn.analysis import recall_at

RANKS = (1, 2, 3, 5, 7, 10, 20, 50, 100)


def prompts_of(pipeline: Run, method: str) -> list[str]:
    """Return the prompt that each query was answered with."""
    task = pipeline.task
    by_id = {example.id: example for example in task.train}
    opening = "".join(task.template.example(example) + task.template.separator for example in task.few_shot)
    prompts = []
    for query, row in zip(task.validation, pipeline.evaluate(method).rows, strict=True):
        shown = [task.template.example(by_id[id]) + task.template.separator for id, *_ in row["examples"]]
        prompts.append(opening + "".join(shown) + task.template.query(query))
    return prompts


def sample(pipeline: Run, method: str, count: int, temperature: float) -> list[list[str]]:
    """Sample answers to each query, with the examples that greedy answering used.

    Samples are kept on disk, one prompt at a time. A prompt is read once for all of its samples.

    Args:
        pipeline: the run.
        method: a name in METHODS.
        count: number of answers per query.
        temperature: sampling temperature.

    Raises:
        UserError: a task whose answers are chosen, a temperature of 0 or less, no samples.
    """
    task, lm = pipeline.task, pipeline.lm
    if task.validation[0].choices:
        raise UserError(f"{task.name}: its answers are chosen among options, so there is nothing to sample")
    if temperature <= 0 or count < 1:
        raise UserError(f"--samples {count} --temperature {temperature}: both must be above 0")
    prompts = prompts_of(pipeline, method)
    key = {
        "lm": lm.name,
        "samples": count,
        "temperature": temperature,
        "answers": [task.max_new_tokens, list(task.stop)],
    }

    def work(some: list[str]) -> list[list[str]]:
        copies = [prompt for prompt in some for _ in range(count)]
        seeds = [*range(count)] * len(some)
        texts = lm.generate(copies, task.max_new_tokens, task.stop, temperature=temperature, seed=seeds)
        return [[text.strip() for text in texts[i : i + count]] for i in range(0, len(texts), count)]

    what = f"sampling: {METHODS[method].label}"
    with pipeline.store.stage("samples", key) as stage:
        return list(stage.keyed_rows(prompts, work, chunk=1, what=what, cost=lambda: lm.tokens_read))


def recall_table(pipeline: Run, methods: Sequence[str], count: int, temperature: float) -> str:
    """Return a Markdown table of each method's recall, in percent, at the RANKS up to `count`.

    Args:
        pipeline: the run.
        methods: names in METHODS, the rows.
        count: number of answers per query.
        temperature: sampling temperature.
    """
    task = pipeline.task
    metric = metric_named(task.metric)

    def right(answers: Sequence[str], owners: Sequence[int]) -> np.ndarray:
        return metric.per_example(answers, [task.validation[owner] for owner in owners]) > 0

    ranks = [n for n in RANKS if n <= count]
    rows: list[list[Value]] = []
    for method in methods:
        found = recall_at(sample(pipeline, method, count, temperature), right, ranks)
        greedy = 100 * pipeline.evaluate(method).value
        rows.append([METHODS[method].label, greedy, *(found[n] for n in ranks)])
    title = (
        f"{task.name}: {task.metric} in percent, {len(task.validation):,} queries, {count} samples at temperature "
        f"{temperature:g}, {pipeline.lm.name}"
    )
    table = Table(["method", "greedy", *(f"recall@{n}" for n in ranks)], rows)
    return f"{title}\n\n{table.markdown()}"

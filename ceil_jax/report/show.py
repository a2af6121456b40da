"""An explanation of how a row answered one query.

Its examples, its answer, and the scored candidate sets that the row's encoders were trained on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ceil_jax.encoders.text_encoder import EncoderPair
from ceil_jax.errors import UserError, unknown_name
from ceil_jax.methods.base import Method
from ceil_jax.methods.row import Row
from ceil_jax.pipeline import row_stages
from ceil_jax.pipeline.answering import answer, prompts_of
from ceil_jax.pipeline.learning import train_encoders
from ceil_jax.pipeline.run import Run
from ceil_jax.pipeline.setup import Setup
from ceil_jax.pipeline.steps import StepsOf
from ceil_jax.pipeline.views import source
from ceil_jax.store.kept import Lazy
from ceil_jax.tasks.example import Example

_SETS = 6
"""The number of a training query's candidate sets that are shown, the best and the worst by the LM's scores."""
_LONGEST = 90
"""The maximum number of characters of a text that is shown on one line."""


def explanation(run: Run, setup: Setup, row: Row, query_id: str) -> str:
    """Return a text on how a row answered one query.

    It also shows on which candidate sets the row's encoders were trained.

    A held-out query gets its examples, prompt and answer, and the candidate sets of the first of
    its examples that was a training query. A training query gets its own candidate sets.

    Args:
        run: holds what `compare` has computed.
        setup: the task and its settings.
        row: the row.
        query_id: the id of a held-out query, or of a row of the bank that was a training query.

    Raises:
        UserError: something of the row is not computed yet, or no query has the id.
    """
    answers = row_stages.predictions(setup, row)
    if missing := run.missing([answers]):
        raise UserError(
            f"{row.label} is not computed yet ({len(missing)} steps are missing, such as "
            f"{missing[0].what}): run ceil-jax compare with the same flags first"
        )
    held_out = {query.id: position for position, query in enumerate(setup.queries.examples)}
    trained = _training_ids(setup, row)
    if query_id in held_out:
        lines = list(_answered(run, setup, row, held_out[query_id]))
        chosen = [example[0] for example in run.get(answers)[held_out[query_id]]["examples"]]
        learnt_from = next((one for one in reversed(chosen) if one in trained), None)
    elif query_id in trained:
        lines, learnt_from = [], query_id
    else:
        raise unknown_name("query", query_id, [*held_out, *trained])
    if learnt_from is not None:
        lines += _learnt(run, setup, row, learnt_from)
    elif trained:
        lines += ["", f"none of its examples was a training query; --query {min(trained)} is one"]
    return "\n".join([*lines, *_steps(run, answers)])


def _training_ids(setup: Setup, row: Row) -> set[str]:
    """The ids of the training queries of a row's methods."""
    return {
        query.id
        for _, training in _trainings(setup, row)
        for query in source(training.queries).examples
    }


def _trainings(setup: Setup, row: Row) -> Iterator[tuple[Method, Lazy[EncoderPair]]]:
    """Yield those of a row's methods that learn from scored candidate sets, with the step in which
    they learn.

    The first to be trained first.
    """
    for method in row.method.chain[::-1] if row.encodes else ():
        training = StepsOf(setup).learnt(method).training
        if training is not None and training.is_of(train_encoders):
            yield method, training


def _answered(run: Run, setup: Setup, row: Row, position: int) -> Iterator[str]:
    """The lines that show the prompt of one held-out query by one method, and its answer."""
    stage = row_stages.predictions(setup, row)
    found = run.get(stage)[position]
    query = setup.queries.examples[position]
    bank = {example.id: example for example in setup.bank.examples}
    yield f"{row.label}, query {query.id}: {_cut(query.input)}"
    yield ""
    if found["examples"]:
        yield "examples in prompt order (relevance, gain):"
    for example_id, relevance, gain in found["examples"]:
        yield f"  {relevance:.3f}  {gain:+.3f}  {_shown(bank[example_id])}"
    if stage.is_of(answer):
        choice = run.get(stage.choice)
        one = type(choice)(*(array[position : position + 1] for array in choice))
        [prompt] = prompts_of(run, stage, [query], one)
        yield from ("", "prompt:", *(f"  {line}" for line in prompt.text.splitlines()))
    yield from ("", f"answer: {_cut(found['prediction'])}", f"gold:   {_cut(found['gold'])}")


def _learnt(run: Run, setup: Setup, row: Row, query_id: str) -> Iterator[str]:
    """The scored candidate sets of a training query, for each method that was trained on it."""
    bank = setup.bank.examples
    for method, training in _trainings(setup, row):
        queries = source(training.queries)
        ids = [query.id for query in queries.examples]
        if query_id not in ids:
            continue
        number = ids.index(query_id)
        candidates, scores = run.get(training.scored)
        by_score = np.argsort(-scores[number], kind="stable")
        shown = by_score if len(by_score) <= _SETS else [*by_score[:3], *by_score[-3:]]
        by = "log P of the gold output by the LM" if method.scored_by_lm else "output similarity"
        yield from (
            "",
            f"{method.title} was trained on query {_shown(queries.examples[number])}",
            f"{len(by_score)} candidate sets, by {by}; the best and the worst:",
        )
        for subset in shown:
            items = candidates.subsets[number, subset]
            members = candidates.shortlist[number, items[items >= 0]]
            yield f"  {scores[number, subset]:8.3f}  {_joined([bank[i] for i in members])}"


def _steps(run: Run, target: Lazy[object]) -> Iterator[str]:
    """Lines on the steps that a result depends on, in the order of computation, with their folders."""
    yield from ("", "computed in these folders:")
    for name, (what, cost) in run.costs([target]).items():
        if (run.root / name).is_dir():
            yield f"  {name}  {what}, {cost.tokens:,} LM tokens, {cost.seconds:.1f} s"


def _shown(example: Example) -> str:
    return f"{example.id}: {_cut(example.input)} → {_cut(example.output)}"


def _joined(examples: Sequence[Example]) -> str:
    return "; ".join(f"{example.id} → {_cut(example.output, 30)}" for example in examples)


def _cut(text: str, longest: int = _LONGEST) -> str:
    line = " ".join(text.split())
    return line if len(line) <= longest else f"{line[:longest]}…"

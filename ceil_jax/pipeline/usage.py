"""The numbers of tokens that a row reads and writes for a query, from which prices are computed."""

from __future__ import annotations

from ceil_jax.lm.price import Usage, total, usage_of
from ceil_jax.pipeline.answering import Answers, answer, prompts_of
from ceil_jax.pipeline.records import readings_of_queries
from ceil_jax.pipeline.rewriting import usage_of_rewriting
from ceil_jax.pipeline.run import Run
from ceil_jax.store.kept import Noted, in_notes, kept


@kept(
    "usage",
    files=in_notes(lambda notes: Usage(**{name: notes[name] for name in Usage._fields})),
    version=2,
    what="counting the tokens of prompts",
    lazily=("predictions",),
)
def prompt_tokens(run: Run, predictions: Answers) -> Usage | Noted:
    """Return the mean number of tokens of a row's prompts and answers.

    The tokens of a query's rewriting are counted too.
    """
    of_prompts = Usage()
    if predictions.is_of(answer):
        queries = predictions.queries.examples
        prompts = prompts_of(run, predictions, queries, run.get(predictions.choice))
        answers = [row["prediction"] for row in run.get(predictions)]
        lm = run.lm(predictions.prompting.lm)
        of_prompts = usage_of([built.prompt for built in prompts], answers, lm.count_tokens)
    usage = total([of_prompts, *before_answering(run, predictions)])
    return Noted(usage, usage._asdict())


def before_answering(run: Run, predictions: Answers) -> list[Usage]:
    """Return the mean numbers of tokens of rewriting a query before it is answered.

    There is one for each order in which it is rewritten as a skill.
    """
    return [usage_of_rewriting(run, skills) for skills in readings_of_queries(predictions)]

"""A task of sixty film reviews in two labels, and a run on it that takes seconds."""

from ceil_jax.methods.ceil import CEIL
from ceil_jax.methods.epr import EPR
from ceil_jax.methods.tst import TST
from ceil_jax.pipeline import row_stages
from ceil_jax.pipeline.config import RunConfig
from ceil_jax.pipeline.evaluate import evaluate
from ceil_jax.pipeline.models import Models
from ceil_jax.pipeline.steps import StepsOf
from ceil_jax.retrieval.retriever import retrieved
from ceil_jax.tasks.bank import Examples
from ceil_jax.tasks.example import Example, Task, Template

WORDS = ("bad", "good")
SMALL = RunConfig(
    task="films",
    encoder="tiny",
    lm="tiny",
    shots=3,
    shortlist=12,
    methods=(
        TST(instances=24, candidates=6, positives=2, epochs=2, batch_size=8),
        EPR(instances=24, candidates=6, positives=2, epochs=2, batch_size=8),
        CEIL(instances=24, subsets=5, size=3, shortlist=12, epochs=2, batch_size=8),
    ),
)


def film(split, i):
    mood = ("dull grey", "bright funny")[i % 2]
    return Example(
        f"{split}-{i}", f"a {mood} film about topic{i % 5} number{i}", WORDS[i % 2], WORDS
    )


def films(train, validation):
    """The task with so many training and validation examples."""
    return Task(
        "films",
        [film("train", i) for i in range(train)],
        [film("validation", i) for i in range(train, train + validation)],
        Template("{input} It is {output}"),
        "accuracy",
    )


TASK = films(60, 30)


class One(Models):
    """Models with an LM of the test's own."""

    def __init__(self, lm):
        super().__init__()
        self.own = lm

    def load_lm(self, *given):
        return self.own


def choose(run, setup, name, queries):
    """The examples that a row chooses for some queries, in the order in which it chose them."""
    choice = run.get(row_stages.choice(setup, setup.row(name), Examples(queries)))
    return retrieved(setup.task.train, choice)


def evaluated(run, setup, name):
    """The record of a row of this name."""
    return evaluate(run, setup, setup.row(name))


def metric_of(setup, name):
    """The stage of a row's metric."""
    return row_stages.metric(setup, setup.row(name))


def choice_of_row(setup, name):
    """The stage of a row's choice."""
    return row_stages.choice(setup, setup.row(name))


def learnt_of(setup, kind):
    """What a method of this class learns."""
    return StepsOf(setup).learnt(setup.config.method(kind))


def networks_of(setup, kind):
    """The stage of a method's encoders."""
    return learnt_of(setup, kind).networks

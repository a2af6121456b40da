"""A task of sixty film reviews in two labels, and a run on it that takes seconds."""

from ceil_jax.pipeline.config import RunConfig
from ceil_jax.pipeline.models import Models
from ceil_jax.tasks.example import Example, Task, Template
from ceil_jax.training.config import CEILConfig, EPRConfig

WORDS = ("bad", "good")
SMALL = RunConfig(
    task="films",
    encoder="tiny",
    lm="tiny",
    shots=3,
    shortlist=12,
    tst=EPRConfig(instances=24, candidates=6, positives=2, epochs=2, batch_size=8),
    epr=EPRConfig(instances=24, candidates=6, positives=2, epochs=2, batch_size=8),
    ceil=CEILConfig(instances=24, subsets=5, size=3, shortlist=12, epochs=2, batch_size=8),
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


def choose(run, graph, name, queries):
    """The examples that a row chooses for some queries, in the order in which it chose them."""
    return run.get(graph.chosen(name, queries))

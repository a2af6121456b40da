"""The base classes of all methods.

A method is a frozen dataclass whose fields are its settings, its flags and its part of a stage's
key. Its `learn` is a program of a few steps, in the order of its paper.

The steps (`Steps`) compute nothing. They return lazy values, whose keys are known at once, and
`pipeline.run.Run` computes what is asked for. There are four kinds of methods:

- `untrained.Untrained`: encoders as they were loaded;
- `LearnsFromOutputs`: a head on the encoder's vectors, trained on the bank's outputs, without an
  LM;
- `LearnsFromScores`: networks that learn to rank candidate sets as their scores do;
- `fixed.FixedPrompt`: examples that every prompt has, found by the LM.

What they need of an LM:

| method | `scored_by_lm` | `learns_from_lm` | `needs_log_probs` |
|---|---|---|---|
| untrained, heads | no | no | no |
| TST | no | as its start | as `learns_from_lm` |
| EPR, CEIL, second round | yes | yes | yes |
| fixed | yes | yes | no: answers can be generated and scored |
| fixed and near | yes | yes | as its start |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol

from ceil_jax.errors import UserError, check_ranges
from ceil_jax.store.hashing import NO_KEY
from ceil_jax.tasks.example import Example, Task

if TYPE_CHECKING:
    import numpy as np

    from ceil_jax.encoders.encoder import Encoder
    from ceil_jax.encoders.text_encoder import EncoderPair
    from ceil_jax.store.kept import Lazy
    from ceil_jax.tasks.bank import Bank, BankQueries
    from ceil_jax.training.candidates import CandidateSets, TrainingData
    from ceil_jax.training.free.choice import Fit
    from ceil_jax.training.free.rows import Head
    from ceil_jax.training.loop import Trained
    from ceil_jax.training.samplers import Sampler


@dataclass(frozen=True, eq=False)
class Learnt:
    """The result of a method's training, as lazy values.

    The encoders that its rows compare texts with, λ, and its fixed examples.
    """

    networks: Lazy[EncoderPair]
    """The networks, whose vectors give cosines."""
    name: str = "base"
    """The name of the method whose encoders these are, for messages."""
    head: Lazy[Head | None] | None = None
    """The head, whose blocks are concatenated with the networks' vectors; None without a head."""
    trade_off: float | Lazy[float] | None = None
    """λ of the kernel in training, which MAP then uses; None if sets were not learnt."""
    context: Literal["input", "example"] = "input"
    """The text of a bank example that the encoders read: its input, or its input and output."""
    queries: np.ndarray | None = None
    """int32: the bank positions of the training queries, without those that are held out; None if
    there were none."""
    fixed: Lazy[np.ndarray] | None = None
    """The bank positions of the examples that every prompt has; None if examples are chosen."""
    training: Lazy[Any] | None = None
    """The step in which the method itself learns; its notes say how that went. None if it learns
    nothing."""


class Steps(Protocol):
    """The operations that a method's `learn` may call, on one task under one configuration.

    `pipeline.steps.StepsOf` implements them.
    """

    @property
    def bank(self) -> Bank:
        """The examples that may be chosen."""

    @property
    def shots(self) -> int:
        """K, the number of examples in a prompt."""

    @property
    def for_all_seeds(self) -> Steps:
        """The same steps with one seed for the trainings of all seeds.

        That seed draws the candidate sets, so that all trainings share the LM's work.
        """

    def learnt(self, method: Method) -> Learnt:
        """Return the result of another method's training, such as that of a start."""

    def untrained(self) -> Learnt:
        """Return the untrained encoder."""

    def head(self, method: LearnsFromOutputs) -> Learnt:
        """Return the untrained encoder with a head that is trained on the bank's outputs."""

    def training_queries(self, count: int, after: int = 0) -> BankQueries:
        """Return `count` queries from the bank, in random order.

        The first `after` ones are left out. The order is the same for all methods.
        """

    def trade_off(self, value: float | Literal["tuned"], learnt: Learnt) -> float | Lazy[float]:
        """Return λ itself, or for "tuned" the value from a grid that works best with some encoders."""

    def candidate_sets(
        self,
        sampler: Sampler,
        queries: BankQueries,
        learnt: Learnt,
        trade_off: float | Lazy[float] | None = None,
    ) -> Lazy[CandidateSets]:
        """Return the candidate sets of training queries, never with the query itself.

        Args:
            sampler: draws the sets.
            queries: the training queries.
            learnt: the encoders that find shortlists, for a sampler that draws from these.
            trade_off: λ, for a sampler that needs it.
        """

    def lm_scores(
        self, method: Method, queries: BankQueries, sets: Lazy[CandidateSets]
    ) -> Lazy[dict[str, np.ndarray]]:
        """Return the LM's score of each set: log P of the query's output. This costs LM tokens.

        Args:
            method: the method that learns from them, which progress bars name.
            queries: the training queries.
            sets: their sets, as `candidate_sets` returns them.
        """

    def output_scores(
        self, queries: BankQueries, sets: Lazy[CandidateSets]
    ) -> Lazy[dict[str, np.ndarray]]:
        """Return the cosine between a query's output and each candidate's, in place of LM scores."""

    def trained(
        self,
        method: LearnsFromScores,
        start: Learnt,
        queries: BankQueries,
        sets: Lazy[CandidateSets],
        scores: Lazy[dict[str, np.ndarray]],
        *,
        trade_off: float | Lazy[float] | None = None,
        bank_vectors: bool = False,
    ) -> Learnt:
        """Return the networks that `method.fit` trains to rank sets as their scores do.

        Args:
            method: trains.
            start: what training starts from; its head stays beside the trained networks.
            queries: the training queries.
            sets: their candidate sets.
            scores: the scores of these.
            trade_off: λ, for a method that learns sets.
            bank_vectors: whether training reads the bank's vectors by the start.

        Raises:
            UserError: settings contradict each other, or the encoder cannot be trained. Both are
                checked before the LM scores anything.
        """

    def best_set(self, rounds: Sequence[BankQueries], sets: int, size: int) -> Lazy[np.ndarray]:
        """Return the random set of examples with which the LM answers best, as bank positions.

        The LM answers queries of the bank with each of some random sets.

        Args:
            rounds: the new queries of each round, after which the worse half of the sets is dropped.
            sets: number of random sets.
            size: number of examples in a set.
        """


def method_flag(name: str, setting: str) -> str:
    """Return the flag of a method's setting, such as --second-round.loss-options.

    Args:
        name: the method's name.
        setting: the field's name.
    """
    return f"--{name}.{setting}".replace("_", "-")


@dataclass(frozen=True)
class Method:
    """A method: how the encoders of a row are trained, if they are.

    A subclass is a frozen dataclass. Its fields are settings: `epochs: int = 3` in a method called
    `ceil` is the flag `--ceil.epochs`, and part of the key of the encoders that it trains.

    Raises:
        UserError: a number outside the range annotated beside its type.

    Examples:
        >>> from ceil_jax import CEIL, EPR
        >>> method = CEIL(start=EPR(epochs=9))
        >>> method.learns_from_lm, method.settings["start"]
        (True, 'epr')
    """

    name: ClassVar[str]
    """The method's name in flags (`--epr.start free`, `--epr.epochs`), and the beginning of its
    folders' names."""
    title: ClassVar[str]
    """The method's name in messages and model cards, and in the title of a row that starts from
    it."""
    version: ClassVar[int] = 1
    """Version number, raised when the same settings give other weights."""

    def __post_init__(self) -> None:
        check_ranges(self, f"{self.name}.")

    def learn(self, steps: Steps) -> Learnt:
        """Return the result of training as lazy values, from steps in the order of the paper.

        Args:
            steps: the steps on a task under one configuration.

        Raises:
            UserError: settings contradict each other, or do not fit the task.
        """
        raise TypeError(f"{type(self).__name__} does not define `learn`")

    def flag(self, setting: str) -> str:
        """Return the flag of a setting of the method, for messages, such as --epr.loss-options."""
        return method_flag(self.name, setting)

    @property
    def chain(self) -> tuple[Method, ...]:
        """The method, the method that it starts from, and so on."""
        return (self,)

    @property
    def learns(self) -> bool:
        """True if anything is trained."""
        return True

    @property
    def training_query_count(self) -> int:
        """The number of training queries, which are taken from the bank.

        0 if no network is trained.
        """
        return 0

    @property
    def near_examples(self) -> int:
        """The number of near examples in a prompt whose other examples are fixed.

        0 for a method without such a mixture.
        """
        return 0

    @property
    def gives_encoders(self) -> bool:
        """True if a training may start from the method's encoders."""
        return True

    def as_start(self, flag: str) -> Method:
        """Return the method as the start of another one.

        Args:
            flag: the flag of that method's start.

        Raises:
            UserError: it has no encoders to start from.
        """
        if not self.gives_encoders:
            raise UserError(
                f"{flag} {self.name}: it finds examples, and has no encoder to start from"
            )
        return self

    @property
    def scored_by_lm(self) -> bool:
        """True if an LM scores the method's own training data, apart from that of its start."""
        return False

    @property
    def needs_log_probs(self) -> bool:
        """True if the method or its start needs an LM that gives log-probabilities."""
        return self.learns_from_lm

    @property
    def learns_from_lm(self) -> bool:
        """True if the method or its start needs LM tokens before the first query."""
        return False

    @property
    def learns_sets(self) -> bool:
        """True if the method learns from sets, and so has a λ of its own."""
        return False

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of the method by name, as JSON values; a start is the name of its method."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {
            name: value.name if isinstance(value, Method) else value
            for name, value in values.items()
        }

    def configured(self, settings: Mapping[str, Method], above: tuple[str, ...] = ()) -> Method:
        """Return the method, and those that it starts from, with the settings of a configuration.

        Args:
            settings: configured methods by name; a method that is not among them is unchanged.
            above: the names of the methods that start from this one.

        Raises:
            UserError: a method would start from itself.
        """
        return settings.get(self.name, self)

    @property
    def two_networks(self) -> bool:
        """True if queries and examples are encoded by two different networks."""
        return False

    def refusal(self, task: Task) -> str:
        """Return the reason why the method cannot be used on a task; "" if it can."""
        return ""

    def with_training_queries(self, count: int) -> Method:
        """Return the method with at most `count` training queries; unchanged if it has none."""
        return self

    def smaller(self) -> Method | None:
        """Return the method with about half the work, for a budget that does not pay for all of it.

        None if it cannot be made smaller.
        """
        return None

    def is_used(self, summary: Mapping[str, Any]) -> bool:
        """Return whether the encoders differ from those of the method's start.

        Args:
            summary: the summary of its training stage.
        """
        return False

    @property
    def remark_if_unused(self) -> str:
        """The remark in tables if training left the encoders unchanged."""
        return ""

    def training_data(self, bank_size: int, summary: Mapping[str, Any]) -> str:
        """Return a line for model cards on its training data; "" if it learns nothing.

        Args:
            bank_size: the number of examples in the bank.
            summary: the summary of its training stage.
        """
        return ""


@dataclass(frozen=True)
class LearnsFromOutputs(Method):
    """A method that trains a head on an encoder's vectors with the bank's outputs, without an LM.

    Examples:
        >>> @dataclass(frozen=True)
        ... class Ratings(LearnsFromOutputs):
        ...     name = "ratings"
        ...     title = "ratings"
        ...     def fits(self, bank):
        ...         from ceil_jax.training.free.head import fit_label_head
        ...         return {"head": fit_label_head}
        >>> from ceil_jax import NEAREST, Row, register_row
        >>> register_row("ratings", Row("ratings", Ratings(), NEAREST))
    """

    def learn(self, steps: Steps) -> Learnt:
        """Train a head on the bank's outputs."""
        return steps.head(self)

    def is_used(self, summary: Mapping[str, Any]) -> bool:
        """Return whether a head was better than the plain cosine on held-out rows of the bank."""
        return summary.get("taken") != "cosine"

    @property
    def remark_if_unused(self) -> str:
        """The remark in tables that no head was better than the untrained encoder alone."""
        return "the untrained encoder"

    def training_data(self, bank_size: int, summary: Mapping[str, Any]) -> str:
        """Return which head was chosen, and on how many outputs it was trained."""
        head = summary["taken"]
        title = "label head" if head == "head" else head
        return f"{title}: the outputs of {bank_size:,} examples"

    def fits(self, bank: Sequence[Example]) -> Mapping[str, Fit]:
        """Return functions that fit a head, by name.

        If there are several, held-out rows of the bank decide which one is used; the plain cosine,
        as "cosine", is one of them and stands for no head.
        """
        raise TypeError(f"{type(self).__name__} does not define `fits`")


class Effort(NamedTuple):
    """The amount of work of a training, for plans."""

    texts: int
    """Texts that are encoded for each query of a batch, the query included."""
    epochs: int
    batch_size: int


@dataclass(frozen=True)
class TrainingJob:
    """The data, the starting networks and the seed of one training from scores.

    Examples:
        >>> import numpy as np
        >>> from ceil_jax import Example, load_encoder
        >>> from ceil_jax.training.candidates import CandidateSets, TrainingData
        >>> bank = [Example(str(i), f"film {i}", "good") for i in range(3)]
        >>> sets = CandidateSets(np.array([[1, 2]]), np.array([[[0], [1]]]))
        >>> data = TrainingData(bank[:1], bank, sets, np.array([[-1.0, -2.0]]))
        >>> encoder = load_encoder("tiny")
        >>> TrainingJob(Path("scratch"), encoder, encoder, data, seed=0).data.scores.shape
        (1, 2)
    """

    folder: Path
    """Scratch folder for checkpoints; it is removed when training is done."""
    query: Encoder
    """The query network that training starts from."""
    bank: Encoder
    """The example network that training starts from; the same as `query` unless the start has two
    networks."""
    data: TrainingData
    """Training queries with their candidate sets and scores."""
    seed: int
    """Seed of the held-out queries, the order of batches and dropout."""
    trade_off: float | None = None
    """λ, for a method that learns sets."""
    bank_vectors: np.ndarray | None = None
    """The bank's vectors by the starting encoder, unit rows [N, D], if `learn` asked for them."""


@dataclass(frozen=True)
class LearnsFromScores(Method):
    """A method that trains networks to rank the candidate sets of training queries by given scores.

    Examples:
        >>> from ceil_jax import EPR, NEAREST, Row, register_row
        >>> @dataclass(frozen=True)
        ... class Patient(EPR):
        ...     name = "patient"
        ...     title = "patient EPR"
        ...     epochs: int = 30
        >>> register_row("patient", Row("patient EPR", Patient(), NEAREST))
    """

    start: Method = field(kw_only=True, metadata=NO_KEY)
    """The method that training starts from. Keys contain that method's stage instead of this
    field."""
    instances: int = field(kw_only=True, metadata=NO_KEY)
    """Number of training queries. Keys contain the queries instead of this field."""

    @property
    def chain(self) -> tuple[Method, ...]:
        """The method, the method that it starts from, and so on."""
        return self, *self.start.chain

    @property
    def training_query_count(self) -> int:
        """The number of training queries, which are taken from the bank."""
        return self.instances

    def with_training_queries(self, count: int) -> Method:
        """Return the method with at most `count` training queries."""
        return replace(self, instances=min(self.instances, count))

    @property
    def scored_by_lm(self) -> bool:
        """True if an LM scores the method's own candidate sets."""
        return True

    @property
    def learns_from_lm(self) -> bool:
        """True if the method or its start needs LM tokens before the first query."""
        return self.scored_by_lm or self.start.learns_from_lm

    def is_used(self, summary: Mapping[str, Any]) -> bool:
        """Return whether training changed the networks.

        The starting networks are kept if these rank held-out sets best.
        """
        ending = summary.get("ending")
        return ending is None or ending["kept"] != "start"

    @property
    def remark_if_unused(self) -> str:
        """The remark that training kept the networks of the start."""
        if self.start.learns:
            return f"training kept {self.start.title}'s encoder"
        return "training kept the untrained encoder"

    def training_data(self, bank_size: int, summary: Mapping[str, Any]) -> str:
        """Return how many training queries there were, and how many candidates each had."""
        sampler = self.candidate_sampler(bank_size)
        learnt = f"{sampler.sets} examples"
        if sampler.size > 1:
            learnt = f"{sampler.sets} sets of {sampler.size}"
        by = "" if self.scored_by_lm else " by their outputs"
        return f"{self.title}: {min(self.instances, bank_size)} queries × {learnt}{by}"

    def configured(self, settings: Mapping[str, Method], above: tuple[str, ...] = ()) -> Method:
        """Return the method, and the one that its training starts from, with configured settings."""
        if self.name in above:
            flag = method_flag(above[-1], "start")
            raise UserError(f"{flag} {self.name}: a training cannot start from itself")
        method = settings.get(self.name, self)
        assert isinstance(method, LearnsFromScores), "one name is one class"
        start = method.start.configured(settings, (*above, self.name))
        return replace(method, start=start.as_start(self.flag("start")))

    def candidate_sampler(self, bank_size: int) -> Sampler:
        """Return the sampler of candidate sets for a bank of `bank_size` examples.

        Raises:
            UserError: the bank is too small for the settings.
        """
        raise TypeError(f"{type(self).__name__} does not define `candidate_sampler`")

    def check(self) -> None:
        """Raise a UserError for settings that contradict each other.

        It is called before an LM scores anything.
        """

    def fit(self, job: TrainingJob) -> Trained:
        """Train the networks, and return their parameters.

        These are {"query": …}, or {"query": …, "context": …} if examples have a network of their
        own.
        """
        raise TypeError(f"{type(self).__name__} does not define `fit`")

    def effort(self) -> Effort | None:
        """Return the amount of work of a training, for plans; None if unknown."""
        return None

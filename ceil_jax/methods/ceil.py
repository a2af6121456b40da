"""CEIL (Ye et al., ICML 2023): a conditional DPP trained to rank sets of examples as the LM does.

`LearnsFromSets` is the training; `CEIL` adds the size of a set, which `second_round` does not have.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from ceil_jax.errors import Range, UserError
from ceil_jax.methods.base import Effort, LearnsFromScores, Learnt, Method, Steps, TrainingJob
from ceil_jax.methods.epr import EPR
from ceil_jax.store.hashing import NO_KEY
from ceil_jax.training.config import CEILTraining

if TYPE_CHECKING:
    from ceil_jax.training.loop import Trained
    from ceil_jax.training.samplers import Sampler


@dataclass(frozen=True)
class LearnsFromSets(CEILTraining, LearnsFromScores):
    """A method that trains the kernel of a conditional DPP on scored candidate sets.

    An LM scores the sets.
    """

    instances: Annotated[int, Range(2)] = field(default=1600, metadata=NO_KEY)
    """Number of training queries, each with its scored sets. For the same number of LM tokens, many
    queries with small sets are better than few queries with large sets (docs/methods.md)."""
    subsets: Annotated[int, Range(2)] = 13
    """M, the number of candidate sets of a query; the first is the top-k."""
    shortlist: Annotated[int, Range(1)] = 50
    """n, the number of nearest examples that sets are drawn from."""
    sampler: Literal["random", "k_dpp", "bank"] = "random"
    """How sets are drawn. random: uniformly from the shortlist; k_dpp: from the k-DPP over the
    shortlist; bank: uniformly from the whole bank."""
    trade_off: Annotated[float | Literal["tuned"], Range(above=0)] = 0.05
    """λ of the kernel, in training and in MAP inference. tuned: chosen for the encoder that
    training starts from, as by --trade-off tuned."""
    start: Method = field(default=EPR(), metadata=NO_KEY)
    """The method that gives the starting weights and the shortlists: base (untrained), epr, or
    another one."""

    @property
    def set_size(self) -> int:
        """k, the number of examples in a candidate set."""
        raise TypeError(f"{type(self).__name__} does not define `set_size`")

    def learn(self, steps: Steps) -> Learnt:
        """Train the kernel to rank candidate sets by the LM's scores of them.

        The sets are drawn from the start's nearest examples.
        """
        start = steps.learnt(self.start)
        queries = steps.training_queries(self.instances)
        shared = steps.for_all_seeds  # which train on the same sets and scores
        finder = shared.learnt(self.start)
        trade_off = shared.trade_off(self.trade_off, finder)
        sampler = self.candidate_sampler(len(steps.bank))
        sets = shared.candidate_sets(sampler, queries, finder, trade_off)
        scores = shared.lm_scores(self, queries, sets)
        return steps.trained(
            self,
            start,
            queries,
            sets,
            scores,
            trade_off=trade_off,
            bank_vectors=self.frozen_examples,
        )

    @property
    def learns_sets(self) -> bool:
        """Always True: the method learns from sets, with a λ of its own."""
        return True

    @property
    def two_networks(self) -> bool:
        """True if examples have a network of their own, trained or kept."""
        return self.train_context in ("both", "released")

    def candidate_sampler(self, bank_size: int) -> Sampler:
        """Return the sampler of sets, by default from the nearest examples of the start."""
        from ceil_jax.training.samplers import BankSets, KDPPSets, UniformSets

        available = min(self.shortlist, bank_size - 1)
        if not available:
            raise UserError(
                f"{self.flag('shortlist')} {self.shortlist}: a bank of 1 example has no other to "
                "draw; give more rows"
            )
        if self.set_size > available:
            raise UserError(
                f"{self.flag('size')} {self.set_size}: subsets are drawn from {available} examples; "
                f"lower it or raise {self.flag('shortlist')}"
            )
        match self.sampler:
            case "random":
                return UniformSets(self.subsets, self.set_size, available)
            case "k_dpp":
                return KDPPSets(self.subsets, self.set_size, available)
            case "bank":
                return BankSets(self.subsets, self.set_size, available)

    def check(self) -> None:
        """Raise a UserError for an unknown loss or a second network that cannot be trained.

        A start with two networks is refused if this training has one.
        """
        from ceil_jax.training.losses import ceil_loss

        ceil_loss(self.loss, self.loss_options, self.flag("loss_options"))
        if self.start.two_networks and self.train_context in ("frozen", "shared"):
            encoders_of_start = self.start.settings.get("train_context", "both")
            raise UserError(
                f"{self.start.flag('train_context')} {encoders_of_start}: "
                f"{self.flag('train_context')} {self.train_context} has one encoder for queries "
                f"and examples; give both or released, or {self.flag('start')} base"
            )

    def fit(self, job: TrainingJob) -> Trained:
        """Train the kernel. With `train_context="released"`, examples keep the starting network."""
        from ceil_jax.training.ceil import train_ceil

        assert job.trade_off is not None, "it learns sets"
        trained = train_ceil(
            job.query,
            job.data,
            self,
            bank_vectors=job.bank_vectors,
            trade_off=job.trade_off,
            seed=job.seed,
            folder=job.folder,
            example_encoder=job.bank,
            title=self.title,
        )
        if self.train_context == "released":
            return trained._replace(params={**trained.params, "context": job.bank.params})
        return trained

    def effort(self) -> Effort:
        """Return the work of the training.

        Each step encodes the query, and the examples of its sets unless these are frozen.
        """
        encoded = 0
        if not self.frozen_examples:
            encoded = self.sets_in_a_step(self.subsets) * self.set_size
        return Effort(1 + min(self.shortlist, encoded), self.epochs, self.batch_size)


@dataclass(frozen=True)
class CEIL(LearnsFromSets):
    """Training on candidate sets that the LM has scored.

    Examples:
        >>> from ceil_jax import EPR, Free
        >>> [method.title for method in CEIL(start=EPR(start=Free()), subsets=8).chain]
        ['CEIL', 'EPR', 'free']
    """

    name: ClassVar[str] = "ceil"
    title: ClassVar[str] = "CEIL"
    size: Annotated[int, Range(1)] = 3
    """k, the number of examples in a set."""

    @property
    def set_size(self) -> int:
        """k, the number of examples in a candidate set."""
        return self.size

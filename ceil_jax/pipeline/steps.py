"""The steps that methods and rows are made of, on one task under one configuration.

`StepsOf(setup)` is what a method's `learn` is handed (`methods.base.Steps`). Its functions only put
lazy values together, from the kept functions of `choosing`, `scoring`, `learning`, `heads`,
`vectors` and `views`; `run.Run.get` computes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ceil_jax.encoders.text_encoder import EncoderPair
from ceil_jax.methods.base import LearnsFromOutputs, LearnsFromScores, Learnt, Method
from ceil_jax.pipeline import vectors as of_texts
from ceil_jax.pipeline.choosing import choose, draw_sets, sets_of_each_trade_off
from ceil_jax.pipeline.fixed_examples import best_set
from ceil_jax.pipeline.heads import (
    bank_blocks,
    blocks_in_training,
    head_rows,
    head_vectors,
    query_blocks,
    train_head,
)
from ceil_jax.pipeline.learning import train_encoders
from ceil_jax.pipeline.rewriting import Skills, rewritten, skill_texts, skills_of
from ceil_jax.pipeline.scoring import Scores, lm_scores, output_scores, scored_sets, tuned
from ceil_jax.pipeline.setup import Setup
from ceil_jax.pipeline.views import Texts, inputs, outputs, with_outputs
from ceil_jax.retrieval.retriever import Choice
from ceil_jax.retrieval.retrievers import NEAREST
from ceil_jax.store.kept import Lazy
from ceil_jax.tasks.bank import Bank, BankQueries, Examples
from ceil_jax.training.candidates import CandidateSets
from ceil_jax.training.held_out import split_held_out
from ceil_jax.training.samplers import Sampler
from ceil_jax.training.trade_offs import TRADE_OFFS, TUNING_QUERIES

_QUERY_ORDER = 3
"""The part of the random key, next to the seed, for the order in which queries are taken from the
bank."""


@dataclass(frozen=True, eq=False)
class StepsOf:
    """The steps on a setup's task.

    A method is one that `Setup.row` or `RunConfig.method` returned, with the configuration's
    settings.
    """

    setup: Setup

    @property
    def bank(self) -> Bank:
        """The examples that may be chosen."""
        return self.setup.bank

    @property
    def shots(self) -> int:
        """K, the number of examples in a prompt."""
        return self.setup.config.shots

    @property
    def for_all_seeds(self) -> StepsOf:
        """The same steps under `data_seed`, which draws candidate sets and tunes λ for all seeds."""
        return StepsOf(self.setup.for_all_seeds)

    def learnt(self, method: Method) -> Learnt:
        """Return the result of a method's training.

        It is that of this setup, or of the one whose trained encoders are used. Fixed examples are
        always of this setup's bank.
        """
        elsewhere = self.setup.trained_by
        if elsewhere is not None and method.learns and method.gives_encoders:
            return StepsOf(elsewhere).learnt(method)
        return method.learn(self)

    # the steps of learning

    def untrained(self) -> Learnt:
        """Return the encoder as it was loaded."""
        return Learnt(of_texts.untrained_encoder(self.setup.untrained_encoder))

    def head(self, method: LearnsFromOutputs) -> Learnt:
        """Return the untrained encoder with a head that is trained on the bank's outputs."""
        networks = self.untrained().networks
        view = self.texts(self.bank)
        rows = head_rows(
            networks, view, pairs=self.bank.pairs, parser=self.bank.parser, outputs=True
        )
        head = train_head(method, rows)
        return Learnt(networks, method.name, head, training=head)

    def training_queries(self, count: int, after: int = 0) -> BankQueries:
        """Return `count` queries from the bank, in random order.

        The first `after` ones are left out. The order is the same for all methods, and fewer
        queries are among more.
        """
        generator = np.random.default_rng([self.setup.config.data_seed, _QUERY_ORDER])
        order = generator.permutation(len(self.bank))
        return self.bank.queries(order[after : after + count])

    def candidate_sets(
        self,
        sampler: Sampler,
        queries: BankQueries,
        learnt: Learnt,
        trade_off: float | Lazy[float] | None = None,
    ) -> Lazy[CandidateSets]:
        """Return the candidate sets of training queries; see `methods.base.Steps`."""
        # a need that the sampler does not read would be computed for nothing, and change the key
        near = query_side = bank_side = None
        if sampler.shortlist:
            near = self.nearest(learnt, queries, sampler.shortlist)
        if sampler.needs_vectors:
            query_side = self.query_vectors(learnt, queries)
            bank_side = self.bank_vectors(learnt)
        return draw_sets(
            sampler,
            queries=self.texts(queries),
            bank=self.bank_texts(learnt),
            seed=self.setup.config.data_seed,
            nearest=near,
            query_vectors=query_side,
            bank_vectors=bank_side,
            trade_off=trade_off if sampler.needs_trade_off else None,
        )

    def lm_scores(self, method: Method, queries: BankQueries, sets: Lazy[CandidateSets]) -> Scores:
        """Return the LM's score of each set of each training query."""
        sampler: Sampler = sets.sampler
        what = "candidate sets" if sampler.size > 1 else "candidates"
        return lm_scores(
            self.setup.prompting,
            queries,
            self.bank,
            sets,
            shape=(sampler.sets, sampler.size),
            label=f"{method.title}'s {what}",
        )

    def output_scores(self, queries: BankQueries, sets: Lazy[CandidateSets]) -> Scores:
        """Return the cosine between a query's output and each candidate's, in place of LM scores."""
        of_bank = self.output_vectors(self.bank)
        return output_scores(queries=self.output_vectors(queries), bank=of_bank, sets=sets)

    def trained(
        self,
        method: LearnsFromScores,
        start: Learnt,
        queries: BankQueries,
        sets: Lazy[CandidateSets],
        scores: Scores,
        *,
        trade_off: float | Lazy[float] | None = None,
        bank_vectors: bool = False,
    ) -> Learnt:
        """Return the networks that a method trains to rank sets as their scores do.

        See `methods.base.Steps`.
        """
        self.setup.untrained_encoder.check_trainable()
        method.check()
        seed = self.setup.config.seed
        context = self.setup.config.context
        query_view = self.texts(queries)
        # what the trained encoders will read of the bank; the start may read less (`--context`)
        bank_view = self._bank_texts(context)
        fixed = None
        if start.head is not None:
            fixed = blocks_in_training(
                start.head,
                queries=query_blocks(start.head, query_view, queries),
                bank=bank_blocks(start.head, bank_view),
            )
        # queries that taught the start are not held out
        learnt = None if start.queries is None else np.isin(queries.positions, start.queries)
        training, _ = split_held_out(len(queries), seed, learnt)
        networks = train_encoders(
            method,
            scored=scored_sets(sets, scores),
            queries=query_view,
            bank=bank_view,
            start=start.networks,
            seed=seed,
            fixed=fixed,
            trade_off=trade_off,
            bank_vectors=self.bank_vectors(start, bank_view) if bank_vectors else None,
            learnt=learnt,
        )
        return Learnt(
            networks,
            method.name,
            start.head,
            trade_off=trade_off,
            context=context,
            queries=queries.positions[training],
            training=networks,
        )

    def trade_off(self, value: float | Literal["tuned"], learnt: Learnt) -> float | Lazy[float]:
        """Return λ itself, or the tuned λ for "tuned".

        That is the one of the grid whose MAP sets of queries of the bank make the right outputs
        most probable. Ask `for_all_seeds`, so that it is tuned once.
        """
        if value != "tuned":
            return value
        # training takes its queries from the beginning of the order, tuning from its end
        queries = self.training_queries(TUNING_QUERIES, max(0, len(self.bank) - TUNING_QUERIES))
        sets = sets_of_each_trade_off(
            nearest=self.nearest(learnt, queries, self.setup.config.shortlist),
            query_vectors=self.query_vectors(learnt, queries),
            bank_vectors=self.bank_vectors(learnt),
            size=self.shots,
            # sets are cut to the token budget of answers, and what is left is scored whole
            prompting=self.setup.answering,
            queries=queries,
            examples=self.bank,
        )
        scores = lm_scores(
            self.setup.prompting,
            queries,
            self.bank,
            sets,
            shape=(len(TRADE_OFFS), self.shots),
            label=f"λ of {learnt.name}",
            # neighbouring values of λ often choose the same set: of five sets, 2.0 to 3.0 were
            # distinct on five tasks
            differing=0.47,
            all_choices=True,
        )
        return tuned(scores, learnt.name)

    def best_set(self, rounds: Sequence[BankQueries], sets: int, size: int) -> Lazy[np.ndarray]:
        """Return the bank positions of the best of some random sets; see `methods.base.Steps`."""
        task = self.setup.task
        return best_set(
            self.setup.answering,
            stop=tuple(task.stop),
            metric=task.metric,
            bank=self.bank,
            rounds=tuple(rounds),
            sets=sets,
            size=size,
            seed=self.setup.config.data_seed,
        )

    # vectors

    def bank_vectors(self, learnt: Learnt, view: Texts | None = None) -> Lazy[np.ndarray]:
        """Return the bank's vectors by a method's encoders, unit rows.

        Args:
            learnt: the encoders.
            view: the texts to encode; by default those that these encoders read.
        """
        view = self.bank_texts(learnt) if view is None else view
        side: of_texts.Side = "query" if share_encoder(learnt.networks) else "bank"
        vectors = of_texts.text_vectors(learnt.networks, view, side)
        if learnt.head is None:
            return of_texts.unit_vectors(vectors)
        return head_vectors(learnt.head, bank_blocks(learnt.head, view), vectors)

    def query_vectors(self, learnt: Learnt, queries: Examples) -> Lazy[np.ndarray]:
        """Return the vectors of queries by a method's encoders, unit rows."""
        view = self.texts(queries)
        vectors = of_texts.text_vectors(learnt.networks, view)
        if learnt.head is None:
            return of_texts.unit_vectors(vectors)
        return head_vectors(learnt.head, query_blocks(learnt.head, view, queries), vectors)

    def nearest(self, learnt: Learnt, queries: Examples, n: int) -> Lazy[Choice]:
        """Return the nearest examples of each query, never the query itself.

        Args:
            learnt: the encoders whose vectors are compared.
            queries: the queries, in the bank or not.
            n: number of examples for each query, at most as many as the bank has besides the query.
        """
        return choose(
            NEAREST,
            bank=self.bank_texts(learnt),
            queries=self.texts(queries),
            k=min(n, len(self.bank) - 1),
            bank_vectors=self.bank_vectors(learnt),
            query_vectors=self.query_vectors(learnt, queries),
        )

    def output_vectors(self, examples: Examples) -> Lazy[np.ndarray]:
        """Return the vectors of examples' outputs by the untrained encoder, unit rows."""
        networks = self.untrained().networks
        return of_texts.unit_vectors(of_texts.text_vectors(networks, outputs(examples)))

    def skill_vectors(self, examples: Examples, orders: Iterable[int]) -> Lazy[np.ndarray]:
        """Return the vectors of the skills of examples by the untrained encoder.

        There is one for each of some orders of the demonstrations.
        """
        views = self.skills(examples, orders)
        vectors = of_texts.text_vectors(self.untrained().networks, skill_texts(views))
        return of_texts.skill_vectors(vectors, len(views))

    # retrieval texts

    def texts(self, examples: Examples) -> Texts:
        """Return the retrieval texts of examples.

        Their inputs, or with `--text skill` the skills that these need.
        """
        if self.setup.config.text == "input":
            return inputs(examples)
        [skills_of_order] = self.skills(examples, [0])
        return rewritten(examples, skills_of_order)

    def bank_texts(self, learnt: Learnt) -> Texts:
        """Return the bank's texts for a method's encoders.

        With `--context example`, trained networks also read the outputs.
        """
        return self._bank_texts(learnt.context)

    def _bank_texts(self, context: Literal["input", "example"]) -> Texts:
        plain = self.texts(self.bank)
        return with_outputs(plain) if context == "example" else plain

    def skills(self, examples: Examples, orders: Iterable[int]) -> tuple[Skills, ...]:
        """Return the skills of examples, for each of some orders of the demonstrations.

        Raises:
            UserError: the task has no demonstrations of its own and none are given.
        """
        config = self.setup.config
        return tuple(
            skills_of(
                examples,
                self.setup.skill_lm,
                self.setup.demonstrations,
                orders=config.skills.orders,
                order=order,
                seed=config.data_seed,
            )
            for order in orders
        )


def share_encoder(encoders: Lazy[EncoderPair]) -> bool:
    """Return whether queries and examples share one untrained encoder.

    Their vectors are then those of one side.
    """
    return encoders.is_of(of_texts.untrained_encoder) and encoders.encoder.encodes_alike

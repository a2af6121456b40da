"""The trainer: TST and EPR learn from scores of single examples, CEIL from scores of sets."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from ceil_jax.encoders.encoder import Encoder, require_network
from ceil_jax.errors import unknown_name
from ceil_jax.pipeline.config import RunConfig
from ceil_jax.pipeline.methods import TRAINED, whose
from ceil_jax.pipeline.models import Encoders, Learn, Learned, Lesson, RunModels
from ceil_jax.pipeline.training_data import Supervision, TaskSupervision
from ceil_jax.retrieval.embedded_bank import unit_rows
from ceil_jax.store.hashing import digest
from ceil_jax.store.keys import LAYOUT, differing
from ceil_jax.store.rows import Cost, Rows
from ceil_jax.store.shards import Shard
from ceil_jax.store.stage import Stage
from ceil_jax.training.candidates import ScoredSets, TrainingData, log_probs
from ceil_jax.training.config import BASELINE, CEILConfig, EPRConfig
from ceil_jax.training.loop import Ending, Trained, split_held_out


class Trainer:
    """A run's encoders, trained when they are first asked for.

    Args:
        config: what TST, EPR and CEIL are trained with, and the seed of training.
        data: what they learn from.
        models: the untrained encoder, and how texts become vectors.
        learn: takes a lesson.
        costs: the ledger that training is entered in.
    """

    def __init__(
        self, config: RunConfig, data: Supervision, models: RunModels, learn: Learn, costs: dict[str, Cost]
    ) -> None:
        self.config, self.data, self.models, self.learn, self.costs = config, data, models, learn, costs
        self._learned: dict[str, Learned] = {}

    @cached_property
    def first(self) -> Trainer:
        """The trainer whose seed is `data_seed`: its encoders draw the sets and set λ for all seeds."""
        config = self.config
        if config.seed == config.data_seed:
            return self
        return Trainer(replace(config, seed=config.data_seed), self.data, self.models, self.learn, self.costs)

    def encoders(self, source: str) -> Encoders:
        """Return the encoders of `base`, `tst`, `epr` or `ceil`, trained if they are not on disk."""
        if source == "base":
            return Encoders(self.models.base, self.models.base)
        if source not in TRAINED:
            raise unknown_name("encoder source", source, ("base", *TRAINED))
        require_network(self.models.base)
        return {"tst": lambda: self._tst, "epr": lambda: self._epr, "ceil": lambda: self._ceil}[source]()

    def history(self, source: str) -> list[dict[str, float]]:
        """Return the loss and the held-out ranking of training `tst`, `epr` or `ceil`, one row an evaluation."""
        self.encoders(source)
        return self._learned[source].history

    def ending(self, source: str) -> Ending | None:
        """Return which weights training `tst`, `epr` or `ceil` ended with; None in a dry run."""
        self.encoders(source)
        return self._learned[source].ending

    def kept(self, source: str) -> str:
        """Return a remark if training kept its starting weights, such as "training kept EPR's encoder"; else "".

        Args:
            source: `base`, `tst`, `epr` or `ceil`.
        """
        ending = self.ending(source) if source in TRAINED else None
        if ending is None or ending.kept != "start":
            return ""
        start = self.config.ceil.initial if source == "ceil" else "base"
        return f"training kept {whose(start)} encoder"

    def needed(self, source: str) -> set[str]:
        """Return the names in `costs` of what training `tst`, `epr` or `ceil` takes."""
        if source != "ceil":
            return {"tst": {"training TST"}, "epr": {"scoring EPR candidates", "training EPR"}}[source]
        initial = self.config.ceil.initial
        needed = {f"scoring λ of {initial}", "scoring CEIL subsets", "training CEIL"}
        needed |= self.needed(initial) if initial in TRAINED else set()
        return needed | ({"scoring EPR candidates"} if self.config.ceil.scores == "singles" else set())

    @cached_property
    def ceil_config(self) -> CEILConfig:
        """CEIL's configuration with λ as a number."""
        from ceil_jax.training.losses import ceil_loss

        config = self.config.ceil
        config.check_start({"epr": self.config.epr, "tst": self.config.tst})
        # a misspelt loss is refused before the LM scores anything
        ceil_loss(config.loss, config.loss_options, config.reduction)
        if config.trade_off != "tuned":
            return config
        chosen = self.data.trade_off(config.initial, lambda: self.first.encoders(config.initial))
        return replace(config, trade_off=chosen)

    @cached_property
    def ceil_scores(self) -> ScoredSets:
        """CEIL's training queries and sets with the LM's scores; the same for all seeds of training."""
        first = self.first
        if first is not self:
            return first.ceil_scores
        config = self.ceil_config
        return self.data.ceil(lambda: self.encoders(config.initial), config)

    def score(self, data: TaskSupervision, source: str, shard: Shard | None = None) -> Rows:
        """Return the LM's scores that training `epr` or `ceil` needs; a shard makes its part of them only.

        CEIL's sets come from EPR's encoder, so that EPR is trained first, by the first shard that gets there.

        Args:
            data: the trainer's own data.
            source: epr or ceil.
            shard: the part of the rows; all by default.
        """
        if source == "epr" or (source == "ceil" and self.config.ceil.scores == "singles"):
            return data.scores(*data.candidates(self.config.epr), "EPR candidates", shard)[0]
        if source != "ceil":
            raise unknown_name("scores", source, ("epr", "ceil"))
        config = self.first.ceil_config
        sets = data.subsets(lambda: self.first.encoders(config.initial), config)
        return data.scores(*sets, "CEIL subsets", shard)[0]

    @cached_property
    def _tst(self) -> Encoders:
        scored = self.data.tst
        # an example with the positive's very output is no negative; EPR's may be, as in the released code
        _, groups = np.unique([example.output for example in self.data.context], return_inverse=True)
        scores = np.array([row["output_similarity"] for row in scored.rows], np.float32)
        return self._of_singles("TST", scored, scores, "output_similarity", self.config.tst, groups)

    @cached_property
    def _epr(self) -> Encoders:
        scored = self.data.epr
        return self._of_singles("EPR", scored, log_probs(scored.rows), "log_prob", self.config.epr)

    def _of_singles(
        self,
        name: str,
        scored: ScoredSets,
        scores: np.ndarray,
        signal: str,
        config: EPRConfig,
        groups: np.ndarray | None = None,
    ) -> Encoders:
        """The encoders of queries and examples, one or two, trained on scores of single examples."""
        from ceil_jax.training.contrastive import train_epr

        encoder, two = self.models.base, config.train_context == "both"
        data = self._learning_from(scored, scores)

        def train(stage: Stage) -> tuple[dict[str, Encoder], Trained]:
            trained = train_epr(stage, encoder, data, config, self.config.seed, groups, name)
            parts = trained.params if two else {"encoder": trained.params}
            return {name: encoder.with_params(params) for name, params in parts.items()}, trained

        key = self._key(scored.stage, signal, encoder, config)
        left = ("query", "context") if two else ("encoder",)
        lesson = Lesson(name, key, left, train, config, len(scored.instances), self.config.seed)
        learned = self._learn(lesson)
        return Encoders(learned[0], learned[-1])

    def _learning_from(self, scored: ScoredSets, scores: np.ndarray) -> TrainingData:
        return TrainingData(self.data.seen(scored.instances), self.data.context, scored.candidates, scores)

    @cached_property
    def _ceil(self) -> Encoders:
        from ceil_jax.training.ceil import train_ceil

        scored, config = self.ceil_scores, self.ceil_config
        encoder, seen = self.encoders(config.initial).context, self._seen

        def train(stage: Stage) -> tuple[dict[str, Encoder], Trained]:
            vectors = unit_rows(self.models.embed(encoder, [example.input for example in self.data.context]))
            data = self._learning_from(scored, log_probs(scored.rows))._replace(seen=seen)
            trained = train_ceil(stage, encoder, vectors, data, config, self.config.seed)
            return {name: encoder.with_params(params) for name, params in trained.params.items()}, trained

        used = {"used": "for examples too"} if config.train_context == "frozen" else {}
        key = {**self._key(scored.stage, "log_prob", encoder, config), "seen": seen, **used}
        parts = ("query", "context") if config.train_context == "both" else ("query",)
        lesson = Lesson("CEIL", key, parts, train, config, len(scored.instances), self.config.seed)
        query, *context = self._learn(lesson)
        return Encoders(query, context[0] if context else query)

    def starts(self, source: str) -> tuple[str, ...]:
        """Return the encoders that training `tst`, `epr` or `ceil` goes back to, the last one first."""
        return tuple(dict.fromkeys((self.config.ceil.initial, "base"))) if source == "ceil" else ("base",)

    def learnt_from(self, source: str) -> np.ndarray:
        """Return the bank positions of the queries that `base`, `tst` or `epr` learnt from, not those held out."""
        return np.array([], np.int32) if source == "base" else self._halves(source)[0]

    def held_out(self, source: str) -> np.ndarray:
        """Return the bank positions of the queries that training `tst`, `epr` or `ceil` held out."""
        return self._halves(source)[1]

    @property
    def _seen(self) -> np.ndarray:
        """bool [Q]: the queries of CEIL's training that the encoder it starts from has learnt from."""
        return np.isin(self.ceil_scores.positions, self.learnt_from(self.config.ceil.initial))

    def _halves(self, source: str) -> tuple[np.ndarray, np.ndarray]:
        """The bank positions of the queries that a training learns from, and of those that it holds out."""
        if source == "ceil":
            positions, seen = self.ceil_scores.positions, self._seen
        else:
            positions, seen = (self.data.tst if source == "tst" else self.data.epr).positions, None
        learnt, held_out = split_held_out(len(positions), self.config.seed, seen)
        return positions[learnt], positions[held_out]

    def _learn(self, lesson: Lesson) -> list[Encoder]:
        learned = self._learned[lesson.name.lower()] = self.learn(lesson)
        self.costs[f"training {lesson.name}"] = learned.cost
        return learned.encoders

    def _key(
        self, scores: str, signal: str, encoder: Encoder, config: EPRConfig | CEILConfig
    ) -> dict[str, Any]:
        # the texts are in the scores' key where they are the inputs
        as_is = self.config.text == self.config.context == "input"
        texts = {} if as_is else {"texts": digest(list(self.data.context))}
        return {
            **texts,
            "layout": LAYOUT,
            "scores": scores,
            "signal": signal,
            "encoder": encoder.cached_as,
            # the number of instances is in the scores' key
            "steps": "chunked by length, a quarter held out, average or start",
            "config": differing(config, BASELINE, without=("instances",)),
            "seed": self.config.seed,
        }

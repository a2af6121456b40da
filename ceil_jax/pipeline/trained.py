"""The stages that give a run its trained encoders: TST and EPR on scores of candidates, CEIL on those of sets."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from ceil_jax.encoders.encoder import Encoder, require_network
from ceil_jax.errors import unknown_name
from ceil_jax.pipeline.methods import TRAINED
from ceil_jax.pipeline.models import Encoders
from ceil_jax.pipeline.training_data import Supervision
from ceil_jax.retrieval.embedded_bank import unit_rows
from ceil_jax.store.hashing import digest
from ceil_jax.store.rows import Cost
from ceil_jax.store.stage import Stage
from ceil_jax.training.candidates import ScoredSets, TrainingData
from ceil_jax.training.config import EPRConfig
from ceil_jax.training.loop import QUALITY, Trained, split_held_out

log = logging.getLogger(__name__)


class Training(Supervision):
    """A run's encoders: as loaded, or trained if they are not on disk."""

    @cached_property
    def _histories(self) -> dict[str, list[dict[str, float]]]:
        """Of each training, once it has been asked for."""
        return {}

    def encoders(self, source: str) -> Encoders:
        """The encoders of `base`, `tst`, `epr` or `ceil`, trained if they are not on disk."""
        if source == "base":
            return Encoders(self.base, self.base)
        if source not in TRAINED:
            raise unknown_name("encoder source", source, ("base", *TRAINED))
        if self.trained_by is not None:
            return self.trained_by.encoders(source)
        require_network(self.base)
        return {"tst": lambda: self._tst, "epr": lambda: self._epr, "ceil": lambda: self._ceil}[source]()

    def history(self, source: str) -> list[dict[str, float]]:
        """Of training `tst`, `epr` or `ceil`, trained if need be: the loss and the held-out ranking, row by row."""
        self.encoders(source)
        return (self.trained_by or self)._histories[source]

    @cached_property
    def _tst(self) -> Encoders:
        scored = self.tst_scores
        # what has the positive's very output is no negative; EPR's may be, as in the released code
        _, groups = np.unique([example.output for example in self.inputs.context], return_inverse=True)
        scores = np.array([row["output_similarity"] for row in scored.rows], np.float32)
        return self._of_singles("TST", scored, scores, "output_similarity", self.config.tst, groups)

    @cached_property
    def _epr(self) -> Encoders:
        scored = self.epr_scores
        return self._of_singles("EPR", scored, self.signal(scored.rows), self.config.signal, self.config.epr)

    def _of_singles(
        self,
        name: str,
        scored: ScoredSets,
        scores: np.ndarray,
        signal: str,
        config: EPRConfig,
        groups: np.ndarray | None = None,
    ) -> Encoders:
        """The encoder, of queries and examples both, that a retriever of single examples is trained to."""
        from ceil_jax.training.contrastive import train_epr

        encoder = self.base
        data = TrainingData(
            self.inputs.seen(scored.instances), self.inputs.context, scored.candidates, scores
        )

        def train(stage: Stage) -> tuple[dict[str, Encoder], Trained]:
            trained = train_epr(stage, encoder, data, config, self.config.seed, groups, name)
            return {"encoder": encoder.with_params(trained.params)}, trained

        key = self._training_key(scored.stage, signal, encoder, replace(config, instances=0))
        [query] = self._train(name, key, ("encoder",), train)
        return Encoders(query, query)

    @cached_property
    def _ceil(self) -> Encoders:
        from ceil_jax.training.ceil import train_ceil

        scored, config = self.ceil_scores, self._ceil_config
        bank = self.inputs.context
        encoder = self.encoders(config.initial).context
        queries = self.inputs.seen(scored.instances)
        seen = np.isin(scored.positions, self._learnt_from(config.initial))

        def train(stage: Stage) -> tuple[dict[str, Encoder], Trained]:
            vectors = unit_rows(self.embed(encoder, [example.input for example in bank]))
            data = TrainingData(queries, bank, scored.candidates, self.signal(scored.rows), seen)
            trained = train_ceil(stage, encoder, vectors, data, config, self.config.seed)
            return {name: encoder.with_params(params) for name, params in trained.params.items()}, trained

        key = self._training_key(scored.stage, self.config.signal, encoder, replace(config, instances=0))
        key["seen"] = seen
        names = ("query", "context") if config.train_context == "both" else ("query",)
        query, *context = self._train("CEIL", key, names, train)
        frozen = encoder if config.train_context == "frozen" else query
        return Encoders(query, context[0] if context else frozen)

    def _learnt_from(self, source: str) -> np.ndarray:
        """int [Q]: where the queries stand in the bank from which `base`, `tst` or `epr` learnt, the held-out ones
        not among them."""
        if source == "base":
            return np.array([], np.int32)
        positions = (self.tst_scores if source == "tst" else self.epr_scores).positions
        return positions[split_held_out(len(positions), self.config.seed)[0]]

    def _train(
        self,
        name: str,
        key: dict[str, Any],
        parts: Sequence[str],
        train: Callable[[Stage], tuple[dict[str, Encoder], Trained]],
    ) -> list[Encoder]:
        """The encoders that training leaves in its stage, trained if they are not there."""
        with self.store.stage(name.lower(), key) as stage:
            if stage.summary is None:
                began = time.perf_counter()
                encoders, trained = train(stage)
                if stage.leads:
                    for part, encoder in encoders.items():
                        encoder.save_pretrained(stage.folder / part)
                files = [
                    f for part in encoders for f in sorted((stage.folder / part).rglob("*")) if f.is_file()
                ]
                # with that the checkpoints it was picked from are gone
                stage.finish(
                    {"seconds": time.perf_counter() - began, "history": trained.history},
                    tuple(str(file.relative_to(stage.folder)) for file in files),
                )
            assert stage.summary is not None
            self.costs[f"training {name}"] = Cost(stage.summary["seconds"])
            self._histories[name.lower()] = stage.summary["history"]
            first, *later = [row[QUALITY] for row in stage.summary["history"]]
            if first >= max(later):
                log.warning(
                    "training %s: no step ranked held-out sets better; the starting weights are kept", name
                )
            return [
                self.models.trained(
                    stage.folder / part, self.config.encoder, name.strip() if i == 0 else f"{name} {part}"
                )
                for i, part in enumerate(parts)
            ]

    def _training_key(self, scored: str, signal: str, encoder: Encoder, config: Any) -> dict[str, Any]:
        # how many instances there are is in the scores already; the texts are where they are the inputs
        as_is = self.config.text == self.config.context == "input"
        texts = {} if as_is else {"texts": digest(list(self.inputs.context))}
        return {
            **texts,
            "scores": scored,
            "signal": signal,
            "encoder": encoder.cached_as,
            "config": config,
            "seed": self.config.seed,
        }

"""The trained methods of the papers: TST, EPR and CEIL, each as one value;
`methods.register_method` adds others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ceil_jax.encoders.encoder import require_network
from ceil_jax.errors import UserError
from ceil_jax.pipeline.choosing import NearestSingles, Sets, Singles
from ceil_jax.pipeline.encoders import (
    Lesson,
    Training,
    Untrained,
    encode_bank,
    network_of,
    save_networks,
)
from ceil_jax.pipeline.methods import TRAININGS, register_method
from ceil_jax.pipeline.scoring import OutputScores, ScoredCandidates, Scores
from ceil_jax.pipeline.stage import Stage
from ceil_jax.pipeline.views import TrainingQueries
from ceil_jax.retrieval.embedded_bank import unit_rows
from ceil_jax.training.candidates import CandidateSets, ScoredSets
from ceil_jax.training.config import CONTRASTIVE, CEILConfig, EPRConfig
from ceil_jax.training.loop import Trained

if TYPE_CHECKING:
    from ceil_jax.pipeline.graph import Graph


def _report(trained: Trained) -> Mapping[str, Any]:
    return {"history": trained.history, "ending": trained.ending._asdict()}


def _singles(
    graph: Graph, settings: EPRConfig
) -> tuple[TrainingQueries, Stage[CandidateSets], int]:
    """Training queries and their single candidates, BM25's or the nearest of the encoders that
    training starts from; how many candidates each has."""
    queries, count = (
        graph.training_queries(settings.instances),
        min(settings.candidates, len(graph.bank) - 1),
    )
    if settings.initial == "base":
        return queries, Singles(graph.texts(queries), graph.bank_texts("base"), count), count
    return queries, NearestSingles(graph.nearest(settings.initial, queries, count)), count


def _output_scores(graph: Graph, settings: EPRConfig) -> Stage[ScoredSets]:
    queries, sets, _ = _singles(graph, settings)
    return ScoredCandidates(
        sets, OutputScores(Untrained(graph.pretrained), queries, graph.bank, sets)
    )


def single_scores(graph: Graph, settings: EPRConfig) -> Stage[ScoredSets]:
    """Return training queries with single candidates, scored by the LM."""
    queries, sets, count = _singles(graph, settings)
    scores = Scores(graph.prompting, queries, graph.bank, sets, (count, 1), "EPR's candidates")
    return ScoredCandidates(sets, scores)


def _train_epr(
    lesson: Lesson, title: str = "EPR", groups: np.ndarray | None = None
) -> Mapping[str, Any]:
    from ceil_jax.training.contrastive import train_epr

    assert lesson.data is not None
    frozen = lesson.settings.train_context == "frozen"
    trained = train_epr(
        network_of(lesson.start.query),
        lesson.data,
        lesson.settings,
        seed=lesson.seed,
        folder=lesson.scratch,
        groups=groups,
        bank_vectors=_bank_vectors(lesson) if frozen else None,
        title=title,
    )
    save_networks(lesson, trained.params)
    return _report(trained)


def _train_tst(lesson: Lesson) -> Mapping[str, Any]:
    # an example with the positive's very output is no negative; EPR's may be, as in the released
    # code
    _, groups = np.unique([example.output for example in lesson.bank], return_inverse=True)
    return _train_epr(lesson, "TST", groups)


def set_scores(graph: Graph, settings: CEILConfig) -> Stage[ScoredSets]:
    """Return training queries with candidate sets, scored by the LM."""
    available = min(settings.shortlist, len(graph.bank) - 1)
    if settings.size > available:
        raise UserError(
            f"--ceil.size {settings.size}: subsets are drawn from {available} examples; lower it "
            "or raise --ceil.shortlist"
        )
    start, queries = settings.initial, graph.training_queries(settings.instances)
    nearest, vectors = graph.nearest(start, queries, available), graph.encoded(start, queries)
    trade_off = graph.trade_off(settings.trade_off, start) if settings.sampler == "k_dpp" else None
    shape = settings.subsets, settings.size
    sets = Sets(nearest, vectors, *shape, settings.sampler, trade_off, graph.config.data_seed)
    scores = Scores(graph.prompting, queries, graph.bank, sets, shape, "CEIL's candidate sets")
    return ScoredCandidates(sets, scores)


def _bank_vectors(lesson: Lesson) -> np.ndarray:
    """The bank by the starting weights, unit rows."""
    return unit_rows(encode_bank(lesson.cached(lesson.start.context), lesson.bank))


def _check_network(graph: Graph, _: Any) -> None:
    # before the LM reads anything for an encoder that cannot learn
    require_network(graph.pretrained.get())


def _check_epr(graph: Graph, settings: EPRConfig) -> None:
    from ceil_jax.training.losses import ceil_loss

    _check_network(graph, settings)
    if settings.loss != CONTRASTIVE:
        ceil_loss(settings.loss, settings.loss_options)


def _check_ceil(graph: Graph, settings: CEILConfig) -> None:
    from ceil_jax.training.losses import ceil_loss

    _check_network(graph, settings)
    # a misspelt loss is refused before the LM scores anything
    ceil_loss(settings.loss, settings.loss_options)
    start = settings.initial
    two = start in TRAININGS and getattr(graph.settings(start), "train_context", "") == "both"
    if two and settings.train_context in ("frozen", "shared"):
        raise UserError(
            f"--{start}.train-context both: --ceil.train-context {settings.train_context} has one "
            "encoder for queries and examples; give both or released, or --ceil.initial base"
        )


def _train_ceil(lesson: Lesson) -> Mapping[str, Any]:
    from ceil_jax.training.ceil import train_ceil

    start, examples = network_of(lesson.start.query), network_of(lesson.start.context)
    assert lesson.trade_off is not None and lesson.data is not None
    trained = train_ceil(
        start,
        lesson.data,
        lesson.settings,
        bank_vectors=_bank_vectors(lesson) if lesson.settings.frozen_examples else None,
        trade_off=lesson.trade_off,
        seed=lesson.seed,
        folder=lesson.scratch,
        example_encoder=examples,
    )
    # in the released code examples keep the starting encoder
    kept = {"context": examples.params} if lesson.settings.train_context == "released" else {}
    save_networks(lesson, {**trained.params, **kept})
    return _report(trained)


TST = Training(
    name="tst",
    title="TST",
    scored=_output_scores,
    train=_train_tst,
    check=_check_epr,
    lm_tokens=False,
)
"""Target similarity tuning (Poesia et al., ICLR 2022): learns from the similarity of outputs."""

EPR = Training(name="epr", title="EPR", scored=single_scores, train=_train_epr, check=_check_epr)
"""EPR (Rubin et al., NAACL 2022): learns from the LM's scores of single examples."""

CEIL = Training(
    name="ceil", title="CEIL", scored=set_scores, train=_train_ceil, check=_check_ceil, sets=True
)
"""CEIL (Ye et al., ICML 2023): learns from the LM's scores of sets."""

register_method("tst", "dense", "TST", TST)
register_method("tst_map", "dpp", "TST + MAP", TST, against=("tst",))
register_method("epr", "dense", "EPR", EPR, against=("free", "topk"))
register_method("epr_map", "dpp", "EPR + MAP", EPR, against=())
register_method("ceil_topk", "dense", "CEIL top-k", CEIL, against=("epr",))
register_method("ceil", "dpp", "CEIL", CEIL, against=("epr", "epr_map", "free", "topk"))

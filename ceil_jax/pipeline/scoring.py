"""The steps that score candidate sets, and that choose λ by such scores.

The scores are the LM's or the similarity of outputs.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ceil_jax.errors import UserError
from ceil_jax.lm.base import LanguageModel
from ceil_jax.lm.letters import lettered, with_letters
from ceil_jax.lm.request import LMRequest
from ceil_jax.pipeline.prompting import Prompting, sample, work_of_reading
from ceil_jax.pipeline.run import Run
from ceil_jax.store.kept import Lazy, Noted, Work, arrays, in_notes, kept
from ceil_jax.tasks.bank import Examples
from ceil_jax.tasks.example import Example
from ceil_jax.tasks.labels import shared_choices
from ceil_jax.training.candidates import CandidateSets, ScoredSets
from ceil_jax.training.contrastive import output_similarity
from ceil_jax.training.scoring import score_sets, set_prompts
from ceil_jax.training.trade_offs import TRADE_OFFS, best_trade_off, trade_off_note

log = logging.getLogger(__name__)

LOG_DET_SHARE = "log_det_share"
"""The name of `training.trade_offs.log_det_share` in the summary of `choosing.sets_of_each_trade_off`."""


SCORES = arrays("scores.npz")


def work_of_scoring(run: Run, scores: Scores) -> Work:
    """Return the work of scoring candidate sets.

    Random sets take the place of those that are not drawn yet.
    """
    some = sample(len(scores.queries))
    sampled = scores.queries.examples[some]
    times = len(scores.queries) / max(1, len(sampled))
    if run.notes(scores.sets):
        sets = CandidateSets(*(array[some] for array in run.get(scores.sets)))
    else:
        sets = random_sets(len(scores.bank), len(sampled), *scores.shape)
        times *= scores.differing
    return work_of_reading(run, scores.prompting.lm, requests(run, scores, sampled, sets), times)


@kept(
    "scores",
    files=SCORES,
    version=2,
    what=lambda scores: f"scoring {scores.label}",
    work=work_of_scoring,
    unkeyed=("shape", "label", "differing"),
)
def lm_scores(
    run: Run,
    prompting: Prompting,
    queries: Examples,
    bank: Examples,
    sets: CandidateSets,
    shape: tuple[int, int] = (1, 1),
    label: str = "candidate sets",
    differing: float = 1.0,
    all_choices: bool = False,
) -> dict[str, np.ndarray]:
    """Return the LM's scores of candidate sets, float64 [Q, M], by name.

    See `training.scoring.score_sets`.

    Args:
        run: gives the LM.
        prompting: the prompts.
        queries: Q training queries.
        bank: the bank.
        sets: M candidate sets of each query.
        shape: (M, k): number of sets and of examples in each, to estimate the work.
        label: names the sets in progress bars.
        differing: the expected share of distinct sets: equal ones are read once.
        all_choices: whether the LM reads all choices of a query, and not only the gold one. `tuned`
            compares the probabilities of choices; training needs only the gold one's.
    """
    lm = run.lm(prompting.lm)
    scored = _as_scored(lm, prompting, queries.examples, bank.examples)
    prompting = scored.prompting
    builder = prompting.builder(run, scored.queries)
    prompts = set_prompts(scored.queries, scored.bank, sets, builder, prompting.fit)
    return score_sets(
        lm,
        scored.queries,
        prompts,
        prompting.prompt,
        prompting.per_token,
        all_choices or scored.by_labels,
    )


class _Scored(NamedTuple):
    """Prompts and outputs in the form in which the LM scores them."""

    prompting: Prompting
    queries: Sequence[Example]
    bank: Sequence[Example]
    by_labels: bool = False
    """Whether the LM is given all labels, and returns log P of each."""


def _as_scored(
    lm: LanguageModel, prompting: Prompting, queries: Sequence[Example], bank: Sequence[Example]
) -> _Scored:
    """Return the prompts and outputs to score, in the form in which the LM scores them.

    The labels are replaced by letters if the LM gives log P of labels only and these begin with the
    same token.
    """
    if lm.can_score or not lm.can_weigh:
        return _Scored(prompting, queries, bank)
    labels = shared_choices([*queries, *bank])
    if not labels:
        raise UserError(
            f"{lm.name} gives log-probabilities of labels only, and these outputs are not labels"
        )
    if lm.tells_apart(labels):
        return _Scored(prompting, queries, bank, True)
    log.info(
        "%s gives several of these labels the same first token: letters are scored in their place, "
        "which the instruction explains",
        lm.name,
    )
    prompting = replace(prompting, prompt=with_letters(prompting.prompt, labels))
    return _Scored(prompting, lettered(queries, labels), lettered(bank, labels), True)


Scores = Lazy[dict[str, np.ndarray]]
"""The lazy value of a call of `lm_scores` or `output_scores`."""


def requests(
    run: Run, scores: Scores, queries: Sequence[Example], sets: CandidateSets
) -> list[LMRequest]:
    """Return the LM request that scores each set of each query, to estimate the work.

    They are in the order of the queries, and the same that `lm_scores` makes, so that readings of
    them are found.
    """
    lm = run.lm(scores.prompting.lm)
    scored = _as_scored(lm, scores.prompting, queries, scores.bank.examples)
    builder = scored.prompting.builder(run, scored.queries)
    prompts = set_prompts(scored.queries, scored.bank, sets, builder, scored.prompting.fit)
    sets_of_query = sets.subsets.shape[1]
    return [
        scored.prompting.scoring_request(
            prompt,
            scored.queries[number // sets_of_query],
            all_choices=scores.all_choices or scored.by_labels,
        )
        for number, prompt in enumerate(prompts)
    ]


def random_sets(bank: int, queries: int, sets: int, size: int) -> CandidateSets:
    """Return random sets in place of those that are not drawn yet.

    They are used to estimate the tokens of prompts.
    """
    generator = np.random.default_rng(0)
    n = min(bank, max(size, 50))
    shortlists = [generator.permutation(bank)[:n] for _ in range(queries)]
    drawn = [
        [np.sort(generator.permutation(n)[:size]) for _ in range(sets)] for _ in range(queries)
    ]
    subsets = np.array(drawn, np.int32).reshape(queries, sets, min(size, n))
    return CandidateSets(np.stack(shortlists).astype(np.int32), subsets)


@kept("outputsimilarity", files=SCORES, version=2, what="comparing outputs")
def output_scores(
    queries: np.ndarray, bank: np.ndarray, sets: CandidateSets
) -> dict[str, np.ndarray]:
    """Return TST's scores of candidates, the similarities of outputs, in place of an LM's.

    The cosine between a query's output and each candidate's, from the vectors of outputs, unit
    rows.
    """
    return {"lm_scores": output_similarity(queries, bank, sets.shortlist)}


@kept("scored")
def scored_sets(sets: CandidateSets, scores: dict[str, np.ndarray]) -> ScoredSets:
    """Return the candidate sets of training queries with their scores."""
    return ScoredSets(sets, scores["lm_scores"].astype(np.float32))


@kept(
    "tradeoff",
    files=in_notes(lambda notes: notes["trade_off"]),
    unkeyed=("label",),
    lazily=("scores",),
)
def tuned(run: Run, scores: Scores, label: str = "") -> float | Noted:
    """Return the tuned λ: the one of the grid whose MAP sets the LM's scores favour.

    It is the value of the grid whose MAP sets make the right outputs of training queries most
    probable. A note is logged if it is so small that the determinant has no influence.

    Args:
        run: gives the scores.
        scores: the LM's scores of `choosing.sets_of_each_trade_off`.
        label: the method, for the log.
    """
    found = run.get(scores)
    chosen = best_trade_off(found.get("choice", found["lm_scores"]))
    log.info("%s: λ = %g of %s", label, chosen, ", ".join(f"{value:g}" for value in TRADE_OFFS))
    run.get(scores.sets)
    note = trade_off_note(chosen, run.notes(scores.sets)[LOG_DET_SHARE])
    if note:
        log.info("%s: %s", label, note)
    return Noted(chosen, {"trade_off": chosen, "note": note})

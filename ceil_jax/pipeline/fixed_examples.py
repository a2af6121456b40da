"""Stages that find one set of examples for all queries (`methods.fixed`): a pool, sets of it, their
scores, and the best set. `best_set` puts them together.

```
BestSet ← SharedScores ← Finalists ← SharedScores ← Challengers ← SharedScores ← RandomSets ← Pool
```

All queries of a stage have the same sets, and the pool as their shortlist. The queries are rows of
the bank that are held back from the pool, so that no prompt contains its own query.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from ceil_jax.errors import UserError
from ceil_jax.lm.messages import Rendered
from ceil_jax.methods.fixed import FixedPart
from ceil_jax.metrics import METRICS
from ceil_jax.pipeline.choosing import StoredSets
from ceil_jax.pipeline.prompting import Prompting, work_of_reading
from ceil_jax.pipeline.scoring import Scores
from ceil_jax.pipeline.setup import Setup
from ceil_jax.pipeline.stage import Run, Stage, Work, unkeyed
from ceil_jax.pipeline.views import BankQueries, Examples
from ceil_jax.pipeline.ways import ask, way_of_answering
from ceil_jax.store.folder import load_arrays, save_arrays
from ceil_jax.tasks.example import Example
from ceil_jax.tasks.identity import question_key
from ceil_jax.tasks.labels import labels_of
from ceil_jax.training.candidates import CandidateSets
from ceil_jax.training.scoring import by_set, set_prompts
from ceil_jax.training.shared_sets import (
    Measure,
    balanced_sets,
    challengers,
    diverse_pool,
    fit_effects,
    measured_by,
    set_values,
    top_sets,
)

_SAMPLED_SETS = 4
"""Number of sets whose prompts are counted to estimate the tokens of all."""


def label_groups(bank: Sequence[Example]) -> Int[np.ndarray, " n"]:
    """Return a number for each example, equal for equal labels; all 0 if the bank's outputs are not
    labels."""
    if not labels_of(bank):
        return np.zeros(len(bank), np.int64)
    outputs = [question_key(example.output) for example in bank]
    return np.unique(outputs, return_inverse=True)[1]


@dataclass(frozen=True)
class Pool(Stage[np.ndarray]):
    """The bank positions of the examples that sets are drawn from, int32 [p]."""

    what = "choosing a pool of examples"
    bank: Examples
    vectors: Stage[np.ndarray]
    held_back: np.ndarray
    """Bank positions of the rows on which sets are scored."""
    size: int
    seed: int

    def compute(self, run: Run, folder: Path) -> Mapping[str, Any]:
        examples = self.bank.examples
        left = np.setdiff1d(np.arange(len(examples)), self.held_back)
        # about as long as in a prompt
        lengths = np.array([len(e.input) + len(e.output) for e in examples])[left]
        groups = label_groups(examples)[left]
        pool = diverse_pool(run.get(self.vectors)[left], groups, lengths, self.size, self.seed)
        save_arrays(folder / "pool.npz", positions=left[pool].astype(np.int32))
        return {"examples": len(pool)}

    def load(self, run: Run, folder: Path) -> np.ndarray:
        return load_arrays(folder / "pool.npz")["positions"]


class SharedSets(StoredSets):
    """Sets from a pool, the same for all queries."""

    def share(
        self, folder: Path, pool: np.ndarray, sets: np.ndarray, queries: int
    ) -> Mapping[str, Any]:
        """Write sets as the candidate sets of every query, and return their number.

        Args:
            folder: the stage's folder.
            pool: int [p], the bank positions of the pool.
            sets: int [M, k], positions in the pool.
            queries: number of queries.
        """
        shortlist = np.tile(pool, (queries, 1))
        subsets = np.tile(sets.astype(np.int32), (queries, 1, 1))
        return {**self.save(folder, CandidateSets(shortlist, subsets)), "sets": len(sets)}


@dataclass(frozen=True)
class RandomSets(SharedSets):
    """Random sets from a pool, balanced over labels."""

    what = "drawing sets of the pool"
    pool: Pool
    queries: BankQueries
    count: int
    size: int
    seed: int

    def compute(self, run: Run, folder: Path) -> Mapping[str, Any]:
        pool = run.get(self.pool)
        if self.size > len(pool):
            raise UserError(
                f"--shots: {self.size} fixed examples of a pool of {len(pool)}; the bank has no more "
                "that differ and are not among its longest: ask for fewer, or give more rows"
            )
        groups = groups_of(run, self.pool)
        sets = balanced_sets(groups, self.count, self.size, self.seed)
        return self.share(folder, pool, sets, len(self.queries))


def groups_of(run: Run, pool: Pool) -> Int[np.ndarray, " p"]:
    """Return a number from 0 for each example of a pool, equal for equal labels."""
    groups = label_groups(pool.bank.examples)[run.get(pool)]
    return np.unique(groups, return_inverse=True)[1]


@dataclass(frozen=True)
class SharedScores(Scores):
    """The LM's scores of sets that all queries share. The prompts of a set are read one after
    another, because they have the same beginning."""

    def reading_order(self, queries: int, sets: int) -> np.ndarray | None:
        """Return the positions of the prompts in the order of reading: all queries with the first
        set, then all with the second, because these prompts begin alike."""
        return by_set(queries, sets)

    def estimate(self, run: Run) -> Work:
        queries = self.queries.examples
        sets, times = some_sets(run, self.sets, len(queries), len(self.bank), self.shape)
        by_query = self.requests(run, queries, sets)
        order = by_set(len(queries), sets.subsets.shape[1])
        requests = [by_query[number] for number in order]
        return work_of_reading(run, self.prompting.lm, requests, times, together=True)


@dataclass(frozen=True)
class SharedAnswers(Stage[dict[str, np.ndarray]]):
    """For an LM without log-probabilities: the metric of its answers with sets that all queries
    share, float64 [Q, M]."""

    prompting: Prompting
    stop: tuple[str, ...]
    metric: str
    queries: Examples
    bank: Examples
    sets: Stage[CandidateSets]
    shape: tuple[int, int] = unkeyed((1, 1))
    """M sets of k examples, to estimate what reading them takes."""
    label: str = unkeyed("sets")

    @property
    def what(self) -> str:
        return f"answering with {self.label}"

    @property
    def registered(self) -> tuple[Any, ...]:
        """The metric. A plugin's code becomes part of the key."""
        return (METRICS[self.metric],)

    def _prompts(self, run: Run, sets: CandidateSets) -> tuple[list[Rendered], list[Example]]:
        """The prompts of all sets with their queries, set by set."""
        queries = self.queries.examples
        builder = self.prompting.builder(run, queries)
        prompts = set_prompts(queries, self.bank.examples, sets, builder, self.prompting.fit)
        count = sets.subsets.shape[1]
        order = by_set(len(queries), count)
        return [prompts[i] for i in order], [queries[i // count] for i in order]

    def compute(self, run: Run, folder: Path) -> Mapping[str, Any]:
        prompts, queries = self._prompts(run, run.get(self.sets))
        scores: Any = ()
        if prompts:
            lm = run.lm(self.prompting.lm)
            replies = ask(lm, self.prompting, self.stop, prompts, queries)
            scores = METRICS[self.metric].scored([reply.prediction for reply in replies], queries)
        # set by set → a row for each query, float [Q, sets]
        by_query = np.asarray(scores, np.float64).reshape(-1, len(self.queries)).T
        save_arrays(folder / "scores.npz", metric=by_query)
        return {}

    def load(self, run: Run, folder: Path) -> dict[str, np.ndarray]:
        return load_arrays(folder / "scores.npz")

    def estimate(self, run: Run) -> Work:
        sets, times = some_sets(run, self.sets, len(self.queries), len(self.bank), self.shape)
        prompts, queries = self._prompts(run, sets)
        way = way_of_answering(run.lm(self.prompting.lm), self.prompting, self.stop, queries)
        answers = [query.output for query in self.queries.examples]
        requests = way.requests(prompts, queries)
        return work_of_reading(run, self.prompting.lm, requests, times, answers, together=True)


def some_sets(
    run: Run, sets: Stage[CandidateSets], queries: int, bank_size: int, shape: tuple[int, int]
) -> tuple[CandidateSets, float]:
    """Return a few of the sets that all queries share, to estimate the tokens of prompts, and the
    factor from these to all. If the sets are not drawn yet, random ones take their place.

    Args:
        run: gives sets that are on disk.
        sets: the stage of the sets.
        queries: number of queries.
        bank_size: number of examples in the bank.
        shape: number of sets and of examples in each, for random ones.
    """
    if run.summary(sets):
        known = run.get(sets)
        count = known.subsets.shape[1]
        few = CandidateSets(known.shortlist, known.subsets[:, :_SAMPLED_SETS])
        return few, count / max(1, few.subsets.shape[1])
    count, size = shape
    generator = np.random.default_rng(0)
    drawn = [
        generator.choice(bank_size, size, replace=False) for _ in range(min(count, _SAMPLED_SETS))
    ]
    shortlist = np.arange(bank_size, dtype=np.int32)
    subsets = np.sort(np.array(drawn, np.int32).reshape(len(drawn), size), axis=1)
    few = CandidateSets(np.tile(shortlist, (queries, 1)), np.tile(subsets, (queries, 1, 1)))
    return few, count / max(1, len(drawn))


Trial = SharedScores | SharedAnswers
"""Sets with their scores on the same queries."""


def sets_of(run: Run, trial: Trial) -> Int[np.ndarray, "m k"]:
    """Return the sets of a trial, as positions in the pool."""
    return run.get(trial.sets).subsets[0]


def tried(
    run: Run, trials: Sequence[Trial]
) -> tuple[Int[np.ndarray, "m k"], Float[np.ndarray, " m"]]:
    """Return all sets of some trials on the same queries, and the value of each, higher for
    better."""
    scores = [run.get(trial) for trial in trials]
    measure = measured_by(scores[0])
    together = np.concatenate([of_trial[measure] for of_trial in scores], axis=1)
    sets = np.concatenate([sets_of(run, trial) for trial in trials])
    return sets, set_values(measure, together)


@dataclass(frozen=True)
class Challengers(SharedSets):
    """Sets that should be better than those tried so far, by the estimated effect of each
    example."""

    what = "choosing challengers"
    pool: Pool
    trials: tuple[Trial, ...]
    queries: BankQueries
    count: int
    seed: int

    def compute(self, run: Run, folder: Path) -> Mapping[str, Any]:
        pool = run.get(self.pool)
        sets, values = tried(run, self.trials)
        effects = fit_effects(sets, values, len(pool))
        groups = groups_of(run, self.pool)
        better = challengers(effects, groups, sets.shape[1], self.count, sets, self.seed)
        return self.share(folder, pool, better, len(self.queries))


@dataclass(frozen=True)
class Finalists(SharedSets):
    """In the first round, the most promising sets of all trials; later, the best of the previous
    finalists on all rows so far."""

    what = "choosing finalists"
    pool: Pool
    trials: tuple[Trial, ...]
    finals: tuple[Trial, ...]
    """The earlier rounds of finalists."""
    queries: BankQueries
    """The rows of this round."""
    count: int

    def compute(self, run: Run, folder: Path) -> Mapping[str, Any]:
        best = best_sets(run, self.pool, self.trials, self.finals)[: self.count]
        return self.share(folder, run.get(self.pool), best, len(self.queries))


@dataclass(frozen=True)
class BestSet(Stage[np.ndarray]):
    """The bank positions of the best set's examples, int32 [k]. A prompt shows them in reverse
    order, as when the set was scored."""

    what = "choosing the fixed examples"
    pool: Pool
    trials: tuple[Trial, ...]
    finals: tuple[Trial, ...]

    def compute(self, run: Run, folder: Path) -> Mapping[str, Any]:
        sets, _ = tried(run, self.trials)
        best = best_sets(run, self.pool, self.trials, self.finals)[0]
        save_arrays(folder / "set.npz", positions=run.get(self.pool)[best].astype(np.int32))
        rows = len(self.trials[0].queries) + sum(len(trial.queries) for trial in self.finals)
        return {"sets": len(sets), "size": len(best), "rows": rows}

    def load(self, run: Run, folder: Path) -> np.ndarray:
        return load_arrays(folder / "set.npz")["positions"]


def best_sets(
    run: Run, pool: Pool, trials: Sequence[Trial], finals: Sequence[Trial]
) -> Int[np.ndarray, "m k"]:
    """Return sets, best first: the last finalists, by their scores on all rows so far; before the
    first round, all sets by their estimated effects.

    Args:
        run: gives the sets and their scores.
        pool: the pool that sets are drawn from.
        trials: all sets with their scores on the first rows.
        finals: the rounds of finalists so far, each with its scores on further rows.
    """
    sets, values = tried(run, trials)
    if not finals:
        effects = fit_effects(sets, values, len(run.get(pool)))
        return sets[top_sets(sets, values, effects, len(sets))]
    left = sets_of(run, finals[-1])
    measure, scores = scores_on_all_rows(run, (*trials, *finals), left)
    order = np.argsort(-set_values(measure, scores), kind="stable")
    return left[order]


def scores_on_all_rows(
    run: Run, trials: Sequence[Trial], sets: Int[np.ndarray, "m k"]
) -> tuple[Measure, Float[np.ndarray, "q m"]]:
    """Return the kind of the scores, and the scores of some sets on all rows. These must have been
    scored on the same rows."""
    scores_of: dict[tuple[int, ...], list[np.ndarray]] = {
        tuple(positions): [] for positions in sets.tolist()
    }
    measure: Measure = "metric"
    for trial in trials:
        scores = run.get(trial)
        measure = measured_by(scores)
        for number, positions in enumerate(sets_of(run, trial).tolist()):
            if tuple(positions) in scores_of:
                scores_of[tuple(positions)].append(scores[measure][:, number])
    columns = [np.concatenate(scores_of[tuple(positions)]) for positions in sets.tolist()]
    return measure, np.stack(columns, axis=1)


def best_set(
    setup: Setup, part: FixedPart, vectors: Stage[np.ndarray], rounds: Sequence[BankQueries]
) -> BestSet:
    """Return the stage of the best set of a pool, of the size that a prompt's fixed part has.

    Args:
        setup: the task and its settings, for all seeds.
        part: the fixed part of a prompt, and how it is found.
        vectors: the vectors of the bank, unit rows, by which the pool is chosen.
        rounds: the rows of the bank on which sets are scored in each round.
    """
    bank = setup.bank
    finder = part.method
    seed = setup.config.data_seed
    held_back = np.sort(np.concatenate([queries.positions for queries in rounds]))
    pool = Pool(bank, vectors, held_back, size=part.pool, seed=seed)
    first_rows, *further_rows = rounds
    # random sets first
    sets: SharedSets = RandomSets(pool, first_rows, finder.sets, part.size, seed)
    shape = (finder.sets, part.size)
    trials: tuple[Trial, ...] = (scored_trial(setup, sets, first_rows, shape, "random sets"),)
    # then waves of challengers, each chosen by the scores of all sets before it
    for _ in range(finder.waves if finder.challengers else 0):
        sets = Challengers(pool, trials, first_rows, finder.challengers, seed)
        shape = (finder.challengers, part.size)
        trials = (*trials, scored_trial(setup, sets, first_rows, shape, "challengers"))
    # the best sets are scored on further rows, and each round halves their number
    finals: tuple[Trial, ...] = ()
    count = finder.finalists
    for rows in further_rows:
        sets = Finalists(pool, trials, finals, rows, count)
        shape = (count, part.size)
        finals = (*finals, scored_trial(setup, sets, rows, shape, "finalists"))
        count = max(1, count // 2)
    return BestSet(pool, trials, finals)


def scored_trial(
    setup: Setup, sets: SharedSets, queries: BankQueries, shape: tuple[int, int], label: str
) -> Trial:
    """Return the stage that scores sets that all queries share: by the LM's log-probabilities if it
    gives any, else by the metric of its answers.

    Args:
        setup: the task and its settings.
        sets: the sets.
        queries: the rows of the bank on which sets are scored.
        shape: number of sets and of examples in each, to estimate the work.
        label: names the sets in progress bars.
    """
    label = f"{label} of fixed examples"
    if setup.lm.can_score:
        return SharedScores(
            setup.answering,
            queries,
            setup.bank,
            sets,
            shape=shape,
            label=label,
            all_choices=True,
        )
    return SharedAnswers(
        setup.answering,
        stop=tuple(setup.task.stop),
        metric=setup.task.metric,
        queries=queries,
        bank=setup.bank,
        sets=sets,
        shape=shape,
        label=label,
    )

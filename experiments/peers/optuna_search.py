"""Optuna over the search space of `ceil-jax tune`: method, K and λ."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import optuna

from ceil_jax.errors import UserError
from ceil_jax.methods.row import Row
from ceil_jax.tuning.candidates import ZERO, Candidate, searched
from ceil_jax.tuning.config import TuneConfig
from peers.arena import Arena, Chosen
from peers.ours import of_candidate

TRIALS = 150
"""The maximum number of trials. Normally the budget ends the search; a space may be too small to
spend it, because repeated prompts cost nothing."""

ROWS = 32
"""The number of preparing rows that a trial answers. With 16, trials left half of the budget unspent."""

PARTS = 4
"""The number of parts in which a trial answers its rows; it may be pruned after each part."""


def optuna_search(arena: Arena) -> Chosen:
    """Choose by TPE with the median pruner. Each trial answers ROWS rows; the best mean wins."""
    search = TuneConfig()
    rows = {
        row.name: row
        for row in searched(search, arena.config, arena.task)
        if not Candidate(row, 1).prepared and _applies(arena, row)
    }
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(
        direction="maximize",
        sampler=optuna.samplers.TPESampler(seed=arena.split),
        pruner=optuna.pruners.MedianPruner(n_startup_trials=3),
    )
    validating = arena.preparing[:ROWS]
    parts = np.array_split(np.arange(len(validating)), PARTS)
    with arena.lm.metered("preparing") as meter:

        def objective(trial: optuna.Trial) -> float:
            candidate = _candidate(trial, rows, search, arena.k)
            prompts = arena.field.enter(candidate, validating).prompts
            scores: list[float] = []
            for step, part in enumerate(parts):
                if meter.cost.tokens >= arena.budget:
                    trial.study.stop()
                    raise optuna.TrialPruned
                queries = [validating[i] for i in part]
                answers = arena.answers([prompts[i] for i in part], queries)
                scores += arena.scores(answers, queries).tolist()
                trial.report(float(np.mean(scores)), step)
                if trial.should_prune():
                    raise optuna.TrialPruned
            trial.set_user_attr("candidate", candidate)
            return float(np.mean(scores))

        study.optimize(objective, n_trials=TRIALS)
    return of_candidate(arena, study.best_trial.user_attrs["candidate"])


def _candidate(
    trial: optuna.Trial, rows: Mapping[str, Row], search: TuneConfig, most: int
) -> Candidate:
    row = rows[trial.suggest_categorical("method", list(rows))]
    if row == ZERO.row:
        return ZERO
    shots = trial.suggest_categorical("shots", sorted({max(1, most // 2), most}))
    free = row.needs.trade_off == "tunable" and not row.method.learns_sets
    trade_off = trial.suggest_categorical("trade_off", search.trade_offs) if free else None
    return Candidate(row, shots, trade_off)


def _applies(arena: Arena, row: Row) -> bool:
    """Return whether a row can choose examples for this task's queries."""
    try:
        arena.field.enter(Candidate(row, 0 if row == ZERO.row else 2), arena.preparing[:1])
    except UserError:
        return False
    return True

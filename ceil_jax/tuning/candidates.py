"""The candidates of a search: ways of choosing examples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ceil_jax.errors import UserError, unknown_name
from ceil_jax.methods.registry import FREE_ROW, ROWS, TOPK_ROW, ZERO_ROW
from ceil_jax.methods.row import Row
from ceil_jax.pipeline.config import RunConfig
from ceil_jax.tasks.example import Task
from ceil_jax.tasks.structures import structure_parser_of
from ceil_jax.tuning.config import TuneConfig

LEARNED = ("free", "free_map", "fixed", "fixed_near", "epr", "ceil")
"""The trained methods that are tried by default."""


@dataclass(frozen=True)
class Candidate:
    """One way of choosing examples."""

    row: Row
    """A method and the retriever that chooses with its vectors."""
    shots: int
    """K, the number of examples; 0 for prompts without examples."""
    trade_off: float | None = None
    """λ, for a method whose λ is searched; else None."""
    encoder: str = ""
    """The untrained encoder, if it is not the run's own; else ""."""

    @property
    def prepared(self) -> bool:
        """True if the LM has to read prompts before the first query is answered.

        They are read for training, or to rewrite inputs as skills.
        """
        return self.row.learns_from_lm or self.row.needs.skills != "none"

    def config(self, base: RunConfig) -> RunConfig:
        """Return the settings of the candidate's run.

        `base`, the settings of all candidates, with its K, λ and encoder.
        """
        encoder = self.encoder or base.encoder
        trade_off = base.trade_off if self.trade_off is None else self.trade_off
        return replace(base, shots=self.shots, encoder=encoder, trade_off=trade_off)

    @property
    def label(self) -> str:
        """The candidate's name in tables."""
        shots = f"K = {self.shots}" if self.shots else ""
        trade_off = "" if self.trade_off is None else f"λ = {self.trade_off:g}"
        return ", ".join(filter(None, (self.row.label, shots, trade_off, self.encoder)))


ZERO = Candidate(ZERO_ROW, 0)

PLAIN = Candidate(TOPK_ROW, 8)
"""The eight nearest examples, by the run's encoder."""

_STANDARD_SHOTS = 4


def standard(task: Task) -> Candidate:
    """Return the prompt that needs no search, with which every candidate is compared.

    It has four examples, by `free` where outputs are programs and the nearest elsewhere.

    Over nine tasks this rule, with a classifier where outputs are labels, scored as well as a search
    (docs/results.md).
    """
    shots = max(1, min(_STANDARD_SHOTS, len(task.train) - 1))
    return Candidate(TOPK_ROW if structure_parser_of(task.train) is None else FREE_ROW, shots)


def searched(search: TuneConfig, config: RunConfig, task: Task) -> tuple[Row, ...]:
    """Return the methods that are searched, with the run's settings.

    They are those that a selector can hold, so that whatever is recommended can be used.

    Raises:
        UserError: `search` names an unknown method, or one that no selector can hold.
    """
    known = {name: config.configured(row) for name, row in ROWS.items() if row.exports}
    for name in search.method:
        if name in known:
            continue
        if name in ROWS:
            raise UserError(
                f"--method {name}: tune recommends only what a selector can hold, which {ROWS[name].label} "
                f"is not; use compare for it. Known here: {', '.join(known)}"
            )
        raise unknown_name("method", name, known)
    if search.method:
        return tuple(known[name] for name in dict.fromkeys(search.method))
    return tuple(row for row in known.values() if not row.trains or row.name in LEARNED)


def possible_ks(search: TuneConfig, task: Task) -> tuple[int, ...]:
    """Return the values of K for which the bank has enough examples, in order.

    Raises:
        UserError: the bank is too small for all of them.
    """
    most = len(task.train) - 1
    ks = tuple(k for k in sorted(set(search.ks)) if 1 <= k <= most)
    if not ks:
        numbers = " ".join(map(str, search.ks))
        raise UserError(
            f"--ks {numbers}: the bank of {task.name} has {most + 1} examples; give numbers from 1 "
            f"to {most}"
        )
    return ks


def candidates(methods: Sequence[Row], ks: Sequence[int], search: TuneConfig) -> list[Candidate]:
    """Return each method with each K, and with each λ and encoder that it depends on.

    Args:
        methods: the methods, as rows of tables.
        ks: the numbers of examples.
        search: the values of λ, and the encoders besides the run's own.
    """
    found = []
    for row in methods:
        if row == ZERO.row:
            found.append(ZERO)
            continue
        tunable = row.needs.trade_off == "tunable" and not row.method.learns_sets
        encoders = ("", *search.encoders) if row.encodes else ("",)
        trade_offs = search.trade_offs if tunable else (None,)
        found += [
            Candidate(row, shots + row.method.near_examples, trade_off, encoder)
            for encoder in encoders
            for trade_off in trade_offs
            for shots in ks
        ]
    return found

"""The candidates of a search: ways of choosing examples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ceil_jax.errors import UserError, unknown_name
from ceil_jax.methods.registry import RANDOM_ROW, ROWS, TOPK_ROW, ZERO_ROW
from ceil_jax.methods.row import Row
from ceil_jax.pipeline.config import RunConfig
from ceil_jax.tasks.example import Task
from ceil_jax.tasks.labels import labels_of
from ceil_jax.tuning.config import TuneConfig
from ceil_jax.tuning.extent import PLAIN_SHOTS, Extent

LEARNED = ("free", "free_map", "by_label", "fixed", "fixed_near", "epr", "ceil")
"""The trained methods that are tried by default."""

MANY_LABELS = 3
"""Labels from which on a choice of as many examples of each is tried by default: of two, near
examples show both anyway."""


@dataclass(frozen=True)
class Candidate:
    """One way of choosing examples."""

    row: Row
    """A method and the retriever that chooses with its vectors."""
    shots: int
    """K; 0 without examples."""
    trade_off: float | None = None
    """λ, where it is free."""
    encoder: str = ""
    """The untrained encoder, where it is another than the run's."""

    @property
    def prepared(self) -> bool:
        """Whether it spends LM tokens before the first query: on training, or on rewriting inputs
        as skills."""
        return self.row.learns_from_lm or self.row.needs.skills != "none"

    def config(self, base: RunConfig) -> RunConfig:
        """Return the settings of its run, from those of all candidates."""
        encoder = self.encoder or base.encoder
        trade_off = base.trade_off if self.trade_off is None else self.trade_off
        return replace(base, shots=self.shots, encoder=encoder, trade_off=trade_off)

    @property
    def label(self) -> str:
        """Its name in tables."""
        shots = f"K = {self.shots}" if self.shots else ""
        trade_off = "" if self.trade_off is None else f"λ = {self.trade_off:g}"
        return ", ".join(filter(None, (self.row.label, shots, trade_off, self.encoder)))


ZERO = Candidate(ZERO_ROW, 0)

PLAIN = Candidate(TOPK_ROW, PLAIN_SHOTS)
"""Plain top-k, with which every choice is compared: the 8 nearest examples of the encoder that the
run names."""


def plain(extent: Extent) -> Candidate:
    """Return the prompt with which every choice is compared: the nearest examples, or random ones
    where no text is encoded."""
    return Candidate(TOPK_ROW if extent.vectors else RANDOM_ROW, extent.plain)


def searched(search: TuneConfig, config: RunConfig, task: Task) -> tuple[Row, ...]:
    """Return the rows that are searched, with the configuration's settings; an unknown name is a
    UserError."""
    known = {name: config.configured(row) for name, row in ROWS.items() if row.answers == "lm"}
    for name in search.method:
        if name not in known:
            raise unknown_name("method", name, known)
    if search.method:
        return tuple(known[name] for name in dict.fromkeys(search.method))
    demonstrated = bool(task.language or config.skills.demonstrations)
    return tuple(
        row
        for row in known.values()
        if not row.needs.gold_outputs
        and (row.needs.skills == "none" or demonstrated)
        and (not row.trains or row.name in LEARNED)
        and (not row.needs.balanced or len(labels_of(task.train)) >= MANY_LABELS)
    )


def possible_ks(search: TuneConfig, task: Task) -> tuple[int, ...]:
    """Return the numbers of examples that the bank has, in order.

    Raises:
        UserError: the bank is smaller than each of them.
    """
    most = len(task.train) - 1
    ks = tuple(k for k in sorted(set(search.ks)) if 1 <= k <= most)
    if not ks:
        ks_asked_for = " ".join(map(str, search.ks))
        raise UserError(
            f"--ks {ks_asked_for}: the bank of {task.name} has {most + 1} examples; give numbers from 1 "
            f"to {most}"
        )
    return ks


def candidates(extent: Extent) -> list[Candidate]:
    """Return the candidates of a search that need no preparation."""
    return [
        candidate
        for row in extent.table_rows
        for candidate in _variants(row, extent)
        if not candidate.prepared
    ]


def prepared(rows: Sequence[Row], extent: Extent, shots: int) -> list[Candidate]:
    """Return the candidates of some rows that an LM has to prepare, with K = `shots`."""
    with_shots = replace(extent, ks=(shots,), encoders=())
    return [
        candidate for row in rows for candidate in _variants(row, with_shots) if candidate.prepared
    ]


def _variants(row: Row, extent: Extent) -> Iterator[Candidate]:
    if row == ZERO.row:
        yield ZERO
        return
    free = row.needs.trade_off == "tunable" and not row.method.learns_sets
    for encoder in ("", *extent.encoders) if row.encodes else ("",):
        for trade_off in extent.trade_offs if free else (None,):
            for shots in extent.ks:
                yield Candidate(row, shots + row.method.behind, trade_off, encoder)

"""The extent of a search: the rows of a table, numbers of examples, λ and encoders that race, and
the rows of data that they answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ceil_jax.methods.row import Row

FIRST_ROWS = 16
"""Rows of the first round of a race, if the budget pays for them."""

PLAIN_SHOTS = 8
"""K of the plain prompt of a race."""


@dataclass(frozen=True)
class Extent:
    """The candidates of a search, and the rows of data that they answer."""

    table_rows: tuple[Row, ...]
    ks: tuple[int, ...]
    trade_offs: tuple[float, ...]
    encoders: tuple[str, ...]
    """The encoders besides the run's own."""
    first: int
    """Rows of the first round; 0 without a race."""
    final: int
    """Final rows."""
    vectors: bool = True
    """Whether texts are encoded at all."""

    @property
    def plain(self) -> int:
        """K of the plain prompt, with which every choice is compared."""
        return PLAIN_SHOTS if self.first else self.ks[0]

    def cut_from(self, whole: Extent) -> str:
        """Return what this one lacks of a larger one, in words; "" where nothing."""
        parts = []
        if self.final < whole.final:
            parts.append(f"{self.final} of {whole.final} final rows")
        if not self.vectors:
            parts.append("random examples in place of the nearest, for encoding takes too long")
        if not self.first:
            return "; ".join([*parts, "no race"])
        if self.first < whole.first:
            parts.append(f"{self.first} of {whole.first} rows in the first round")
        if self.trade_offs != whole.trade_offs:
            parts.append(f"only λ = {_listed(self.trade_offs)}")
        if self.ks != whole.ks:
            parts.append(f"only K = {_listed(self.ks)}")
        parts += [f"no encoder {name}" for name in whole.encoders if name not in self.encoders]
        gone = [row.label for row in whole.table_rows if row not in self.table_rows]
        parts += [f"no {', no '.join(gone)}"] if gone else []
        return "; ".join(parts)


def _listed(numbers: Sequence[float]) -> str:
    return ", ".join(f"{number:g}" for number in numbers)

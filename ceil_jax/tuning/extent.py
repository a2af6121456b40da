"""The extent of a search: the methods, numbers of examples, λ and encoders that race, and the
number of queries that they answer."""

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
    """The candidates of a search, and how many rows of data they answer."""

    methods: tuple[Row, ...]
    """Methods, as rows of tables."""
    ks: tuple[int, ...]
    trade_offs: tuple[float, ...]
    encoders: tuple[str, ...]
    """The encoders besides the run's own."""
    first: int
    """How many rows of data the first round answers; 0 without a race."""
    final: int
    """How many final rows there are."""
    bank: int
    """How many examples are chosen from."""
    tuning: int
    """How many rows there are to race on."""

    @property
    def texts(self) -> int:
        """How many texts are encoded."""
        return self.bank + self.tuning + self.final

    @property
    def plain(self) -> int:
        """K of the plain prompt, with which every candidate is compared."""
        return PLAIN_SHOTS if self.first else self.ks[0]

    def cut_from(self, whole: Extent) -> str:
        """Return in words what this search lacks of a larger one; "" if nothing."""
        parts = []
        if self.final < whole.final:
            parts.append(f"{self.final} of {whole.final} final rows")
        if self.bank < whole.bank:
            parts.append(f"{self.bank:,} of {whole.bank:,} examples in the bank")
        if self.tuning < whole.tuning:
            parts.append(f"{self.tuning} of {whole.tuning} rows to race on")
        if not self.first:
            return "; ".join([*parts, "no race"])
        if self.first < whole.first:
            parts.append(f"{self.first} of {whole.first} rows in the first round")
        if self.trade_offs != whole.trade_offs:
            parts.append(f"only λ = {_listed(self.trade_offs)}")
        if self.ks != whole.ks:
            parts.append(f"only K = {_listed(self.ks)}")
        parts += [f"no encoder {name}" for name in whole.encoders if name not in self.encoders]
        left_out = [method.label for method in whole.methods if method not in self.methods]
        if left_out:
            parts.append(f"no {', no '.join(left_out)}")
        return "; ".join(parts)


def _listed(numbers: Sequence[float]) -> str:
    return ", ".join(f"{number:g}" for number in numbers)

"""A table of typed cells and its renderings: Markdown, aligned text, HTML and JSON.

Every table that the project prints or writes is a `Table`, so that numbers, intervals and empty
cells look the same everywhere.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ceil_jax.lm.price import Price, digits
from ceil_jax.metrics.bootstrap import Interval


@dataclass(frozen=True)
class Number:
    """A measured number: `43.2 ± 0.6 (paper 42.8)` or `+1.5 (-0.5 to +3.5)`."""

    value: float
    digits: int = 1
    """Digits after the decimal point."""
    signed: bool = False
    """Whether positive numbers have a sign, as differences do."""
    sd: float | None = None
    interval: Interval | None = None
    paper: float | None = None

    def __str__(self) -> str:
        parts = [self._write(self.value)]
        if self.sd is not None:
            parts.append(f"± {self.sd:.{self.digits}f}")
        if self.interval is not None:
            parts.append(f"({self._write(self.interval.low)} to {self._write(self.interval.high)})")
        if self.paper is not None:
            parts.append(f"(paper {self.paper:.{self.digits}f})")
        return " ".join(parts)

    def _write(self, number: float) -> str:
        return f"{number:{'+' if self.signed else ''},.{self.digits}f}"


def money_columns(price: Price) -> tuple[str, str]:
    """Return the names of the columns of money: for a thousand queries, and for preparing."""
    return f"{price.currency} a thousand queries", f"{price.currency} to prepare"


def money_cells(amounts: Sequence[float]) -> list[Value]:
    """Return amounts of money as the cells of a column.

    All have as many digits as the smallest one needs.
    """
    after_point = max((digits(amount) for amount in amounts if amount), default=2)
    return [Number(amount, after_point) if amount else 0 for amount in amounts]


Value: TypeAlias = str | int | float | Number | Interval | None
"""The value of a cell: a text, a whole number (`12,345`), a number with one decimal, one with its
spread, the ends of an interval (`12.0 to 60.0`), or nothing."""


def signed(interval: Interval | None) -> Number | None:
    """Return a difference as a number with a sign and its interval; None for None."""
    return None if interval is None else Number(interval.mean, signed=True, interval=interval)


@dataclass(frozen=True)
class Table:
    """A header and rows of cells. The first column names the rows."""

    header: Sequence[str]
    rows: Sequence[Sequence[Value]]
    title: str = ""

    def with_column(self, name: str, cells: Iterable[Value]) -> Table:
        """The table with a further column, or unchanged where all of its cells are empty."""
        added = list(cells)
        if all(cell is None for cell in added):
            return self
        rows = [[*row, cell] for row, cell in zip(self.rows, added, strict=True)]
        return Table([*self.header, name], rows, self.title)

    def lines(self) -> list[list[str]]:
        """Return the header and the rows, each cell as text for a reader."""
        return [list(self.header), *([written(cell) for cell in row] for row in self.rows)]

    def markdown(self) -> str:
        """Return a Markdown table, with the title as a heading of the second level above it.

        It ends in a newline.
        """
        rule = ["---" if left else "---:" for left in self._left()]
        lines = [
            [cell.replace("|", r"\|").replace("\n", " ") for cell in line] for line in self.lines()
        ]
        heading = f"## {self.title}\n\n" if self.title else ""
        return heading + "".join(
            f"| {' | '.join(line)} |\n" for line in (lines[0], rule, *lines[1:])
        )

    def text(self) -> str:
        """Return the table for a terminal, in columns of equal width.

        Texts to the left, numbers to the right.
        """
        lines = self.lines()
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        aligned = []
        for line in lines:
            cells = [
                cell.ljust(width) if left else cell.rjust(width)
                for cell, width, left in zip(line, widths, self._left(), strict=True)
            ]
            aligned.append("  ".join(cells).rstrip())
        return "\n".join(aligned)

    def html(self) -> str:
        """Return a `<table>` in a box that scrolls sideways on a narrow screen.

        The text of cells is escaped.
        """
        kinds = [' class="text"' if left else "" for left in self._left()]

        def row(cells: Sequence[str], tag: str, attributes: str = "") -> str:
            elements = (
                f"<{tag}{attributes}{kind}>{html.escape(cell)}</{tag}>"
                for cell, kind in zip(cells, kinds, strict=True)
            )
            return f"<tr>{''.join(elements)}</tr>"

        header, *body = self.lines()
        rows = "".join(row([typeset(cell) for cell in line], "td") for line in body)
        head = row(header, "th", " scope=col")
        return f'<div class="wide"><table><thead>{head}</thead><tbody>{rows}</tbody></table></div>'

    def data(self) -> dict[str, Any]:
        """Return the title and the rows as JSON values; a row is a mapping from column to value."""
        rows = [dict(zip(self.header, map(json_value, row), strict=True)) for row in self.rows]
        return {"title": self.title, "rows": rows}

    def _left(self) -> list[bool]:
        """Return whether each column is aligned to the left.

        The first column is, and so are columns that hold only text.
        """
        columns = zip(*self.rows, strict=True) if self.rows else [()] * len(self.header)
        return [
            number == 0
            or (any(column) and all(isinstance(cell, str) for cell in column if cell is not None))
            for number, column in enumerate(columns)
        ]


def typeset(text: str) -> str:
    """Return the text with minus signs in place of the hyphens before negative numbers."""
    return re.sub(r"(?<![\w.-])-(?=\d)", "−", text)


def json_value(cell: Value) -> Any:
    """Return a cell as JSON.

    An interval, or a number with one, as an object with `value`, `low` and `high`.
    """
    if isinstance(cell, Number):
        return cell.value if cell.interval is None else json_value(cell.interval)
    if isinstance(cell, Interval):
        return {"value": cell.mean, "low": cell.low, "high": cell.high}
    return cell


def written(cell: Value) -> str:
    """Return a cell as text for a reader."""
    if cell is None:
        return ""
    if isinstance(cell, int):
        return f"{cell:,}"
    if isinstance(cell, Interval):
        return f"{cell.low:.1f} to {cell.high:.1f}"
    return str(Number(cell)) if isinstance(cell, float) else str(cell)

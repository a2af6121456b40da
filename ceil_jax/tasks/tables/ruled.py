"""Tables drawn with pipes and rules, as Markdown has them and as databases print them."""

from __future__ import annotations

import re
from collections.abc import Sequence

_RULE = re.compile(r"(?=.*[|+])(?=.*-)[\s|+:=-]+")
"""A line below a header (Markdown's `|---|:-:|`, psql's `---+---`), or around one (MySQL's
`+---+---+`)."""
_FOOTER = re.compile(r"\(\d+ rows?\)|\d+ rows? in set.*")
"""The last line that databases print."""


def ruled_records(lines: Sequence[str]) -> list[tuple[int, list[str]]]:
    r"""Return the number and the cells of each line of a table with a rule below its header, the
    header first; empty if it is no such table.

    Blanks around cells are layout. `\|` is a pipe inside a cell. Cells that a row lacks at its end
    are blank, as in Markdown.

    >>> ruled_records(["| text | label |", "|---|---|", "| a \\| b | good |", "| c |"])
    [(1, ['text', 'label']), (3, ['a | b', 'good']), (4, ['c', ''])]
    """
    present = [(number, line.strip()) for number, line in enumerate(lines, 1) if line.strip()]
    rules = [number for number, line in present[:2] if _RULE.fullmatch(line)]
    drawn = [(number, line) for number, line in present if not _RULE.fullmatch(line)]
    if not rules or not drawn or drawn[0] not in present[:2] or "|" not in drawn[0][1]:
        return []
    header = drawn[0][1]
    outer = header.startswith("|")
    names = _cells(header, outer)
    rule = lines[rules[0] - 1].strip().replace("+", "|")
    if len(_cells(rule, rule.startswith("|"))) != len(names):
        return []
    if len(drawn) > 1 and _FOOTER.fullmatch(drawn[-1][1]):
        del drawn[-1]
    records = []
    for number, _ in drawn:
        # blanks at the beginning may be an empty first cell
        cells = _cells(lines[number - 1].strip() if outer else lines[number - 1], outer)
        records.append((number, cells + [""] * (len(names) - len(cells))))
    return records


def _cells(line: str, outer: bool) -> list[str]:
    """The cells of a line; `outer` if pipes stand at its two ends too."""
    cells = [cell.replace(r"\|", "|").strip() for cell in re.split(r"(?<!\\)\|", line)]
    if outer:
        cells = cells[1:]
        if cells and not cells[-1]:
            cells = cells[:-1]
    return cells

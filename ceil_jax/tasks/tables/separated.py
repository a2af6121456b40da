"""Text tables to rows: finding the separator, the header, and whether quotes are CSV's."""

from __future__ import annotations

import csv
import io
import itertools
import logging
import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from ceil_jax.tasks.spec import Row, RowError
from ceil_jax.tasks.tables.ruled import ruled_records
from ceil_jax.tasks.tables.table_rows import FILE, Remark, TableError, TableRows, check_names

SEPARATORS = ",;\t|"
"""The separators that are tried."""

_SAMPLE = 500
"""The lines from which the separator is found."""

_PLAIN_QUOTES = Remark("quotes do not pair up; they are read as characters like any other")

_STATED = re.compile(r'"?sep *= *(.)"?[,;\t]*', re.IGNORECASE)
"""The line by which Excel is told the separator, as it stands in files and after Excel has saved it
again."""

csv.field_size_limit(2**31 - 1)  # the default allows 131,072 characters


class _Records(NamedTuple):
    """The records of a text table by the rules of CSV, the header among them."""

    records: list[tuple[int, list[str]]]
    """The number of the first line of each record, and its cells; empty lines are left out."""
    error: str = ""
    """The fault in the quotes; "" if they pair up."""
    line: int = 0
    """The line of that error; 0 if there is none."""


def separated_rows(text: str, usual: str = "", delimiter: str | None = None) -> TableRows:
    """Return the rows of a text table with a header, each with the number of its first line.

    If quotes do not pair up as in CSV, and every line has as many cells as the header, quotes are
    read as ordinary characters, which is remarked. So is a separator that is found and not usual.

    Args:
        text: the content of the file.
        usual: the usual separator of the file's ending; "" for none.
        delimiter: the separator. By default it is the one that the file's first line names
            (`sep=;`). Without such a line, it is the one with which most rows have as many cells as
            the header, or as each other; if several do equally well, it is `usual`.

    Raises:
        TableError: no separator fits and there is no usual one; a quote has no partner; the first
            line is not the header; two columns have one name.
    """
    remarks: list[Remark] = []
    lines = [line.rstrip("\r") for line in text.split("\n" if "\n" in text else "\r")]
    if stated := _STATED.fullmatch(lines[0]):
        delimiter = stated[1]
        lines[0] = ""
    if comments := _comments(lines):
        lines[: len(comments)] = [""] * len(comments)
        text = (
            f"lines that begin with '# ' above the header are left out, such as {comments[0]!r:.80}"
        )
        remarks.append(Remark(text))
    records = ruled_records(lines) if delimiter in (None, "|") else []
    if records:
        delimiter = "|"
    else:
        if delimiter is None:
            delimiter = _separator(lines, usual)
            if not delimiter:
                raise TableError(
                    f"{FILE}: say what separates its values, as in --delimiter ';' (delimiter=';' "
                    "in Python)"
                )
            if delimiter != usual:
                remarks.append(Remark(f"{delimiter!r} separates the values", logging.INFO))
        records, are_plain = _checked_records(lines, delimiter)
        if are_plain:
            remarks.append(_PLAIN_QUOTES)
    if not records:
        return TableRows([], [], remarks=tuple(remarks))
    (line, written), *below = records
    header = [name.strip() for name in written]
    # spreadsheets write rows, and cells behind the last column, that hold nothing
    others = [
        (number, _without_blank_end(cells, len(header)))
        for number, cells in below
        if any(cell.strip() for cell in cells)
    ]
    if len(header) == 1:
        _check_aligned(lines)
    _check_header(line, header, others, delimiter)
    rows = [_row(header, line, cells, written) for _, cells in others]
    return TableRows(rows, [line for line, _ in others], remarks=tuple(remarks))


def _comments(lines: Sequence[str]) -> list[str]:
    """The lines above the header that are comments. A single line may be the header itself, as
    numpy writes it, if more than one word is in it."""
    comments = list(itertools.takewhile(lambda line: re.match(r"#+(\s|\Z)", line), lines))
    is_header = len(comments) == 1 and any(mark in comments[0] for mark in SEPARATORS)
    return [] if is_header else comments


def _without_blank_end(cells: list[str], length: int) -> list[str]:
    """The cells without those behind the last column, if these are all blank."""
    if len(cells) > length and not any(cell.strip() for cell in cells[length:]):
        return cells[:length]
    return cells


def _row(header: list[str], line: int, cells: list[str], written: list[str]) -> Row | RowError:
    # behind a byte order mark where two files were joined
    if [cells[0].removeprefix("\ufeff"), *cells[1:]] == written:
        return RowError("the header once more")
    if len(cells) == len(header):
        return dict(zip(header, cells, strict=True))
    return RowError(
        f"{len(cells)} cells, the header has {len(header)} (line {line}: {_shown(header)})"
    )


def _shown(header: Sequence[str]) -> str:
    text = ", ".join(map(repr, header))
    return text if len(text) <= 80 else f"{text[:79]}…"


class _Fit(NamedTuple):
    """How well a separator fits; larger is better."""

    header: float
    """The share of rows with as many cells as the header; 0 if that is less than half, or if the
    header has only one cell."""
    rows: float
    """The share of rows with the most frequent number of cells, with the same two exceptions."""


def _separator(lines: Sequence[str], usual: str) -> str:
    """The separator with which most rows have as many cells as the header, or as each other;
    `usual` if no other does better."""
    sample = lines[:_SAMPLE]
    fits = {separator: _fit(sample, separator, len(lines) > _SAMPLE) for separator in SEPARATORS}
    best = max(SEPARATORS, key=lambda separator: (fits[separator], separator == usual))
    return usual if fits[best] == _Fit(0.0, 0.0) else best


def _fit(sample: Sequence[str], separator: str, cut: bool) -> _Fit:
    """How well a separator fits the first lines of a table; `cut` if the table has more lines."""
    records = _records(sample, separator)
    rows = _plain(sample, separator) if records.error else records.records
    if cut and len(rows) > 2:
        rows = rows[:-1]  # the last row may end below the sample
    if not rows:
        return _Fit(0.0, 0.0)
    header, *lengths = [len(cells) for _, cells in rows]
    rows_of_length = Counter(lengths)

    def share(length: int) -> float:
        part = rows_of_length[length] / max(len(lengths), 1)
        return part if length > 1 and part >= 0.5 else 0.0

    return _Fit(share(header), max(map(share, rows_of_length), default=0.0))


def _plain(lines: Sequence[str], separator: str) -> list[tuple[int, list[str]]]:
    """The number and cells of each line, with quotes as ordinary characters."""
    return [(number, line.split(separator)) for number, line in enumerate(lines, 1) if line]


def _records_of_csv(lines: Sequence[str], separator: str) -> _Records:
    """The records by the rules of CSV, up to the first quote without a partner."""
    records: list[tuple[int, list[str]]] = []
    content = io.StringIO("\n".join(lines), newline="")
    # spaces before a quote are layout; before other text they may be indentation that belongs to it
    quoted = any(f'{separator} "' in line for line in lines)
    reader = csv.reader(content, strict=True, delimiter=separator, skipinitialspace=quoted)
    start = 1
    try:
        for cells in reader:
            if cells:
                records.append((start, cells))
            start = reader.line_num + 1
    except csv.Error as error:
        return _Records(records, str(error), start)
    return _Records(records)


def _records(lines: Sequence[str], separator: str) -> _Records:
    r"""The records by the rules of CSV; if these do not fit, by those with which Spark and MySQL
    write a quote inside quotes: `\"`, where CSV doubles it."""
    records = _records_of_csv(lines, separator)
    if records.error and any(r"\"" in line for line in lines):
        doubled = _records_of_csv([line.replace(r"\"", '""') for line in lines], separator)
        if not doubled.error and len({len(cells) for _, cells in doubled.records}) == 1:
            return doubled
    return records


def _checked_records(
    lines: Sequence[str], separator: str
) -> tuple[list[tuple[int, list[str]]], bool]:
    """The records of the whole table, and whether their quotes are ordinary characters; a
    TableError for a quote without a partner."""
    plain = _plain(lines, separator)
    plain_fits = all(len(cells) == len(plain[0][1]) for _, cells in plain)
    records, error, line = _records(lines, separator)
    if error and not plain_fits:
        raise TableError(
            f"{FILE}, line {line}: a quote that begins or ends in this row has no partner "
            f"({error}); double it, or say what separates the values if it is not {separator!r}"
        )
    # a quote that closes lines later may have swallowed the lines between; tab-separated files
    # rarely have cells of several lines
    swallowed = len(records) < len(plain)
    uneven = any(len(cells) != len(records[0][1]) for _, cells in records)
    if plain_fits and (error or (swallowed and (uneven or separator == "\t"))):
        return plain, True
    return records, False


def _check_aligned(lines: Sequence[str]) -> None:
    """Raise a TableError for columns of a fixed width, with blanks between them."""
    present = [line for line in lines if line.strip()]
    header, *rows = present[:_SAMPLE]
    starts = [gap.end() for gap in re.finditer(r"(?<=\S) {2,}(?=\S)", header)]
    if not starts or not rows or any(mark in header for mark in SEPARATORS):
        return
    # each column begins behind a blank in all rows, but for some that are too long
    aligned = sum(all(row[start - 1 : start] in ("", " ") for start in starts) for row in rows)
    if aligned >= 0.9 * len(rows):
        raise TableError(
            f"{FILE}: its columns have a fixed width, with blanks between them; write separated "
            f"values: pandas.read_fwf('{FILE}').to_csv('table.csv', index=False)"
        )


def _check_header(
    line: int,
    header: list[str],
    rows: Sequence[tuple[int, list[str]]],
    delimiter: str,
) -> None:
    """Raise a TableError if the line that was taken for the header cannot be the header."""
    check_names(header, f"{FILE}, line {line}")
    lengths = Counter(len(cells) for _, cells in rows)
    [(usual, count)] = lengths.most_common(1) or [(0, 0)]
    if len(header) < usual and len(header) not in lengths and 2 * count >= len(rows) >= 2:
        usual_line, cells = next((number, cells) for number, cells in rows if len(cells) == usual)
        noun = "cell" if len(header) == 1 else "cells"
        raise TableError(
            f"{FILE}: line {line} was taken for the header: {_shown(header)}; it has "
            f"{len(header)} {noun}, and {count:,} of {len(rows):,} lines "
            f"below it have {usual}. If the header is line {usual_line} ({_shown(cells)}), take away "
            "what stands above it; else name the missing columns"
            + (", or say what separates the values (--delimiter)" if len(header) == 1 else "")
        )
    for other in SEPARATORS:
        if len(header) == 1 and other != delimiter and other in header[0]:
            raise TableError(
                f"{FILE}, line {line}: the header is one column, {header[0]!r:.80}; if "
                f"{other!r} separates values, say so: --delimiter {other!r} "
                f"(delimiter={other!r} in Python)"
            )

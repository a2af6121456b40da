"""The table of the finalists and of the answers without an LM."""

from __future__ import annotations

from collections.abc import Sequence

from ceil_jax.pipeline.ways import TROUBLE_COLUMNS
from ceil_jax.report.table import Number, Table, Value, money_cells, money_columns
from ceil_jax.tuning.finals import Finals, ThenLM
from ceil_jax.tuning.standing import Standing


def finals_table(finals: Finals) -> Table:
    """Return a row for each finalist and for the answers without an LM, the recommended one first.

    There are columns of money if tokens have a price, and a column for each kind of trouble that
    some answers had.
    """
    standings = sorted(finals.standings, key=lambda standing: standing is not finals.recommended)
    columns: dict[str, list[Value]] = {
        "prompt": [standing.label for standing in standings],
        "score": [standing.score.percent().mean for standing in standings],
        "95 % interval": [standing.score.percent() for standing in standings],
        "rows": [standing.rows for standing in standings],
        "tokens a prompt": [Number(standing.tokens, 0) for standing in standings],
    }
    money = _columns_of_money(finals, standings)
    troubles = _columns_of_troubles(standings)
    columns |= {**money, **troubles, "is": [standing.remark for standing in standings]}
    rows = [list(cells) for cells in zip(*columns.values(), strict=True)]
    best = finals.recommended
    alone = finals.without_lm
    others = () if alone is None else (alone, alone.then_lm)
    for other in others:
        if other is None:
            continue
        share = other.share if isinstance(other, ThenLM) else 0.0
        score = other.score.percent()
        cells: list[Value] = [other.label, score.mean, score, finals.rows]
        cells.append(Number(share * best.tokens, 0))
        if finals.price is not None:
            cells.append(*money_cells([share * finals.cost(best)]))
            cells.append(*money_cells([finals.price.of_tokens(best.preparing) if share else 0]))
        cells += [None for _ in troubles]
        cells.append(f"{share:.0%} of the queries reach the LM" if share else "no LM calls")
        rows.insert(0 if finals.label == other.label else len(rows), cells)
    remark = str(rows[0][-1])
    rows[0][-1] = f"recommended, {remark}" if remark else "recommended"
    return Table(list(columns), rows)


def _columns_of_money(finals: Finals, standings: Sequence[Standing]) -> dict[str, list[Value]]:
    """Return the columns of money, by name: for a thousand queries, and for preparing; none without a price."""
    price = finals.price
    if price is None:
        return {}
    thousand, prepare = money_columns(price)
    return {
        thousand: money_cells([price.of_queries(standing.usage) for standing in standings]),
        prepare: money_cells([price.of_tokens(standing.preparing) for standing in standings]),
    }


def _columns_of_troubles(standings: Sequence[Standing]) -> dict[str, list[Value]]:
    """Return the columns of troubles, by name: the number of answers with each kind of trouble.

    A kind that no answer has is left out.
    """
    columns: dict[str, list[Value]] = {}
    for trouble, column in TROUBLE_COLUMNS.items():
        counts: list[Value] = [standing.troubles.get(trouble) for standing in standings]
        if any(counts):
            columns[column] = counts
    return columns

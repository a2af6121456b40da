"""The child process that runs SQL written by a language model.

It imports only the standard library.

It reads a job from each line of its input (JSON), and writes a line with the outcome. A query may
read one database file, which is opened read-only and immutable. An authorizer allows SELECT,
reading columns and a list of harmless functions; a progress handler watches the clock; and the
process may neither write a file nor take more memory than `MEMORY`. An alarm ends the process
`GRACE` seconds after a query's time is up, in case a slow operation escapes the progress handler.
"""

from __future__ import annotations

import json
import re
import resource
import signal
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import quote

Row = tuple[Any, ...]

HARMLESS = """
abs acos acosh asin asinh atan atan2 atanh avg ceil ceiling changes char coalesce concat concat_ws cos cosh count
cume_dist current_date current_time current_timestamp date datetime degrees dense_rank exp first_value floor format
glob group_concat hex if ifnull iif instr julianday lag last_insert_rowid last_value lead length like likelihood
likely ln log log10 log2 lower ltrim max median min mod nth_value ntile nullif octet_length percent_rank percentile
percentile_cont percentile_disc pi pow power printf quote radians random randomblob rank replace round row_number
rtrim sign sin sinh soundex sqlite_version sqrt strftime string_agg substr substring subtype sum tan tanh time
timediff total total_changes trim trunc typeof unhex unicode unistr unistr_quote unixepoch unlikely upper zeroblob
-> ->> match bm25 highlight snippet matchinfo offsets rtreedepth
"""
FUNCTIONS = frozenset(HARMLESS.split())  # beside those of JSON
SCHEMA_PRAGMAS = """
table_info table_xinfo table_list index_list index_info index_xinfo foreign_key_list data_version
"""
PRAGMAS = frozenset(SCHEMA_PRAGMAS.split())
"""Pragmas that read the schema; FTS5 itself uses data_version."""
TABLE_FUNCTIONS = ("json_each", "json_tree", *(f"pragma_{name}" for name in sorted(PRAGMAS)))
MODULES = frozenset(
    ["fts3", "fts4", "fts4aux", "fts5", "fts5vocab", "rtree", "rtree_i32", "geopoly"]
)
"""Kinds of virtual tables that are part of SQLite and read only their own database."""
MODULE = re.compile(r"""\susing\s+["'`\[]?(\w+)["'`\]]?\s*(?:\(|\Z)""", re.IGNORECASE)
"""Pattern of the kind of table in the definition of a virtual table."""
ALLOWED = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE}
SECONDS = 1.5
"""The time limit of a predicted query in seconds; twice the gold query's time, if that is more."""
GOLD_SECONDS = 30.0
"""Time limit of the gold query, which may be slow but not endless."""
MAX_ROWS = 100_000
"""Maximum number of rows of a result."""
SQL_BYTES = 20_000
"""Maximum length of a predicted query; the gold query may have ten times as many."""
MEMORY = 2**30
"""Address space of this process, in bytes."""
VALUE_BYTES = 20_000_000
"""Maximum size of a value or a row: real schemas keep documents and pictures in columns."""
LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: VALUE_BYTES,
    sqlite3.SQLITE_LIMIT_COLUMN: 2_000,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 1_000,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 500,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 5_000,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}
"""The limits of columns, depth and SELECTs are SQLite's own, so that every schema of SQLite can be
read; time and memory bound what queries do with them."""
HEAP_BYTES = 256 * 2**20
OPS_PER_CHECK = 2_000
GRACE = 0.4


class TooMuch(Exception):
    """A query exceeded one of the limits; the message says which."""


def authorize(
    action: int, first: str | None, second: str | None, database: str | None, trigger: str | None
) -> int:
    """Return whether SQLite may do something; SQLite calls this for each part of a query.

    Args:
        action: SQLite's code of the action.
        first: not read; SQLite passes it.
        second: of a function, its name.
        database: not read.
        trigger: not read.
    """
    name = (second or "").lower()
    harmless = name in FUNCTIONS or name.startswith("json")
    if action in ALLOWED or (action == sqlite3.SQLITE_FUNCTION and harmless):
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_PRAGMA and (first or "").lower() in PRAGMAS:
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY


def connect(path: str, sql_bytes: int) -> sqlite3.Connection:
    """Open a database read-only, with limits on queries."""
    connection = sqlite3.connect(
        f"file:{quote(path)}?mode=ro&immutable=1", uri=True, isolation_level=None
    )
    # the Spider evaluation reads text in this way
    connection.text_factory = lambda value: value.decode(errors="ignore")
    heap = f"hard_heap_limit={HEAP_BYTES}"
    for pragma in ("query_only=ON", "trusted_schema=OFF", "temp_store=MEMORY", heap):
        connection.execute(f"PRAGMA {pragma}")
    for category, limit in LIMITS.items():
        connection.setlimit(category, limit)
    connection.setlimit(sqlite3.SQLITE_LIMIT_SQL_LENGTH, sql_bytes)
    # opened here, because the authorizer forbids making a virtual table
    for table in TABLE_FUNCTIONS:
        with suppress(sqlite3.OperationalError):
            connection.execute(f"SELECT * FROM {table}('[]') LIMIT 0")
    for table in virtual_tables(connection):
        with suppress(sqlite3.Error):
            connection.execute(f"SELECT * FROM {table} LIMIT 0")
    connection.set_authorizer(authorize)
    return connection


def virtual_tables(connection: sqlite3.Connection) -> list[str]:
    """Return the quoted names of a database's virtual tables of the kinds in `MODULES`."""
    try:
        schema = connection.execute(
            "SELECT name, sql FROM sqlite_master WHERE type = 'table' AND rootpage = 0"
        ).fetchall()
    except sqlite3.Error:
        return []  # the query itself will say so
    names = []
    for name, sql in schema:
        module = MODULE.search(str(sql))
        if module and module[1].lower() in MODULES:
            names.append('"' + name.replace('"', '""') + '"')
    return names


def rows_of(path: str, sql: str, seconds: float, sql_bytes: int) -> list[Row]:
    """Return all rows of a query's result.

    Args:
        path: the database file.
        sql: the query.
        seconds: its time limit.
        sql_bytes: the longest query, in bytes.

    Raises:
        TooMuch: the query took too long, or has too many rows.
        sqlite3.Error: SQLite refused it.
    """
    deadline = time.monotonic() + seconds
    connection = connect(path, sql_bytes)
    try:
        connection.set_progress_handler(lambda: time.monotonic() > deadline, OPS_PER_CHECK)
        cursor = connection.execute(sql)
        if cursor.description is None:  # nothing, or only a comment
            raise sqlite3.ProgrammingError("not a query")
        rows = cursor.fetchmany(MAX_ROWS + 1)
    except sqlite3.OperationalError as error:
        if str(error) == "interrupted":
            raise TooMuch(f"over {seconds:g} seconds") from None
        raise
    finally:
        connection.set_progress_handler(None, 0)
        connection.close()
    if len(rows) > MAX_ROWS:
        raise TooMuch(f"over {MAX_ROWS} rows")
    return rows


def same_result(gold: Sequence[Row], predicted: Sequence[Row], ordered: bool) -> bool:
    """Return whether two results are equal in any order of columns and, unless `ordered`, of rows.

    Two empty results are equal.
    """
    if not gold and not predicted:
        return True
    if len(gold) != len(predicted) or len(gold[0]) != len(predicted[0]):
        return False
    gold_columns = list(zip(*gold, strict=True))
    columns = list(zip(*predicted, strict=True))
    if ordered:
        return Counter(gold_columns) == Counter(columns)
    bags = [Counter(column) for column in columns]
    fits = [[i for i, bag in enumerate(bags) if bag == Counter(column)] for column in gold_columns]

    def extend(chosen: list[int]) -> bool:
        """Return whether a partial matching of columns can be completed to results with equal rows.

        `chosen` are columns of the prediction, one for each of the first gold columns.
        """
        width = len(chosen)
        ours = gold_columns[:width]
        theirs = [columns[i] for i in chosen]
        agree = Counter(zip(*ours, strict=True)) == Counter(zip(*theirs, strict=True))
        if width and not agree:
            return False
        if width == len(gold_columns):
            return True
        return any(extend([*chosen, i]) for i in fits[width] if i not in chosen)

    return extend([])


def outcome_of(job: Mapping[str, Any]) -> tuple[str, str]:
    """Return the outcome of one job, and a detail of it."""
    path = job["database"]
    started = time.monotonic()
    signal.setitimer(signal.ITIMER_REAL, GOLD_SECONDS + GRACE)
    try:
        gold = rows_of(path, job["gold"], GOLD_SECONDS, 10 * SQL_BYTES)
    except (sqlite3.Error, sqlite3.Warning, TooMuch, MemoryError, ValueError) as error:
        return "gold failed", str(error)
    if job["predicted"] == job["gold"]:
        return "equal", ""
    seconds = max(SECONDS, 2 * (time.monotonic() - started))
    signal.setitimer(signal.ITIMER_REAL, seconds + GRACE)
    try:
        predicted = rows_of(path, job["predicted"], seconds, SQL_BYTES)
        equal = same_result(gold, predicted, job["ordered"])
    except TooMuch as error:
        return "cut", str(error)
    except MemoryError:
        return "cut", "out of memory"
    except (sqlite3.Error, sqlite3.Warning, ValueError) as error:
        return "error", str(error)
    return ("equal" if equal else "different"), ""


def answer_jobs() -> None:
    """Read one job per line, and write its outcome, until the input ends."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":  # macOS refuses this limit; SQLite's own on its heap remains
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    for line in sys.stdin:
        outcome = outcome_of(json.loads(line))
        signal.setitimer(signal.ITIMER_REAL, 0)
        print(json.dumps(outcome), flush=True)


if __name__ == "__main__":
    answer_jobs()

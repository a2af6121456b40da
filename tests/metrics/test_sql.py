"""Execution accuracy, and what SQL written by a language model may not do."""

import hashlib
import signal
import sqlite3
import subprocess
import sys
import time

import pytest
from refusing import refused

from ceil_jax.metrics import METRICS, sql_worker
from ceil_jax.metrics.sql import SqlSandbox
from ceil_jax.pipeline.answering import ROWS_FILE, measure
from ceil_jax.pipeline.models import Models
from ceil_jax.pipeline.run import Run
from ceil_jax.store.kept import kept
from ceil_jax.tasks import Example, Task, Template
from ceil_jax.tasks.bank import Examples
from ceil_jax.tasks.load import load_task


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    path = tmp_path_factory.mktemp("zoo") / "zoo #1?.sqlite"  # a name that a URI must escape
    connection = sqlite3.connect(path)
    connection.executescript(
        """
        CREATE TABLE cat (id INTEGER, name TEXT, weight REAL);
        INSERT INTO cat VALUES (1, 'Tom', 4), (2, 'Mia', 3.5), (3, 'Tom', 4.0), (4, NULL, NULL);
        CREATE TABLE big (n INTEGER);
        WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 2000)
        INSERT INTO big SELECT n FROM c;
        """
    )
    connection.close()
    return path


@pytest.fixture(scope="module")
def sandbox():
    with SqlSandbox() as sandbox:
        yield sandbox


SAME = [
    ("SELECT count(*) FROM cat", "select COUNT(id) from cat;"),
    ("SELECT name, id FROM cat", "SELECT id, name FROM cat"),  # columns permuted
    ("SELECT id FROM cat", "SELECT id FROM cat ORDER BY id DESC"),  # the gold asks for no order
    ("SELECT id, name FROM cat ORDER BY id", "SELECT name, id FROM cat ORDER BY id"),
    ("SELECT 4", "SELECT 4.0"),  # equal in Python, so in the Spider evaluation
    ("SELECT id FROM cat WHERE id > 9", "SELECT name, id FROM cat WHERE id > 99"),  # both empty
    ("SELECT NULL", "SELECT weight FROM cat WHERE name IS NULL"),
    ("SELECT id, id, weight FROM cat", "SELECT weight, id, id FROM cat"),
    (
        "SELECT id FROM cat WHERE id >= 2",
        "SELECT id FROM cat WHERE id > = 2 AND id < = 9 AND id !  = 9",
    ),
    ("SELECT id FROM cat WHERE id > = 2", "SELECT id FROM cat WHERE id >= 2"),
    ("SELECT '> ='", "SELECT '>' || ' ='"),
    ("SELECT random()", "SELECT random()"),  # the gold query to the letter
    ("SELECT value FROM json_each('[1,2]')", "SELECT 1 UNION SELECT 2"),
    ("SELECT json_group_array(id) FROM (SELECT 1 AS id)", "SELECT '[1]'"),
    ("SELECT round(degrees(acos(0)), 6), ln(1), round(pi(), 2)", "SELECT 90.0, 0.0, 3.14"),
    ("SELECT id FROM cat WHERE 2019 < year (CURDATE( ))", "SELECT id FROM cat"),
    ("SELECT 'YEAR(CURDATE())'", "SELECT 'YEAR(CUR' || 'DATE())'"),
    # an order that is none, or of something else
    ("SELECT id AS [order by] FROM cat", "SELECT id FROM cat ORDER BY id DESC"),
    ("SELECT id FROM (SELECT id FROM cat ORDER BY id)", "SELECT id FROM cat ORDER BY id DESC"),
    (
        "SELECT id, row_number() OVER (ORDER BY id) FROM cat",
        "SELECT id, id FROM cat ORDER BY id DESC",
    ),
    (
        "SELECT id, 'order by' FROM cat -- order by id",
        "SELECT id, 'order by' FROM cat ORDER BY id DESC",
    ),
]
DIFFERENT = [
    ("SELECT id FROM cat ORDER BY id", "SELECT id FROM cat ORDER BY id DESC"),
    ("SELECT name FROM cat", "SELECT DISTINCT name FROM cat"),  # multisets
    ("SELECT name, id FROM cat", "SELECT name, 5 - id FROM cat"),  # equal columns, other rows
    ("SELECT id FROM cat", "SELECT id, name FROM cat"),
    ("SELECT '4'", "SELECT 4"),
    ("SELECT 0", "SELECT NULL"),
    ("SELECT id, id, weight FROM cat", "SELECT weight, weight, id FROM cat"),
    *(
        (f"SELECT name FROM cat {order}", "SELECT name FROM cat ORDER BY id DESC")
        for order in (
            "ORDER  BY id",
            "\nORDER\nBY id",
            "order/* by */by id",
            "order -- the\n by id",
        )
    ),
]


@pytest.mark.parametrize(
    ("queries", "outcome"),
    [*((pair, "equal") for pair in SAME), *((pair, "different") for pair in DIFFERENT)],
)
def test_results_are_compared_as_spider_does(sandbox, database, queries, outcome):
    assert sandbox.compare(database, *queries).outcome == outcome


ATTACKS = {
    "write": "DELETE FROM cat",
    "drop": "DROP TABLE cat",
    "create": "CREATE TABLE x (y)",
    "temporary": "CREATE TEMP TABLE x AS SELECT 1",
    "attach": "ATTACH DATABASE '/tmp/ceil_jax_attack.sqlite' AS other",
    "pragma": "PRAGMA writable_schema = ON",
    "pragma read": "PRAGMA database_list",
    "vacuum into": "VACUUM INTO '/tmp/ceil_jax_attack.sqlite'",
    "transaction": "BEGIN EXCLUSIVE",
    "extension": "SELECT load_extension('libm.so')",
    "read a file": "SELECT readfile('/etc/passwd')",
    "two statements": "SELECT 1; DROP TABLE cat",
    "no SQL": "I am sorry",
    "nothing": "",
    "a comment": "-- SELECT 1",
    "a null byte": "SELECT 1\0",
    "half a surrogate": "SELECT '\ud800'",
    "long": "SELECT " + "1 + " * 50_000 + "1",
    "deep": "SELECT " + "(" * 3_000 + "1" + ")" * 3_000,
    "endless recursion": "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT "
    "1 FROM c",
    "growing recursion": "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n || n FROM c) SELECT "
    "1 FROM c",
    "join of 8 billion rows": "SELECT count(*) FROM big a, big b, big c",
    "sort of 8 billion rows": "SELECT a.n FROM big a, big b, big c ORDER BY random()",
    "many rows": "SELECT a.n FROM big a, big b",
    "huge blob": "SELECT zeroblob(2000000000)",
    "huge text": "SELECT replace(printf('%9000000d', 1), ' ', 'xxx')",
    "large rows": "SELECT printf('%900000d', n) FROM big",
    "slow pattern": "SELECT count(*) FROM big a, big b WHERE printf('%900000d', a.n + b.n) LIKE '"
    + "%1_" * 60
    + "%'",
    "slow group_concat": "SELECT length(group_concat(printf('%9999d', a.n))) FROM big a, big b",
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_attack_is_refused_or_cut(sandbox, database, attack):
    before = hashlib.sha256(database.read_bytes()).hexdigest()
    files = {path.name for path in database.parent.iterdir()}
    started = time.monotonic()
    outcome = sandbox.compare(database, "SELECT count(*) FROM cat", ATTACKS[attack])
    assert time.monotonic() - started < 3
    assert outcome.outcome in ("error", "cut"), outcome
    assert not outcome.right
    assert hashlib.sha256(database.read_bytes()).hexdigest() == before
    assert {path.name for path in database.parent.iterdir()} == files
    assert sandbox.compare(database, "SELECT 1", "SELECT 1").right  # and the next query is answered


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """A database with what real schemas have: full-text and spatial tables, many columns, large
    values."""
    path = tmp_path_factory.mktemp("library") / "library.sqlite"
    connection = sqlite3.connect(path)
    connection.executescript(
        """
        CREATE VIRTUAL TABLE docs USING fts5(title, body);
        INSERT INTO docs VALUES ('a', 'red fox'), ('b', 'blue hen');
        create virtual table "old docs" using FTS4(title, body);
        INSERT INTO "old docs" VALUES ('a', 'red fox'), ('b', 'blue hen');
        CREATE VIRTUAL TABLE terms USING fts5vocab(docs, row);
        CREATE VIRTUAL TABLE boxes USING rtree(id, low, high);
        INSERT INTO boxes VALUES (1, 2, 3), (2, 5, 8);
        CREATE TABLE pages (id INTEGER PRIMARY KEY, scan BLOB);
        INSERT INTO pages VALUES (1, zeroblob(5000000));
        CREATE INDEX scans ON pages (scan);
        """
    )
    connection.execute(f"CREATE TABLE wide ({', '.join(f'c{i}' for i in range(1500))})")
    connection.execute("INSERT INTO wide (c1499) VALUES (7)")
    connection.commit()
    connection.close()
    return path


@pytest.mark.parametrize(
    ("gold", "predicted"),
    [
        ("SELECT title FROM docs WHERE docs MATCH 'fox'", "SELECT 'a'"),
        (
            "SELECT highlight(docs, 1, '<', '>') FROM docs('fox') ORDER BY rank",
            "SELECT 'red <fox>'",
        ),
        ("SELECT title FROM docs WHERE body LIKE '%hen'", "SELECT title FROM docs('hen')"),
        ("SELECT title FROM \"old docs\" WHERE body MATCH 'fox'", "SELECT 'a'"),
        ("SELECT count(*) FROM terms", "SELECT 6"),
        ("SELECT id FROM boxes WHERE low >= 4 AND high <= 9", "SELECT 2"),
        ("SELECT name FROM pragma_table_info('pages')", "SELECT 'id' UNION SELECT 'scan'"),
        ("SELECT name FROM pragma_index_list('pages')", "SELECT 'scans'"),
        ("SELECT length(scan) FROM pages", "SELECT 5000000"),
        ("SELECT c1499 FROM wide", "SELECT 7"),
        ("SELECT 1 WHERE 1 = 0" + " OR 1 = 1" * 800, "SELECT 1"),
        ("SELECT 1" + " UNION SELECT 1" * 400, "SELECT 1"),
    ],
)
def test_what_real_schemas_have(sandbox, library, gold, predicted):
    assert sandbox.compare(library, gold, predicted) == ("equal", "")


@pytest.mark.parametrize(
    "attack",
    [
        "INSERT INTO docs(docs) VALUES('optimize')",
        'SELECT optimize("old docs") FROM "old docs"',
        "SELECT fts3_tokenizer('simple')",
        "PRAGMA writable_schema = 1",
        "PRAGMA journal_mode = delete",
        "SELECT * FROM pragma_database_list",
        "CREATE VIRTUAL TABLE temp.x USING fts5(a)",
        "DELETE FROM docs",
    ],
)
def test_what_such_tables_could_do_more_is_refused(sandbox, library, attack):
    before = hashlib.sha256(library.read_bytes()).digest()
    outcome = sandbox.compare(library, "SELECT 1", attack)
    assert outcome.outcome == "error"
    assert "not authorized" in outcome.detail
    assert hashlib.sha256(library.read_bytes()).digest() == before


def test_nothing_was_written_elsewhere(tmp_path, database):
    with SqlSandbox() as sandbox:
        for statement in (f"ATTACH '{tmp_path}/x' AS x", f"VACUUM INTO '{tmp_path}/x'"):
            assert sandbox.compare(database, "SELECT 1", statement).outcome == "error"
    assert not list(tmp_path.iterdir())


def test_a_prediction_may_take_twice_the_gold_querys_time(database, monkeypatch):
    monkeypatch.setattr(sql_worker, "SECONDS", 1e-6)
    monkeypatch.setattr(signal, "setitimer", lambda *alarm: None)
    slow = "SELECT count(*) FROM big a, big b WHERE a.n < b.n"
    job = {
        "database": str(database),
        "gold": slow,
        "predicted": "SELECT sum(n > 0) * 1999 / 2 FROM big",
        "ordered": False,
    }
    assert sql_worker.outcome_of(job) == ("equal", "")
    assert sql_worker.outcome_of(job | {"predicted": " UNION ALL ".join([slow] * 10)})[0] == "cut"


def test_a_gold_query_that_does_not_run_is_told_apart(sandbox, database):
    outcome = sandbox.compare(database, "SELECT missing FROM cat", "SELECT 1")
    assert (outcome.outcome, outcome.detail) == ("gold failed", "no such column: missing")


def question(id: str, database, query: str) -> Example:
    return Example(id, "q", query, fields={"database": str(database), "db_id": "zoo"})


@pytest.mark.parametrize(
    "content", [b"", b"version https://git-lfs.github.com/spec/v1\n", b"CREATE TABLE cat (name);"]
)
def test_a_file_that_is_no_database_is_told_before_anything_is_asked(tmp_path, content):
    file = tmp_path / "zoo.sqlite"
    file.write_bytes(content)
    with refused("validation-0.*zoo.sqlite is not a SQLite database: it begins with"):
        METRICS["sql_execution"].check([question("validation-0", file, "SELECT 1")])


def test_metric(database, caplog):
    examples = [question(f"validation-{i}", database, "SELECT count(*) FROM cat") for i in range(3)]
    examples.append(question("validation-3", database, "SELECT broken"))
    predictions = ["SELECT 4", "SELECT 5", "nonsense", "SELECT 1"]
    assert METRICS["sql_execution"].per_example(predictions, examples).tolist() == [1, 0, 0, 0]
    assert METRICS["sql_execution"].corpus(predictions[:2], examples[:2]) == 1 / 2
    assert "1 gold queries do not run" in caplog.text
    assert "validation-3" in caplog.text


def test_a_measurement_runs_each_query_once(database, tmp_path, monkeypatch):
    asked = []
    compare = SqlSandbox.compare
    monkeypatch.setattr(
        SqlSandbox, "compare", lambda *given: asked.append(given[-1]) or compare(*given)
    )
    examples = [question(f"validation-{i}", database, "SELECT count(*) FROM cat") for i in range(3)]
    task = Task("zoo", [], examples, Template("{input} {output}"), "sql_execution")
    predictions = ["SELECT 4", "SELECT 5", "SELECT 6"]
    rows = [{"id": sql, "examples": [], "prediction": sql, "gold": ""} for sql in predictions]

    @kept("written", files=ROWS_FILE)
    def written(queries, bank):
        return rows

    metric = measure(written(Examples(task.validation), Examples([])), task.metric)
    assert Run(tmp_path, Models()).get(metric).value == 1 / 3
    assert asked == predictions


def test_a_database_with_changes_beside_it_is_refused(sandbox, tmp_path):
    path = tmp_path / "open.sqlite"
    application = sqlite3.connect(path)
    application.execute("PRAGMA journal_mode = wal")
    application.executescript("CREATE TABLE t (n); INSERT INTO t VALUES (1)")
    with refused(r"open\.sqlite-wal holds changes that are not in the database yet: close"):
        sandbox.compare(path, "SELECT n FROM t", "SELECT 1")
    application.close()  # which writes them into the database
    assert sandbox.compare(path, "SELECT n FROM t", "SELECT 1").outcome == "equal"


def test_windows_imports_the_metrics_and_is_told_what_sql_needs(monkeypatch, database):
    script = "import signal; del signal.SIGKILL, signal.SIGHUP; import ceil_jax.metrics"
    subprocess.run([sys.executable, "-c", script], check=True)
    with SqlSandbox() as unused:
        monkeypatch.setattr("ceil_jax.metrics.sql.os.name", "nt")
        with refused("needs a POSIX system"):
            unused.compare(database, "SELECT 1", "SELECT 1")
        monkeypatch.undo()


def test_metric_names_the_database_it_misses(tmp_path):
    with refused(
        r"example 'validation-0': no database 'zoo', no file '.*no'; .* column 'database'"
    ):
        METRICS["sql_execution"].check([question("validation-0", tmp_path / "no", "SELECT 1")])


@pytest.mark.data
def test_gold_queries_of_spider_execute(data_dir):
    examples = load_task("spider", data_dir, limit=150).validation
    metric = METRICS["sql_execution"]
    assert metric.corpus([example.output for example in examples], examples) == 1
    assert metric.corpus(["SELECT 'no such answer'"] * len(examples), examples) == 0

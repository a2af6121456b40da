"""Questions over a database to SQL: Spider, Dr.Spider, KaggleDBQA."""

from __future__ import annotations

import functools
import gzip
import json
import sqlite3
import tarfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

from ceil_jax.errors import UserError
from ceil_jax.store.hashing import file_sha256
from ceil_jax.tasks import assets
from ceil_jax.tasks.example import Example, Template
from ceil_jax.tasks.spec import Row, TaskSpec, text
from ceil_jax.tasks.sql_text import one_line

SQL_TEMPLATE = Template("Database: {schema}\nQuestion: {input}\nSQL: {output}", separator="\n\n")


def schema_text(tables: dict[str, list[str]]) -> str:
    """Return a schema as `singer [Singer_ID, Name, Age], stadium [Stadium_ID, Location]`."""
    return ", ".join(f"{table} [{', '.join(columns)}]" for table, columns in tables.items())


def _sql_example(id: str, row: Row) -> Example:
    """Return a row as an example.

    Its input is the question alone, as in Skill-KNN's raw KNN; the schema is shown in the prompt.
    """
    fields = {"db_id": text(row, "db_id"), "schema": row["schema"], "database": row["database"]}
    return Example(id, one_line(text(row, "question")), one_line(text(row, "query")), fields=fields)


def declared_schemas(folder: Path) -> dict[str, str]:
    """Return db_id → schema text, from a folder's tables.json(.gz).

    A UserError unless these are in Spider's format.
    """
    schemas = {}
    for path in sorted(folder.glob("*tables.json*")):
        try:
            content = path.read_bytes()
            if path.suffix == ".gz":
                content = gzip.decompress(content)
            databases = json.loads(content.decode("utf-8"))
            for database in databases:
                tables: dict[str, list[str]] = {
                    name: [] for name in database["table_names_original"]
                }
                names = list(tables)
                for table, column in database["column_names_original"]:
                    if table >= 0:  # −1 is the column `*`
                        tables[names[table]].append(column)
                schemas[database["db_id"]] = schema_text(tables)
        except (OSError, EOFError, KeyError, TypeError, ValueError, IndexError) as error:
            raise UserError(f"{path} is not as Spider's tables.json: {error!r}") from None
    return schemas


def stored_schema(database: Path) -> str:
    """Return the schema text of a database file. A UserError if it is not an SQLite database."""
    address = f"file:{quote(str(database))}?mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(address, uri=True)) as connection:
            rows = connection.execute(
                "SELECT m.name, c.name FROM sqlite_master m JOIN pragma_table_info(m.name) c "
                "WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%' ORDER BY m.rowid, c.cid"
            ).fetchall()
    except sqlite3.Error as error:
        raise UserError(f"cannot read {database}: {error}") from None
    tables: dict[str, list[str]] = {}
    for table, column in rows:
        tables.setdefault(table, []).append(column)
    return schema_text(tables)


def database_files(folder: Path) -> dict[str, Path]:
    """Return db_id → its .sqlite file.

    Each is also listed as `parent/db_id`, for databases of the same name in different folders.

    Files are found under `folder/database*/`, as released, and in `folder/database*.tar.gz`, which
    is unpacked once into the cache; nothing is written into the data folder.
    """
    files: dict[str, Path] = {}
    archives = [_unpacked(archive) for archive in sorted(folder.glob("database*.tar.gz"))]
    for root in [*archives, *(path for path in sorted(folder.glob("database*")) if path.is_dir())]:
        for file in sorted(root.rglob("*.sqlite")):
            files.setdefault(file.stem, file)
            files.setdefault(f"{file.parent.parent.name}/{file.stem}", file)
    return files


def _unpacked(archive: Path) -> Path:
    def fill(folder: Path) -> None:
        try:
            with tarfile.open(archive) as tar:
                databases = [
                    member for member in tar.getmembers() if member.name.endswith(".sqlite")
                ]
                tar.extractall(folder, databases, filter="data")
        except (tarfile.TarError, EOFError) as error:
            raise UserError(f"cannot unpack {archive}: {error}") from None

    return assets.once(f"databases/{file_sha256(archive)[:16]}", fill)


def _enrich(folders: tuple[str, ...], data_dir: Path) -> Callable[[Row], Row]:
    """Return a function that adds `schema` and `database` to a row.

    `database` is a path, or "". Both are from the first folder that has them.
    """
    schemas: dict[str, str] = {}
    databases: dict[str, Path] = {}
    for folder in (data_dir / name for name in folders):
        schemas = declared_schemas(folder) | schemas
        databases = database_files(folder) | databases

    read_schema = functools.cache(stored_schema)

    def add(row: Row) -> Row:
        name = text(row, "db_id")
        file = databases.get(f"{row.get('perturbation_type', '')}/{name}") or databases.get(name)
        schema = schemas.get(name) or (read_schema(file) if file else "")
        if not schema:
            raise UserError(
                f"no schema of database {name!r} under {data_dir}: put tables.json or "
                f"database/{name}/{name}.sqlite into {data_dir / folders[0]}"
            )
        return {**row, "schema": schema, "database": str(file or "")}

    return add


SPIDER = TaskSpec(
    name="spider",
    template=SQL_TEMPLATE,
    metric="sql_execution",
    example=_sql_example,
    columns=("db_id", "question", "query"),
    folder="spider",
    enrich=functools.partial(_enrich, ("spider",)),
    files={"train": "train_spider", "validation": "dev"},
    deduplicate=False,  # the paper's bank is all 7,000; equal questions are about different databases
    max_new_tokens=200,
    language="sql",
    note="its copy on the hub has neither schemas nor databases",
)


def _dr_spider(group: str) -> TaskSpec:
    """Return an entry of Dr.Spider.

    It lacks the 20 rows of `DB_DBcontent_equivalence`, whose database files are not available.
    """
    unstored = "DB_DBcontent_equivalence"
    return replace(
        SPIDER,
        name=f"dr_spider.{group.lower()}",
        folder="dr_spider",
        enrich=functools.partial(_enrich, ("dr_spider", "spider")),
        columns=(*SPIDER.columns, "perturbation_group", "perturbation_type"),
        bank_of="spider",
        validation=("sample340",),
        keep=lambda row: (
            row["perturbation_group"] == group and row["perturbation_type"] != unstored
        ),
        note="a sample: 20 rows of each perturbation; the paper has 15,269",
    )


ENTRIES = (
    SPIDER,
    *(_dr_spider(group) for group in ("DB", "NLQ", "SQL")),
    replace(
        SPIDER,
        name="kaggledbqa",
        folder="kaggledbqa",
        enrich=functools.partial(_enrich, ("kaggledbqa",)),
        bank_of="spider",
        validation=("test",),
        note="no hub copy known: rows, tables.json and databases in data_dir/kaggledbqa, Spider "
        "beside it",
    ),
)

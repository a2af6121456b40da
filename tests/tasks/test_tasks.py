"""The entries, and the text that is made here: movie reviews, COGS' compact form."""

import gzip
import json
import sqlite3
import tarfile

import pytest
from cogs_original import logical_form
from refusing import refused

from ceil_jax.errors import UserError
from ceil_jax.tasks import TASKS, register_task
from ceil_jax.tasks.families import sentiment
from ceil_jax.tasks.families.cogs import function_call
from ceil_jax.tasks.families.parsing import numbered_steps
from ceil_jax.tasks.families.sql import database_files, declared_schemas, stored_schema
from ceil_jax.tasks.load import load_task
from ceil_jax.tasks.spec import PAPER_METHODS, FieldError, label, pair_task
from ceil_jax.tasks.words import bert_words, first_of_each, question_key


def test_a_task_from_outside():
    rows = {"train": [{"q": "x", "a": "y"}], "validation": [{"q": "z", "a": "y"}]}
    spec = pair_task("mine", ("q", "a"), embedded=lambda: rows)
    register_task(spec)
    assert [row.input for row in load_task("mine").train] == ["x"]
    with refused("a task 'mine' is registered already"):
        register_task(spec)
    register_task(spec, replace=True)


def test_averages_of_the_papers_columns():
    """Table 2's last column is the mean of its twelve tasks; random's row is the check on all of
    them."""
    averages = {"random": 30.68, "BM25": 45.84, "Contriever": 45.73}
    averages |= {"SimCSE": 45.19, "EPR": 53.37, "CEIL": 56.76}
    columns = [spec.paper for spec in TASKS.values() if spec.paper]
    assert len(columns) == 12
    assert all(tuple(column) == PAPER_METHODS for column in columns)
    for method, average in averages.items():
        assert sum(column[method] for column in columns) / 12 == pytest.approx(average, abs=0.02), (
            method
        )


# --- words


def test_words_are_berts():
    assert bert_words("What's the Café\tin  m0?") == "what ' s the cafe in m0 ?"
    items = ["How long?", "how long ?", "How longer?"]
    assert first_of_each(items, bert_words) == ["How long?", "How longer?"]


def test_a_question_is_its_text_but_for_white_space_and_normal_form():
    same = ["cafe\u0301 au lait", "caf\u00e9  au\u3000lait\n", " caf\u00e9 au lait"]
    assert first_of_each(same, question_key) == same[:1]
    # voiced kana, case, width, an accent, punctuation
    apart = ["かき", "かぎ", "grep -v", "grep -V", "x2", "x²", "cafe", "café", "cafe?"]
    assert first_of_each(apart, question_key) == apart


# --- sentiment


def test_a_tenth_of_the_sentences_are_held_out_by_their_words_alone():
    sentences = [f"sentence number {i}" for i in range(1000)]
    held_out = [*map(sentiment.held_out, sentences)]
    assert 60 < sum(held_out) < 140
    assert [sentiment.held_out(f" {sentence.upper()}") for sentence in sentences] == held_out


def test_a_rating_on_a_cut_belongs_below():
    ratings = [-4, -2, -1.9, -0.6, -0.5, 0.6, 0.7, 2, 2.1]
    rows = [{"text": "a film", "rating": rating} for rating in ratings]
    found = [TASKS["movie_reviews"].example("0", row).output for row in rows]
    assert found == ["terrible", "terrible", "bad", "bad", "okay", "okay", "good", "good", "great"]


@pytest.mark.packages
def test_movie_reviews():
    splits = TASKS["movie_reviews"].embedded()
    assert len(splits["train"]) + len(splits["validation"]) == 10_605
    sides = [{bert_words(row["text"]) for row in rows} for rows in splits.values()]
    assert not sides[0] & sides[1]
    assert 0.09 < len(splits["validation"]) / 10_605 < 0.11
    assert all(-4 <= row["rating"] <= 4 for rows in splits.values() for row in rows)


# --- COGS

FORMS = [
    ("Emma", "Emma", "Emma"),
    ("shark", "LAMBDA a . shark ( a )", "shark(a)"),
    ("crawl", "LAMBDA a . LAMBDA e . crawl . agent ( e , a )", "crawl(agent=a)"),
    (
        "admire",
        "LAMBDA a . LAMBDA b . LAMBDA e . admire . agent ( e , b ) AND admire . theme ( e , a )",
        "admire(agent=b,theme=a)",
    ),
    ("A cobra grew .", "cobra ( x _ 1 ) AND grow . theme ( x _ 2 , x _ 1 )", "grow(theme=cobra)"),
    (
        "Emma lended the cookie to a mother .",
        "* cookie ( x _ 3 ) ; lend . agent ( x _ 1 , Emma ) AND lend . theme ( x _ 1 , x _ 3 )"
        " AND lend . recipient ( x _ 1 , x _ 6 ) AND mother ( x _ 6 )",
        "lend(agent=Emma,theme=*cookie,recipient=mother)",
    ),
    (
        "The baby on a tray in the house screamed .",
        "* baby ( x _ 1 ) ; * house ( x _ 7 ) ; baby . nmod . on ( x _ 1 , x _ 4 ) AND tray ( x _ "
        "4 ) AND tray . nmod . in ( x _ 4 , x _ 7 ) AND scream . agent ( x _ 8 , x _ 1 )",
        "scream(agent=*baby(nmod.on=tray(nmod.in=*house)))",
    ),
    (
        "Liam liked that a boy wanted to eat .",
        "like . agent ( x _ 1 , Liam ) AND like . ccomp ( x _ 1 , x _ 5 ) AND boy ( x _ 4 )"
        " AND want . agent ( x _ 5 , x _ 4 ) AND want . xcomp ( x _ 5 , x _ 7 )"
        " AND eat . agent ( x _ 7 , x _ 4 )",
        "like(agent=Liam,ccomp=want(agent=boy,xcomp=eat))",
    ),
]


@pytest.mark.parametrize(("sentence", "form", "compact"), FORMS, ids=[case[0] for case in FORMS])
def test_cogs_form_and_back(sentence, form, compact):
    assert function_call(form) == compact
    assert logical_form(compact, sentence) == form


def test_an_unreadable_form_is_a_field_error():
    with pytest.raises(FieldError, match="field 'logical_form': expected a logical form of COGS"):
        TASKS["cogs.ps"].example("train-0", {"sentence": "A", "logical_form": "no form ("})


@pytest.mark.data
@pytest.mark.parametrize("split", ["train", "dev", "gen"])
def test_every_form_of_cogs_comes_back(data_dir, split):
    with gzip.open(data_dir / "cogs" / f"{split}.jsonl.gz", "rt") as lines:
        rows = [json.loads(line) for line in lines][:: 1 if split == "dev" else 5]
    wrong = [
        row["sentence"]
        for row in rows
        if logical_form(function_call(row["logical_form"]), row["sentence"]) != row["logical_form"]
    ]
    assert not wrong


# --- SQL and QDMR text


def test_numbered_steps():
    assert numbered_steps("return a ;return  #1 b;") == "1#) return a 2#) return #1 b 3#)"


@pytest.fixture
def zoo(tmp_path):
    folder = tmp_path / "spider"
    (folder / "database" / "zoo").mkdir(parents=True)
    connection = sqlite3.connect(folder / "database" / "zoo" / "zoo.sqlite")
    connection.executescript(
        "CREATE TABLE cat (id INTEGER PRIMARY KEY, name TEXT); CREATE TABLE dog (age);"
    )
    connection.close()
    return folder


def test_schemas(zoo):
    assert stored_schema(zoo / "database" / "zoo" / "zoo.sqlite") == "cat [id, name], dog [age]"
    tables = {
        "db_id": "zoo",
        "table_names_original": ["cat", "dog"],
        "column_names_original": [[-1, "*"], [0, "id"], [0, "name"], [1, "age"]],
    }
    (zoo / "tables.json").write_text(json.dumps([tables]))
    assert declared_schemas(zoo) == {"zoo": "cat [id, name], dog [age]"}


@pytest.mark.parametrize(
    "content", ["3", '{"a": 1}', '[{"db_id": "zoo", "table_names_original": ["cat"]}]']
)
def test_declared_schemas_in_another_format(zoo, content):
    (zoo / "tables.json").write_text(content)
    with refused(r"tables\.json is not as Spider's tables\.json") as caught:
        declared_schemas(zoo)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_no_database(zoo):
    file = zoo / "database" / "zoo" / "zoo.sqlite"
    file.write_text("no database at all, but text " * 40)
    with pytest.raises(UserError) as caught:
        stored_schema(file)
    assert str(caught.value) == f"cannot read {file}: file is not a database"


def test_a_database_is_named_by_text(zoo):
    row = {"db_id": ["zoo"], "question": "how many?", "query": "SELECT 1"}
    (zoo / "train.jsonl").write_text(json.dumps(row))
    with refused(r"train\.jsonl, line 1, field 'db_id': expected a text"):
        load_task("spider", zoo.parent)


def test_databases_in_folders_and_archives(zoo, tmp_path, monkeypatch):
    monkeypatch.setenv("CEIL_JAX_CACHE", str(tmp_path / "cache"))
    assert database_files(zoo)["zoo"] == zoo / "database" / "zoo" / "zoo.sqlite"
    with tarfile.open(zoo / "databases_dev.tar.gz", "w:gz") as tar:
        tar.add(zoo / "database" / "zoo" / "zoo.sqlite", "database/farm/farm.sqlite")
        tar.add(zoo / "database" / "zoo" / "zoo.sqlite", "DB_other/zoo/zoo.sqlite")
    found = database_files(zoo)
    assert found["farm"].is_relative_to(tmp_path / "cache")
    assert found["farm"].is_file()
    assert found["DB_other/zoo"].parent.parent.name == "DB_other"
    assert found["database/zoo"] == zoo / "database" / "zoo" / "zoo.sqlite"


def test_a_truth_value_is_one_of_two_labels():
    assert [label({"answer": value}, "answer", 2) for value in (False, True, "1", 0)] == [
        0,
        1,
        1,
        0,
    ]
    with pytest.raises(FieldError, match="expected a label from 0 to 2, found True"):
        label({"answer": True}, "answer", 3)

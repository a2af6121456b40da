"""Loading: local folders, a user's own file, and what each says of a file it cannot read."""

import gzip
import json
import logging

import pytest
from refusing import refused

from ceil_jax.errors import UserError
from ceil_jax.tasks import TASKS, Example
from ceil_jax.tasks.load import load_file, load_task

ROWS = [{"nl": f"print line {i}", "bash": f"sed -n {i}p"} for i in range(20)]


def write_jsonl(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8"
    )
    return path


@pytest.fixture
def folder(tmp_path):
    """A data_dir with NL2Bash: 20 rows and one of them again in capitals; 3 queries, two of them
    equal."""
    repeated = {"nl": "PRINT line 7", "bash": "head -8 | tail -1"}
    write_jsonl(tmp_path / "nl2bash" / "train.jsonl", [*ROWS[:10], repeated, *ROWS[10:]])
    write_jsonl(
        tmp_path / "nl2bash" / "validation.jsonl",
        [ROWS[3], ROWS[3], {"nl": "exit", "bash": "exit"}],
    )
    return tmp_path


# --- registered tasks from a folder


def test_the_bank_is_deduplicated_and_the_queries_are_not(folder):
    task = load_task("nl2bash", folder)
    assert (len(task.train), len(task.validation)) == (20, 3)
    assert task.train[7] == Example("train-7", "print line 7", "sed -n 7p")
    assert (
        task.train[10].id == "train-11"
    )  # the position in the file, before the repeated row 10 went
    assert [example.id for example in task.validation] == [
        "validation-0",
        "validation-1",
        "validation-2",
    ]
    assert (task.metric, task.more_metrics) == ("char_bleu", ("exact_match",))


def test_limits_draw_by_seed_and_keep_order_and_ids(folder):
    task = load_task("nl2bash", folder, limit=2, bank_limit=5, seed=1)
    again = load_task("nl2bash", folder, limit=2, bank_limit=5, seed=1)
    other = load_task("nl2bash", folder, bank_limit=5, seed=2)
    ids = [int(example.id.split("-")[1]) for example in task.train]
    assert (len(task.train), len(task.validation)) == (5, 2)
    assert list(task.train) == list(again.train)
    assert ids == sorted(ids)
    assert ids != [int(example.id.split("-")[1]) for example in other.train]
    whole = list(load_task("nl2bash", folder).train)
    assert all(example in whole for example in task.train)
    assert len(load_task("nl2bash", folder, limit=99).validation) == 3


@pytest.mark.parametrize("limits", [{"limit": 0}, {"bank_limit": -1}])
def test_a_limit_below_one_is_refused(folder, limits):
    with refused("expected at least 1"):
        load_task("nl2bash", folder, **limits)


def test_a_partial_split_is_said_in_the_log(folder, caplog):
    (folder / "nl2bash" / "train.jsonl").rename(folder / "nl2bash" / "train_sample.jsonl")
    with caplog.at_level(logging.WARNING):
        assert len(load_task("nl2bash", folder).train) == 20
    assert "split 'train' is partial, from train_sample.jsonl" in caplog.text


def test_a_missing_split_names_the_file_and_the_columns(folder):
    (folder / "nl2bash" / "validation.jsonl").unlink()
    with refused(r"no split 'validation'; looked for nl2bash/validation\.jsonl .*columns nl, bash"):
        load_task("nl2bash", folder)


def test_an_optional_split_may_be_missing(tmp_path, caplog):
    rows = [{"premise": f"a{i}", "hypothesis": "b", "label": i % 3} for i in range(3)]
    write_jsonl(tmp_path / "mnli" / "train.jsonl", rows)
    write_jsonl(tmp_path / "mnli" / "validation_matched.jsonl", rows)
    assert len(load_task("mnli", tmp_path).validation) == 3
    assert "no split 'validation_mismatched'" in caplog.text
    write_jsonl(tmp_path / "mnli" / "validation_mismatched.jsonl", rows)
    ids = [example.id for example in load_task("mnli", tmp_path).validation]
    assert ids[0] == "validation_matched-0"
    assert ids[3] == "validation_mismatched-0"


def test_few_shot_examples_open_the_prompt_last_first(tmp_path):
    rows = [{"user_utterance": f"u{i}", "lispress": f"(l{i})"} for i in range(8)]
    for split in ("train", "valid_cross", "8_shot"):
        write_jsonl(tmp_path / "smcalflow_cs" / f"{split}.jsonl", rows)
    task = load_task("smcalflow_cs.8c", tmp_path)
    assert [example.id for example in task.few_shot] == [f"8_shot-{i}" for i in range(7, -1, -1)]
    assert not load_task("smcalflow_cs.0c", tmp_path).few_shot


def test_queries_of_one_kind_keep_their_places(tmp_path):
    form = "cobra ( x _ 1 ) AND grow . theme ( x _ 2 , x _ 1 )"
    kinds = ["prim_to_inf_arg", "pp_recursion", "active_to_passive", "subj_to_obj_common"]
    rows = [
        {"sentence": "A cobra grew .", "logical_form": form, "distribution": kind} for kind in kinds
    ]
    for split in ("train", "gen"):
        write_jsonl(tmp_path / "cogs" / f"{split}.jsonl", rows)
    assert [example.id for example in load_task("cogs.ps", tmp_path).validation] == [
        "gen-0",
        "gen-3",
    ]
    assert [example.id for example in load_task("cogs.pa", tmp_path).validation] == ["gen-2"]


@pytest.mark.parametrize("name", ["break.csv", "sst5.v2.csv", "my-break.csv"])
def test_a_file_never_passes_for_a_task_of_the_papers(name, tmp_path):
    """The task's published numbers and demonstrations would stand beside the user's own rows."""
    (tmp_path / name).write_text(
        "input,output\n" + "".join(f"film {i},{i % 2}\n" for i in range(40))
    )
    found = load_file(tmp_path / name).name
    assert found not in TASKS
    assert found in (name, "my-break")


# --- a user's own file

REVIEWS = [
    {"text": f"review {i}", "label": ["bad", "good"][i % 2], "stars": i % 5} for i in range(40)
]


def read(path, **settings):
    named = {"input": "text", "output": "label", "template": "{text}: {output}"}
    return load_file(path, **(named | settings))


def test_jsonl(tmp_path):
    task = read(write_jsonl(tmp_path / "reviews.jsonl", REVIEWS), choices=["bad", "good"])
    assert (task.name, task.metric) == ("reviews", "accuracy")
    assert (len(task.train), len(task.validation)) == (36, 4)
    assert task.train[0].choices == ("bad", "good")
    positions = [int(example.id.split("-")[1]) for example in [*task.train, *task.validation]]
    assert sorted(positions) == list(range(40))
    for example in task.validation:
        assert example.id.startswith("validation-")
        assert example.input == f"review {example.id.split('-')[1]}"
    assert task.template.example(task.train[0]) == f"{task.train[0].input}: {task.train[0].output}"


def test_the_template_may_name_other_columns(tmp_path):
    path = write_jsonl(tmp_path / "reviews.jsonl", REVIEWS)
    task = read(path, template="{input} ({stars}/5): {output}")
    first = task.train[0]
    assert (
        task.template.example(first) == f"{first.input} ({int(first.id[6:]) % 5}/5): {first.output}"
    )
    assert task.metric == "accuracy"  # forty rows of two answers
    with refused(r"reviews\.jsonl: no column 'score'; it has 'text', 'label', 'stars'"):
        read(path, template="{text} {score} {output}")


def test_equal_texts_stay_on_one_side(tmp_path):
    rows = [
        {"text": ["Question", "question"][i % 2] + f" {i % 10}?", "label": str(i)}
        for i in range(40)
    ]
    task = read(write_jsonl(tmp_path / "q.jsonl", rows), validation=0.3)
    words = [{example.input.lower() for example in side} for side in (task.train, task.validation)]
    assert not words[0] & words[1]
    # 7 distinct texts, and 3 with all their rows
    assert (len(task.train), len(task.validation)) == (7, 3 * 4)


def test_formats_agree(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    expected = read(write_jsonl(tmp_path / "a.jsonl", REVIEWS))
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress((tmp_path / "a.jsonl").read_bytes()))
    (tmp_path / "a.json").write_text(json.dumps(REVIEWS))
    pq.write_table(pa.Table.from_pylist(REVIEWS), tmp_path / "a.parquet")
    lines = [
        "text,label,stars",
        *(f'"{row["text"]}",{row["label"]},{row["stars"]}' for row in REVIEWS),
    ]
    (tmp_path / "a.csv").write_bytes("\ufeff".encode() + "\r\n".join(lines).encode())
    for name in ("a.jsonl.gz", "a.json", "a.parquet", "a.csv"):
        task = read(tmp_path / name)
        assert list(task.train) == list(expected.train), name
        assert list(task.validation) == list(expected.validation), name


def test_rows_that_differ_in_another_column_of_the_template_all_stay(tmp_path, caplog):
    rows = [
        {"text": f"premise {i // 3}", "claim": f"claim {i}", "label": "ynm"[i % 3]}
        for i in range(30)
    ]
    path = write_jsonl(tmp_path / "a.jsonl", [*rows, rows[0] | {"claim": "claim  0 "}])
    with caplog.at_level(logging.INFO):
        task = read(
            path, template="{text}? {claim} {output}", validation=0.2, metric="accuracy", seed=1
        )
    assert (len(task.train), len(task.validation)) == (3 * 8, 3 * 2)
    assert {example.choices for example in [*task.train, *task.validation]} == {("m", "n", "y")}
    assert f"{path}: 1 row with the same text as another left out" in caplog.messages
    assert len(read(path, metric="exact_match").train) == 9  # a prompt that shows the premise alone


SKIP = "; --skip-bad-rows (skip_bad_rows=True) leaves such rows out and lists them"


def test_no_query_stands_in_its_own_prompt(tmp_path, caplog):
    path = write_jsonl(tmp_path / "a.jsonl", REVIEWS)
    other = write_jsonl(
        tmp_path / "b.jsonl", [{"text": f" review\t{i}", "label": "bad"} for i in range(3)]
    )
    task = read(path, validation=other)
    assert [example.input for example in task.train] == [f"review {i}" for i in range(3, 40)]
    assert f"{path}: 3 rows with a query's text left out" in caplog.messages
    # the input may differ where a prompt does not show it
    rows = [{"text": f"title {i}", "body": f"body {i % 2}", "label": "x"} for i in range(6)]
    task = read(write_jsonl(tmp_path / "c.jsonl", rows), template="{body} {output}", validation=0.1)
    bodies = [{row.fields["body"] for row in rows} for rows in (task.train, task.validation)]
    assert not bodies[0] & bodies[1]
    with refused(r"a\.jsonl: every row has the text of a query"):
        read(path, validation=path)


def test_an_answer_that_ends_at_a_stop_string_could_never_be_right(tmp_path):
    rows = [{"text": f"review {i}", "label": f"line {i}\nline"} for i in range(10)]
    path = write_jsonl(tmp_path / "a.jsonl", rows)
    with pytest.raises(UserError) as caught:
        read(path, stop="\n")
    assert str(caught.value) == (
        f"{path}, line 1, field 'label': expected text without '\\n', which ends an answer (--stop "
        "or stop=… names "
        "another end), found 'line 0\\nline'; 10 rows cannot be used: lines 1, 2, 3, 4, 5, 6, 7, "
        "8, 9, 10" + SKIP
    )
    assert len(read(path, stop=("\n\n",)).train) == 9
    assert (task := read(path)).stop == ("\n\n",)
    assert task.template.separator == "\n\n"
    assert len(read(path, metric="accuracy").train) == 9  # chosen, not written


def test_accuracy_takes_its_options_from_the_answers(tmp_path):
    rows = [{"text": f"review {i}", "label": f"label {i}"} for i in range(10)]
    path = write_jsonl(tmp_path / "a.jsonl", rows)
    task = read(path, metric="accuracy", validation=0.5)
    labels = tuple(f"label {i}" for i in range(10))
    assert {example.choices for example in [*task.train, *task.validation]} == {labels}
    asked = [{"text": "a", "label": "label 3"}, {"text": "b", "label": "?"}]
    other = write_jsonl(tmp_path / "b.jsonl", asked)
    with pytest.raises(UserError) as caught:
        read(write_jsonl(tmp_path / "c.jsonl", rows[3:5]), metric="accuracy", validation=other)
    assert str(caught.value) == (
        f"{other}, line 2, field 'label': expected one of the choices label 3, label 4 (the answers in "
        f"{tmp_path / 'c.jsonl'}), found '?'{SKIP}"
    )


GOOD = '{"text": "fine", "label": "good"}\n'
BROKEN = [
    ("a.jsonl", "\n\n", "holds no rows"),
    ("a.csv", "", "holds no rows"),
    ("a.csv", "text,label\n", "holds no rows"),
    ("a.jsonl", f"{GOOD}{{'text': 1}}", "line 2: not JSON"),
    ("a.jsonl", f"{GOOD}[1, 2]", "line 2: expected an object of columns, found list"),
    ("a.jsonl", f'{GOOD}\n{{"text": "a"}}', "line 3: no field 'label'; it has 'text'"),
    ("a.jsonl", f'{GOOD}{{"text": "a", "label": " "}}', "line 2, field 'label': expected"),
    ("a.jsonl", f'{GOOD}{{"text": "a", "label": null}}', "field 'label': .* found None"),
    ("a.jsonl", f'{GOOD}{{"text": ["a", "b"], "label": "bad"}}', "line 2, field 'text': expected"),
    (
        "a.jsonl",
        f'{GOOD}{{"text": "a", "label": "fair"}}',
        "one of the choices bad, good, found 'fair'",
    ),
    ("a.csv", "text,label\na,good\nb,c,good\n", "line 3: 3 cells, the header has 2"),
    ("a.csv", "text,text\na,b\n", "two columns have one name"),
    ("a.csv", "text\na\n", "no column 'label'; it has 'text'"),
    ("a.json", '[\n{"text": "a", "label": "good"},\n3]', "row 2: expected an object"),
    (
        "a.jsonl",
        f'{GOOD}{{"text": "a \\ud800", "label": "good"}}',
        r"line 2, field 'text': expected text without half a character .'.ud800' at place 2., "
        r"found 'a \\ud800'",
    ),
    ("a.jsonl", GOOD * 5, "all rows have one input"),
]


@pytest.mark.parametrize(("name", "content", "message"), BROKEN)
def test_what_is_wrong_with_a_file(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
    with refused(message) as caught:
        read(tmp_path / name, choices=["bad", "good"])
    assert str(tmp_path / name) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_text_beyond_the_usual(tmp_path):
    rows = [{"text": "\U0001f600" * 70_000 + str(i), "label": "x"} for i in range(2)]
    (tmp_path / "a.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in rows)
    )  # as surrogate pairs
    (tmp_path / "a.csv").write_text(
        "text,label\n" + "".join(f"{row['text'] * 2},x\n" for row in rows)
    )
    for name, times in (("a.jsonl", 1), ("a.csv", 2)):
        task = read(tmp_path / name)
        found = sorted(example.input for example in [*task.train, *task.validation])
        assert found == [row["text"] * times for row in rows]


def test_other_mistakes(tmp_path):
    path = write_jsonl(tmp_path / "a.jsonl", REVIEWS)
    with refused(r"no file .*missing\.jsonl"):
        read(tmp_path / "missing.jsonl")
    with refused(r"validation is 1\.5: expected a fraction"):
        read(path, validation=1.5)


# --- the real data


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "bank", "queries"),
    [
        ("sst5", 8_534, 1_101),
        ("mrpc", 3_668, 408),
        ("cmsqa", 9_740, 1_221),
        ("webqs", 3_778, 2_032),
        ("geoquery", 404, 280),
        ("nl2bash", 7_441, 609),
        ("mtop", 15_564, 2_235),
        ("spider", 7_000, 1_034),
        ("cogs.ps", 2_000, 9_000),
        ("cogs.pa", 2_000, 6_000),
        ("dr_spider.db", 7_000, 40),
        ("dr_spider.nlq", 7_000, 180),
        ("dr_spider.sql", 7_000, 100),
    ],
)
def test_sizes_are_the_papers(data_dir, name, bank, queries):
    task = load_task(name, data_dir)
    assert (len(task.train), len(task.validation)) == (bank, queries)
    assert len({example.id for example in [*task.train, *task.validation]}) == bank + queries
    assert all(example.output for example in task.train)


@pytest.mark.data
@pytest.mark.parametrize(
    "name", ["mnli", "qnli", "hellaswag", "break", "smcalflow_cs.0s", "smcalflow_cs.16c"]
)
def test_partial_splits_load(data_dir, name, caplog):
    task = load_task(name, data_dir, limit=50, bank_limit=100)
    assert (len(task.train), len(task.validation)) == (100, 50)
    assert "is partial" in caplog.text

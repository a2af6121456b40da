"""The hub way without the hub: local repositories with the hub's files, configs and features."""

from dataclasses import replace

import datasets
import pytest
from datasets import ClassLabel, Features, List, Value
from refusing import refused

from ceil_jax.tasks import TASKS, Hub
from ceil_jax.tasks.load import load_task

TEXT = Value("string")

# task of each kind of features -> (features on the hub, two rows)
HUB = {
    "sst5": (
        {"text": TEXT, "label": Value("int64"), "label_text": TEXT},
        [["a fine film", 3, "positive"], ["dull", 0, "very negative"]],
    ),
    "mnli": (
        {
            "premise": TEXT,
            "hypothesis": TEXT,
            "label": ClassLabel(names=["entailment", "neutral", "contradiction"]),
            "idx": Value("int32"),
        },
        [["A ran.", "A moved.", 0, 0], ["B ran.", "B slept.", 2, 1]],
    ),
    "cmsqa": (
        {
            "id": TEXT,
            "question": TEXT,
            "question_concept": TEXT,
            "choices": {"label": List(TEXT), "text": List(TEXT)},
            "answerKey": TEXT,
        },
        [
            ["0", "Where?", "place", {"label": list("ABCDE"), "text": list("vwxyz")}, "A"],
            ["1", "When?", "time", {"label": list("ABCDE"), "text": list("pqrst")}, "E"],
        ],
    ),
    "webqs": (
        {"url": TEXT, "question": TEXT, "answers": List(TEXT)},
        [["u", "who?", ["Ann", "Bo"]], ["u", "where?", ["Rome"]]],
    ),
    "nl2bash": ({"nl": TEXT, "bash": TEXT}, [["list files", "ls"], ["print date", "date"]]),
}


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    datasets.disable_progress_bars()


def repository(tmp_path, name, features, rows):
    """The task's entry, its hub repository replaced by a folder laid out like it."""
    spec = TASKS[name]
    folder = tmp_path / "repository"
    config = spec.hub.config
    lines = ["---", "configs:", f"- config_name: {config or 'default'}", "  data_files:"]
    columns = {column: [row[i] for row in rows] for i, column in enumerate(features)}
    for split in (*spec.train, *spec.validation):
        file = f"{config or 'data'}/{split}-00000-of-00001.parquet"
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        datasets.Dataset.from_dict(columns, Features(features)).to_parquet(folder / file)
        lines += [f"  - split: {split}", f"    path: {file}"]
    (folder / "README.md").write_text("\n".join([*lines, "---", ""]))
    return replace(spec, hub=Hub(str(folder), config, revision="0123abcd"))


@pytest.mark.parametrize("name", HUB)
def test_hub_schema_loads(name, tmp_path):
    features, rows = HUB[name]
    task = load_task(repository(tmp_path, name, features, rows))
    splits = len(TASKS[name].validation)
    assert [len(task.train), len(task.validation)] == [2, 2 * splits]
    row = dict(zip(features, rows[1], strict=True))
    expected = TASKS[name].example("train-1", row)
    assert task.train[1] == expected


def test_a_renamed_column_is_named_with_the_revision(tmp_path):
    features, rows = HUB["sst5"]
    renamed = {
        "sentence" if column == "text" else column: kind for column, kind in features.items()
    }
    with refused(
        r"0123abcd, split 'train': no column 'text'; it has 'sentence', 'label', 'label_text'"
    ):
        load_task(repository(tmp_path, "sst5", renamed, rows))


def test_an_extra_column_changes_nothing(tmp_path):
    features, rows = HUB["nl2bash"]
    plain = load_task(repository(tmp_path / "plain", "nl2bash", features, rows))
    wider = {**features, "license": TEXT}
    extra = load_task(
        repository(tmp_path / "extra", "nl2bash", wider, [[*row, "MIT"] for row in rows])
    )
    assert list(extra.train) == list(plain.train)


def test_an_unlabelled_row_is_named(tmp_path):
    features, rows = HUB["sst5"]
    rows = [rows[0], ["unlabelled", -1, ""]]
    with refused(r"0123abcd, split 'train', row 2, field 'label': expected a label from 0 to 4"):
        load_task(repository(tmp_path, "sst5", features, rows))


def test_no_such_split_or_repository(tmp_path):
    features, rows = HUB["nl2bash"]
    spec = replace(repository(tmp_path, "nl2bash", features, rows), validation=("dev",))
    with refused(r"cannot load split 'dev' of .* at revision 0123abcd"):
        load_task(spec)
    gone = replace(spec, hub=Hub(str(tmp_path / "nowhere"), revision="0123abcd"))
    with refused(r"nowhere at revision 0123abcd.*give a data_dir that holds nl2bash/train"):
        load_task(gone)


def test_what_the_hub_lacks_needs_a_folder():
    with refused(r"'spider' has no hub copy: give a data_dir that holds spider/train"):
        load_task("spider")
    with refused(r"'geoquery' has no hub copy: give a data_dir that holds geoquery/standard"):
        load_task("geoquery")

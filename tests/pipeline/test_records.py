"""Records: what their names depend on, and what is read of them."""

from dataclasses import replace
from pathlib import Path

import pytest
from films import SMALL, TASK, evaluated

from ceil_jax.methods.epr import EPR
from ceil_jax.methods.free import Free
from ceil_jax.pipeline.answering import measure, most_common
from ceil_jax.pipeline.config import RunConfig
from ceil_jax.pipeline.models import Models
from ceil_jax.pipeline.records import read_records, settings_of
from ceil_jax.pipeline.run import Run
from ceil_jax.pipeline.setup import open_run
from ceil_jax.store.folder import finish, finished
from ceil_jax.tasks.bank import Examples
from ceil_jax.tasks.example import Example

FEW = replace(TASK, validation=TASK.validation[:4])


def test_settings_are_without_what_differs_between_machines():
    default = RunConfig()
    settings = settings_of(default)
    assert not {"out", "data_dir", "device_map", "endpoint"} & settings.keys()
    elsewhere = replace(default, out=Path("elsewhere"), data_dir=Path("data"), device_map="auto")
    assert settings_of(elsewhere) == settings
    changed = replace(default, token_budget=100).with_method(EPR, epochs=7, start=Free())
    with_methods = settings_of(changed, changed.row("ceil").method.chain)
    assert [*with_methods][-2:] == ["ceil", "epr"]
    assert with_methods["token_budget"] == 100
    assert (with_methods["ceil"]["start"], with_methods["epr"]["start"]) == ("epr", "free")
    assert with_methods["epr"]["epochs"] == 7
    assert {name: with_methods[name] for name in settings} == settings | {"token_budget": 100}
    served = replace(default, lm="http://here:8000/v1#llama", encoder="http://here:8001/v1#bge")
    assert [settings_of(served)[name] for name in ("lm", "encoder")] == ["llama", "bge"]


def test_a_record_is_named_by_all_settings_and_written_once(tmp_path, caplog):
    config = replace(SMALL, out=tmp_path)
    found = {}
    for changed in (config, config, replace(config, seed=1), replace(config, shots=2)):
        record = evaluated(*open_run(changed, FEW), "topk")
        found.setdefault(record.name, record)
    # no training: another seed is another run with the same predictions
    assert len(found) == 3
    assert len({record.predictions for record in found.values()}) == 2
    records, trouble = read_records(tmp_path)
    assert trouble == []
    assert {record.name for record in records} == found.keys()
    first = next(iter(found.values()))
    [read] = [record for record in records if record.name == first.name]
    assert (read, read.task, read.method, read.seed) == (first, "films", "topk", None)
    assert (read.queries, read.bank, read.examples, read.config["shots"]) == (4, 60, 3.0, 3)
    assert read.value == 100 * read.scores().mean()
    assert read.cost.tokens == read.answering.tokens > 0
    assert [row["gold"] for row in read.rows()] == [example.output for example in FEW.validation]


@pytest.mark.parametrize("marker", ["{", "[" * 100_000], ids=["cut", "deep"])
def test_a_damaged_record_is_told_and_the_others_read(marker, tmp_path, monkeypatch):
    config = replace(SMALL, out=tmp_path)
    names = [evaluated(*open_run(config, FEW), method).name for method in ("zero", "random")]
    (tmp_path / names[0] / "done.json").write_text(marker)
    monkeypatch.setattr("ceil_jax.store.folder._checked", {})
    records, [line] = read_records(tmp_path)
    assert [record.name for record in records] == names[1:]
    assert (
        line
        == f"{tmp_path / names[0]}: damaged, unfinished or of another version; run its command "
        "again"
    )


def test_metrics_that_are_no_archive_are_told_though_their_checksum_is_right(tmp_path):
    record = evaluated(*open_run(replace(SMALL, out=tmp_path), FEW), "zero")
    metrics = tmp_path / record.metrics
    summary = finished(metrics)
    (metrics / "metric.npz").write_bytes(b"PK\3\4")
    finish(metrics, summary)
    records, [line] = read_records(tmp_path)
    assert records == []
    assert line.startswith(f"{tmp_path / record.name}: damaged")


@pytest.mark.parametrize("damaged", ["texts", "metrics", "predictions", "name"])
@pytest.mark.parametrize("file", ["key.json", "done.json"])
def test_an_evaluation_mends_each_folder_that_its_record_reads(
    tmp_path, monkeypatch, damaged, file
):
    config = replace(SMALL, out=tmp_path)
    record = evaluated(*open_run(config, FEW), "random")
    folder = tmp_path / getattr(record, damaged)
    content = (folder / file).read_bytes()
    (folder / file).write_bytes(content[:-20] + bytes([content[-20] ^ 1]) + content[-19:])
    monkeypatch.setattr("ceil_jax.store.folder._checked", {})
    assert read_records(tmp_path)[0] == []
    assert evaluated(*open_run(config, FEW), "random") == record
    assert read_records(tmp_path)[1] == []
    aside = [folder.name for folder in (tmp_path / "damaged").iterdir()]
    assert aside == [f"{folder.name}.1"]


def test_a_bit_of_a_records_key_is_told_in_a_process_that_has_read_it(tmp_path):
    record = evaluated(*open_run(replace(SMALL, out=tmp_path), FEW), "random")
    key = tmp_path / record.name / "key.json"
    key.write_bytes(key.read_bytes().replace(b'"films"', b'"filmr"'))
    records, [line] = read_records(tmp_path)
    assert records == []
    assert "damaged" in line


def test_queries_of_one_program_are_resampled_together(tmp_path):
    outputs = ["f(state, 1)", "f(state, 2)", "f(river, 1)"]
    rows = Examples([Example(output, f"question {output}", output) for output in outputs])
    measured = Run(tmp_path, Models()).get(measure(most_common(rows, rows), "exact_match"))
    first, second, third = measured.overlap.question
    assert first == second != third

"""COGS' queries, drawn evenly over their forms."""

import gzip
import json
from dataclasses import replace

import cogs_forms

from ceil_jax.pipeline.config import SCALES
from ceil_jax.tasks.example import Example
from ceil_jax.tasks.load import load_task
from ceil_jax.tasks.structures import form_without_words

COMMON = "* cookie ( x _ 1 ) ; {} . agent ( x _ 2 , Emma ) AND {} . theme ( x _ 2 , x _ 1 )"
RARE = "{} . agent ( x _ 1 , Emma )"


def test_every_form_is_drawn_equally_often_and_in_order():
    outputs = [f"lend(agent=name{i})" for i in range(9)] + ["run(theme=a)", "eat(theme=b)"]
    queries = [Example(str(i), f"input {i}", output) for i, output in enumerate(outputs)]
    drawn = cogs_forms.evenly(queries, 3, seed=0)
    forms = [form_without_words(query.output) for query in drawn]
    assert forms == ["_(agent=_)"] * 3 + ["_(theme=_)"] * 2
    assert [int(query.id) for query in drawn] == sorted(int(query.id) for query in drawn)
    assert drawn != cogs_forms.evenly(queries, 3, seed=1)


def test_the_task_has_the_even_queries_and_the_rest_of_its_settings(tmp_path):
    def row(number, form, case):
        form = form.replace("{}", f"verb{number}")
        return {"sentence": f"sentence {number}", "logical_form": form, "distribution": case}

    rows = [row(i, COMMON, "subj_to_obj_common") for i in range(20)]
    rows += [row(i, RARE, "subj_to_obj_common") for i in range(20, 22)]
    rows += [row(i, RARE, "active_to_passive") for i in range(22, 30)]
    folder = tmp_path / "cogs"
    folder.mkdir()
    for split in ("train", "gen"):
        with gzip.open(folder / f"{split}.jsonl.gz", "wt") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
    config = replace(SCALES["tiny"], task="cogs.ps", data_dir=tmp_path)
    name = cogs_forms.forms_task(config)
    task = load_task(name, tmp_path)
    assert name == "cogs.ps.forms"
    assert len(task.validation) == cogs_forms.EACH + 2
    assert len(task.train) == len(rows)
    assert task.language == "cogs"

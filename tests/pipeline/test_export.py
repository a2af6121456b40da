"""A trained run as a selector's folder, end to end, on the test LM and the test encoder."""

from dataclasses import replace

import numpy as np
import pytest
from films import SMALL, TASK

from ceil_jax import CeilSelector, UserError
from ceil_jax.pipeline.compose import open_run
from ceil_jax.pipeline.export import export, selector_of
from ceil_jax.tasks.load import load_file

FAST = replace(SMALL.ceil, initial="base", epochs=4, learning_rate=0.05, train_context="both")


@pytest.fixture(scope="module")
def trained(tmp_path_factory, moved_for_trained_in_module):
    """A run of CEIL whose query and context encoders both learned, exported before and after it was measured."""
    root = tmp_path_factory.mktemp("export")
    pipeline = open_run(replace(SMALL, ceil=FAST, out=root / "runs"), TASK)
    said = [export(pipeline, "ceil", root / "selector")]
    value = pipeline.evaluate("ceil").value
    said.append(export(open_run(pipeline.config, TASK), "ceil", root / "selector", license="mit"))
    return pipeline, root / "selector", said, value


def test_two_trained_encoders_choose_as_the_run_does(trained):
    pipeline, folder, _, _ = trained
    selector = CeilSelector.from_pretrained(folder)
    prints = {selector.encoder.fingerprint, selector.query_encoder.fingerprint, pipeline.base.fingerprint}
    assert len(prints) == 3
    expected = pipeline.retrieve("ceil", TASK.validation[:8])
    for query, picks in zip(TASK.validation[:8], expected, strict=True):
        by_gain = sorted(selector.select(query, k=3).picks, key=lambda pick: -pick.gain)
        assert [pick.example.id for pick in by_gain] == [pick.id for pick in picks]
    added = selector.add([{"input": TASK.validation[0].input, "output": "good", "new": "yes"}])
    [query], [example] = (
        encoder.encode([TASK.validation[0].input]) for encoder in (selector.query_encoder, selector.encoder)
    )
    cosine = query @ example / np.linalg.norm(query) / np.linalg.norm(example)
    [pick] = selector.select(TASK.validation[0].input, k=1, filter={"new": "yes"}).picks
    assert pick.example.id == added[0]
    assert pick.relevance == pytest.approx((1 + cosine) / 2, abs=1e-5)


def test_the_card_has_the_runs_metrics(trained):
    _, folder, said, value = trained
    card = CeilSelector.from_pretrained(folder).card
    [(name, measured)] = card.metrics.items()
    assert name.startswith("accuracy (percent of 30 held-out queries, 3 examples, tiny")
    assert measured == pytest.approx(100 * value)
    assert (card.license, card.language_model, card.title) == ("mit", "tiny", "CEIL on films")
    assert card.training_data == "from tiny on films: 24 queries × 5 sets of 3"
    assert "not evaluated: `ceil-jax compare` with the same flags measures it" in said[0]
    assert f"{100 * value:.1f}\nin Python: CeilSelector.from_pretrained" in said[1]
    assert f"| {100 * value:g} |" in (folder / "README.md").read_text()


def test_an_encoder_that_sees_outputs_chooses_as_the_run_does(tmp_path, moved_for_trained):
    config = replace(SMALL, context="example", ceil=FAST, out=tmp_path / "runs")
    pipeline = open_run(config, TASK)
    export(pipeline, "ceil", tmp_path / "selector")
    selector = CeilSelector.from_pretrained(tmp_path / "selector")
    texts = [f"{example.input} {example.output}" for example in TASK.train[:2]]
    vectors = selector.encoder.encode(texts)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    np.testing.assert_allclose(selector.bank.view.vectors([0, 1]), vectors, atol=1e-5)
    expected = pipeline.retrieve("ceil", TASK.validation[:8])
    for query, picks in zip(TASK.validation[:8], expected, strict=True):
        by_gain = sorted(selector.select(query, k=3).picks, key=lambda pick: -pick.gain)
        assert [pick.example.id for pick in by_gain] == [pick.id for pick in picks]
    # an encoder as loaded sees inputs alone, in a run and so in its selector
    assert selector_of(pipeline, "dpp").context == "input"


def test_a_text_alone_is_a_query_to_a_selector_of_a_users_file(tmp_path):
    file = tmp_path / "films.csv"
    rows = [f"{example.input},{example.output},en" for example in TASK.train]
    file.write_text("\n".join(["text,label,language", *rows]))
    task = load_file(
        file, input="text", output="label", template="{text} It is {output}", choices=("bad", "good")
    )
    export(open_run(replace(SMALL, out=tmp_path / "runs"), task), "dpp", tmp_path / "selector")
    selector = CeilSelector.from_pretrained(tmp_path / "selector")
    selector.add([{"input": "a new film", "output": "good"}])
    chosen = selector.select("a new film", k=2)
    assert chosen.prompt.endswith("a new film It is good\n\na new film It is")
    assert chosen.examples[0].fields["language"] == "en"


def test_an_encoder_as_loaded_needs_no_lm(tmp_path):
    pipeline = open_run(replace(SMALL, lm="nowhere", out=tmp_path / "runs"), TASK)
    assert "DPP-MAP on films, 60 examples" in export(pipeline, "dpp", tmp_path / "selector")


def test_what_cannot_be_exported(tmp_path):
    pipeline = open_run(replace(SMALL, out=tmp_path / "runs"), TASK)
    (tmp_path / "letter").write_text("dear")
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "letter").write_text("dear")
    for folder in (tmp_path / "letter", tmp_path / "letters"):
        with pytest.raises(UserError, match="is there already and is no selector; choose another folder"):
            export(pipeline, "dpp", folder)
    with pytest.raises(
        UserError, match=r"unknown selector 'bm25'.* Known: ceil, ceil_topk, dpp, epr, epr_map"
    ):
        export(pipeline, "bm25", tmp_path / "new")
    skills = open_run(replace(SMALL, text="skill", out=tmp_path / "runs"), TASK)
    with pytest.raises(UserError, match="a selector embeds inputs as they are"):
        export(skills, "dpp", tmp_path / "new")

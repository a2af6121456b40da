"""A row of a run as a selector's folder, end to end, on the test LM and the test encoder."""

from dataclasses import replace

import numpy as np
import pytest
from films import SMALL, TASK, choose, evaluated

from ceil_jax import MAP, NEAREST, CeilSelector, Row, UserError, register_row
from ceil_jax.methods.ceil import CEIL
from ceil_jax.methods.epr import EPR
from ceil_jax.methods.free import Labels
from ceil_jax.methods.untrained import Untrained
from ceil_jax.pipeline.export import export_row, of_plain_queries, selector_of
from ceil_jax.pipeline.setup import open_run
from ceil_jax.selector.folder import MANIFEST
from ceil_jax.selector.saved import check_target
from ceil_jax.tasks.example import Example, Task, Template
from ceil_jax.tasks.load import load_file
from ceil_jax.training.loop import Ending, Trained

PLAYS = (("a film", "a film"), ("a play", "a stage play"))
FEW = replace(TASK, validation=TASK.validation[:6])
BOTH = SMALL.with_method(CEIL, start=Untrained(), train_context="both")


@pytest.fixture(scope="module")
def opened(tmp_path_factory, moved_for_trained_in_module):
    """A run whose CEIL has two encoders that both learned."""
    return open_run(replace(BOTH, out=tmp_path_factory.mktemp("export")), FEW)


@pytest.fixture(autouse=True)
def rows_with_a_head():
    register_row("head", Row("label head", Labels(), NEAREST))
    register_row("head_map", Row("label head + MAP", Labels(), MAP))


def assert_chooses_alike(run, setup, method, selector):
    for query, picks in zip(
        FEW.validation, choose(run, setup, method, FEW.validation), strict=True
    ):
        by_gain = sorted(selector.select(query, k=3).picks, key=lambda pick: -pick.gain)
        assert [pick.example.id for pick in by_gain] == [pick.id for pick in picks]


@pytest.mark.parametrize("method", ["topk", "dpp", "epr", "ceil", "head", "head_map"])
def test_a_selector_chooses_as_the_run_does(opened, tmp_path, method):
    run, setup = opened
    said = export_row(run, setup, setup.row(method), tmp_path / "selector")
    assert f"{setup.row(method).label} on films, 60 examples; not evaluated" in said
    assert_chooses_alike(*opened, method, CeilSelector.from_pretrained(tmp_path / "selector"))


@pytest.mark.parametrize("method", ["topk", "dpp", "head"])
def test_a_run_and_its_selector_leave_out_the_same_distant_examples(tmp_path, method):
    plain = open_run(replace(SMALL, out=tmp_path / "runs"), FEW)
    every = choose(*plain, method, FEW.validation)
    relevance = sorted(pick.relevance for picks in every for pick in picks)
    # between two values, so that float32 decides alike in both
    middle = next(
        i for i in range(len(relevance) // 2, 0, -1) if relevance[i] - relevance[i - 1] > 1e-4
    )
    limit = (relevance[middle] + relevance[middle - 1]) / 2
    run, setup = open_run(replace(SMALL, out=tmp_path / "runs", min_relevance=limit), FEW)
    picks = choose(run, setup, method, FEW.validation)
    assert all(pick.relevance >= limit for some in picks for pick in some)
    assert sum(map(len, picks)) < sum(map(len, every))
    export_row(run, setup, setup.row(method), tmp_path / "selector")
    assert_chooses_alike(run, setup, method, CeilSelector.from_pretrained(tmp_path / "selector"))
    # rows that compare no vectors choose as without it
    for name in ("random", "bm25"):
        assert choose(run, setup, name, FEW.validation) == choose(*plain, name, FEW.validation)


def test_what_is_added_later_is_encoded_by_the_encoder_of_examples(opened):
    run, setup = opened
    selector = selector_of(run, setup, setup.row("ceil"))
    text = FEW.validation[0].input
    encoders = (selector.encoder, selector.query_encoder, setup.untrained_encoder.get())
    assert len({encoder.fingerprint for encoder in encoders}) == 3
    [added] = selector.add([{"input": text, "output": "good", "new": "yes"}])
    [pick] = selector.select("another film", k=1, filter={"new": "yes"}).picks
    assert pick.example.id == added
    [asked] = selector.query_encoder.encode(["another film"])
    [example] = selector.encoder.encode([text])
    cosine = asked @ example / np.linalg.norm(asked) / np.linalg.norm(example)
    assert pick.relevance == pytest.approx((1 + cosine) / 2, abs=1e-5)


def test_the_card_has_the_runs_metrics(opened, tmp_path):
    run, setup = opened
    value = evaluated(run, setup, "ceil").value
    said = export_row(run, setup, setup.row("ceil"), tmp_path / "selector", license="mit")
    card = CeilSelector.from_pretrained(tmp_path / "selector").card
    [(name, measured)] = card.metrics.items()
    assert name.startswith("accuracy (percent of 6 held-out queries, 3 examples, tiny")
    assert measured == pytest.approx(value)
    assert f"{value:.1f}\nin Python: CeilSelector" in said
    assert said.endswith('.select("a query").prompt')
    assert (card.license, card.language_model, card.title) == ("mit", "tiny", "CEIL on films")
    assert card.k == setup.config.shots == 3
    assert "k=3)" in (tmp_path / "selector" / "README.md").read_text()
    assert card.training_data == "from tiny on films; CEIL: 24 queries × 5 sets of 3"
    head = selector_of(run, setup, setup.row("head")).card
    assert head.language_model == ""
    assert head.training_data == "from tiny on films; label head: the outputs of 60 examples"


def test_a_bank_that_was_limited_is_said(opened, tmp_path):
    run, setup = opened
    assert "bank-limit" not in export_row(run, setup, setup.row("topk"), tmp_path / "all")
    limited = replace(setup, config=replace(setup.config, bank_limit=60))
    said = export_row(run, limited, limited.row("topk"), tmp_path / "limited")
    assert "60 examples (--bank-limit 60; selector.add(rows) adds further ones); " in said


def test_a_card_claims_no_training_that_left_nothing(tmp_path, monkeypatch):
    def fit(problem, config, *, seed, folder):
        return Trained(problem.start, [], Ending("start", {"start": 0.5}))

    monkeypatch.setattr("ceil_jax.training.contrastive.fit", fit)
    config = replace(SMALL, out=tmp_path)
    train = [replace(row, choices=(), output=f"Something {row.input}") for row in FEW.train]
    run, setup = open_run(config, replace(FEW, train=train, metric="exact_match"))
    for name in ("free_map", "epr"):
        card = selector_of(run, setup, setup.row(name)).card
        assert (card.training_data, card.language_model) == ("none: the untrained encoder", "")
    assert evaluated(run, setup, "free").kept == "the untrained encoder"


def test_an_encoder_that_sees_outputs_chooses_as_the_run_does(tmp_path, moved_for_trained):
    run, setup = open_run(replace(BOTH, context="example", out=tmp_path / "runs"), FEW)
    export_row(run, setup, setup.row("ceil"), tmp_path / "selector")
    selector = CeilSelector.from_pretrained(tmp_path / "selector")
    assert_chooses_alike(run, setup, "ceil", selector)
    # an untrained encoder sees inputs alone, in a run and so in its selector
    assert selector_of(run, setup, setup.row("dpp")).context == "input"


def test_an_untrained_encoder_needs_no_lm_and_a_users_fields_and_ids_stay(tmp_path):
    file = tmp_path / "films.csv"
    rows = [f"{row.input},{row.output},en,T-{i}" for i, row in enumerate(TASK.train)]
    file.write_text("\n".join(["text,label,language,id", *rows]))
    named = {"input": "text", "output": "label", "template": "{text} It is {output}"}
    task = load_file(file, **named, choices=("bad", "good"))
    run, setup = open_run(replace(SMALL, lm="nowhere", out=tmp_path / "runs"), task)
    export_row(run, setup, setup.row("dpp"), tmp_path / "selector")
    selector = CeilSelector.from_pretrained(tmp_path / "selector")
    selector.remove([selector.examples[0].id, *(f"T-{i}" for i in range(50, 53))])
    assert all(example.id.startswith("T-") for example in selector.examples)
    chosen = selector.select("a new film", k=1)
    assert chosen.prompt.endswith("\n\na new film It is")
    assert chosen.examples[0].fields["language"] == "en"


def test_what_cannot_be_exported(tmp_path):
    run, setup = open_run(replace(SMALL, out=tmp_path / "runs"), FEW)
    (tmp_path / "letters").mkdir()
    check_target(tmp_path / "letters", MANIFEST)
    (tmp_path / "letters" / "letter").write_text("dear")
    for folder in (tmp_path / "letters", tmp_path / "letters" / "letter"):
        with pytest.raises(UserError, match="exists and is not a selector; choose another folder"):
            export_row(run, setup, setup.row("dpp"), folder)
    for name in ("bm25", "majority"):
        with pytest.raises(UserError, match=rf"{name} neither ends in DPP-MAP nor .*ceil"):
            export_row(run, setup, setup.row(name), tmp_path / "new")
    skills = open_run(replace(SMALL, text="skill", out=tmp_path / "runs"), FEW)
    with pytest.raises(UserError, match="a selector embeds inputs as they are"):
        export_row(*skills, skills.setup.row("dpp"), tmp_path / "new")
    with pytest.raises(UserError, match="a selector embeds inputs as they are"):
        export_row(*skills, skills.setup.row("classifier"), tmp_path / "new")
    with pytest.raises(UserError, match="exists and is not a classifier"):
        export_row(run, setup, setup.row("classifier"), tmp_path / "letters")
    assert not (tmp_path / "runs").exists() or not [*(tmp_path / "runs").glob("epr-*")]


def test_a_template_that_names_the_input_by_a_field_takes_plain_queries():
    def shape(pattern, *rows):
        return of_plain_queries(Task("films", rows, [], Template(pattern), "exact_match"))

    same, other = (Example("1", text, "x", fields={"text": shown}) for text, shown in PLAYS)
    query = Example("", "a warm film", "")
    assert shape("{text} is {output}", same).query(query) == "a warm film is"
    assert shape("{text} is {output}", same, other).input == "input"
    assert shape("{text} {input} {output}", same).input == "input"


@pytest.mark.parametrize("train_context", ["shared", "both"])
def test_networks_beside_a_head_choose_as_the_run_does(tmp_path, moved_for_trained, train_context):
    config = SMALL.with_method(EPR, start=Labels(), train_context=train_context)
    run, setup = open_run(replace(config, out=tmp_path / "runs"), FEW)
    export_row(run, setup, setup.row("epr"), tmp_path / "selector")
    selector = CeilSelector.from_pretrained(tmp_path / "selector")
    assert_chooses_alike(run, setup, "epr", selector)
    query, bank = selector.encoder.networks
    assert (query.fingerprint != bank.fingerprint) == (train_context == "both")
    # a copy that is added later lies where the original lies
    row = {"id": "copy", "input": TASK.train[0].input, "output": TASK.train[0].output}
    [added] = selector.add([row])
    vectors = selector.bank.snapshot.vectors
    assert added
    assert vectors[-1] == pytest.approx(vectors[0], abs=1e-5)

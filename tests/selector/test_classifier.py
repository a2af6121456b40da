"""A classifier of labels: as the method `classifier` answers, saved, loaded and refused."""

import json
from dataclasses import replace

import numpy as np
import pytest
from films import SMALL, TASK
from refusing import refused
from selector_words import ROWS, Words

from ceil_jax import CeilSelector, Example, LabelClassifier, load_encoder
from ceil_jax.pipeline import row_stages
from ceil_jax.pipeline.export import classifier_of, export_row
from ceil_jax.pipeline.setup import open_run
from ceil_jax.training.free.encoder import FreeEncoder

FEW = replace(TASK, validation=TASK.validation[:20])
ASKED = [query.input for query in FEW.validation]


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    return open_run(replace(SMALL, out=tmp_path_factory.mktemp("classifier")), FEW)


@pytest.fixture(scope="module")
def classifier():
    return LabelClassifier.from_examples(FEW.train, encoder="tiny")


def test_it_answers_as_the_method_does(opened, classifier, tmp_path):
    run, setup = opened
    answers = run.get(row_stages.predictions(setup, setup.row("classifier")))
    expected = [answer["prediction"] for answer in answers]
    assert len({*expected}) == 2
    assert classifier.predict(ASKED).labels == expected
    # and so does what the run trained, through its folder
    said = export_row(run, setup, setup.row("classifier"), tmp_path / "classifier")
    assert "classifier alone on films, 2 labels from 60 examples; not evaluated" in said
    program = said.partition("in Python: ")[2]
    assert program.startswith(f"LabelClassifier.from_pretrained('{tmp_path / 'classifier'}')")
    exported = LabelClassifier.from_pretrained(tmp_path / "classifier").predict(ASKED)
    assert exported.labels == expected
    np.testing.assert_allclose(
        exported.probabilities, classifier.predict(ASKED).probabilities, atol=1e-5
    )
    trained = classifier_of(run, setup, setup.row("classifier"))
    assert trained.classes == classifier.classes == exported.classes


def test_probabilities_are_those_of_the_classes_in_order(classifier):
    predicted = classifier.predict(ASKED)
    assert predicted.probabilities.shape == (20, 2)
    np.testing.assert_allclose(predicted.probabilities.sum(1), 1, atol=1e-6)
    best = predicted.probabilities.argmax(axis=1)
    assert [predicted.classes[i] for i in best] == predicted.labels
    nothing = classifier.predict([])
    assert (nothing.labels, nothing.probabilities.shape) == ([], (0, 2))


def test_a_folder_brings_everything_back(tmp_path):
    rows = [{"text": row["input"], "label": row["output"]} for row in ROWS]
    encoder = load_encoder("tiny")
    keys = {"input_key": "text", "output_key": "label"}
    classifier = LabelClassifier.from_examples(rows, encoder=encoder, **keys)
    classifier.save_pretrained(tmp_path)
    classifier.save_pretrained(tmp_path)
    assert {file.name for file in tmp_path.iterdir()} == {".lock", "content-2", "classifier.json"}
    again = LabelClassifier.from_pretrained(tmp_path)
    asked = ["the river at noon", {"text": "the market at night"}]
    np.testing.assert_array_equal(
        again.predict(asked).probabilities, classifier.predict(asked).probabilities
    )
    assert again.encoder.base.name == "tiny"


def test_an_encoder_of_ones_own_is_given(tmp_path):
    class Bare:
        def encode(self, texts):
            return Words().encode(texts)

    classifier = LabelClassifier.from_examples(ROWS, encoder=Bare())
    classifier.save_pretrained(tmp_path)
    with refused("a head without its encoder, 'Bare'; give it"):
        LabelClassifier.from_pretrained(tmp_path)
    again = LabelClassifier.from_pretrained(tmp_path, encoder=Bare())
    asked = [row["input"] for row in ROWS[:5]]
    assert again.predict(asked).labels == classifier.predict(asked).labels


def test_inputs_of_two_texts():
    words = ("bright", "dull", "long", "short", "old", "new")
    pairs = [
        Example("", f"{a} {b}", ("No", "Yes")[a == b], parts=(a, b)) for a in words for b in words
    ]
    classifier = LabelClassifier.from_examples(pairs, encoder="tiny")
    assert classifier.predict(pairs[:3]).probabilities.shape == (3, 2)
    with refused(r"give a query as Example\(id, text, '', parts=\(first, second\)\)"):
        classifier.predict(["bright dull"])


def test_what_is_no_classifier(tmp_path, classifier):
    with refused("1 different outputs in 60 rows; expected two labels or more"):
        LabelClassifier.from_examples([{**row, "output": "x"} for row in ROWS], encoder="tiny")
    with refused("60 different outputs in 60 rows"):
        rows = [{**row, "output": f"x{i}"} for i, row in enumerate(ROWS)]
        LabelClassifier.from_examples(rows, encoder="tiny")
    with refused("row 2, field 'output'"):
        LabelClassifier.from_examples([ROWS[0], {"input": "x", "output": ""}], encoder="tiny")
    with refused("encoder is 5"):
        LabelClassifier.from_examples(ROWS, encoder=5)
    with refused("texts: expected a list of texts, found one text"):
        classifier.predict("a film")
    with refused("holds no classifier.json"):
        LabelClassifier.from_pretrained(tmp_path)
    CeilSelector.from_examples(ROWS[:5], encoder="tiny").save_pretrained(tmp_path / "selector")
    with refused("holds no classifier.json"):
        LabelClassifier.from_pretrained(tmp_path / "selector")
    (tmp_path / "selector" / ".lock").unlink()
    with refused("exists and is not a classifier; choose another folder"):
        classifier.save_pretrained(tmp_path / "selector")
    # a selector's encoder is not a classifier
    folder = tmp_path / "plain"
    classifier.save_pretrained(folder)
    record = json.loads((folder / "classifier.json").read_text())
    (folder / "classifier.json").write_text(json.dumps({**record, "settings": {"input_key": 5}}))
    with refused("classifier.json is not the manifest of a classifier"):
        LabelClassifier.from_pretrained(folder)
    with refused("a Cosine does not classify"):
        from ceil_jax.training.free.rows import Cosine

        LabelClassifier(FreeEncoder(load_encoder("tiny"), Cosine()))

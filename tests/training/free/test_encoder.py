"""A free method as an encoder: saved, loaded, and on a bank that has grown."""

from dataclasses import replace

import numpy as np
import pytest

from ceil_jax.encoders.registry import load_encoder
from ceil_jax.errors import UserError
from ceil_jax.selector import CeilSelector
from ceil_jax.tasks.bank import are_pairs
from ceil_jax.tasks.example import Example
from ceil_jax.training.free.encoder import FreeEncoder, marks, observe
from ceil_jax.training.free.head import LabelHead, fit_label_head
from ceil_jax.training.free.structures import fit_structure_head

WORDS = ("bright", "dull", "long", "short", "old", "new")
RATED = ("good", "bad")
BANK = [
    Example(
        str(i), f"a {WORDS[i % 6]} film {WORDS[i % 5]}", f"rate({RATED[i % 2]}({WORDS[i % 6]}))"
    )
    for i in range(24)
]
BASE = load_encoder("tiny")


def fitted(bank, fit, **given):
    rows = observe(BASE, bank, pairs=are_pairs(bank), **given)
    return FreeEncoder(
        BASE, fit(rows), parser=given.get("parser", ""), pairs=rows.parts is not None
    )


@pytest.mark.parametrize(
    ("fit", "given"),
    [
        (fit_label_head, {}),
        (fit_structure_head, {"parser": "bracketed"}),
    ],
    ids=["head", "structures"],
)
def test_saved_and_loaded_encoders_give_the_same_vectors(tmp_path, fit, given):
    encoder = fitted(BANK, fit, **given)
    encoder.save_pretrained(tmp_path / "free")
    loaded = FreeEncoder.from_pretrained(tmp_path / "free")
    texts = ["a bright film", "a dull play"]
    assert loaded.encode(texts) == pytest.approx(encoder.encode(texts), abs=1e-6)
    assert loaded.encode_bank(BANK[:2]) == pytest.approx(encoder.encode_bank(BANK[:2]), abs=1e-6)
    assert loaded.encode(texts).shape == (2, encoder.dim)
    assert loaded.fingerprint == encoder.fingerprint
    assert loaded.name == encoder.name.replace("tiny", loaded.base.name)
    assert not list(tmp_path.rglob("*.pkl"))


def test_a_bank_that_has_grown_says_how_many_examples_are_new(tmp_path):
    encoder = replace(fitted(BANK, fit_label_head), learnt=marks(BANK))
    selector = CeilSelector.from_examples(BANK, encoder=encoder)
    assert selector.unseen == 0
    # the same words under another id are no news; another output is
    same = replace(BANK[0], id="same")
    other = replace(BANK[1], id="other", output="rate(fine)")
    selector.add([same, other])
    selector.remove(BANK[2].id)
    selector.save_pretrained(tmp_path / "selector")
    assert CeilSelector.from_pretrained(tmp_path / "selector").unseen == selector.unseen == 1
    assert CeilSelector.from_examples(BANK, encoder=BASE).unseen is None


def test_an_added_example_of_an_unknown_label_is_encoded():
    encoder = fitted(BANK, fit_label_head)
    new = Example("new", "a film of no label known", "superb")
    vector = encoder.encode_bank([new])[0]
    assert np.isfinite(vector).all()
    # no query predicts its label: relevance is half the cosine
    query = encoder.encode(["a film"])[0]
    base = BASE.encode(["a film", new.input])
    cosine = base[0] @ base[1] / np.linalg.norm(base[0]) / np.linalg.norm(base[1])
    assert query @ vector == pytest.approx(cosine / 2, abs=1e-5)


def test_pairs_need_both_texts():
    bank = [
        Example(str(i), f"{a} {b}", ("No", "Yes")[a == b], ("No", "Yes"), parts=(a, b))
        for i, (a, b) in enumerate((a, b) for a in WORDS for b in WORDS)
    ]
    encoder = fitted(bank, fit_label_head)
    assert encoder.encode_queries(bank[:3]).shape == encoder.encode_bank(bank[:3]).shape
    with pytest.raises(
        UserError, match=r"give a query as Example\(id, text, '', parts=\(first, second\)\)"
    ):
        encoder.encode(["bright dull"])
    # a selector passes the two texts of a query on
    selector = CeilSelector.from_examples(bank, encoder=encoder)
    asked = Example("q", "old and new", "", parts=("old", "new"))
    assert len(selector.select(asked, k=2).picks) == 2
    # of three texts, or of one and of two, the joined text is seen
    for parts in (("a", "b", "c"), ()):
        joined = [replace(bank[0], id="other", parts=parts), *bank[1:]]
        encoder = fitted(joined, fit_label_head)
        assert np.isfinite(encoder.encode_queries(joined[:2])).all()


def test_examples_of_a_label_that_the_head_has_not_learnt_are_ranked_by_similarity(caplog):
    teams = {"billing": "invoice", "shipping": "parcel"}
    known = [
        Example(f"{team}-{i}", f"the {word} number {i} is late", team)
        for i in range(30)
        for team, word in teams.items()
    ]
    new = [Example(f"legal-{i}", f"the lawyer number {i} writes", "legal") for i in range(40)]
    encoder = FreeEncoder(BASE, fit_label_head(observe(BASE, known)))
    selector = CeilSelector.from_examples(known, encoder=encoder)
    before = [
        selector.select(f"the {word} number {i}", k=2) for i, word in enumerate(teams.values())
    ]
    selector.add(new[:20])
    assert "head was not trained on 'legal': their examples are ranked by similarity" in caplog.text
    caplog.clear()
    selector.add(new[20:])
    assert "not trained on 'legal'" in caplog.text
    plain = CeilSelector.from_examples([*known, *new], encoder=BASE)
    asked = [f"the lawyer number {i} writes again" for i in range(20)]

    def of_the_new_label(selector):
        chosen = selector.select_many(asked, k=2)
        return sum(any(example.output == "legal" for example in one) for one in chosen)

    assert of_the_new_label(selector) >= of_the_new_label(plain) > 10
    # what the head has learnt is ranked as before
    after = [
        selector.select(f"the {word} number {i}", k=2) for i, word in enumerate(teams.values())
    ]
    assert [one.examples for one in after] == [one.examples for one in before]
    # nor does it depend on whether the bank was loaded or changed
    selector.remove([example.id for example in new])
    again = [
        selector.select(f"the {word} number {i}", k=2) for i, word in enumerate(teams.values())
    ]
    assert again == before


def test_a_selector_of_unknown_labels_ranks_alike_once_it_is_loaded(tmp_path):
    rows = [*BANK, Example("new", "a film of no label known", "superb")]
    encoder = fitted(BANK, fit_label_head)
    selector = CeilSelector.from_examples(rows, encoder=encoder)
    selector.save_pretrained(tmp_path)
    again = CeilSelector.from_pretrained(tmp_path)
    asked = "a film of no label"
    assert again.select(asked, k=3) == selector.select(asked, k=3)


def test_a_saved_head_with_a_label_twice_is_refused(tmp_path):
    encoder = fitted(BANK, fit_label_head)
    head = replace(encoder.head, labels=(encoder.head.labels[0],) * len(encoder.head.labels))
    FreeEncoder(BASE, head, None, "", False, None).save_pretrained(tmp_path)
    with pytest.raises(UserError, match="'labels': expected different labels, found"):
        FreeEncoder.from_pretrained(tmp_path)


def test_a_head_of_more_labels_than_fit_into_a_square():
    labels = tuple(f"l{i}" for i in range(200_000))
    head = LabelHead(labels, np.zeros((32, len(labels)), np.float32), np.zeros(len(labels)))
    rows = observe(BASE, [Example("", "a film", "l7"), Example("", "a play", "other")])
    block = head.example_block(rows)
    assert [row.argmax() for row in block] == [7, 200_000]
    assert block.sum() == 2

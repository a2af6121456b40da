"""The stages of methods that learn from the bank's outputs."""

from dataclasses import dataclass, replace

import pytest
from films import SMALL, TASK, choose
from tqdm import tqdm

from ceil_jax.methods.base import LearnsFromOutputs
from ceil_jax.methods.free import Free, Labels
from ceil_jax.methods.registry import register_row
from ceil_jax.methods.row import Row
from ceil_jax.pipeline.heads import cross_fit
from ceil_jax.pipeline.setup import open_run
from ceil_jax.pipeline.steps import StepsOf
from ceil_jax.retrieval.retrievers import NEAREST
from ceil_jax.store import progress
from ceil_jax.training.free.head import fit_label_head


@pytest.fixture
def said(monkeypatch):
    """Returns the shares that a bar, which is never too early to be shown, has of some work."""
    shares = {}

    class Bar(tqdm):
        def __init__(self, **options):
            super().__init__(**options | {"delay": 0, "mininterval": 0})

        def update(self, n=1):
            super().update(n)
            shares.setdefault(self.desc.rstrip(": "), []).append(f"{self.n / self.total:.0%}")

    monkeypatch.setattr(progress, "tqdm", Bar)
    return shares.get


def test_learning_from_outputs_says_how_far_it_is(said, tmp_path):
    run, setup = open_run(replace(SMALL, out=tmp_path), TASK)
    run.get(StepsOf(setup).learnt(Free()).head)
    # the untrained encoder and the head are fitted to be judged, and what is taken on all rows
    assert said("training free") == ["33%", "67%", "100%"]
    head = StepsOf(setup).learnt(Labels()).head
    run.get(head)
    assert said("training label head") == ["100%"]
    run.get(cross_fit(head))
    assert said("cross-fitting label head") == ["20%", "40%", "60%", "80%", "100%"]


@dataclass(frozen=True)
class TwoHeads(LearnsFromOutputs):
    """A method from outside that names two heads, and does not name the cosine."""

    name = "two_heads"
    title = "two heads"

    def fits(self, bank):
        return {"first head": fit_label_head, "second head": fit_label_head}


def test_the_cosine_takes_part_where_a_method_names_several_heads(tmp_path):
    """As docs/extending.md promises. Films of one label share their words, so that the cosine finds
    them as well as a head within noise, and is taken."""
    register_row("two_heads", Row("two heads", TwoHeads(), NEAREST))
    run, setup = open_run(replace(SMALL, out=tmp_path), TASK)
    head = StepsOf(setup).learnt(TwoHeads()).head
    assert run.get(head) is None
    assert run.notes(head)["taken"] == "cosine"
    assert set(run.notes(head)) >= {"cosine", "first head", "second head"}
    assert not TwoHeads().is_used(run.notes(head))
    assert choose(run, setup, "two_heads", TASK.validation) == choose(
        run, setup, "topk", TASK.validation
    )

"""The notebooks run as they stand, and what they say is so."""

import runpy
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from films import SMALL, evaluated

import ceil_jax
from ceil_jax.encoders.registry import load_encoder, register_encoder

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"


def test_the_executed_notebooks_are_of_their_sources():
    """The same cells, all run without an error; with their figures, and small."""
    jupytext = pytest.importorskip("jupytext")
    sources, executed = (
        sorted(path.stem for path in NOTEBOOKS.glob(f"[0-9]*.{e}")) for e in ("py", "ipynb")
    )
    assert sources == executed
    assert len(sources) == 5
    size = 0
    for name in sources:
        source, notebook = (
            jupytext.read(NOTEBOOKS / f"{name}.{ending}") for ending in ("py", "ipynb")
        )
        assert [(cell.cell_type, cell.source) for cell in notebook.cells] == [
            (cell.cell_type, cell.source) for cell in source.cells
        ], f"{name}: run `make notebooks`"
        outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
        assert not [output for output in outputs if output.output_type == "error"]
        assert any("image/png" in output.get("data", {}) for output in outputs)
        text = (NOTEBOOKS / f"{name}.ipynb").read_text("utf-8")
        assert "/tmp/" not in text, "a path of one machine"
        assert "/home/" not in text, "a path of one machine"
        assert " at 0x" not in text, "the address of an object"
        size += len(text)
    assert size < 3_000_000


@pytest.fixture
def notebook(tmp_path, monkeypatch):
    """Runs one in an empty folder without a screen; its names. Every figure it left must be
    labelled."""
    matplotlib = pytest.importorskip("matplotlib")
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.chdir(tmp_path)
    matplotlib.use("Agg")
    from matplotlib import pyplot

    def run(name, figures):
        with matplotlib.rc_context():
            names = runpy.run_path(str(NOTEBOOKS / f"{name}.py"))
            drawn = [pyplot.figure(number) for number in pyplot.get_fignums()]
            assert len(drawn) >= figures
            for figure in drawn:
                labelled = [axes for axes in figure.axes if axes.get_ylabel() or axes.get_xlabel()]
                bare = [axes for axes in figure.axes if axes.has_data() and axes not in labelled]
                assert labelled, f"no axes with a label in {name}"
                assert not bare, f"axes without a label in {name}"
        return names

    yield run
    pyplot.close("all")


@pytest.fixture
def few_reviews(monkeypatch):
    """Banks of 120 reviews."""
    load = ceil_jax.load_task

    def few(name, **limits):
        return load(name, **{**limits, "bank_limit": 120})

    monkeypatch.setattr(ceil_jax, "load_task", few)


def test_kernel_geometry(notebook):
    names = notebook("01_kernel_geometry", figures=3)
    turns = np.deg2rad(names["angles"])
    np.testing.assert_allclose(names["dets"]["cosine"], np.sin(turns) ** 2, atol=1e-5)
    np.testing.assert_allclose(
        names["dets"]["shifted"], 1 - ((1 + np.cos(turns)) / 2) ** 2, atol=1e-5
    )
    np.testing.assert_allclose(names["left"], names["right"], rtol=1e-4)
    first, last = (np.asarray(names["choices"].mean_relevance)[i] for i in (0, -1))
    narrow, wide = (np.asarray(names["choices"].diversity)[i] for i in (0, -1))
    assert first > last
    assert narrow < wide
    nearest = np.argsort(-np.asarray(names["relevance"]))[: names["K"]]
    # two of the nearest all but coincide, and of those even a small λ takes one
    assert len({*np.asarray(names["choices"].items)[0].tolist()} & {*nearest.tolist()}) >= 5


def test_greedy_map(notebook):
    names = notebook("02_greedy_map", figures=4)
    assert names["by_hand"] == names["result"].items.tolist()
    assert sorted(names["by_hand"]) == names["best"]
    np.testing.assert_allclose(names["result"].gains.sum(), names["total"], atol=1e-3)
    assert 0.7 < names["exact"] < 1
    # the sampler is no further from P than draws from the whole list of probabilities
    counts, noise = (names["distance"](names[which]) for which in ("counts", "noise"))
    assert counts < 1.15 * noise


@pytest.mark.packages
def test_what_ceil_selects(notebook):
    names = notebook("03_what_ceil_selects", figures=4)
    assert names["trained"] == []
    assert names["sets"]["top-k"] == list(range(6)) != names["sets"]["DPP-MAP"]
    top_k, dpp = (sum(map(np.sum, names["parts"][name])) for name in ("top-k", "DPP-MAP"))
    assert dpp > top_k
    np.testing.assert_allclose(dpp, names["chosen"].gains.sum(), atol=1e-2)
    chosen = {names["task"].train[names["nearest"][place]].id for place in names["sets"]["DPP-MAP"]}
    [same] = [
        s
        for t, s in zip(names["trade_offs"], names["selections"], strict=True)
        if t == names["TRADE_OFF"]
    ]
    assert {pick.example.id for pick in same.picks} == chosen


@pytest.mark.packages
def test_what_ceil_selects_finds_a_trained_run(notebook, tmp_path, few_reviews, moved_for_trained):
    from ceil_jax import load_task
    from ceil_jax.pipeline.setup import open_run

    register_encoder("all-MiniLM-L6-v2", lambda: load_encoder("tiny"), replace=True)
    config = replace(SMALL, task="movie_reviews", limit=4, bank_limit=120, out=tmp_path / "runs")
    task = load_task(config.task, limit=config.limit, bank_limit=config.bank_limit)
    evaluated(*open_run(config, task), "ceil")
    before = sorted(path.name for path in config.out.iterdir())

    names = notebook("03_what_ceil_selects", figures=4)
    assert names["config"].row("ceil") == config.row("ceil")
    assert replace(names["config"], methods=()) == replace(config, methods=(), out=Path("runs"))
    assert len(set(names["picks"].tolist())) == names["K"]
    # the encoders were read, not trained again
    kinds = ("epr-", "ceil-", "scores-")
    after = sorted(path.name for path in config.out.iterdir())
    assert [n for n in after if n.startswith(kinds)] == [n for n in before if n.startswith(kinds)]
    shutil.rmtree(config.out)


@pytest.mark.packages
def test_swap_the_encoder(notebook, few_reviews, moved_for_trained):
    names = notebook("04_swap_the_encoder", figures=1)
    assert names["moved"] > 1e-3
    texts = ["a dull film", "a warm, funny one"]
    np.testing.assert_array_equal(names["again"].encode(texts), names["trained"].encode(texts))
    assert [row.record.method for row in names["comparison"].rows] == ["topk", "dpp", "epr", "ceil"]
    assert names["weighted_words"]().dim == 64


@pytest.mark.packages
def test_results(notebook):
    names = notebook("05_results", figures=2)
    ours, theirs = names["ours"], names["theirs"]
    queries = ours.record.queries
    assert names["gained"] - names["lost"] == round(
        (ours.values[0] - theirs.values[0]) * queries / 100
    )
    by_query = names["by_query"]["CEIL"].interval
    assert by_query.mean == pytest.approx(ours.value - theirs.value)
    # most of CEIL's gain is left when every program weighs the same
    assert 0 < names["by_program"]["CEIL"].interval.mean < by_query.mean

"""Strict tests: shapes are checked, rank promotion raises, warnings are errors (pyproject.toml)."""

import os
from contextlib import ExitStack
from functools import cache
from pathlib import Path

from xla_flags import flags_for

os.environ.setdefault("XLA_FLAGS", flags_for(1))
os.environ.setdefault("HF_HUB_OFFLINE", "1")
# compiled functions are shared between the workers of one run and with the next run
os.environ.setdefault(
    "JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parents[1] / ".pytest_cache" / "xla")
)
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.3")

import jax
import pytest
from jaxtyping import install_import_hook

jax.config.update("jax_numpy_rank_promotion", "raise")

CHECKED = [
    "dpp",
    "encoders.encoder",
    "encoders.transformer",
    "retrieval.blas_search",
    "retrieval.index",
    "retrieval.ranking",
    "retrieval.shortlists",
    "skills.similarity",
    "training.candidates",
    "training.ceil",
    "training.example_vectors",
    "training.gradient_cache",
    "training.losses",
    "training.samplers",
    "training.scoring",
    "training.trade_offs",
]
install_import_hook([f"ceil_jax.{module}" for module in CHECKED], "beartype.beartype").__enter__()


def pytest_make_parametrize_id(val):
    """Name bytes by their kind alone: those of an archive hold the time at which it was packed, and
    workers would collect tests of different names."""
    return "bytes" if isinstance(val, bytes) else None


@pytest.fixture
def x64():
    """float64 for the length of one test."""
    with jax.enable_x64(True):
        yield


@pytest.fixture(scope="session", autouse=True)
def encoders_made_once():
    """Encoders that many tests load are made once: they are immutable, and copies share what is
    compiled."""
    from ceil_jax.encoders.registry import ENCODERS

    for name in ("tiny", "all-MiniLM-L6-v2"):
        ENCODERS[name] = cache(ENCODERS[name])


@pytest.fixture(autouse=True)
def progress_bars_on(monkeypatch):
    """Undo a command's --quiet, which hides the progress bars of its process."""
    monkeypatch.setenv("TQDM_DISABLE", "")


@pytest.fixture(autouse=True)
def registrations_undone():
    """Undo all registrations of a test when it ends, so that no test depends on which ran before."""
    from ceil_jax.encoders.registry import ENCODERS
    from ceil_jax.lm.prompts import ORDERS
    from ceil_jax.lm.registry import LMS
    from ceil_jax.methods.registry import RETRIEVERS, ROWS
    from ceil_jax.metrics import METRICS
    from ceil_jax.tasks import TASKS
    from ceil_jax.training.free.encoder import HEADS
    from ceil_jax.training.losses import LOSSES

    with ExitStack() as stack:
        for registry in (ENCODERS, HEADS, LMS, LOSSES, METRICS, ORDERS, RETRIEVERS, ROWS, TASKS):
            stack.enter_context(registry.temporarily())
        yield


@pytest.fixture(scope="module")
def served():
    """A server of the tiny LM and the tiny encoder, and its address."""
    from lm_server import Server, listening

    from ceil_jax.encoders.registry import load_encoder

    server = Server(load_encoder("tiny"))
    with listening(server) as address:
        yield server, address


@pytest.fixture
def server(served):
    """The module's server, without faults when a test begins."""
    served[0].clear()
    return served[0]


@pytest.fixture
def waits(monkeypatch):
    """The seconds that clients of servers would have waited between attempts; nobody waits."""
    import anyio

    waited = []

    async def wait(seconds):
        waited.append(seconds)

    monkeypatch.setattr(anyio, "sleep", wait)
    return waited


@pytest.fixture
def address(server, served):
    """The address of that server."""
    return served[1]


def move_for_training(monkeypatch):
    """Let training only move the weights a little."""
    import numpy as np

    from ceil_jax.training.loop import Ending, Trained

    def fit(problem, config, *, seed, folder):
        rng = np.random.default_rng(seed)
        moved = jax.tree.map(
            lambda leaf: leaf + 0.01 * rng.standard_normal(leaf.shape, leaf.dtype), problem.start
        )
        before, after = ({"kendall_tau": t} for t in (0.1, 0.2))
        history = [{"step": 0, **before}, {"step": 1, "loss": 1.0, **after}]
        return Trained(
            moved, history, Ending("average", {"start": 0.1, "best": 0.2, "average": 0.2})
        )

    monkeypatch.setattr("ceil_jax.training.contrastive.fit", fit)
    monkeypatch.setattr("ceil_jax.training.ceil.fit", fit)


@pytest.fixture(scope="module")
def moved_for_trained_in_module():
    """The same as `moved_for_trained`, for fixtures of a module."""
    with pytest.MonkeyPatch.context() as patch:
        move_for_training(patch)
        yield


@pytest.fixture
def moved_for_trained(monkeypatch):
    """Training only moves the weights a little: for tests of what is done with encoders once they
    are trained."""
    move_for_training(monkeypatch)


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """A folder of real datasets in their hub column names; tests that ask for it are marked
    `data`."""
    folder = Path(os.environ.get("CEIL_JAX_DATA", Path(__file__).parents[2] / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no datasets at {folder}; set CEIL_JAX_DATA")
    return folder

"""Strict tests: shapes are checked, rank promotion raises, warnings are errors (pyproject.toml)."""

import os
from pathlib import Path

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=4")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
# compiled functions are shared between the workers of one run and with the next run
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parents[1] / ".pytest_cache" / "xla"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.3")

import jax
import pytest
from jaxtyping import install_import_hook

jax.config.update("jax_numpy_rank_promotion", "raise")

CHECKED = ["kernel", "dpp", "greedy", "budgeted", "losses", "index", "skill_similarity"]
install_import_hook([f"ceil_jax.{module}" for module in CHECKED], "beartype.beartype").__enter__()


@pytest.fixture
def x64():
    """float64 for the length of one test."""
    with jax.enable_x64(True):
        yield


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """A folder of real datasets in their hub column names; tests that ask for it are marked `data`."""
    folder = Path(os.environ.get("CEIL_JAX_DATA", Path(__file__).parents[2] / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no datasets at {folder}; set CEIL_JAX_DATA")
    return folder

"""Paths with ~, where a home folder is known and where it is not."""

import pwd
from pathlib import Path

import pytest
from refusing import refused

from ceil_jax.store.places import home, user_path
from ceil_jax.tasks.assets import cache_path, has_cache


@pytest.fixture
def nameless(monkeypatch):
    """A process whose user has no entry in the list of users, as in many containers."""

    def unknown(number):
        raise KeyError(f"getpwuid(): uid not found: {number}")

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    for name in ("HOME", "CEIL_JAX_CACHE"):
        monkeypatch.delenv(name, raising=False)


def test_with_a_home_folder(monkeypatch):
    monkeypatch.setenv("HOME", "/home/somebody")
    assert user_path("~/a") == Path("/home/somebody/a")
    assert home() == Path("/home/somebody")
    with refused("~nobody-of-that-name/a: the home folder is not known"):
        user_path("~nobody-of-that-name/a")


def test_without_one(nameless, monkeypatch, tmp_path):
    assert home() is None
    assert not has_cache()
    assert user_path("a/~b") == Path("a/~b")
    with refused("~/a: the home folder is not known; set HOME, or write the full path"):
        user_path("~/a")
    with refused("no home folder; set HOME, or CEIL_JAX_CACHE"):
        cache_path()
    monkeypatch.setenv("CEIL_JAX_CACHE", str(tmp_path))
    assert has_cache()
    assert cache_path() == tmp_path

"""A repository's folder in the hub's cache, named whole."""

import pytest
from refusing import refused

from ceil_jax.store.hub import hub_name, hub_snapshot


@pytest.fixture
def repository(tmp_path):
    folder = tmp_path / "models--owner--a-name"
    for part in ("blobs", "refs", "snapshots"):
        (folder / part).mkdir(parents=True)
    return folder


def test_the_snapshot_of_main_or_the_only_one(repository):
    first = repository / "snapshots" / "0123abcd"
    first.mkdir()
    assert hub_snapshot(repository) == first
    second = repository / "snapshots" / "4567cdef"
    second.mkdir()
    with refused(
        "holds 2 snapshots, and none is the branch main; name one of them, such as .*4567"
    ):
        hub_snapshot(repository)
    (repository / "refs" / "main").write_text("0123abcd\n")
    assert hub_snapshot(repository) == first
    assert hub_name(first) == hub_name(repository) == "owner/a-name"


@pytest.mark.parametrize("ref", ["../..", "", ".", "no-such-commit", "\0"])
def test_a_branch_that_names_no_snapshot(repository, ref):
    (repository / "refs" / "main").write_text(ref)
    with refused("hub's cache without a snapshot; fetch it again"):
        hub_snapshot(repository)


def test_other_folders_are_themselves(tmp_path):
    (tmp_path / "snapshots").mkdir()
    assert hub_snapshot(tmp_path) == tmp_path
    assert hub_snapshot(tmp_path / "none") == tmp_path / "none"
    named = tmp_path / "models--owner--name"
    named.mkdir()
    assert hub_name(named) == "models--owner--name"

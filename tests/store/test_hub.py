"""The name of a repository's folder in the hub's cache."""

from ceil_jax.store.hub import hub_name


def test_a_folder_of_the_hubs_cache_has_the_name_of_its_repository(tmp_path):
    folder = tmp_path / "models--owner--a-name"
    snapshot = folder / "snapshots" / "0123abcd"
    snapshot.mkdir(parents=True)
    assert hub_name(snapshot) == hub_name(folder) == "owner/a-name"
    named = tmp_path / "models--owner--name"
    named.mkdir()
    assert hub_name(named) == "models--owner--name"

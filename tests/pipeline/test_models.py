"""What a model's name says before it is loaded, and where its prompts are read."""

from dataclasses import replace

import pytest

from ceil_jax.pipeline.config import RunConfig
from ceil_jax.pipeline.models import Models, NamedLM, named_models

LOCAL = RunConfig(encoder="tiny", lm="tiny")


@pytest.mark.parametrize(
    ("spec", "served", "function", "on_hub", "libraries"),
    [
        ("tiny", False, False, False, []),
        ("SmolLM2-135M-Instruct", False, False, False, ["torch"]),
        ("owner/name", False, False, True, ["torch"]),
        ("./owner/name", False, False, False, ["torch"]),
        ("my_lm:load", False, True, False, []),
        ("http://host:8000/v1#m", True, False, False, ["openai"]),
    ],
)
def test_a_name_says_where_a_model_runs_and_what_it_needs(
    spec, served, function, on_hub, libraries
):
    lm = NamedLM(Models(), spec)
    assert (lm.is_served, lm.is_function, lm.is_on_hub) == (served, function, on_hub)
    assert lm.libraries == libraries
    assert replace(lm, actors=2).libraries == [*libraries, "ray"]


def test_a_folder_of_the_same_name_is_not_on_the_hub(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "owner" / "name").mkdir(parents=True)
    assert not NamedLM(Models(), "owner/name").is_on_hub


def test_models_on_the_hub_are_named_by_their_flags():
    config = replace(LOCAL, lm="some/lm", encoder="some/encoder")
    assert named_models(config, Models()).on_hub == {
        "--lm": "some/lm",
        "--encoder": "some/encoder",
    }
    config = replace(LOCAL, skills=replace(LOCAL.skills, lm="some/rewriter"))
    assert named_models(config, Models()).on_hub == {"--skills.lm": "some/rewriter"}


def test_prompts_are_read_by_the_actors_of_the_engine(monkeypatch):
    calls = []
    monkeypatch.setattr("ceil_jax.lm.ray_reading.actor_pool", lambda *args: calls.append(args))
    assert named_models(LOCAL, Models()).lm.reader() is None
    assert calls == []
    config = replace(LOCAL, engine="ray", actors=3, skills=replace(LOCAL.skills, lm="tiny"))
    models = named_models(config, Models())
    for lm in (models.lm, models.skill_lm):
        lm.reader()
    for load, name, actors in calls:
        assert (load().name, name, actors) == ("tiny", "tiny", 3)
    assert len(calls) == 2

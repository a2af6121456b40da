"""What tqdm's bars show of a command and of its stages."""

import pytest

from ceil_jax.store import progress
from ceil_jax.store.progress import bar, command_bar, running_bar


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """Bars that show every update."""
    monkeypatch.setattr(progress, "_DELAY", 0)
    monkeypatch.setattr(progress, "_IN_A_LOG", 0)
    monkeypatch.delenv("TQDM_DISABLE", raising=False)


def test_a_command_shows_its_stage_and_its_share_of_the_expected_time(capsys):
    with command_bar({"a": 10.0, "b": 30.0}) as shown:
        assert running_bar.get() is shown
        with shown.running("a", "reading"):
            with shown.running("b", "training"):
                assert shown.bar.desc == "stage 2 of 2, training"
            assert (shown.bar.desc, shown.bar.n) == ("stage 1 of 2, reading", 30)
        with shown.running("not planned", "writing"):
            assert shown.bar.desc == "stage 2 of 2, writing"
        assert shown.bar.n == shown.bar.total == 40
    assert running_bar.get() is None
    printed = capsys.readouterr().err
    assert "stage 1 of 2, reading: 75%" in printed
    assert "left" in printed


def test_a_hidden_bar_works(monkeypatch, capsys):
    monkeypatch.setenv("TQDM_DISABLE", "1")
    with command_bar({"a": 10.0}) as shown, shown.running("a", "reading"), bar(2, "texts") as part:
        part.update()
    assert capsys.readouterr().err == ""


def test_bars_are_tqdms(capsys):
    with bar(8, "texts", initial=2, delay=0) as shown:
        shown.update(2)
        shown.set_postfix(loss=1)
    assert "texts:  50%" in capsys.readouterr().err


def test_a_log_has_few_updates_and_short_work_none(capsys, monkeypatch):
    monkeypatch.undo()
    with bar(1000, "reading prompts") as shown:
        for _ in range(1000):
            shown.update()
    assert capsys.readouterr().err == ""
    with bar(1000, "reading prompts", delay=0) as shown:
        for _ in range(1000):
            shown.update()
    assert capsys.readouterr().err.count("reading prompts") == 1

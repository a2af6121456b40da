"""The time that a command still takes, by the estimates and by what was measured."""

import logging
import time

import pytest

from ceil_jax.store import progress
from ceil_jax.store.progress import CommandBar, bar, command_bar, running_bar


@pytest.fixture
def clock(monkeypatch):
    """A clock that goes where it is set."""
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_the_seconds_left_by_hand(clock):
    shown = CommandBar({"a": 10.0, "b": 30.0, "c": 60.0})
    assert shown.seconds_left(0) == 100  # nothing measured: the estimates
    with shown.running("a", "reading"):
        clock[0] = 5
        # half of a in its 5 s: 5 more, and everything else as estimated (5 s spent on 5 s expected)
        assert shown.seconds_left(0.5) == pytest.approx(5 + 90)
        clock[0] = 18
    clock[0] = 20
    # a took 20 s and not 10, with what came after it, beside the 60 s that a start may take
    assert shown.seconds_left(0) == pytest.approx((60 + 20) / (60 + 10) * (30 + 60))
    with shown.running("b", "training"):
        assert shown.seconds_left(0) == pytest.approx((60 + 20) / (60 + 10) * (30 + 60))
        clock[0] = 35
        # half of b in 15 s: 15 more by its own measure; spent 35 s on 10 + 15 expected
        assert shown.seconds_left(0.5) == pytest.approx(15 + (60 + 35) / (60 + 25) * 60)
        clock[0] = 50
    with shown.running("not planned", "writing"):
        assert shown.seconds_left(0) == pytest.approx((60 + 50) / (60 + 40) * 60)


def test_the_bar_names_what_runs_and_not_what_has_ended(clock, monkeypatch):
    shown = CommandBar({"a": 10.0, "b": 30.0})
    texts = []
    monkeypatch.setattr(shown.bar, "set_description_str", lambda text: texts.append(text))
    with shown.running("a", "reading"):
        shown.advance(0.5)
        with shown.running("b", "training"):
            pass
        shown.show()
    shown.show()
    assert [text.partition("; ")[0] for text in texts] == [
        "stage 1 of 2: reading, 0%",
        "stage 1 of 2: reading, 50%",
        "stage 2 of 2: training, 0%",
        "stage 2 of 2: reading, 50%",
        "stage 2 of 2: reading, 50%",
        "stage 2 of 2: done",
        "stage 2 of 2: done",
    ]


def test_a_log_has_its_first_line_after_seconds(clock, caplog, monkeypatch):
    monkeypatch.setattr(progress.sys.stderr, "isatty", lambda: False, raising=False)
    with (
        caplog.at_level(logging.INFO),
        command_bar({"a": 100.0, "b": 300.0}) as shown,
        shown.running("a", "reading"),
    ):
        clock[0] = 2
        shown.advance(0.02)
        assert caplog.text == ""
        clock[0] = 61
        shown.advance(0.61)
    assert "stage 1 of 2: reading, 61%; 6 min left" in caplog.text  # 39 + 300 s


def test_bars_inside_are_parts_of_the_commands(monkeypatch):
    shares = []
    with command_bar({"a": 1.0}) as shown:
        assert running_bar.get() is shown
        monkeypatch.setattr(shown, "advance", shares.append)
        with bar(8, "texts", initial=2) as part:
            part.update(2)
            part.update()
            part.set_postfix(loss=1)
            with bar(100, "requests of one chunk") as inner:
                inner.update(100)
                inner.set_postfix_str("spent")
    assert shares == [4 / 8, 5 / 8]
    assert running_bar.get() is None


def test_without_a_terminal_a_bar_is_ever_fewer_lines(clock, caplog, capsys, monkeypatch):
    monkeypatch.setattr(progress.sys.stderr, "isatty", lambda: False, raising=False)
    with caplog.at_level(logging.INFO), bar(200, "reading prompts") as shown:
        for clock[0] in range(0, 180, 2):
            shown.update()
    # after pauses of 3, 6, 12, 24, 48 and at last 60 s
    seconds = (4, 10, 22, 46, 94, 154)
    assert caplog.messages == [f"reading prompts, {(t / 2 + 1) / 200:.0%}" for t in seconds]
    assert capsys.readouterr().err == ""


def test_work_that_waits_is_not_mute(caplog, monkeypatch):
    monkeypatch.setattr(progress.sys.stderr, "isatty", lambda: False, raising=False)
    monkeypatch.setattr(progress, "_BEAT", 0.01)
    monkeypatch.setattr(progress, "_FIRST_LINE", 0.02)
    with caplog.at_level(logging.INFO), bar(8, "asking the server"):
        time.sleep(0.2)
    assert "asking the server, 0%" in caplog.messages

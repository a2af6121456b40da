"""A slice of seconds of `make chaos`; and the guard itself finds what it is there to find."""

import os
import random
import signal
import threading
import time
from contextlib import ExitStack

import pytest

from chaos import __main__ as command
from chaos.attempt import attempt
from chaos.damage import HARMS
from chaos.kinds import all_kinds
from chaos.machine import run_machine
from chaos.readers import FILES, Readers
from chaos.schedule import run
from chaos.selector_folders import SelectorFolders
from chaos.tally import Tally
from chaos.threads import run_threads


def test_a_slice_of_the_readers(tmp_path):
    readers, tally = Readers(tmp_path), Tally()
    kinds = {kind: (1.0, lambda draw, k=kind: readers.file(k, draw)) for kind in FILES}
    run(kinds, tally, seed=0, seconds=0, cases=10)
    assert dict(tally.failures) == {}
    assert tally.tried == 10 * len(FILES)


def test_a_slice_of_the_selector(tmp_path):
    folders, tally = SelectorFolders(tmp_path), Tally()
    kinds = {
        "machine": (1.0, lambda draw: run_machine(draw, examples=1, steps=12)),
        "threads": (1.0, lambda draw: run_threads(tmp_path, draw, turns=3)),
        "damage": (1.0, folders.damaged),
    }
    run(kinds, tally, seed=0, seconds=0, cases=1)
    assert dict(tally.failures) == {}


def test_the_machine_finds_a_selector_that_is_wrong(monkeypatch):
    from ceil_jax import CeilSelector

    add = CeilSelector.add
    monkeypatch.setattr(CeilSelector, "add", lambda self, rows: add(self, [*rows][:2]))
    outcome, failure = run_machine(random.Random(0), examples=3, steps=8)
    assert outcome == "failed" and "state.add(" in failure


def test_what_fails_is_told_with_its_seed(capsys):
    tally = Tally()
    kinds = {
        "broken": (1.0, lambda draw: attempt(lambda: [][0], "reading")),
        "fine": (1.0, lambda draw: ("read", "")),
    }
    run(kinds, tally, seed=7, seconds=0, cases=2)
    rows = [line.split() for line in tally.table().splitlines()]
    assert ["broken", "2", "2", "2", "failed"] in rows and ["fine", "2", "0", "2", "read"] in rows
    assert rows[3] == ["all", "4", "2"]
    assert "--only 'broken' --seed 7 --cases 1" in tally.table()
    assert "IndexError" in capsys.readouterr().out


def test_an_error_of_the_guard_itself_is_a_failure(capsys):
    def broken(draw):
        raise RuntimeError("no server")

    tally = Tally()
    run({"broken": (1.0, broken)}, tally, seed=1, seconds=0, cases=1)
    assert tally.failures["broken"] == ["RuntimeError: no server"]


def test_the_cases_of_a_kind_do_not_depend_on_the_others():
    def drawn(names, seed, cases):
        seen = []
        kinds = {n: (1.0, lambda draw, n=n: (seen.append((n, draw.random())) or "", "")) for n in names}
        run(kinds, Tally(), seed, 0, cases)
        return [value for name, value in seen if name == "a"]

    assert drawn("ab", 5, 3) == drawn("a", 5, 3)
    assert drawn("ba", 5, 3)[2:] == drawn("a", 7, 1)


@pytest.mark.parametrize("ends", ["time", "signal"])
def test_the_table_is_printed_however_it_ends(capsys, monkeypatch, ends):
    def slow(draw):
        time.sleep(0.02)
        return "failed", "on purpose"

    monkeypatch.setattr(command, "all_kinds", lambda folder, closing: {"slow": (1.0, slow)})
    if ends == "signal":
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGTERM)).start()
    status = command.main(["--seed", "3", "--minutes", "0.005" if ends == "time" else "5"])
    said = capsys.readouterr().out
    assert status == 1
    assert "kind    tried   failed  outcomes" in said and said.endswith("seed 3\n")
    assert ("stopped before its time" in said) == (ends == "signal")


def test_kinds_of_missing_modules_are_left_out(tmp_path):
    with ExitStack() as closing:
        found = all_kinds(tmp_path, closing)
    wanted = "kill compare", "kill save", "kill report", "damage scratch", "selector machine", "read encoder"
    assert set(wanted) <= found.keys()


def test_every_harm_changes_something():
    content = b"".join(b"line %d\n" % i for i in range(20))
    for harm in HARMS.values():
        assert harm(content, random.Random(1)) != content
        harm(b"", random.Random(1))

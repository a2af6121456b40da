"""Saves that are killed, meet other saves, or whose files are damaged: old selector, new one, or one line."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from bit_flips import unbound
from selector_words import ROWS

from ceil_jax import CeilSelector
from ceil_jax.errors import UserError
from ceil_jax.selector.folder import files
from ceil_jax.selector.folder.files import check_target

TESTS = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def server():
    """Ask for a save in a process of its own, which may be killed in it."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS.parent), str(TESTS)])}
    command = [sys.executable, str(TESTS / "save_server.py")]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, env=environment, text=True, **pipes) as process:

        def ask(**order):
            process.stdin.write(json.dumps(order, default=str) + "\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())

        yield ask
        process.stdin.close()


def side_by_side(server, orders):
    """What came of each order, a few at a time."""
    for start in range(0, len(orders), 8):
        children = [server(**order, wait=False)["pid"] for order in orders[start : start + 8]]
        yield from [server(join=child) for child in children]


def label(folder):
    """The one output of the examples of a saved selector, all of which must be there."""
    examples = CeilSelector.from_pretrained(folder).examples
    assert len(examples) == len(ROWS)
    [output] = {example.output for example in examples}
    return output


def test_a_first_save_killed_at_any_event_is_no_obstacle_to_the_next(server, tmp_path):
    whole = tmp_path / "whole"
    events = server(folder=whole, label="new")["events"]
    orders = [
        {"folder": tmp_path / f"killed-{i}", "label": "new", "kill": i} for i in range(1, len(events) + 1)
    ]
    for order, killed in zip(orders, side_by_side(server, orders), strict=True):
        assert killed["status"] == -signal.SIGKILL
        check_target(order["folder"])
    (whole / "letter").write_text("dear")
    check_target(whole)
    (whole / "selector.json").unlink()
    with pytest.raises(UserError, match="is no selector"):
        check_target(whole)


def test_a_save_killed_at_any_event_leaves_the_old_selector_or_the_new_one(server, tmp_path):
    first = tmp_path / "first"
    assert server(folder=first, label="old")["status"] == 0
    whole = tmp_path / "whole"
    shutil.copytree(first, whole)
    events = server(folder=whole, label="new")["events"]
    assert label(whole) == "new" and len(events) > 12
    pointer = next(i for i, event in enumerate(events, 1) if event == "os.rename .selector.json.new")
    orders = [
        {"folder": tmp_path / f"killed-{i}", "label": "new", "kill": i} for i in range(1, len(events) + 1)
    ]
    for order in orders:
        shutil.copytree(first, order["folder"])
    for order, killed in zip(orders, side_by_side(server, orders), strict=True):
        folder, kill = order["folder"], order["kill"]
        assert killed["status"] == -signal.SIGKILL and len(killed["events"]) == kill
        # the rename is the moment: it was killed before it happened
        assert label(folder) == ("old" if kill <= pointer else "new"), events[kill - 1]
        if kill % 4 == 0:  # and the next save cleans up
            assert server(folder=folder, label="next")["status"] == 0
            assert label(folder) == "next"
            assert len([path for path in folder.iterdir() if path.name.startswith("content-")]) == 1
        shutil.rmtree(folder)


def test_processes_save_to_one_folder_while_others_load(server, tmp_path):
    assert server(folder=tmp_path, label="a")["status"] == 0
    savers = [server(folder=tmp_path, label=name, saves=12, wait=False)["pid"] for name in "bc"]
    loaded = [label(tmp_path) for _ in range(25)]
    assert [server(join=pid)["status"] for pid in savers] == [0, 0]
    assert set(loaded) <= {"a", "b", "c"} and len(set(loaded)) > 1
    assert label(tmp_path) in ("b", "c")
    assert len(list(tmp_path.glob("content-*"))) <= 2  # the last sweep may have met a reader


def test_threads_save_to_one_folder_while_others_load(saved, tmp_path):
    big, _ = saved
    small = CeilSelector.from_examples(ROWS[:7], encoder=big.encoder)
    big.save_pretrained(tmp_path)
    failures, sizes, done = [], [], threading.Event()

    def run(work):
        try:
            work()
        except BaseException as error:
            failures.append(error)

    def save(selector):
        for _ in range(8):
            selector.save_pretrained(tmp_path)

    def load():
        while not done.is_set():
            sizes.append(len(CeilSelector.from_pretrained(tmp_path)))

    savers = [threading.Thread(target=run, args=(lambda s=s: save(s),)) for s in (big, small)]
    loaders = [threading.Thread(target=run, args=(load,)) for _ in range(2)]
    for thread in (*loaders, *savers):
        thread.start()
    for thread in savers:
        thread.join()
    done.set()
    for thread in loaders:
        thread.join()
    assert not failures
    assert set(sizes) == {60, 7}


def test_a_version_that_is_read_is_not_swept(saved, tmp_path, monkeypatch):
    """The save happens while the load reads its version; the next save removes it."""
    selector, read, begun = saved[0], files.read_bank, []
    selector.save_pretrained(tmp_path)
    small = CeilSelector.from_examples(ROWS[:7], encoder=selector.encoder)

    def interrupted(folder):
        begun.append(folder.name)
        small.save_pretrained(tmp_path)
        return read(folder)

    monkeypatch.setattr(files, "read_bank", interrupted)
    assert CeilSelector.from_pretrained(tmp_path).examples == selector.examples
    assert begun == ["content-1"]
    assert {path.name for path in tmp_path.glob("content-*")} == {"content-1", "content-2"}
    small.save_pretrained(tmp_path)
    assert [path.name for path in tmp_path.glob("content-*")] == ["content-3"]


def test_a_flipped_bit_is_refused_with_one_line(saved):
    selector, folder = saved
    (folder / ".lock").unlink(missing_ok=True)

    def same(again):
        settings = ("trade_off", "shortlist", "template", "context", "card")
        return again.examples == selector.examples and all(
            getattr(again, name) == getattr(selector, name) for name in settings
        )

    # the model card is for readers of the page; every other file is bound
    assert unbound(folder, CeilSelector.from_pretrained, same, seed=7) == {"README.md"}

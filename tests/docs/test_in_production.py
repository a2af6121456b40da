"""The service of docs/in_production.md: run twice over one folder, in a process apart and in this
one, asked, fed with rows by the job of the page, and asked again."""

import csv
import json
import os
import re
import runpy
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest

from ceil_jax import CeilSelector

PAGE = Path(__file__).parents[2] / "docs" / "in_production.md"
FILE = re.compile(r"^<!-- file: (\S+) -->\n```python\n(.*?)^```$", re.M | re.S)
TEAMS = {"hardware": "printer scanner screen", "access": "password login account"}
ROWS = [
    {"input": f"my {thing} number {i} is broken", "output": team}
    for team, things in TEAMS.items()
    for i, thing in enumerate(things.split())
]


@pytest.fixture
def folder(tmp_path, monkeypatch, address):
    for name, program in FILE.findall(PAGE.read_text(encoding="utf-8")):
        (tmp_path / name).write_text(program, encoding="utf-8")
    selector = CeilSelector.from_examples(ROWS, encoder="tiny", system="Which team?", k=4)
    selector.save_pretrained(tmp_path / "selector")
    variables = {
        "SELECTOR": str(tmp_path / "selector"),
        "LM_ADDRESS": address.partition("#")[0],
        "LM_KEY": "secret",
        "LM": "tiny",
        "PYTHONPATH": os.pathsep.join([str(PAGE.parents[1]), str(tmp_path)]),
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return tmp_path


@contextmanager
def worker(folder):
    """A worker of the service, and the function that asks it about a ticket."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "uvicorn", "service:app", "--port", str(port)]
    process = subprocess.Popen(command, cwd=folder)

    def ask(ticket):
        question = urllib.parse.urlencode({"ticket": ticket})
        address = f"http://127.0.0.1:{port}/answer?{question}"
        with urllib.request.urlopen(address, timeout=60) as response:
            return json.load(response)

    try:
        until = time.monotonic() + 120
        while True:
            try:
                ask("anything")
                break
            except OSError:
                assert process.poll() is None, "the service ended"
                assert time.monotonic() < until, "the service did not start"
                time.sleep(0.2)
        yield ask
    finally:
        process.kill()
        process.wait()


def test_two_workers_answer_and_see_rows_that_a_job_adds(folder, server, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    with worker(folder) as apart:
        here = runpy.run_path("service.py")["answer"]
        ticket = "my keyboard number 7 is broken"
        expected = CeilSelector.from_pretrained(folder / "selector").select(ticket, k=4)
        for ask in (apart, here):
            assert ask(ticket)["examples"] == [example.id for example in expected]
            assert server.requests[-1][1]["messages"] == expected.messages
        with (folder / "new.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, ["input", "output"])
            writer.writeheader()
            writer.writerows(
                [*ROWS[:2], {"input": "my keyboard number 8 is broken", "output": "input devices"}]
            )
        monkeypatch.setattr(sys, "argv", ["add_rows.py", "new.csv"])
        capsys.readouterr()
        runpy.run_path("add_rows.py")
        assert capsys.readouterr().out == f"1 rows added, {len(ROWS) + 1} in the bank\n"
        expected = CeilSelector.from_pretrained(folder / "selector").select(ticket, k=4)
        assert "input devices" in [example.output for example in expected]
        for ask in (apart, here):
            assert ask(ticket)["examples"] == [example.id for example in expected]

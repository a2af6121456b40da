"""Starting and ending real servers; what is checked of them is no part of the tests."""

import socket
import sys

import pytest

from benchmarks.servers.__main__ import CHECKS, main
from benchmarks.servers.serving import free_port, running
from ceil_jax.errors import UserError


def listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_a_server_is_there_within_the_block_and_gone_after_it(tmp_path):
    port = free_port()
    command = [sys.executable, "-m", "http.server", str(port), "--directory", tmp_path]
    with running(command, tmp_path / "logs" / "x.log", f"http://127.0.0.1:{port}/"):
        assert listens(port)
    assert not listens(port)


def test_a_server_that_says_where_it_is(tmp_path):
    program = "import time; print('there', flush=True); time.sleep(60)"
    with running([sys.executable, "-c", program], tmp_path / "x.log", "there\n") as log:
        assert log.read_text() == "there\n"


def test_a_server_that_ends_at_once_names_its_log(tmp_path):
    with (
        pytest.raises(UserError, match=r"does not serve; its output is in .*x\.log"),
        running([sys.executable, "-c", "1 / 0"], tmp_path / "x.log", "there"),
    ):
        pytest.fail("it is not there")
    assert "ZeroDivisionError" in (tmp_path / "x.log").read_text()


def test_a_server_that_cannot_be_checked_is_said(monkeypatch, tmp_path, capsys):
    def gone(out):
        raise UserError("no such server here")

    monkeypatch.setitem(CHECKS, "infinity", lambda out: {"server": "infinity", "vectors": "1.0"})
    monkeypatch.setitem(CHECKS, "vllm", gone)
    assert main(("infinity",), tmp_path) == 0
    assert main(("infinity", "vllm"), tmp_path) == 1
    assert "not checked: no such server here" in capsys.readouterr().out
    with pytest.raises(UserError, match="did you mean 'vllm'"):
        main(("vlm",), tmp_path)

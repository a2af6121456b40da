"""One process at a time in a folder, and a disk that is full or refuses as one line."""

import errno
import fcntl
import logging
import os
import threading
import time

import pytest

from ceil_jax.errors import UserError
from ceil_jax.store.locking import check_room, disk_errors, held


def test_a_second_one_waits_and_says_so(tmp_path, caplog):
    order = []
    inside = threading.Event()

    def holder():
        with held(tmp_path / "s"):
            inside.set()
            time.sleep(0.2)
            order.append("first")

    thread = threading.Thread(target=holder)
    thread.start()
    inside.wait()
    with caplog.at_level(logging.WARNING), held(tmp_path / "s"):
        order.append("second")
    thread.join()
    assert order == ["first", "second"]
    assert "waiting for another process" in caplog.text


@pytest.mark.parametrize(
    "error", [PermissionError(errno.EACCES, "no"), OSError(errno.ENOSPC, "full")]
)
def test_an_error_inside_is_the_callers_not_the_disks(tmp_path, error):
    """A model or a plugin that may not read something has not met a folder that cannot be
    written."""
    with pytest.raises(OSError) as met, held(tmp_path):
        raise error
    assert met.value is error
    with held(tmp_path):  # the lock was given back
        pass


@pytest.mark.parametrize(
    ("out", "why"),
    [
        ("file/runs", "Not a directory"),
        ("file", "File exists|Not a directory"),
        ("x" * 300, "File name too long"),
        ("/proc/runs", "No such file"),
    ],
)
def test_a_folder_that_takes_no_files_is_one_line(tmp_path, out, why):
    (tmp_path / "file").write_text("")
    with pytest.raises(
        UserError, match=rf"^cannot write to .*({why}).*run the same command again$"
    ) as said:
        held(tmp_path / out).__enter__()
    assert len(str(said.value)) < 400


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL])
def test_a_file_system_that_refuses_locks_is_one_line(tmp_path, monkeypatch, code):
    def refuse(*_):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(UserError, match=rf"^cannot write to .*{os.strerror(code)}.*name another"):
        held(tmp_path / "s").__enter__()


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            OSError(errno.ENOSPC, "No space left on device"),
            "No space left .* free some disk space and run",
        ),
        (
            RuntimeError("safetensors: I/O error: No space left on device (os error 28)"),
            "free some disk space and run",
        ),
        (
            OSError(errno.EROFS, "Read-only file system"),
            "Read-only .* fix that or name another folder",
        ),
    ],
)
def test_what_a_full_or_unwritable_disk_says(tmp_path, error, message):
    with pytest.raises(UserError, match=message), disk_errors(tmp_path):
        raise error


def test_other_errors_are_not_taken_for_the_disk(tmp_path):
    with pytest.raises(ConnectionRefusedError), disk_errors(tmp_path):
        raise ConnectionRefusedError(errno.ECONNREFUSED, "refused")


def test_room_is_checked_before_a_library_writes(tmp_path):
    check_room(tmp_path, 10)
    with pytest.raises(OSError, match="No space left on device"):
        check_room(tmp_path, 2**62)
    assert list(tmp_path.iterdir()) == []

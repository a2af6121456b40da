"""Programs that JAX compiled are used again only while they are whole."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ceil_jax.store.compiled import use_compiled

PROGRAM = """
import logging, os, sys
from pathlib import Path
logging.basicConfig(format="%(message)s")
from ceil_jax.store.compiled import use_compiled
use_compiled(Path(sys.argv[1]))
import jax
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
from jax import monitoring
hits = []
monitoring.register_event_listener(lambda event, **_: hits.append(event) if event.endswith("cache_hits") else None)
print(float(jax.jit(lambda x: (x @ x).sum() + 1)(jax.numpy.ones((8, 8)))), len(hits))
"""


def run(pool):
    environment = {k: v for k, v in os.environ.items() if k != "JAX_COMPILATION_CACHE_DIR"}
    environment["PYTHONPATH"] = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(pool)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    value, hits = done.stdout.split()
    return float(value), int(hits), done.stderr


def test_a_damaged_program_is_compiled_again(tmp_path):
    assert run(tmp_path)[:2] == (513.0, 0)
    kept = sorted(file for file in tmp_path.iterdir())
    assert kept and all("-cache." in file.name for file in kept)
    value, hits, said = run(tmp_path)
    assert value == 513.0 and hits == len(kept) and "damaged" not in said
    for file in kept:
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 0x10
        file.write_bytes(content)
    value, hits, said = run(tmp_path)
    assert (value, hits) == (513.0, 0)
    assert f"{len(kept)} damaged compiled programs removed" in said
    assert sorted(tmp_path.iterdir()) == kept


def test_the_folder_of_a_killed_process_is_swept(tmp_path, monkeypatch):
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR")
    monkeypatch.setenv("JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES", "none")  # undone afterwards
    monkeypatch.setattr("atexit.register", lambda *_: None)
    (tmp_path / "in-use-old").mkdir()
    (tmp_path / "in-use-old" / "jit_f-1-cache").write_bytes(b"half")
    (tmp_path / "in-use-old.lock").touch()
    (tmp_path / "jit_f-2-cache").write_bytes(b"of an older version")
    use_compiled(tmp_path)
    private = Path(os.environ["JAX_COMPILATION_CACHE_DIR"])
    assert {file.name for file in tmp_path.iterdir()} == {private.name, f"{private.name}.lock"}
    assert not list(private.iterdir())


@pytest.mark.parametrize("pool", ["file/xla", "/proc/xla"])
def test_without_a_folder_nothing_is_cached(tmp_path, monkeypatch, pool):
    (tmp_path / "file").write_text("")
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR")
    monkeypatch.setenv("JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES", "none")  # undone afterwards
    use_compiled(tmp_path / pool)
    assert "JAX_COMPILATION_CACHE_DIR" not in os.environ


def test_a_folder_that_the_user_names_is_left_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path / "mine"))
    use_compiled(tmp_path / "pool")
    assert os.environ["JAX_COMPILATION_CACHE_DIR"] == str(tmp_path / "mine")
    assert not (tmp_path / "pool").exists()

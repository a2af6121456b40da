"""An embeddings server, and vector stores as servers."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np

from benchmarks.servers.environment import environment
from benchmarks.servers.serving import free_port, running
from ceil_jax.encoders.registry import load_encoder
from ceil_jax.tasks.assets import fetch
from ceil_jax.tasks.load import load_task

ENCODER = "all-MiniLM-L6-v2"
PROGRAMS = Path(__file__).parent / "programs"
CLIENTS = {
    "chroma": ("chromadb", "langchain-chroma"),
    "pgvector": ("pgserver", "langchain-postgres", "psycopg[binary]"),
}


def infinity(out: Path) -> dict[str, str]:
    """Embed reviews by Infinity and in process; return a row of the table."""
    python = environment("infinity", ("infinity-emb[all]",))
    port = free_port()
    [folder] = [path.parent for path in fetch(ENCODER).rglob("modules.json")]
    program = python.with_name("infinity_emb")
    settings = ["--served-model-name", ENCODER, "--device", "cpu", "--no-bettertransformer"]
    command: list[str | Path] = [
        program,
        "v2",
        "--model-id",
        folder,
        *settings,
        "--port",
        str(port),
    ]
    with running(command, out / "infinity.log", f"http://127.0.0.1:{port}/models"):
        served = load_encoder(f"http://127.0.0.1:{port}/models#{ENCODER}")
        texts = [row.input for row in load_task("movie_reviews", limit=1, bank_limit=200).train]
        ours = load_encoder(ENCODER).encode(texts)
        theirs = served.encode(texts)
    cosines = (ours * theirs).sum(axis=1) / np.linalg.norm(ours, axis=1)
    cosines /= np.linalg.norm(theirs, axis=1)
    return {"server": "infinity", "vectors": f"lowest cosine with ours {cosines.min():.5f}"}


def store(name: str, out: Path) -> dict[str, str]:
    """Choose from a store that is a server and from rows held here; return a row of the table."""
    python = environment(name, CLIENTS[name], ours=True)
    folder = (out / f"{name}-data").resolve()
    port = free_port()
    if name == "chroma":
        command: list[str | Path] = [
            python.with_name("chroma"),
            "run",
            "--path",
            folder,
            "--port",
            str(port),
        ]
        ready = f"http://127.0.0.1:{port}/api/v2/heartbeat"
    else:
        command = [python, PROGRAMS / "postgres.py", folder]
        ready = "postgresql://"
    with running(command, out / f"{name}.log", ready) as log:
        where = str(port)
        if name == "pgvector":
            [where] = re.findall(r"^postgresql://.*$", log.read_text(), re.MULTILINE)
        done = subprocess.run(
            [python, PROGRAMS / "stores.py", name, where],
            capture_output=True,
            text=True,
            check=False,
        )
    lines = (done.stdout if done.returncode == 0 else done.stderr).strip().splitlines() or [""]
    return {"server": name, "choices": lines[-1]}

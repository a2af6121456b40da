"""An embeddings server, and vector stores; Chroma and PostgreSQL as servers."""

from __future__ import annotations

import re
import shutil
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
    "lancedb": ("lancedb", "langchain-community"),
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
    with running(command, out / "infinity" / "server.log", f"http://127.0.0.1:{port}/models"):
        served = load_encoder(f"http://127.0.0.1:{port}/models#{ENCODER}")
        texts = [row.input for row in load_task("movie_reviews", limit=1, bank_limit=200).train]
        ours = load_encoder(ENCODER).encode(texts)
        theirs = served.encode(texts)
    cosines = (ours * theirs).sum(axis=1) / np.linalg.norm(ours, axis=1)
    cosines /= np.linalg.norm(theirs, axis=1)
    return {"server": "infinity", "vectors": f"lowest cosine with ours {cosines.min():.5f}"}


def store(name: str, out: Path) -> dict[str, str]:
    """Choose from a vector store and from rows held here; return a row of the table."""
    python = environment(name, CLIENTS[name], ours=True)
    out = (out / name).resolve()
    data = out / "data"
    # what an earlier check has left would be chosen too
    shutil.rmtree(data, ignore_errors=True)
    log = out / "server.log"
    port = free_port()
    if name == "chroma":
        chroma = python.with_name("chroma")
        command: list[str | Path] = [chroma, "run", "--path", data, "--port", str(port)]
        with running(command, log, f"http://127.0.0.1:{port}/api/v2/heartbeat"):
            line = _asked(python, name, str(port))
    elif name == "pgvector":
        with running([python, PROGRAMS / "postgres.py", data], log, "postgresql://"):
            [address] = re.findall(r"^postgresql://.*$", log.read_text(), re.MULTILINE)
            line = _asked(python, name, address)
    else:
        line = _asked(python, name, str(data))
    return {"server": name, "choices": line}


def _asked(python: Path, name: str, where: str) -> str:
    """Return the last line that the program which asks a store prints, or that of its error."""
    program: list[str | Path] = [python, PROGRAMS / "stores.py", name, where]
    process = subprocess.run(program, capture_output=True, text=True, check=False)
    output = process.stdout if process.returncode == 0 else process.stderr
    return (output.strip().splitlines() or [""])[-1]

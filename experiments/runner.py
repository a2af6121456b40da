"""One experiment: a task's name, and all the flags of `ceil-jax compare`."""

import sys
from typing import NoReturn

from ceil_jax.cli.main import main


def run(task: str) -> NoReturn:
    """`ceil-jax compare --task TASK` with the flags of this process; ends it with the command's exit code."""
    sys.exit(main(["compare", "--task", task, *sys.argv[1:]]))

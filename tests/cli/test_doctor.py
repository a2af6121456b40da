"""The findings of doctor, and that nothing it meets makes it fall over."""

import json
import subprocess
import sys

import pytest

from ceil_jax.cli import doctor
from ceil_jax.cli.main import main


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A machine with an empty cache, whose probes answer at once."""
    monkeypatch.setenv("CEIL_JAX_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(doctor, "PROBES", dict.fromkeys(("jax", "torch"), 'print(json.dumps(["cpu:0"]))'))
    monkeypatch.setattr(doctor, "_version", lambda package: "1.2.3")
    return tmp_path


def found(runs):
    return {finding.what.strip(): finding for finding in doctor.examine(runs)}


def test_a_new_machine(here, capsys):
    findings = found(here / "runs")
    assert findings["python"].found.startswith("3.")
    assert findings["jax"].found == "1.2.3"
    assert findings["jax devices"].found == "cpu:0"
    assert findings["movie_reviews"].found.startswith("not downloaded")
    assert findings[f"runs in {here / 'runs'}"].next.startswith("start with `ceil-jax demo`")
    assert not [f for f in findings.values() if f.broken]
    assert main(["doctor", "--out", str(here / "runs")]) == 0
    assert "what to do next:" in capsys.readouterr().out
    assert not (here / "cache").exists() and not (here / "runs").exists()


def test_caches_and_runs_are_measured(here):
    cache, runs = here / "cache", here / "runs"
    for file, size in (("packages/movie_reviews/a", 1_500_000), ("xla/b", 500_000)):
        (cache / file).parent.mkdir(parents=True)
        (cache / file).write_bytes(bytes(size))
    for stage, files in (("vectors-1", ["key.json", "done.json"]), ("ceil-2", ["key.json"])):
        (runs / stage).mkdir(parents=True)
        for file in files:
            (runs / stage / file).write_bytes(bytes(100_000))
    findings = found(runs)
    assert findings["cache"].found == f"{cache}, 2.0 MB; deleting it is safe"
    assert findings["movie_reviews"].found == "1.5 MB (MIT)"
    assert findings[f"runs in {runs}"].found == "2 stages, 1 unfinished, 0 reports, 0.3 MB"
    assert "continues where it stopped" in findings[f"runs in {runs}"].next
    (runs / "report-films-1").mkdir()
    (runs / "report-films-1" / "report.html").touch()
    (runs / "ceil-2" / "done.json").touch()
    assert found(runs)[f"runs in {runs}"].next == f"open {runs / 'report-films-1' / 'report.html'}"


def test_without_torch(here, monkeypatch):
    monkeypatch.setattr(doctor, "_version", lambda package: "" if "torch" in package else "1.2.3")
    findings = found(here)
    assert findings["torch"].found == "not installed; pip install 'ceil-jax[lm]' if you need it"
    assert "torch devices" not in findings


def test_what_breaks_is_said_and_exits_1(here, monkeypatch, capsys):
    probes = {
        "jax": 'import sys; sys.stderr.write("CUDA plugin error: no driver\\n"); print(json.dumps(["cpu:0"]))',
        "torch": 'import os, sys; sys.stderr.write("half a line"); sys.stderr.flush(); os.abort()',
    }
    monkeypatch.setattr(doctor, "PROBES", probes)
    findings = found(here)
    assert findings["jax devices"] == (
        "jax devices",
        "cpu:0",
        "its CUDA plugin does not start: match the extra, cuda or cuda12, to the driver",
        True,
    )
    assert findings["torch devices"].broken
    assert findings["torch devices"].found == "asking for them failed: half a line"
    assert main(["doctor", "--out", str(here)]) == 1
    assert "! jax devices" in capsys.readouterr().out


def test_a_probe_that_hangs_is_ended(here, monkeypatch):
    monkeypatch.setattr(doctor, "PROBES", {"jax": "import time; time.sleep(60)"})
    monkeypatch.setattr(doctor, "PROBE_SECONDS", 0.2)
    assert found(here)["jax devices"].found == "no answer in 0.2 s"


def test_a_cache_that_cannot_be_made(here, monkeypatch):
    (here / "file").write_text("")
    monkeypatch.setenv("CEIL_JAX_CACHE", str(here / "file" / "cache"))
    finding = found(here)["cache"]
    assert (finding.broken, finding.next) == (True, "set CEIL_JAX_CACHE to a folder you can write to")


def test_the_real_probes_answer():
    for code in doctor.PROBES.values():
        done = subprocess.run(
            [sys.executable, "-c", f"import json; {code}"], capture_output=True, text=True, check=True
        )
        names = json.loads(done.stdout.splitlines()[-1])
        assert names and all(isinstance(name, str) for name in names)

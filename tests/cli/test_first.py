"""A run that will fail, fails first and in few lines."""

import importlib.util
import os
import re
import socket
import subprocess
import sys
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from lm_server import QUICK

from ceil_jax.cli.data_flags import NO_OWN_DATA
from ceil_jax.cli.first import check_first
from ceil_jax.cli.main import main
from ceil_jax.errors import UserError
from ceil_jax.lm.tiny import TinyLM
from ceil_jax.pipeline.config import RunConfig
from ceil_jax.pipeline.models import Models
from ceil_jax.store.hub import go_offline_without_hub

LOCAL = RunConfig(encoder="tiny", lm="tiny")


@pytest.mark.parametrize(
    ("settings", "module", "extra"),
    [
        ({"lm": "SmolLM2-135M-Instruct"}, "torch", "lm"),
        ({"lm": "http://127.0.0.1:1/v1"}, "openai", "endpoint"),
        ({"engine": "ray"}, "ray", "ray"),
        ({}, "matplotlib", "plots"),
    ],
)
def test_a_library_that_is_missing_is_named_before_anything_runs(
    monkeypatch, settings, module, extra
):
    there = importlib.util.find_spec
    needed = () if settings else (module,)
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == module else there(name)
    )
    with pytest.raises(
        UserError, match=rf"^{module} is not installed; pip install 'ceil-jax\[{extra}\]'$"
    ):
        check_first(replace(LOCAL, **settings), NO_OWN_DATA, *needed)
    check_first(LOCAL)


def test_without_the_hub_a_hub_model_ends_in_one_line_before_anything_is_encoded(
    tmp_path, reviews, apart
):
    """Nothing listens at the hub's address; the libraries would try five times, for half a
    minute. None of them is imported."""
    arguments = ["compare", "--data", reviews(), "--method", "topk", "--out", tmp_path / "runs"]
    arguments += ["--encoder", "tiny", "--lm", "nobody/no-such-model"]
    environment = os.environ | {
        "HF_ENDPOINT": "http://127.0.0.1:9",
        "HF_HOME": str(tmp_path / "cache"),
    }
    environment.pop("HF_HUB_OFFLINE", None)
    began = time.monotonic()
    done = apart(*arguments, env=environment)
    lines = done.stderr.splitlines()
    assert done.returncode == 2
    said = "the hub cannot be reached; looking for nobody/no-such-model in its cache only"
    assert re.match(rf"\d\d:\d\d:\d\d {said}", lines[0])
    assert lines[-1].startswith("ceil-jax: --lm nobody/no-such-model: the hub cannot be reached")
    assert len(lines) == 2
    assert not list((tmp_path).glob("runs/vectors-*"))
    assert time.monotonic() - began < 20


def test_a_model_in_the_hubs_cache_needs_no_hub(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    repository = tmp_path / "models--somebody--there"
    for file, content in (("refs/main", "0123abcd"), ("snapshots/0123abcd/config.json", "{}")):
        (repository / file).parent.mkdir(parents=True)
        (repository / file).write_text(content)
    for encoder, cached in (("somebody/there", True), ("somebody/nowhere", False)):
        monkeypatch.setenv("HF_HUB_OFFLINE", "")
        with nullcontext() if cached else pytest.raises(UserError, match=f"--encoder {encoder}: "):
            check_first(replace(LOCAL, encoder=encoder))
        assert os.environ["HF_HUB_OFFLINE"] == "1"


@pytest.mark.parametrize(
    "hub", ["http://127.0.0.1:9", "https://hub.invalid", "no address", "silent"]
)
def test_a_hub_that_does_not_answer_is_left_alone(monkeypatch, hub):
    monkeypatch.setattr("ceil_jax.store.hub.SECONDS", 0.2)
    monkeypatch.setenv("HF_HUB_OFFLINE", "")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{port}" if hub == "silent" else hub)
        assert go_offline_without_hub(["owner/name"])
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    assert not go_offline_without_hub(["owner/name"]), "who says that there is a hub has one"


def test_a_hub_that_answers_is_asked(monkeypatch, server, address):
    monkeypatch.setenv("HF_HUB_OFFLINE", "")
    monkeypatch.setenv("HF_ENDPOINT", address)
    assert not go_offline_without_hub(["owner/name"])


def test_a_server_is_asked_what_it_can_do_before_data_are_read(address, server):
    models = check_first(replace(LOCAL, lm=f"{address}#tiny", endpoint=QUICK))
    asked = len(server.requests)
    assert asked > 1
    assert models.lm.get().can_score
    check_first(LOCAL)
    assert len(server.requests) == asked
    server.change = lambda path, request, answer: (404, {})
    with pytest.raises(UserError, match="An address often ends in /v1"):
        check_first(replace(LOCAL, lm=f"{address}#tiny", endpoint=QUICK), NO_OWN_DATA)


@pytest.mark.parametrize("name", ["data", "validation"])
def test_a_missing_file_is_named_before_a_server_is_asked(tmp_path, reviews, name):
    file = replace(NO_OWN_DATA, **({"data": Path(reviews())} | {name: tmp_path / "missing.csv"}))
    with pytest.raises(UserError, match=r"^no file .*missing\.csv$"):
        check_first(replace(LOCAL, lm="http://127.0.0.1:1/v1"), file)


def test_a_missing_encoder_ends_the_command_before_the_lm_is_loaded(capsys, tmp_path, reviews):
    arguments = [
        "compare",
        "--data",
        reviews(),
        "--encoder",
        "nowhere",
        "--out",
        str(tmp_path / "runs"),
    ]
    # bm25 alone would answer all queries before the encoder is asked for
    assert main([*arguments, "--lm", "tiny", "--method", "bm25", "topk"]) == 2
    assert "unknown encoder 'nowhere'" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("command", "flags", "message"),
    [
        ("tune", ["--metric", "acuracy"], "unknown metric 'acuracy'; did you mean 'accuracy'?"),
        ("tune", ["--method", "topp"], "unknown method 'topp'; did you mean 'topk'?"),
        ("tune", ["--encoder", "nowhere", "--method", "topk"], "unknown encoder 'nowhere'"),
        ("compare", ["--metric", "acuracy"], "unknown metric 'acuracy'"),
        ("compare", ["--template", "{inptu} is {output}"], "inptu"),
        ("export", ["--method", "topp"], "unknown method 'topp'"),
        ("compare", ["--out", "mine.csv"], "mine.csv is a file; name a folder"),
    ],
)
def test_what_cannot_be_is_refused_before_any_model_reads(
    command, flags, message, reviews, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(TinyLM, "__init__", lambda *_, **__: pytest.fail("the LM was loaded"))
    folder = ["selector"] if command == "export" else []
    given = ["--data", reviews(), "--lm", "tiny", "--encoder", "tiny", *flags]
    assert main([command, *folder, *given]) == 2
    assert message in capsys.readouterr().err.strip().splitlines()[-1]
    assert not Path("runs").exists()


@pytest.mark.parametrize("command", ["compare", "tune", "export selector"])
def test_a_refusal_does_not_wait_for_jax(command, reviews):
    """It takes a second to import, and the refusal of a flag half of one."""
    program = (
        "import sys\nfrom ceil_jax.cli.main import main\n"
        "print(main(sys.argv[1:]), {'jax', 'torch', 'sklearn'}.isdisjoint(sys.modules))"
    )
    given = [*command.split(), "--data", reviews(), "--input", "inptu", "--lm", "tiny"]
    done = subprocess.run(
        [sys.executable, "-c", program, *given], capture_output=True, text=True, check=False
    )
    assert "no column 'inptu'" in done.stderr
    assert done.stdout == "2 True\n"


def test_a_server_without_scores_is_asked_first(tmp_path, capsys, monkeypatch):
    """The data cannot be read: what the server cannot do is known before they are."""

    class Chat(TinyLM):
        can_score = False

    monkeypatch.setattr(Models, "load_lm", lambda self, lm: Chat())
    (tmp_path / "empty.csv").touch()
    given = ["--data", str(tmp_path / "empty.csv"), "--lm", "http://127.0.0.1:1/v1#m"]
    for command in (["compare", "--method", "epr"], ["tune", "--method", "ceil"]):
        assert main([*command, *given]) == 2
        said = capsys.readouterr().err.strip().splitlines()[-1]
        assert "gives no log-probabilities" in said


@pytest.mark.parametrize(
    ("system", "why"),
    [
        ("@none.txt", "--system @none.txt: No such file or directory"),
        ("@/dev/zero", "--system @/dev/zero: has more than 1,048,576 bytes"),
        ("Which {team}?", r"names {team}; the only name allowed in braces is {labels}"),
        ("JSON: {", "found a single '{'"),
        ("word " * 300, "tokens, and --token-budget leaves 50 besides the answer; raise it"),
    ],
)
def test_an_instruction_that_cannot_be_sent_ends_in_one_line_before_anything_is_read(
    tmp_path, reviews, capsys, monkeypatch, system, why
):
    monkeypatch.chdir(tmp_path)
    out = ["--out", str(tmp_path / "runs"), "--encoder", "tiny", "--lm", "tiny"]
    flags = [
        "--data",
        str(reviews()),
        "--method",
        "topk",
        "--token-budget",
        "50",
        "--system",
        system,
    ]
    assert main(["compare", *flags, *out]) == 2
    [line] = capsys.readouterr().err.splitlines()[-1:]
    assert why in line
    assert not (tmp_path / "runs").exists()

"""The commands of a user who has a chat server: none needs a flag about the server."""

import json
import re
from pathlib import Path

import pytest
from lm_server import Server, listening

from ceil_jax import CeilSelector
from ceil_jax.cli.main import main

TEAMS = ("billing", "hardware", "access")
LOST = "no label at all"


@pytest.fixture
def chat():
    """A server that has /chat/completions alone; it answers with the label of the prompt's last
    example, as "Team: Billing.", and without an example with no label."""
    server = Server(key="secret")

    def change(path, request, answer):
        if path != "/v1/chat/completions":
            return 404, {"error": {"message": "no such path"}}
        turns = [turn["content"] for turn in request["messages"] if turn["role"] == "assistant"]
        text = f"Team: {turns[-1].capitalize()}." if turns else LOST
        answer["choices"][0]["message"]["content"] = text
        return answer

    server.change = change
    with listening(server) as address:
        yield server, address


@pytest.fixture
def tickets(tmp_path, monkeypatch):
    """150 tickets with ids of their own, and the folder in which the command runs."""
    words = {"billing": "an invoice", "hardware": "a printer", "access": "a password"}
    rows = [
        f"T-{1000 + i},there is {words[TEAMS[i % 3]]} that I ask about number {i},{TEAMS[i % 3]}"
        for i in range(150)
    ]
    (tmp_path / "tickets.csv").write_text("\n".join(["id,ticket,team", *rows]) + "\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MY_KEY", "secret")
    return ["--data", "tickets.csv", "--input", "ticket", "--output", "team", "--encoder", "tiny"]


def lm(address):
    return ["--lm", f"{address}#tiny", "--endpoint.api-key-env", "MY_KEY"]


@pytest.mark.parametrize("metric", [[], ["--metric", "accuracy"]])
def test_labels_are_compared_with_no_flag_about_the_server(chat, tickets, capsys, metric):
    _, address = chat
    methods = ["--method", "zero", "topk", "free", "free_map", "classifier"]
    assert main(["compare", *tickets, *lm(address), *metric, *methods, "--json"]) == 0
    table = json.loads(capsys.readouterr().out)
    rows = {row["method"]: row for row in table["rows"]}
    assert list(rows) == methods[1:]
    assert rows["topk"]["value"] > 90
    # its text without examples means no label, which is wrong and is counted
    assert rows["zero"]["value"] == 0
    assert rows["zero"]["troubles"] == {"no option": table["queries"]}
    assert rows["topk"]["troubles"] == {}


def test_a_dry_run_estimates_what_a_server_would_read(chat, tickets, capsys):
    server, address = chat
    command = ["compare", *tickets, *lm(address), "--method", "zero", "topk", "--price", "1,2"]
    assert main([*command, "--dry-run"]) == 0
    printed = capsys.readouterr().out
    [expected] = re.findall(r"about ([\d,]+) LM tokens to read", printed)
    # a token for four characters, of prompts whose tokens the server counts in its own way
    prompts = 15 * (2 * len("there is an invoice that I ask about number 100"))
    assert prompts / 4 < int(expected.replace(",", "")) < 4 * prompts
    assert re.search(r"about \$\d", printed)
    assert "this machine, without the time of the LM: less than 10 s of reading, enc" in printed
    assert not any("ask about number" in str(request) for request in server.requests)
    assert not Path("runs").exists()


def test_a_default_comparison_says_what_a_chat_cannot_teach(chat, tickets, capsys):
    _, address = chat
    assert main(["compare", *tickets, *lm(address), "--shots", "2", "--json"]) == 0
    table = json.loads(capsys.readouterr().out)
    assert {"free", "free_map", "classifier"} <= {row["method"] for row in table["rows"]}
    assert re.search(
        r"gives no log-probabilities, on which EPR, .*CEIL would be trained", table["note"]
    )


def test_tune_ends_in_a_selector_that_keeps_the_files_ids(chat, tickets, capsys):
    _, address = chat
    assert main(["tune", *tickets, *lm(address), "--lm-tokens", "100000", "--json"]) == 0
    outcome = json.loads(capsys.readouterr().out)
    assert len(outcome["race"]) > 2
    assert max(final["value"] for final in outcome["finals"]) > 90
    [folder] = Path("runs").glob("tune-tickets-*/selector")
    selector = CeilSelector.from_pretrained(folder)
    assert f"k={selector.k})" in (folder / "README.md").read_text()
    nearest, *_ = selector.select("there is a printer that I ask about", k=2)
    assert nearest.id.startswith("T-1")
    selector.remove([nearest.id])
    # rows and queries have the columns of the file
    ticket = "there is a printer that I ask about in the hall"
    [added] = selector.add([{"id": "T-new", "ticket": ticket, "team": nearest.output}])
    [chosen] = selector.select({"ticket": ticket.replace("that", "which")}, k=1)
    assert chosen.id == added == "T-new"
    selector.remove([added])
    left = selector.select("there is a printer that I ask about", k=5)
    assert nearest.id not in {example.id for example in left}


def test_chat_and_completions_are_kept_apart(chat, tickets, capsys):
    """A reading through one interface is not an answer to a request through the other."""
    server, address = chat
    server.change = lambda path, request, answer: answer
    command = ["compare", *tickets, *lm(address), "--method", "topk", "--json"]
    assert main(command) == 0
    server.requests.clear()
    assert main([*command, "--endpoint.chat"]) == 0
    assert any(path == "/v1/chat/completions" for path, _ in server.requests)
    assert len(server.requests) > 5

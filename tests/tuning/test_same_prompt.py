"""What a search judges is what an application sends: the messages at the server, those of the
selector that was written, and those of the program that is printed."""

import io
from contextlib import redirect_stdout
from dataclasses import replace

import pytest
from films import SMALL
from lm_server import Server, listening
from refusing import refused

from ceil_jax import CeilSelector, Example, Task, Template
from ceil_jax.lm.prompts import NAMES_LABELS
from ceil_jax.methods.fixed import FixedPrompt
from ceil_jax.methods.registry import ROWS
from ceil_jax.pipeline.export import export_row
from ceil_jax.tuning.candidates import Candidate
from ceil_jax.tuning.config import TuneConfig
from ceil_jax.tuning.search import Search
from ceil_jax.tuning.write import program_of, write_outcome

TEAMS = {
    "access": ["password", "login", "account", "badge", "token", "reset", "locked", "expired"],
    "billing": ["invoice", "charge", "refund", "receipt", "card", "amount", "fee", "payment"],
    "hardware": ["printer", "laptop", "screen", "cable", "dock", "noise", "battery", "keyboard"],
}
LABELS = tuple(TEAMS)


def ticket(i):
    """A ticket, which no other one repeats word for word."""
    team = LABELS[i % 3]
    words = TEAMS[team]
    picked = [words[(i // 3 * step + i) % 8] for step in (1, 3, 5)]
    text = f"about my {' and '.join(picked)}, case {i * i} of office {i % 7}"
    return Example(f"T-{i}", text, team, LABELS)


TICKETS = [ticket(i) for i in range(180)]
TASK = Task(
    "tickets", TICKETS[:150], TICKETS[150:], Template("Ticket: {input}\nTeam: {output}"), "accuracy"
)
SEARCH = TuneConfig(method=("zero", "topk", "dpp", "free", "fixed"), ks=(2, 4), lm_tokens=100_000)


@pytest.fixture
def server():
    """A server that has /chat/completions and a list of models alone, and answers with the last example's label."""
    made = Server()

    def change(path, request, answer):
        if path == "/v1/models":
            return answer
        if path != "/v1/chat/completions":
            return 404, {"error": {"message": "no such path"}}
        turns = [turn["content"] for turn in request["messages"] if turn["role"] == "assistant"]
        answer["choices"][0]["message"]["content"] = turns[-1] if turns else "access"
        return answer

    made.change = change
    with listening(made) as address:
        yield made, address


def test_the_program_names_the_model_that_the_server_lists(server, tmp_path):
    _, address = server
    search = search_at(address, tmp_path / "runs", lm=address)
    assert "model='tiny'" in program_of(search, tmp_path / "selector")


def search_at(address, out, task=TASK, **settings):
    config = replace(SMALL, **{"lm": f"{address}#tiny", "out": out, **settings})
    return Search(config.with_method(FixedPrompt, sets=2, rows=2), task, SEARCH)


def asked(server):
    """The messages of each request."""
    return [body["messages"] for path, body in server.requests if path == "/v1/chat/completions"]


def test_the_messages_of_the_final_rows_are_those_of_the_selector(server, tmp_path):
    made, address = server
    search = search_at(address, tmp_path / "runs")
    outcome = search.run()
    files = write_outcome(search, outcome, tmp_path / "tune")
    selector = CeilSelector.from_pretrained(files.selector)
    queries = search.final[: outcome.finals.rows]
    read = asked(made)
    assert len(queries) > 20
    for query in queries:
        messages = selector.select(query.input).messages
        assert messages in read
        assert messages[0] == {
            "role": "system",
            "content": NAMES_LABELS.format(labels="access, billing, hardware"),
        }
        assert messages[-1] == {"role": "user", "content": f"Ticket: {query.input}\nTeam:"}
    first = selector.select(queries[0].input).messages
    assert list(outcome.example.prompt) == first
    # the page shows them role by role
    page = files.page.read_text()
    assert page.index("<dt>system</dt>") < page.index("<dt>user</dt>")
    assert 'id="copy"' in page

    # the selector's program asks the same server with the same messages
    made.requests.clear()
    program = program_of(search, files.selector)
    out = io.StringIO()
    with redirect_stdout(out):
        exec(program, {})
    [sent] = asked(made)
    assert sent == selector.select("a new text").messages
    assert out.getvalue().strip() in LABELS
    assert len(program.splitlines()) <= 12


@pytest.mark.parametrize("method", SEARCH.method)
def test_every_candidate_is_written_as_it_is_judged(server, tmp_path, method):
    _, address = server
    search = search_at(address, tmp_path / "runs", system="One of {labels}: {{x}}.")
    candidate = Candidate(ROWS[method], 0 if method == "zero" else 4)
    prompts = search.field.enter(candidate, search.final).prompts
    setup, row = search.field.setup_and_row(candidate)
    export_row(search.field.run, setup, row, tmp_path / "selector")
    selector = CeilSelector.from_pretrained(tmp_path / "selector")
    for query, prompt in zip(search.final, prompts, strict=True):
        assert selector.select(query.input).messages == list(prompt)
    assert prompts[0][0]["content"] == "One of access, billing, hardware: {x}."


def test_a_text_is_the_same_text(server, tmp_path):
    made, address = server
    search = search_at(address, tmp_path / "runs", form="text", system="Which team?")
    outcome = search.run()
    files = write_outcome(search, outcome, tmp_path / "tune")
    selector = CeilSelector.from_pretrained(files.selector)
    for query in search.final[: outcome.finals.rows]:
        text = selector.select(query.input).prompt
        assert text.startswith("Which team?\n")
        assert [{"role": "user", "content": text}] in asked(made)
    assert "'content': chosen.prompt" in program_of(search, files.selector)


def test_langchain_lets_the_messages_through(tmp_path):
    from langchain_core.messages import convert_to_openai_messages
    from langchain_core.messages.utils import convert_to_messages

    selector = CeilSelector.from_examples(TICKETS, encoder="tiny", system="One of {labels}.")
    messages = selector.select("my {card}", k=3).messages
    assert convert_to_openai_messages(convert_to_messages(messages)) == messages


def test_labels_are_named_only_where_outputs_are_labels(server, tmp_path):
    _, address = server
    rows = [replace(row, output=f"note {row.id}", choices=()) for row in TICKETS]
    free = replace(TASK, train=rows[:150], validation=rows[150:], metric="exact_match")
    assert search_at(address, tmp_path, free).field.base.prompt.system == ""
    assert search_at(address, tmp_path, system="").field.base.prompt.system == ""
    with refused(r"names \{labels\}, and the outputs are not labels"):
        search_at(address, tmp_path, free, system="One of {labels}.")

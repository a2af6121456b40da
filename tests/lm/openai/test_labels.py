"""log P of labels behind a chat server: what is read of first tokens, and what EPR and CEIL learn
from it."""

import doctest
import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from films import SMALL, TASK
from lm_server import QUICK
from refusing import refused

from ceil_jax.lm import TinyLM, letters, load_lm
from ceil_jax.lm.letters import LETTERS, lettered, with_letters
from ceil_jax.lm.messages import Messages
from ceil_jax.lm.openai import labels
from ceil_jax.lm.openai.labels import first_tokens, label_log_probs, label_of
from ceil_jax.lm.prompts import Prompt
from ceil_jax.methods.registry import ROWS, usable_with
from ceil_jax.pipeline import row_stages
from ceil_jax.pipeline.models import CountingModels
from ceil_jax.pipeline.plan import plan
from ceil_jax.pipeline.setup import open_run
from ceil_jax.tasks.example import Example

CHAT = replace(QUICK, chat=True)


@pytest.mark.parametrize("module", [labels, letters])
def test_the_examples_in_the_documentation(module):
    assert doctest.testmod(module).failed == 0


def top(*pairs, chosen=None):
    """The choices of an answer with these first tokens."""
    entries = [{"token": token, "logprob": log_prob} for token, log_prob in pairs]
    first = {"token": pairs[0][0] if chosen is None else chosen, "top_logprobs": entries}
    return [{"logprobs": {"content": [first]}}]


def test_what_is_read_of_first_tokens():
    assert first_tokens(top(("a", -0.5), ("b", -2))) == [("a", -0.5), ("b", -2.0)]
    # an answer without a token, and one that a filter has refused
    assert first_tokens([{"logprobs": {"content": []}}]) == []
    assert first_tokens([{"finish_reason": "content_filter"}]) == []


@pytest.mark.parametrize(
    "choices",
    [
        top(("a", -2), ("b", -0.5)),
        top(("a", math.nan)),
        top(("a", -math.inf)),
        top(("a", -0.5), chosen="c"),
        [{"logprobs": None}],
        [{}],
        [],
    ],
)
def test_other_first_tokens_are_refused(choices):
    with pytest.raises((LookupError, TypeError, ValueError)):
        first_tokens(choices)


@pytest.mark.parametrize(
    ("token", "label"),
    [
        ("mobile", "mobile app"),
        (" mobile", "mobile app"),
        ("Mo", "mobile app"),
        ("b", None),
        ("bi", "billing"),
        ("billing.", None),
        ("", None),
        ("\n", None),
    ],
)
def test_a_token_counts_for_the_one_label_that_it_begins(token, label):
    assert label_of(token, ["billing", "mobile app", "bonus"]) == label


def test_labels_outside_the_top_share_the_rest():
    names = ("good", "bad", "dull", "warm")
    found = [("go", 0.5), (" good", 0.1), ("bad", 0.2), ("x", 0.1)]
    found = [(token, math.log(p)) for token, p in sorted(found, key=lambda one: -one[1])]
    np.testing.assert_allclose(np.exp(label_log_probs(found, names)), [0.6, 0.2, 0.05, 0.05])
    # none of them has more than the least likely token that was seen
    few = [("good", math.log(0.5)), ("x", math.log(0.02))]
    np.testing.assert_allclose(np.exp(label_log_probs(few, names)), [0.5, 0.02, 0.02, 0.02])
    # a token in a label's own case counts, and one in another case only if there is none
    cases = [("Good", math.log(0.5)), ("good", math.log(0.3)), ("BAD", math.log(0.1))]
    np.testing.assert_allclose(np.exp(label_log_probs(cases, names)), [0.3, 0.1, 0.05, 0.05])
    # without a token nothing is known
    assert np.exp(label_log_probs([], names)) == pytest.approx(np.full(4, 0.25))
    sure = [("good", 0.0), ("x", -9999.0)]
    assert np.isfinite(label_log_probs(sure, names)).all()


NAMES = ("good", "bad", "dull")
PROMPT = Prompt(TASK.template, form="turns")


def films(count):
    """Chats about films, each with an example before the query."""
    words = ["slow", "dull", "long", "warm", "bright", "good", "bad", "odd"]
    rng = np.random.default_rng(0)
    chats = []
    for _ in range(count):
        shown = [f"a {' '.join(rng.permutation(words)[:3])} film" for _ in range(3)]
        turns = [
            turn
            for text in shown
            for turn in (
                {"role": "user", "content": f"{text}. It is"},
                {"role": "assistant", "content": str(rng.choice(NAMES))},
            )
        ]
        chats.append(Messages([*turns, {"role": "user", "content": "a film. It is"}]))
    return chats


def test_scores_are_in_the_order_of_exact_ones(server, address):
    server.weighs = 20
    lm = load_lm(f"{address}#tiny", endpoint=CHAT)
    assert lm.can_weigh
    assert not lm.can_score
    chats = films(60)
    found = lm.choice_log_likelihood(chats, [NAMES] * len(chats))
    read = ["\n".join(turn["content"] for turn in chat) for chat in chats]
    words = [f" {name}" for name in NAMES]
    both = zip(
        TinyLM().choice_log_likelihood(read, [words] * len(chats)),
        TinyLM().choice_log_likelihood(read, [NAMES] * len(chats)),
        strict=True,
    )
    exact = np.array([np.logaddexp(spaced, plain) for spaced, plain in both])[:, 0]
    scores = np.array(found)[:, 0]
    apart = [
        (i, j)
        for i, j in itertools.combinations(range(len(chats)), 2)
        if abs(exact[i] - exact[j]) > 0.1
    ]
    alike = [(scores[i] > scores[j]) == (exact[i] > exact[j]) for i, j in apart]
    assert len(apart) > 1000
    assert np.mean(alike) >= 0.95
    assert lm.choose(chats, [NAMES] * len(chats)).tolist() == np.argmax(found, axis=1).tolist()
    # one token an answer
    assert server.requests[-1][1]["max_tokens"] == 1


def leaves_out(path, request, answer):
    for choice in answer.get("choices", []):
        choice.pop("logprobs", None)
    return answer


def ascends(path, request, answer):
    for choice in answer.get("choices", []):
        if "logprobs" in choice:
            choice["logprobs"]["content"][0]["top_logprobs"].reverse()
    return answer


def thinks_first(path, request, answer):
    for choice in answer.get("choices", []):
        if "logprobs" in choice:
            entry = {"token": "<think>", "logprob": -0.01}
            choice["logprobs"]["content"] = [{**entry, "top_logprobs": [entry]}]
    return answer


def fails(path, request, answer):
    return (500, {"error": "no"}) if "logprobs" in request else answer


@pytest.mark.parametrize("change", [leaves_out, ascends, thinks_first, fails])
def test_a_chat_whose_first_tokens_say_nothing_weighs_no_labels(server, address, waits, change):
    server.weighs = 20
    server.change = change
    lm = load_lm(f"{address}#tiny", endpoint=CHAT)
    assert not lm.can_weigh
    with refused("chat gives no log-probabilities of a prompt"):
        lm.choose(["a"], [NAMES])


@pytest.mark.parametrize("most", [100, 20, 5])
def test_as_many_tokens_are_asked_for_as_a_server_gives(server, address, most):
    server.weighs = most
    lm = load_lm(f"{address}#tiny", endpoint=CHAT)
    assert lm.can_weigh
    lm.choose(["a good good good"], [NAMES])
    assert server.requests[-1][1]["top_logprobs"] == most


def test_the_answers_own_token_alone_weighs_no_labels(server, address):
    server.weighs = 1
    assert not load_lm(f"{address}#tiny", endpoint=CHAT).can_weigh


def test_labels_are_told_apart_by_dictating_them(server, address):
    server.weighs = 20
    lm = load_lm(f"{address}#tiny", endpoint=CHAT)
    assert lm.tells_apart(NAMES)
    asked = len(server.requests)
    assert lm.tells_apart(NAMES)
    assert len(server.requests) == asked
    # the first token of both is "card"
    assert not lm.tells_apart(("card stolen", "card lost", "cash"))
    assert not lm.tells_apart(("good", "good enough"))
    assert not lm.tells_apart([f"{chr(97 + i)}x" for i in range(21)])


def test_answers_without_a_label_are_told_once(server, address, caplog):
    server.weighs = 20
    lm = load_lm(f"{address}#tiny", endpoint=CHAT)
    lm.choose(["well, it depends"] * 25, [NAMES] * 25)
    lm.choose(["well, it depends"] * 25, [NAMES] * 25)
    assert caplog.text.count("of 25 answers, 25 begin with no label") == 1


# letters


def test_letters_stand_for_the_labels_everywhere():
    prompt = with_letters(replace(PROMPT, system="Which is it?"), NAMES)
    rows = lettered([Example("1", "a slow film", "dull", NAMES)], NAMES)
    asked = Example("2", "a bright film", "", NAMES)
    assert [turn["content"] for turn in prompt.messages(asked, rows)] == [
        "Which is it?\nAnswer with the letter of the label alone: A: good, B: bad, C: dull.",
        "a slow film It is",
        "C",
        "a bright film It is",
    ]
    assert rows[0].choices == ("A", "B", "C")


def test_what_no_letter_stands_for_is_refused():
    many = tuple(f"team {i}" for i in range(27))
    with refused("27 labels; there are letters for 26"):
        lettered([Example("1", "a", many[0], many)], many)
    turns = '[{"role": "user", "content": "a"}, {"role": "assistant", "content": "good"}]'
    with refused("'1' is a conversation"):
        lettered([Example("1", "a", "good", NAMES, fields={"messages": turns})], NAMES)


class Weighing(TinyLM):
    """Gives log P of labels alone."""

    can_score = False
    can_weigh = True


def test_which_methods_can_be_used_with_labels_alone():
    rows = tuple(ROWS[name] for name in ("topk", "epr", "second_round", "ceil"))
    assert usable_with(Weighing(), rows, TASK).rows == rows
    programs = replace(TASK, train=[replace(row, choices=()) for row in TASK.train])
    for task, why in (
        (programs, "gives no log-probabilities of outputs that are not labels, on which EPR"),
        (named([f"team {i}" for i in range(27)]), "of more than 26 labels, on which EPR"),
    ):
        usable, left_out = usable_with(Weighing(), rows, task)
        assert usable == rows[:1]
        assert why in left_out
    letters_for_all = named([f"team {i}" for i in range(26)])
    assert usable_with(Weighing(), rows, letters_for_all).rows == rows


def named(names):
    """The films with other labels."""
    names = tuple(names)

    def changed(row):
        return replace(row, output=names[row.choices.index(row.output)], choices=names)

    return replace(
        TASK,
        train=[changed(row) for row in TASK.train],
        validation=[changed(row) for row in TASK.validation],
    )


# EPR, CEIL and λ behind a chat server


def opened(out, address, task, models=None, **settings):
    config = replace(SMALL, lm=f"{address}#tiny", endpoint=CHAT, out=out, **settings)
    return open_run(config, task, models)


def scoring(server):
    """The messages of the requests that score."""
    return [body["messages"] for _, body in server.requests if body.get("logprobs")]


@pytest.mark.parametrize(("names", "in_letters"), [(("bad", "good"), 0), (("film a", "film b"), 1)])
def test_epr_and_ceil_learn_behind_a_chat_server(
    server, address, tmp_path, moved_for_trained, names, in_letters
):
    server.weighs = 20
    task = named(names)
    planned_run, setup = opened(tmp_path, address, task, CountingModels(), trade_off="tuned")
    # what letters change, every scoring of the LM shows
    wanted = ("epr",) if in_letters else ("dpp", "epr", "second_round", "ceil")
    targets = [row_stages.choice(setup, setup.row(name)) for name in wanted]
    planned = plan(planned_run, targets)
    run, setup = opened(tmp_path, address, task, trade_off="tuned")
    server.requests.clear()
    targets = [row_stages.choice(setup, setup.row(name)) for name in wanted]
    for target in targets:
        assert run.get(target).positions.shape == (30, 3)
    # what is scored is the prompt that is answered; letters have a line more
    dictated = len(names) if not in_letters else 2
    asked = scoring(server)
    told = "Answer with the letter of the label alone: A: film a, B: film b."
    chats = [chat for chat in asked if chat[0]["role"] == "system"]
    assert len(asked) - len(chats) <= dictated + 4  # the words that are dictated
    for chat in chats:
        assert (chat[0]["content"].endswith(told)) == bool(in_letters)
        outputs = {turn["content"] for turn in chat if turn["role"] == "assistant"}
        assert outputs <= set(LETTERS[:2] if in_letters else names)
    # paid for by the server's tokens, as planned
    spent = run.cost(targets).tokens
    assert spent == pytest.approx(planned.tokens, rel=0.5)
    assert len({str(chat) for chat in chats}) == len(chats)
    # and kept
    server.requests.clear()
    again, setup = opened(tmp_path, address, task, trade_off="tuned")
    for target in [row_stages.choice(setup, setup.row(name)) for name in wanted]:
        again.get(target)
    assert not [chat for chat in scoring(server) if chat[0]["role"] == "system"]

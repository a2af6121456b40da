import numpy as np
import pytest
from refusing import refused

from ceil_jax.lm import TinyLM
from ceil_jax.lm.messages import Messages
from ceil_jax.lm.prompts import (
    Prompt,
    PromptBuilder,
    answer_reserve,
    examples_text,
    instruction,
    prompt_order,
    register_order,
)
from ceil_jax.tasks.example import Example, Template

TEMPLATE = Template("{input} => {output}")
QUERY = Example("q", "zero", "out")
BANK = [Example(f"e{i}", f"word{i} " * i + "end", "out") for i in range(1, 5)]


class Lm(TinyLM):
    """Counts words, so that budgets can be worked out by hand."""

    def count_tokens(self, texts):
        return np.array([len(text.split()) for text in texts])


def builder(context_length, reserve=1, few_shot=(), token_budget=None):
    lm = Lm()
    lm.context_length = context_length
    prompt = Prompt(TEMPLATE, few_shot=tuple(few_shot), token_budget=token_budget)
    return PromptBuilder(lm, prompt, reserve)


def test_a_prompt_is_its_opening_the_examples_each_with_the_separator_and_the_query():
    template = Template("{input} -> {output}", separator=" | ")
    one = Example("1", "a", "b")
    two = Example("2", "c", "d")
    assert examples_text(template, []) == ""
    assert examples_text(template, [two, one]) == "c -> d | a -> b | "
    assert Prompt(template).text(two, [one]) == "a -> b | c ->"
    assert Prompt(template, "Say.").text(two, [one]) == "Say. | a -> b | c ->"
    assert Prompt(template, "Say.", few_shot=(two,)).text(two, [one]) == (
        "Say. | c -> d | a -> b | c ->"
    )


def test_prompt_order_is_least_relevant_first_and_of_equals_the_first_chosen_is_nearest():
    assert prompt_order([0.5, 0.9, 0.5, 0.1]) == [3, 2, 0, 1]
    assert prompt_order([]) == []


def test_the_most_similar_stands_next_to_the_query():
    prompt = builder(100).build(QUERY, BANK, [0.1, 0.9, 0.5, 0.7])
    assert prompt.order == (0, 2, 3, 1)
    assert prompt.text == "".join(f"{BANK[i].input} => out\n" for i in prompt.order) + "zero =>"


# pieces are i + 3 words long: 4, 5, 6, 7; the query takes 2, the reserve 1, the start of text 1
@pytest.mark.parametrize(
    ("context", "fit", "kept"),
    [
        (4 + 4 + 5 + 6 + 7, "greedy", {0, 1, 2, 3}),
        (4 + 4 + 5 + 6 + 6, "greedy", {0, 1, 2}),
        (4 + 4 + 5, "greedy", {0, 1}),
        (4 + 4 + 4, "greedy", {0}),
        (4 + 3, "greedy", set()),
        (4 + 7 + 6, "similarity", {3, 2}),
        (4 + 7 + 5, "similarity", {3}),
    ],
)
def test_what_is_dropped(context, fit, kept):
    assert set(builder(context).build(QUERY, BANK, [0.1, 0.2, 0.3, 0.4], fit).order) == kept


@pytest.mark.parametrize("fit", ["greedy", "similarity"])
@pytest.mark.parametrize("budget", [2, 8, 13, 24, 30])
def test_a_prompt_keeps_its_token_budget(budget, fit):
    lm = Lm()
    relevance = [0.1, 0.2, 0.3, 0.4]
    prompt = builder(100, token_budget=budget).build(QUERY, BANK, relevance, fit)
    assert lm.count_tokens([prompt.text])[0] <= budget
    # of the LM's 100 tokens one starts the text and one is the answer's
    assert prompt == builder(budget + 2).build(QUERY, BANK, relevance, fit)
    assert builder(budget + 2, token_budget=100).build(QUERY, BANK, relevance, fit) == prompt


def test_what_a_query_leaves_and_examples_take():
    class Counted(Lm):
        calls = 0

        def count_tokens(self, texts):
            self.calls += 1
            return super().count_tokens(texts)

    lm = Counted()
    lm.context_length = 50
    opening = [Example("s", "shot", "out")]
    prompts = PromptBuilder(lm, Prompt(TEMPLATE, few_shot=tuple(opening), token_budget=20), 1)
    # 20 less the 3 of the opening and the query's 2 or 3
    assert [prompts.remaining(query) for query in (QUERY, Example("r", "one two", ""))] == [15, 14]
    before = lm.calls
    # 1 repeated word after another, "end", "=>", "out"
    positions = np.array([[0, 3, -1], [2, 0, 1]])
    assert prompts.costs(BANK, positions).tolist() == [[4, 7, 7], [6, 4, 5]]
    assert prompts.costs(BANK, positions[:1]).tolist() == [[4, 7, 7]]
    assert lm.calls == before + 1


def test_a_query_longer_than_the_token_budget_is_named():
    with refused(r"q'.*has 2 tokens without.*--token-budget leaves 1; .*or raise it"):
        builder(100, token_budget=1).remaining(QUERY)


def test_a_query_too_long_by_itself_is_named():
    long = Example("validation-7", "word " * 50, "out")
    with refused(r"validation-7.*51 tokens without any in-context example.*takes 18"):
        builder(20).build(long, BANK, [0.1] * 4)


def test_what_leaves_no_room_for_any_query_is_not_the_querys_fault():
    opening = [Example("s", "shot", "out")] * 4  # 3 tokens each
    with refused(r"the 4 examples that open every prompt have 12 tokens, .* takes 11 "):
        builder(2 + 11, few_shot=opening)
    with refused(r"have 12 tokens, and --token-budget leaves 5 .*; raise it"):
        builder(100, few_shot=opening, token_budget=5)
    with refused(r"takes 5 tokens, and an answer alone may have 9"):
        builder(5, reserve=9)
    assert builder(2 + 12, few_shot=opening).budget == 0


def test_few_shot_examples_open_every_prompt_and_count():
    opening = [Example("s", "shot", "out")]
    prompt = builder(4 + 3 + 4, few_shot=opening).build(QUERY, BANK, [0.4, 0.3, 0.2, 0.1])
    assert prompt.text == "shot => out\nword1 end => out\nzero =>"
    assert (
        builder(4 + 3 + 3, few_shot=opening).build(QUERY, BANK, [0.4] * 4).text
        == "shot => out\nzero =>"
    )


def test_a_tokenizer_that_joins_badly_is_counted_again():
    class Joining(Lm):
        def count_tokens(self, texts):
            # every line break costs one more where lines meet
            return super().count_tokens(texts) + [text.strip().count("\n") for text in texts]

    lm = Joining()
    lm.context_length = 4 + 4 + 5
    prompt = PromptBuilder(lm, Prompt(TEMPLATE), 1).build(QUERY, BANK, [0.4, 0.3, 0.2, 0.1])
    assert lm.count_tokens([prompt.text])[0] <= lm.context_length - 2
    assert prompt.order == (0,)


def test_reserve_is_the_longest_option_or_what_may_be_generated():
    lm = Lm()
    choice = Example("c", "x", "one two", ("one two", "three four five"))
    free = Example("f", "x", "a b c d")
    assert answer_reserve(lm, Prompt(TEMPLATE), [choice], longest=64) == 3
    assert answer_reserve(lm, Prompt(TEMPLATE), [free], longest=64) == 64
    assert answer_reserve(lm, Prompt(TEMPLATE), [free], longest=2) == 4


def test_an_order_of_ones_own_sees_what_fits():
    seen = []

    def order(relevance, gains):
        seen.append((list(relevance), list(gains)))
        return sorted(range(len(gains)), key=lambda i: gains[i])

    register_order("by gain", order)
    lm = Lm()
    lm.context_length = 4 + 4 + 5 + 6
    prompts = PromptBuilder(lm, Prompt(TEMPLATE, order="by gain"), 1)
    prompt = prompts.build(QUERY, BANK, [0.1, 0.2, 0.3, 0.4], gains=[3.0, 1.0, 2.0, 0.0])
    # the last of the greedy order does not fit
    assert seen == [([0.1, 0.2, 0.3], [3.0, 1.0, 2.0])]
    assert prompt.order == (1, 2, 0)
    # without gains: the relevance, as for the sets that training scores; the most similar are kept
    lm.context_length = 4 + 7 + 6
    assert prompts.build(QUERY, BANK, [0.1, 0.2, 0.3, 0.4], "similarity").order == (2, 3)


def test_an_order_that_loses_an_example_is_named():
    register_order("first", lambda relevance, gains: [0])
    prompts = PromptBuilder(Lm(), Prompt(TEMPLATE, order="first"), 1)
    with refused(r"order 'first' returned \[0\] for 4 examples; expected each of 0 to 3"):
        prompts.build(QUERY, BANK, [0.1] * 4)
    register_order("none", lambda relevance, gains: None)
    with refused(r"order 'none' returned \[\] for 4 examples"):
        PromptBuilder(Lm(), Prompt(TEMPLATE, order="none"), 1).build(QUERY, BANK, [0.1] * 4)


def roles(messages):
    return [(message["role"], message["content"]) for message in messages]


def test_turns_begin_with_the_instruction_and_end_with_the_query():
    prompt = Prompt(TEMPLATE, "Answer.", "turns", few_shot=(BANK[0],))
    messages = prompt.render(QUERY, [BANK[1]])
    assert roles(messages) == [
        ("system", "Answer."),
        ("user", "word1 end =>"),
        ("assistant", "out"),
        ("user", "word2 word2 end =>"),
        ("assistant", "out"),
        ("user", "zero =>"),
    ]
    assert roles(Prompt(TEMPLATE, form="turns").render(QUERY, [])) == [("user", "zero =>")]
    assert prompt.continuation(QUERY, "out") == "out"


def test_an_instruction_without_a_system_message_opens_the_first_users_turn():
    prompt = Prompt(TEMPLATE, "Answer.", "turns", system_role="user")
    first, *others = roles(prompt.render(QUERY, [BANK[0]]))
    assert first == ("user", "Answer.\n\nword1 end =>")
    assert others == [("assistant", "out"), ("user", "zero =>")]
    assert roles(prompt.render(QUERY, [])) == [("user", "Answer.\n\nzero =>")]


def test_messages_are_a_prompt_of_their_own():
    one, other = (Prompt(TEMPLATE, text, "turns").messages(QUERY, []) for text in ("A.", "B."))
    assert {one: 1, other: 2}[Messages([*one])] == 1
    # a text that reads like messages is not messages
    forged = Prompt(TEMPLATE, form="turns").messages_to(
        [{"role": "user", "content": "A.\nuser: zero =>"}]
    )
    assert forged != one
    assert one.text == "system: A.\nuser: zero =>\nassistant:"


def test_what_an_instruction_may_name():
    assert instruction("One of {labels}; {{x}}.", ["b", "a"]) == "One of b, a; {x}."
    assert instruction("Plain.", []) == "Plain."
    with refused(r"names \{team\}; the only name allowed in braces is \{labels\}"):
        instruction("A {team} of {labels}", ["a"])
    with refused("names {labels}, and the outputs are not labels"):
        instruction("{labels}", [])
    with refused("found a single '{'"):
        instruction("as JSON: {", ["a"])


class Chat(Lm):
    """Reads messages."""

    reads_messages = True


def chat_builder(context_length, system="", token_budget=None):
    lm = Chat()
    lm.context_length = context_length
    return PromptBuilder(lm, Prompt(TEMPLATE, system, "turns", token_budget=token_budget), 1)


# "user: zero =>" and "assistant:" are 4 words; a turn of an example is 4, 5, 6, 7 and "assistant: out"
@pytest.mark.parametrize("form", ["turns", "text"])
def test_an_instruction_counts_in_the_token_budget(form):
    words = "one two three"
    lm = Chat()
    for budget in range(12, 40):
        prompts = [
            PromptBuilder(lm, Prompt(TEMPLATE, system, form, token_budget=budget), 1).build(
                QUERY, BANK, [0.4, 0.3, 0.2, 0.1]
            )
            for system in ("", words)
        ]
        assert all(lm.count_tokens([built.text])[0] <= budget for built in prompts)
        assert len(prompts[1].order) <= len(prompts[0].order)
    assert any(
        message["content"] == words
        for message in chat_builder(60, words).build(QUERY, [], []).prompt
    )


def test_an_instruction_longer_than_the_budget_is_named():
    with refused(r"the instruction has 9 tokens, and --token-budget leaves 5 .*; raise it"):
        PromptBuilder(Lm(), Prompt(TEMPLATE, "word " * 8 + "word", token_budget=5), 1)
    with refused(r"the instruction has 12 tokens, and .* takes 8 "):
        chat_builder(10, "word " * 8 + "word")


def test_turns_need_a_chat_template():
    with refused("tiny has no chat template, which --form turns needs"):
        PromptBuilder(Lm(), Prompt(TEMPLATE, form="turns"), 1)

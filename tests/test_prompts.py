import pytest

from ceil_jax.errors import UserError
from ceil_jax.lm import TinyLM
from ceil_jax.prompts import PromptBuilder, answer_reserve
from ceil_jax.tasks.base import Example, Template

TEMPLATE = Template("{input} => {output}")
QUERY = Example("q", "zero", "out")
BANK = [Example(f"e{i}", f"word{i} " * i + "end", "out") for i in range(1, 5)]


class Lm(TinyLM):
    """Counts words, so that budgets can be worked out by hand."""

    def count_tokens(self, texts):
        import numpy as np

        return np.array([len(text.split()) for text in texts])


def builder(context_length, reserve=1, few_shot=()):
    lm = Lm()
    lm.context_length = context_length
    return PromptBuilder(lm, TEMPLATE, reserve, few_shot)


def test_the_most_similar_stands_next_to_the_query():
    prompt = builder(100).build(QUERY, BANK, [0.1, 0.9, 0.5, 0.7])
    assert prompt.order == (0, 2, 3, 1)
    assert prompt.text == "".join(f"{BANK[i].input} => out\n" for i in prompt.order) + "zero =>"


def test_of_equally_similar_ones_the_first_chosen_stands_nearest():
    assert builder(100).build(QUERY, BANK[:3], [0.5, 0.5, 0.5]).order == (2, 1, 0)


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


def test_a_query_too_long_by_itself_is_named():
    long = Example("validation-7", "word " * 50, "out")
    with pytest.raises(UserError, match=r"validation-7.*51 tokens without any in-context example.*takes 18"):
        builder(20).build(long, BANK, [0.1] * 4)


def test_few_shot_examples_open_every_prompt_and_count():
    opening = [Example("s", "shot", "out")]
    prompt = builder(4 + 3 + 4, few_shot=opening).build(QUERY, BANK, [0.4, 0.3, 0.2, 0.1])
    assert prompt.text == "shot => out\nword1 end => out\nzero =>"
    assert builder(4 + 3 + 3, few_shot=opening).build(QUERY, BANK, [0.4] * 4).text == "shot => out\nzero =>"


def test_a_tokeniser_that_joins_badly_is_counted_again():
    class Joining(Lm):
        def count_tokens(self, texts):
            # every line break costs one more where lines meet
            return super().count_tokens(texts) + [text.strip().count("\n") for text in texts]

    lm = Joining()
    lm.context_length = 4 + 4 + 5
    prompt = PromptBuilder(lm, TEMPLATE, 1).build(QUERY, BANK, [0.4, 0.3, 0.2, 0.1])
    assert lm.count_tokens([prompt.text])[0] <= lm.context_length - 2
    assert prompt.order == (0,)


def test_reserve_is_the_longest_option_or_what_may_be_generated():
    lm = Lm()
    choice = Example("c", "x", "one two", ("one two", "three four five"))
    free = Example("f", "x", "a b c d")
    assert answer_reserve(lm, TEMPLATE, [choice], longest=64) == 3
    assert answer_reserve(lm, TEMPLATE, [free], longest=64) == 64
    assert answer_reserve(lm, TEMPLATE, [free], longest=2) == 4

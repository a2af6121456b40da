"""Prices of tokens, by hand."""

import pytest
from refusing import refused

from ceil_jax.lm.price import Price, Usage, parse_price, usage_of


def words(texts):
    return [len(text.split()) for text in texts]


def test_a_beginning_that_all_prompts_share_comes_from_the_cache():
    usage = Usage(prompt=1000.0, beginning=800.0, answer=5.0)
    # 200 new tokens, 800 cached ones and 5 written, a thousand times, by the million
    assert Price(2.0, 10.0, 0.5).of_queries(usage) == pytest.approx(0.4 + 0.4 + 0.05)
    assert Price(2.0, 10.0).of_queries(usage) == pytest.approx(2.0 + 0.05)
    assert Price(2.0, 10.0).of_queries(usage, 1) == pytest.approx(2.05 / 1000)
    assert Price(2.0, 10.0).of_tokens(3e6, 1e6) == 16.0


def test_the_beginning_is_what_every_prompt_has():
    prompts = ["one two three a b", "one two three c", "one two four d"]
    usage = usage_of(prompts, ["x", "y z", ""], words)
    assert usage == (pytest.approx((5 + 4 + 4) / 3), 2.0, 1.0)
    # one query, or queries that are all alike, tell of no beginning
    assert usage_of(prompts[:1], ["x"], words).beginning == 0
    assert usage_of(prompts[:1] * 3, ["x"] * 3, words).beginning == 0
    assert usage_of(["one", "one two"], ["x", "y"], words).beginning == 1


@pytest.mark.parametrize(
    ("text", "price"),
    [
        ("0.15,0.6", Price(0.15, 0.6)),
        ("0.15,0.6,0.075", Price(0.15, 0.6, 0.075)),
        ("0,0", Price(0.0, 0.0)),
        ("$2, $8", Price(2.0, 8.0)),
        ("2,8,EUR", Price(2.0, 8.0, None, "EUR")),
        ("EUR 2,8,0.5", Price(2.0, 8.0, 0.5, "EUR")),
        ("¥300,1200", Price(300.0, 1200.0, None, "¥")),
    ],
)
def test_prices_are_read(text, price):
    assert parse_price(text) == price


@pytest.mark.parametrize(
    "text", ["", "1", "1,2,3,4", "-1,2", "nan,1", "inf,1", "1e3,2", "1,2,EUR,USD", "1;2", "a,b"]
)
def test_what_is_no_price_is_said_in_one_line(text):
    with refused(r"--price .*: expected IN,OUT or IN,OUT,CACHED, the price of a million tokens"):
        parse_price(text)


def test_amounts_show_two_digits_that_say_something():
    shown = [Price(1, 1).shown(money) for money in (0, 1234.5, 0.25, 0.0123, 0.000456)]
    assert shown == ["$0.00", "$1,234.50", "$0.25", "$0.012", "$0.00046"]
    assert Price(1, 1, currency="EUR").shown(2) == "2.00 EUR"

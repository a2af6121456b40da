"""The words of each script, worked out by hand."""

import re

import pytest

from ceil_jax import Example, build_retriever
from ceil_jax.retrieval.words import words
from ceil_jax.training.samplers import epr_candidates

ENGLISH = [
    "The film's 2nd part, well-known (since 1999), isn't bad_at_all: 3.5/5!",
    "Beyoncé’s “naïve” café — “über” … Señor Łódź ½ x² ﬁn ™",
    "",
]


@pytest.mark.parametrize("text", ENGLISH)
def test_words_of_english_are_runs_of_letters_and_digits_as_ever(text):
    assert words(text) == re.findall(r"\w+", text.lower())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # Chinese: each character and each pair; Latin letters between are a word
        ("改WiFi密码", ["改", "wifi", "密", "码", "密码"]),
        # Japanese: pairs, and Chinese characters singly; half-width and full-width forms are the
        # usual ones
        ("水はあつい", ["水", "水は", "はあ", "あつ", "つい"]),
        ("ｶﾞｽ ＡＢ１２", ["ガス", "ab12"]),
        # Korean: syllables and pairs within a blank-separated unit
        ("물을 줘", ["물", "을", "물을", "줘"]),
        # Thai: a vowel or tone mark stays on its letter; ไ, ก, ลั, บ
        ("ไกลับ", ["ไก", "กลั", "ลับ"]),
        ("ລາວ", ["ລາ", "າວ"]),
        ("ខ្មែរ", ["ខ្មែ", "មែរ"]),
        ("မြန်မာ", ["မြန်", "န်မာ"]),
        # Devanagari, Tamil, Bengali: vowel signs and virama are in the word, joiners are not
        ("हिन्दी में क्\u200dष", ["हिन्दी", "में", "क्ष"]),
        ("தமிழ் বাংলা", ["தமிழ்", "বাংলা"]),
        # Arabic: vowel points and the lengthening stroke go, forms of alef are one, prefixes come
        # off as well
        ("كِتَـــاب", ["كتاب"]),
        ("والكتاب", ["والكتاب", "كتاب"]),
        ("أحمد إلى", ["احمد", "الي"]),
        # Persian: ZWNJ divides a word from its ending
        ("کتاب\u200cها", ["كتاب", "ها"]),
        # Hebrew: points go; "the" comes off as well
        ("שָׁנָה", ["שנה"]),
        ("הבית", ["הבית", "בית"]),
        # digits of any script; Turkish İ; a decomposed é
        ("٣٤ ๕ १२", ["34", "5", "12"]),
        ("İZMİR cafe\u0301", ["izmir", "café"]),
        # what is not seen divides no word: a soft hyphen, marks of direction, joiners, selectors
        ("ca\u00adfé \u2067שלום\u2069", ["café", "שלום", "לום"]),
        ("Ko\u200brea\u200e na\u0131\u2061ve", ["korea", "naıve"]),
        ("葛\U000e0100飾", ["葛", "飾", "葛飾"]),
        # emoji: one token each, whatever the skin; a flag is one
        ("ok👍🏽👍 ❤️🇩🇪", ["ok", "👍", "👍", "❤", "🇩🇪"]),
        ("👩‍🚀", ["👩", "🚀"]),
    ],
)
def test_words_of_other_scripts(text, expected):
    assert words(text) == expected


@pytest.mark.parametrize(
    ("bank", "query", "found"),
    [
        (["我想取消订单", "怎么重置登录密码", "退款多久到账"], "我忘记登录密码了", 1),
        (["注文をキャンセル", "パスワードを忘れた", "返金はいつ"], "ログインパスワード", 1),
        (["ยกเลิกคำสั่งซื้อ", "ลืมรหัสผ่าน", "คืนเงินเมื่อไร"], "เปลี่ยนรหัสผ่าน", 1),
        (["주문을 취소하고 싶어요", "비밀번호를 잊었어요"], "비밀번호 재설정", 1),
        (["إلغاء الطلب", "نسيت كلمة المرور"], "كَلِمة مرور جديدة", 1),
        (["आदेश रद्द करें", "पासवर्ड भूल गया"], "पासवर्ड बदलें", 1),
        (["😡 late", "great 🎉"], "🎉🎉", 1),
        (["the bar", "the cafe\u0301"], "café", 1),
        (["the bar", "the café"], "CAFE\u0301\u200f?", 1),
        (["a bridge", "a wi\u00adfi network"], "wifi", 1),
    ],
)
def test_bm25_finds_the_example_that_shares_words(bank, query, found):
    examples = [Example(str(i), text, "x") for i, text in enumerate(bank)]
    [[best]] = build_retriever("bm25", examples).retrieve([Example("q", query, "")], 1)
    assert best.position == found
    assert best.relevance > 0


def test_queries_without_a_word_of_the_bank_are_counted_once(caplog):
    bank = [
        Example(str(i), text, text) for i, text in enumerate(["red fox", "blue sky", "red sky"])
    ]
    queries = [Example("a", "red", ""), Example("b", "zebra crossing", ""), Example("c", "?!", "")]
    build_retriever("bm25", bank).retrieve(queries, 1)
    [said] = [record.message for record in caplog.records]
    assert said.startswith("BM25: 2 of 3 queries share no word with the bank")
    assert "zebra crossing" in said
    caplog.clear()
    epr_candidates(bank, bank, 2)
    assert not caplog.records
    epr_candidates([Example("q", "red", "zebra")], bank, 2)
    assert "1 of 1 queries share no word" in caplog.text

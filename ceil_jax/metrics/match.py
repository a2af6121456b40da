"""Metrics for which an answer is right or wrong.

They are accuracy, exact match, the same number, and SQuAD's exact match.
"""

from __future__ import annotations

import json
import re
import string
import unicodedata

from ceil_jax.tasks.example import Example
from ceil_jax.tasks.written import only_number

_PUNCTUATION = str.maketrans("", "", string.punctuation)


def accuracy(prediction: str, example: Example) -> float:
    """Return 1 if the chosen option is the gold one, else 0."""
    return float(prediction == example.output)


def exact_match(prediction: str, example: Example) -> float:
    """Return 1 if the answer equals an accepted one, else 0.

    Blanks at the ends, the kind of line ends, and whether an accented letter is one character or
    two (Unicode's canonical equivalence) do not count. JSON objects and lists are compared by value.
    """
    answer = _canonical(prediction)
    golds = [_canonical(gold) for gold in _golds(example)]
    if answer in golds:
        return 1.0
    value = _json_value(answer)
    return float(value is not None and any(_json_value(gold) == value for gold in golds))


def _canonical(text: str) -> str:
    """Return a text in Unicode's normal form NFC, without white space at its ends.

    Line ends are line feeds.
    """
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    return unicodedata.normalize("NFC", lines).strip()


def _json_value(text: str) -> str | None:
    """A canonical text of a JSON object or list, equal for all of its spellings.

    None for any other text. 1 and 1.0 are one value; 1 and true are not, though Python says so.
    """
    if text[:1] not in ("{", "["):
        return None
    try:
        return json.dumps(json.loads(text, parse_float=_number), sort_keys=True)
    except (ValueError, RecursionError):
        return None


def _number(text: str) -> float:
    value = float(text)
    return int(value) if value.is_integer() else value


def number_match(prediction: str, example: Example) -> float:
    """Return 1 if the only number of the answer equals that of an accepted one, else 0: "It is
    1,250." is right where 1250.0 is. An answer with several numbers is wrong."""
    number = only_number(prediction)
    return float(number is not None and number in map(only_number, _golds(example)))


def squad_normalised(answer: str) -> str:
    """Return an answer as SQuAD's evaluation compares it.

    It is in lower case, without ASCII punctuation and articles.
    """
    words = unicodedata.normalize("NFC", answer).lower().translate(_PUNCTUATION)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", words).split())


def squad_em(prediction: str, example: Example) -> float:
    """Return 1 if the answer equals an accepted one after `squad_normalised`, else 0."""
    return float(
        squad_normalised(prediction) in {squad_normalised(gold) for gold in _golds(example)}
    )


def _golds(example: Example) -> tuple[str, ...]:
    return example.references or (example.output,)

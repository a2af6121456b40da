"""Metrics by which an answer is right or wrong: accuracy, exact match, SQuAD's exact match."""

from __future__ import annotations

import json
import re
import string
from typing import Any

from ceil_jax.tasks.example import Example

_PUNCTUATION = str.maketrans("", "", string.punctuation)


def accuracy(prediction: str, example: Example) -> float:
    """Return 1 if the chosen option is the gold one, else 0."""
    return float(prediction == example.output)


def exact_match(prediction: str, example: Example) -> float:
    """Return 1 if the answer equals an accepted one, else 0. Blanks at the ends do not count; JSON
    objects and lists are compared by value."""
    answer = prediction.strip()
    golds = [gold.strip() for gold in _golds(example)]
    if answer in golds:
        return 1.0
    value = _json_value(answer)
    return float(value is not None and any(_json_value(gold) == value for gold in golds))


def _json_value(text: str) -> Any:
    """The value of a text that is a JSON object or list; None for any other text."""
    if text[:1] not in ("{", "["):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def squad_normalised(answer: str) -> str:
    """Return an answer in lower case, without ASCII punctuation and articles, as SQuAD's evaluation
    compares them."""
    words = answer.lower().translate(_PUNCTUATION)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", words).split())


def squad_em(prediction: str, example: Example) -> float:
    """Return 1 if the answer equals an accepted one after `squad_normalised`, else 0."""
    return float(
        squad_normalised(prediction) in {squad_normalised(gold) for gold in _golds(example)}
    )


def _golds(example: Example) -> tuple[str, ...]:
    return example.references or (example.output,)

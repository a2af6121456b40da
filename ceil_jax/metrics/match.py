"""An answer is right or wrong: accuracy, exact match, SQuAD's exact match."""

from __future__ import annotations

import re
import string

from ceil_jax.metrics.base import golds
from ceil_jax.tasks.example import Example

_PUNCTUATION = str.maketrans("", "", string.punctuation)


def accuracy(prediction: str, example: Example) -> float:
    """The chosen option is the gold one."""
    return float(prediction == example.output)


def exact_match(prediction: str, example: Example) -> float:
    """Equal but for blanks at the ends."""
    return float(prediction.strip() in {gold.strip() for gold in golds(example)})


def squad_normalised(answer: str) -> str:
    """SQuAD's evaluation: lower case, no ASCII punctuation, no articles, single spaces, in that order."""
    bare = answer.lower().translate(_PUNCTUATION)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", bare).split())


def squad_em(prediction: str, example: Example) -> float:
    """Equal after `squad_normalised` to any gold answer."""
    return float(squad_normalised(prediction) in {squad_normalised(gold) for gold in golds(example)})

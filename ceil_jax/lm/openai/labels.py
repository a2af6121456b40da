"""log P of labels, from the most likely first tokens of an answer in a chat.

Without the server's tokenizer its tokens are only texts: a token counts for a label that begins
with it, if no other label does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

_LEAST = 1e-6
"""The smallest total probability of the labels that are not among the most likely tokens."""
_LOWEST = -50.0
"""The lowest log-probability that is kept, in nats; servers write any number, such as −9999, for a
token that is masked."""

FirstTokens: TypeAlias = list[tuple[str, float]]
"""The most likely first tokens of an answer with their log-probabilities, in nats, descending;
empty if the answer has no token."""


def first_tokens(choices: Any) -> FirstTokens:
    """Return the most likely first tokens in an answer of /chat/completions.

    The request asked for `logprobs`.

    Raises:
        KeyError, TypeError: there are none although the answer is a text.
        ValueError: the numbers are not finite or not descending, or the token of the answer is not
            among them.
    """
    choice = choices[0]
    if choice.get("finish_reason") == "content_filter":
        return []
    content = choice["logprobs"]["content"]
    if not content:
        return []
    top = [(str(entry["token"]), float(entry["logprob"])) for entry in content[0]["top_logprobs"]]
    log_probs = [log_prob for _, log_prob in top]
    if not all(map(math.isfinite, log_probs)) or log_probs != sorted(log_probs, reverse=True):
        raise ValueError(f"log-probabilities {log_probs!s:.60}, which do not descend")
    if content[0]["token"] not in [token for token, _ in top]:
        raise ValueError(f"the token {content[0]['token']!r:.40} is none of its most likely ones")
    return top


def label_of(token: str, labels: Sequence[str]) -> str | None:
    """Return the label that begins with a token, up to case; None if none or several do.

    >>> label_of(" Pos", ["positive", "negative"])
    'positive'
    >>> label_of("ne", ["negative", "neutral"])
    """
    return _begun(token.casefold(), [label.casefold() for label in labels], labels)


def label_log_probs(tokens: FirstTokens, labels: Sequence[str]) -> list[float]:
    """Return log P of each label as an answer, in nats.

    Tokens with a label's own case count for it; those of any case only if there are no such tokens.
    The labels that are not among the tokens share the rest of the probability evenly, but none has
    more than the least likely token.

    >>> tokens = [("pos", math.log(0.6)), ("The", math.log(0.3))]
    >>> [round(math.exp(value), 2) for value in label_log_probs(tokens, ["positive", "negative"])]
    [0.6, 0.1]
    """
    own_case = dict.fromkeys(labels, 0.0)
    any_case = dict.fromkeys(labels, 0.0)
    for token, log_prob in tokens:
        if (label := _begun(token, labels, labels)) is not None:
            own_case[label] += math.exp(log_prob)
        if (label := label_of(token, labels)) is not None:
            any_case[label] += math.exp(log_prob)
    mass = [own_case[label] or any_case[label] for label in labels]
    rest = max(_LEAST, 1 - sum(math.exp(log_prob) for _, log_prob in tokens))
    share = math.log(rest / max(1, mass.count(0.0)))
    if tokens:
        share = min(share, tokens[-1][1])
    return [max(_LOWEST, math.log(value) if value else share) for value in mass]


def _begun(token: str, texts: Sequence[str], labels: Sequence[str]) -> str | None:
    """The one label whose text begins with a token; None if none or several do."""
    beginning = token.strip()
    pairs = zip(texts, labels, strict=True)
    begun = [label for text, label in pairs if beginning and text.startswith(beginning)]
    return begun[0] if len(begun) == 1 else None

"""LF-EM for QDMR (Break): whether two decompositions are the same graph of operations.

This is a new implementation of the idea of Hasson & Berant (2021), whose code has no licence: its
numbers may differ from published ones in the last decimal. Two decompositions match if their
answers, and all other steps that no step refers to, are the same operations on the same arguments:

- the order and the numbers of independent steps do not matter;
- operators have synonyms (`number of`/`count of`, `more than`/`higher than`, `besides`/`except`,
  …);
- articles, copulas and plural endings do not matter, nor does the order of the arguments of
  commutative operations (`#1 , #2`; `in both #1 and #2`; `sum of #1 and #2`; `is #1 the same as
  #2`);
- a chain of filters in another order does not match, nor does one step in place of two.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ceil_jax.tasks.example import Example

Word = str | int
"""A word of a step, or a reference: the number of the class of the step that it refers to."""

_FILLERS = (
    "return the a an of is are was were be been being that which who whom there has have "
    "had do does did"
)
_DROPPED = frozenset(_FILLERS.split())
_PHRASES = {
    "max": "highest|maximum|max|largest|biggest|greatest",
    "min": "lowest|minimum|min|smallest",
    ">=": "at least|greater than or equal to|more than or equal to",
    "<=": "at most|less than or equal to|fewer than or equal to",
    ">": "more than|greater than|higher than|larger than|bigger than",
    "<": "less than|lower than|smaller than|fewer than",
    "=": "equal to|equals|same as|identical to",
    "count": "number|count|amount",
    "sum": "sum|total",
    "avg": "average|avg|mean",
    "difference": "difference|subtraction",
    "multiplication": "multiplication|product",
    "besides": "besides|except|excluding|other than|apart from|not in",
    "sort-by": "sorted by|ordered by|sort by|order by",
    "for-each": "for each|per",
    "if": "if|whether",
}
_CANONICAL = {phrase: name for name, phrases in _PHRASES.items() for phrase in phrases.split("|")}
_PHRASE = re.compile(
    r"(?<![\w#-])("
    + "|".join(sorted(map(re.escape, _CANONICAL), key=len, reverse=True))
    + r")(?![\w-])"
)
_NUMERALS = "zero one two three four five six seven eight nine ten"
_NUMBERS = {word: str(n) for n, word in enumerate(_NUMERALS.split())}
_TOKEN = re.compile(r"#\d+|[<>]=?|=|[\w.'-]*\w|[^\s\w]")
_LINKS = frozenset({",", "and", "or", "both", "either"})
_COMMUTATIVE = frozenset({"sum", "multiplication", "=", "true"})


def steps(decomposition: str) -> list[str] | None:
    """Return the steps of a decomposition; None if it is malformed.

    Such as `return a ;return #1 b` or `1#) return a 2#) return #1 b`.

    It is malformed if a step is empty, if its steps are not numbered 1, 2, …, or if a step refers
    to one that is not earlier.
    """
    decomposition = decomposition.strip().rstrip(";").lower()
    if re.match(r"1#\)", decomposition):
        # the text before the first number, which is blank; then number, step, number, step, …
        _, *parts = re.split(r"(?:^|\s)(\d+)#\)", " " + decomposition)
        numbers = parts[0::2]
        texts = [step.strip() for step in parts[1::2]]
        if numbers != [str(number) for number in range(1, len(texts) + 1)]:
            return None
    else:
        texts = [part.strip() for part in decomposition.split(";")]
    for number, step in enumerate(texts, 1):
        if not step.removeprefix("return").strip():
            return None
        if not all(1 <= int(reference) < number for reference in re.findall(r"#(\d+)", step)):
            return None
    return texts


def lf_em(prediction: str, example: Example) -> float:
    """Return 1 if prediction and gold answer are the same graph of operations, else 0.

    0 if one is malformed.
    """
    predicted = steps(prediction)
    expected = steps(example.output)
    if predicted is None or expected is None:
        return 0.0
    # both graphs number their steps by it, so that equal steps have equal numbers
    classes: dict[tuple[Word, ...], int] = {}
    return float(_graph(predicted, classes) == _graph(expected, classes))


def _graph(program: list[str], classes: dict[tuple[Word, ...], int]) -> tuple[int, frozenset[int]]:
    """Return the class of the answer, and the classes of all steps that no step refers to.

    Steps are in one class if they are the same operation on arguments of the same classes;
    `classes` has the number of each.
    """
    numbers: list[int] = []
    used: set[int] = set()
    for step in program:
        used |= {int(reference) - 1 for reference in re.findall(r"#(\d+)", step)}
        numbers.append(classes.setdefault(_operation(step, numbers), len(classes)))
    loose = frozenset(number for position, number in enumerate(numbers) if position not in used)
    return numbers[-1], loose


def _operation(step: str, numbers: list[int]) -> tuple[Word, ...]:
    """The words of a step, with the arguments of a commutative operation in ascending order.

    `numbers` are the classes of the steps before it.
    """
    words = list(_words(step, numbers))
    arguments = sorted(word for word in words if isinstance(word, int))
    others = [word for word in words if isinstance(word, str) and word not in _LINKS]
    # `#1 , #2`
    if len(arguments) > 1 and not others:
        return ("union", *arguments)
    # `… in both #1 and #2`: the arguments after "both" commute
    if len(arguments) > 1 and ("both" in words or "either" in words):
        link = next(position for position, word in enumerate(words) if word in ("both", "either"))
        linked = sorted(word for word in words[link:] if isinstance(word, int))
        rest = [
            word
            for word in words[link:]
            if isinstance(word, str) and word not in (",", "and", "or")
        ]
        return (*words[:link], *rest, *linked)
    # `sum of #1 and #2`, `is #1 the same as #2`
    if len(arguments) == 2 and _COMMUTATIVE.intersection(others) and "for-each" not in others:
        return (*(word for word in others if word != "is"), *arguments)
    return tuple(words)


def _words(step: str, numbers: list[int]) -> Iterator[Word]:
    """Yield the words of a step in canonical form.

    The classes of steps stand in place of references.
    """
    bare = " ".join(word for word in _TOKEN.findall(step) if word not in _DROPPED)
    canonical = _PHRASE.sub(lambda match: _CANONICAL[match[1]], bare)
    for word in canonical.split():
        if re.fullmatch(r"#\d+", word):
            yield numbers[int(word[1:]) - 1]
        else:
            yield _NUMBERS.get(word) or _singular(word)


def _singular(word: str) -> str:
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word

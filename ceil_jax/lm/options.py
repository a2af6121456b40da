"""Finding the option that a generated answer means, for LMs that cannot score options."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ceil_jax.tasks.identity import question_key

_BEFORE = "\"'`´‘’“”„«»*_#>~.,:;([{|= \t\r\n"
_BEHIND = "\"'`´‘’“”«»*_~.,:;!?…)]}|\\ \t\r\n"
"""Characters that may stand before and behind a label: punctuation, quotes, brackets, white space
and Markdown. Not +, -, # and < where they may be part of a label (C++, -1, C#, <5)."""
_NOT = re.compile(
    r"(?:\b(?:not|cannot|never|no|nothing|neither|nor|without|than|instead of|non|hardly|barely"
    r"|far from|anything but)|n't|n’t)"
    r"(?:\s+(?:a|an|the|about|of|in|for|to|be|it|this|that|as|so|say|call|really|very|quite"
    r"|exactly|clearly|entirely|particularly|especially|necessarily|option|choice|label))*"
    r"[-\s]*[\"'`*(]*\Z",
    re.IGNORECASE,
)
"""The end of a text after which a label is negated."""
_IS_NOT = re.compile(
    r"[\"'`*)]*\s+(?:(?:is|are|was|does|do|can|would)(?:n't|n’t|\s+not\b|not\b)"
    r"|(?:is|are)\s+(?:wrong|incorrect|false|ruled out)\b)",
    re.IGNORECASE,
)
"""The beginning of a text before which a label is negated."""
_BETWEEN = re.compile(
    r"(?:[\W_]|\b(?:or|and|either|neither|nor|both|between|versus|vs|to|but|also|maybe|perhaps"
    r"|possibly)\b)*",
    re.IGNORECASE,
)
"""What may stand between options that are listed."""
_BEHIND_LETTER = (
    r"(?=[\s\"'`*.,;:)\]?!]*\Z|[\"'`*.,;:)\]?!]|\s*[/|&]"
    r"|\s+(?:or|and|nor|vs|is|because|rather)\b)"
)
"""What stands behind a letter that is an option, and hardly behind one that is a word of English."""
_IN_LIST = r"(?:(?<=\bor\s)|(?<=\band\s)|(?<=\bnor\s)|(?<=[/|&])|(?<=[/|&]\s))"
"""The place of a letter that ends a list, whatever stands behind it."""
_ANSWER = re.compile(
    r"\b(?:answer|label|category|class|classification|prediction|output|result|choice|verdict"
    r"|sentiment|conclusion|decision|option|tag|topic|intent)s?\b[^\n]{0,40}?"
    r"(?:\b(?:is|are|be)\b|[:=]|->|=>|→)\s*(?P<rest>[^\n]+)",
    re.IGNORECASE,
)
"""The text after "the answer is", "Label:" and the like."""
_HEAD = re.compile(r"(?P<head>[^\n]{1,200}?)(?:\s[-–—]\s|\s*(?:\.(?!\d)|[:(–—])|\Z)")
_LABEL_FIELD = re.compile(
    r"(?:final_?)?(?:answer|label|category|class|classification|prediction|output|result|choice)",
    re.IGNORECASE,
)
_OUT_OF = re.compile(r"(\d)\s*(?:/|out of|of)\s*\d+", re.IGNORECASE)
_TAG = re.compile(r"<([A-Za-z][\w-]*)>(?P<inner>.*?)</\1>", re.DOTALL)


def option_in(text: str, options: Sequence[str]) -> str | None:
    """Return the option that a generated answer means; None if it means none, or several.

    These are tried in order, ignoring case and surrounding white space, punctuation, quotes and
    marks:

    1. The whole answer is an option, or a JSON value that contains one. If it only lists several
       ("A or B", "A. B"), it means none.
    2. Its first line, its last line, or the text before the first punctuation mark is an option.
    3. Exactly one option stands after "the answer is", "Label:" or the like.
    4. Exactly one option occurs in the answer. A longer option ("not spam") hides a shorter one
       inside it ("spam"), and a negated one ("not billing", "rather than billing") does not count.

    >>> teams = ["billing", "mobile app", "hr"]
    >>> option_in("**Billing.**", teams), option_in('{"label": "Mobile_App"}', teams)
    ('billing', 'mobile app')
    >>> option_in("This belongs to HR, not billing.", teams), option_in("billing or hr", teams)
    ('hr', None)
    """
    names = _names(options)
    if text.strip() not in names and _only_lists(text, options):
        return None
    for piece in _pieces(text):
        for name in (piece.strip(), _bare(piece), _folded(piece)):
            if (option := names.get(name)) is not None:
                return option
    if (option := _only_number(text, options)) is not None:
        return option
    head, comma, rest = text.partition(",")
    option = names.get(_folded(head))
    # "Yes, there is no doubt", but not "billing, shipping"
    if comma and option is not None and not _begins_with_one(rest, options):
        return option
    for match in reversed(list(_ANSWER.finditer(text))):
        if len(meant := _mentioned(match["rest"], options)) == 1:
            return meant.pop()
    meant = _mentioned(text, options)
    return meant.pop() if len(meant) == 1 else None


def _bare(text: str) -> str:
    """A text without the characters that may surround a label; the sign of a number is kept."""
    plain = unicodedata.normalize("NFKC", question_key(text))
    plain = re.sub(r"\\([_*#-])", r"\1", plain)  # as Markdown writes card_arrival: card\_arrival
    plain = re.sub(r"\A<([^<>]+)>\Z", r"\1", plain)
    plain = re.sub(r"\A[-–•]\s+", "", plain)
    return plain.lstrip(_BEFORE).rstrip(_BEHIND) or text.strip()


def _folded(text: str) -> str:
    """`_bare` with case folded, and with one space for each run of spaces, underscores and hyphens
    between words."""
    return re.sub(r"(?<=\w)[-_\s]+(?=\w)", " ", _bare(text)).casefold()


def _names(options: Sequence[str]) -> Mapping[str, str]:
    """The ways to write each option → the option. A way that two options share is left out."""
    names: dict[str, str | None] = {}  # None for a way that two options share
    for option in options:
        for name in {_bare(option), _folded(option)}:
            is_shared = names.get(name, option) != option
            names[name] = None if is_shared else option
    distinct = {name: option for name, option in names.items() if option is not None}
    # an option as it is written means itself, whatever else is spelt alike
    exact = {option.strip(): option for option in options}
    return {**distinct, **exact}


def _pieces(text: str) -> Iterator[str]:
    """The parts of an answer that may be a whole label, most reliable first."""
    yield text
    yield from _in_json(text)
    yield from (match["inner"] for match in _TAG.finditer(text))
    lines = [line for line in text.splitlines() if line.strip(_BEFORE + _BEHIND)]
    for line in [*lines[:1], *lines[-1:]]:
        yield line
        label, cue, rest = line.partition(":")
        if cue and len(label.split()) <= 4:
            yield rest
    if lines and (head := _HEAD.match(lines[0].strip())):
        yield head["head"]


def _in_json(text: str) -> Iterator[str]:
    """The texts in a JSON value of an answer that may be its label."""
    begin = re.search(r"[\[{]", text)
    if begin is None:
        return
    try:
        value, _ = json.JSONDecoder().raw_decode(text[begin.start() :])
    except (ValueError, RecursionError):
        return
    yield from _values(value)


def _values(value: Any) -> Iterator[str]:
    if isinstance(value, str | int | float):
        yield str(value)
    elif isinstance(value, list) and len(value) == 1:
        yield from _values(value[0])
    elif isinstance(value, dict):
        yield from (name for name, flag in value.items() if flag is True)
        labelled = [inner for name, inner in value.items() if _LABEL_FIELD.fullmatch(name)]
        others = [inner for inner in value.values() if isinstance(inner, str)]
        for inner in labelled or (value.values() if len(value) == 1 else others):
            yield from _values(inner)


def _only_number(text: str, options: Sequence[str]) -> str | None:
    """The option that equals the only number in an answer, if all options are numbers: 4.0 is 4,
    and 4/5 is 4."""
    values = {_number(option): option for option in options}
    if None in values or len(values) < len(options):
        return None
    without_maxima = _OUT_OF.sub(r"\1", text)
    written = re.finditer(r"(?<![\w.])-?\d+(?:\.\d+)?(?![\w%])", without_maxima)
    numbers = {
        float(number[0]) for number in written if not _NOT.search(without_maxima[: number.start()])
    }
    if len(numbers) != 1:
        return None
    return values.get(numbers.pop())


def _begins_with_one(text: str, options: Sequence[str]) -> bool:
    """Whether a text begins with an option, as the rest of a list of options does."""
    start = re.sub(r"\A(?:and|or)\b\s*", "", _folded(text))
    for name in map(_folded, options):
        next_character = start[len(name) : len(name) + 1]
        if start.startswith(name) and not next_character.isalnum():
            return True
    return False


def _number(text: str) -> float | None:
    return float(text) if re.fullmatch(r"\s*-?\d+(?:\.\d+)?\s*", text) else None


def _only_lists(text: str, options: Sequence[str]) -> bool:
    """Whether a text is nothing but several of the options: none of them is its answer."""
    if all(_number(option) is not None for option in options):
        text = _OUT_OF.sub(r"\1", text)
    plain = unicodedata.normalize("NFKC", text)
    listed = 0
    for option in sorted(options, key=len, reverse=True):
        plain, count = _pattern(option, anywhere=True).subn(" ", plain)
        listed += count > 0
    return listed > 1 and _BETWEEN.fullmatch(plain) is not None


def _pattern(option: str, *, anywhere: bool = False) -> re.Pattern[str]:
    """A pattern for an option as separate words. A single letter must match in case, and unless
    `anywhere`, stand where a word of English hardly does: "A good question" does not name A."""
    bare = _bare(option)
    words = [re.escape(word) for word in re.split(r"[-_\s]+", bare) if word]
    before = r"(?<![\w.])(?<!\d,)"
    name = "[-_ ]+".join(words)
    after = r"(?!\w|[.,]\d)"
    if len(bare) > 1 or not option.isalpha():
        return re.compile(f"{before}{name}{after}", re.IGNORECASE)
    if anywhere:
        return re.compile(f"{before}{name}{after}")
    return re.compile(f"{before}(?:{name}{_BEHIND_LETTER}|{_IN_LIST}{name}{after})")


def _mentioned(text: str, options: Sequence[str]) -> set[str]:
    """The options that occur in a text as separate words and are not negated."""
    plain = unicodedata.normalize("NFKC", text)
    mentioned: set[str] = set()
    for option in sorted(options, key=len, reverse=True):
        pattern = _pattern(option)
        for mention in pattern.finditer(plain):
            denied = _NOT.search(plain[: mention.start()]) or _IS_NOT.match(plain[mention.end() :])
            if not denied:
                mentioned.add(option)
        # a part of a longer option does not count as a shorter one
        plain = pattern.sub(lambda mention: "\0" * len(mention[0]), plain)
    return mentioned

"""An LM's answer: its text and the reason why it ended.

The form is the same for local LMs, /completions and chat.

A back end returns the generated text and why it stopped (`LanguageModel.write`); this module does
the rest. An answer ends at its first stop string, but not inside a JSON value or a code fence with
which it begins, and a fence around it is removed.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, get_args

from ceil_jax.lm.messages import Rendered, text_of

Ended = Literal["stop", "length", "refused"]
"""The reason why an answer ended. stop: by itself or at a stop string; length: at the token limit;
refused: by the model or a filter of the server."""

Removed = Literal["reasoning", "fence"]
"""The kind of text that was removed from around an answer: reasoning, or a code fence."""


class Answer(NamedTuple):
    """A text that an LM has generated, with the reason why it ended."""

    text: str
    ended: Ended = "stop"
    removed: tuple[Removed, ...] = ()

    @property
    def trouble(self) -> str:
        """The reason why the answer is probably wrong, a key of `TROUBLES`; "" if there is none."""
        if self.ended in ("length", "refused"):
            return self.ended
        return "" if self.text.strip() else "empty"

    def stored(self) -> Any:
        """Return the answer as a JSON value, which is only the text for an ordinary answer."""
        return self.text if self == Answer(self.text) else list(self)


def stored_answer(value: Any) -> Answer:
    """Return the answer from the JSON value that `Answer.stored` returned.

    Raises:
        ValueError: the value is not such a value.
    """
    if isinstance(value, str):
        return Answer(value)
    match value:
        case [str(text), ended, [*removed]] if ended in get_args(Ended):
            return Answer(text, ended, tuple(removed))
    raise ValueError(f"{value!r:.80} is not an answer")


TROUBLES = {
    "length": "cut by the token limit",
    "refused": "refused by the model or filtered by the server",
    "empty": "empty",
}
"""Kind of trouble with an answer → its description in tables and notes."""

_FENCE = r"(?P<fence>`{3,}|~{3,})"
_OPENED = re.compile(rf"\s*{_FENCE}[^\n`]*(?:\n|\Z)")
"""Pattern of a line that opens a code fence at the beginning of an answer."""


def first_stop(text: str, stop: Sequence[str]) -> int | None:
    """Return the position of the earliest stop string in a text; None if there is none."""
    starts = [start for string in stop if (start := text.find(string)) >= 0]
    return min(starts, default=None)


def ended_at_stop(answer: Answer, stop: Sequence[str]) -> Answer:
    """Return an answer up to its first stop string. A JSON object or list at its beginning and code
    from a fence are kept whole.

    >>> ended_at_stop(Answer("good, because\\nit is", "length"), ["\\n"])
    Answer(text='good, because', ended='stop', removed=())
    >>> ended_at_stop(Answer('{\\n  "light": "on"\\n}\\nThat is all.'), ["\\n"]).text
    '{\\n  "light": "on"\\n}'
    """
    if "fence" in answer.removed:
        return answer
    end = end_of_json(answer.text)
    if end is None:
        # a JSON value that the token limit has cut
        if answer.ended == "length" and _begins_json(answer.text):
            return answer
        end = first_stop(answer.text, stop)
        if end is None:
            return answer
    else:
        after_json = answer.text[end:]
        if first_stop(after_json, stop) is None and not after_json.strip():
            return answer
    ended: Ended = "stop" if answer.ended == "length" else answer.ended
    return answer._replace(text=answer.text[:end], ended=ended)


def _begins_json(text: str) -> bool:
    return re.match(r"""\s*(\{\s*("|\}|\Z)|\[\s*(["{\[\]\d]|\Z))""", text) is not None


def end_of_json(text: str) -> int | None:
    """Return the end of the JSON object or list with which a text begins.

    None if it does not begin with one.
    """
    if not _begins_json(text):
        return None
    start = len(text) - len(text.lstrip())
    try:
        _, end = json.JSONDecoder().raw_decode(text, start)
    except (ValueError, RecursionError):
        return None
    return end


def opens_fence(text: str, prompt: str) -> str:
    """Return the code fence that an answer opens and does not close; "" if there is none.

    Such as "```". It is "" too if the prompt itself contains fences.
    """
    opened = _OPENED.match(text)
    if opened is None or opened["fence"] in prompt or opened["fence"] in text[opened.end() :]:
        return ""
    return opened["fence"]


def without_fence(answer: Answer, prompt: str) -> Answer:
    """Return the code inside the fence with which an answer begins; other answers are unchanged.

    A fence that is not closed ends with the text.
    """
    opened = _OPENED.match(answer.text)
    if opened is None or opened["fence"] in prompt:
        return answer
    code, closed, _ = answer.text[opened.end() :].partition(opened["fence"])
    ended: Ended = "stop" if closed and answer.ended == "length" else answer.ended
    return Answer(trimmed(code), ended, (*answer.removed, "fence"))


def trimmed(text: str) -> str:
    """Return a text without leading empty lines and trailing white space.

    The indentation of the first line is kept.
    """
    return re.sub(r"\A(?:[^\S\n]*\n)+", "", text).rstrip()


Write = Callable[[Sequence[int], Sequence[Rendered], Sequence[str]], Sequence[Answer]]
"""A function (indices of prompts, these prompts, stop strings) → the LM's continuations of these prompts."""


def answers_to(prompts: Sequence[Rendered], stop: Sequence[str], write: Write) -> list[Answer]:
    """Return the answers to prompts.

    If a stop string ends an answer inside a code fence, the LM continues up to the end of the
    fence; not a chat, whose answers end by themselves.
    """
    rows = range(len(prompts))
    written = write(rows, prompts, stop)
    answers = [ended_at_stop(answer, stop) for answer in written]
    fences = [
        opens_fence(answer.text, prompt)
        if answer.ended == "stop" and isinstance(prompt, str)
        else ""
        for answer, prompt in zip(answers, prompts, strict=True)
    ]
    for fence in sorted({*fences} - {""}):
        # the prompts with the beginnings of their answers, up to the closing fence
        unfinished = [row for row in rows if fences[row] == fence]
        beginnings = [_begun(written[row].text, stop) for row in unfinished]
        longer_prompts = [
            text_of(prompts[row]) + beginning
            for row, beginning in zip(unfinished, beginnings, strict=True)
        ]
        continued = write(unfinished, longer_prompts, [fence])
        for row, beginning, rest in zip(unfinished, beginnings, continued, strict=True):
            answers[row] = rest._replace(text=beginning + rest.text)
    return [
        without_fence(answer, text_of(prompt))
        for answer, prompt in zip(answers, prompts, strict=True)
    ]


def _begun(text: str, stop: Sequence[str]) -> str:
    """A text up to and including its first stop string.

    If the server has cut that off, a newline takes its place.
    """
    start = first_stop(text, stop)
    if start is None:
        return text.rstrip("\n") + "\n"
    return text[: start + max(len(s) for s in stop if text.startswith(s, start))]


def note_on(answers: Sequence[Answer], limit: int) -> str:
    """Return a line on what was removed from some answers, and on those that are probably wrong.

    "" if there is nothing to report. `limit` is the most tokens of an answer.
    """
    counts: Counter[str] = Counter()
    for answer in answers:
        counts.update(answer.removed)
        counts[answer.trouble] += 1
    words = {
        "reasoning": "with reasoning, which was removed",
        "fence": "in a code fence, which was removed",
        "length": f"cut by the limit of {limit} tokens, reasoning included "
        "(--max-new-tokens or max_new_tokens=… raises it)",
        "refused": TROUBLES["refused"],
        "empty": "empty",
    }
    parts = [f"{counts[name]:,} {text}" for name, text in words.items() if counts[name]]
    return f"Of {len(answers):,} answers of the LM: {'; '.join(parts)}." if parts else ""

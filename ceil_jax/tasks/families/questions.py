"""Questions with their own options, or with several accepted answers.

CommonsenseQA, SWAG and HellaSwag have options. WebQuestions has several answers.
"""

from __future__ import annotations

from functools import partial

from ceil_jax.tasks.example import Example, Template
from ceil_jax.tasks.spec import FieldError, Hub, Row, TaskSpec, label, table2, text, texts

LETTERS = "ABCDE"


def _commonsense_qa(id: str, row: Row) -> Example:
    """Return a row as an example.

    The hub has its options as {"label": [A … E], "text": [...]} and its answer as a letter.
    """
    choices = row.get("choices")
    if not isinstance(choices, dict):
        raise FieldError("choices", '{"label": […], "text": […]}', choices)
    options = texts(choices, "text", len(LETTERS))
    letter = row.get("answerKey")
    if not isinstance(letter, str) or len(letter) != 1 or letter not in LETTERS:
        raise FieldError("answerKey", f"one letter of {LETTERS}", letter)
    return Example(id, text(row, "question"), options[LETTERS.index(letter)], options)


def _swag(id: str, row: Row) -> Example:
    endings = tuple(text(row, f"ending{i}") for i in range(4))
    return Example(id, text(row, "startphrase"), endings[label(row, "label", 4)], endings)


def _hellaswag(id: str, row: Row) -> Example:
    endings = texts(row, "endings", 4)
    return Example(id, text(row, "ctx"), endings[label(row, "label", 4)], endings)


def _web_question(id: str, row: Row) -> Example:
    """Return a row as an example.

    Prompts show its first answer; any of its answers counts as right.
    """
    answers = texts(row, "answers")
    return Example(id, text(row, "question"), answers[0], references=answers)


_entry = partial(TaskSpec, template=Template("{input} {output}"), metric="accuracy", per_token=True)

ENTRIES = (
    _entry(
        name="cmsqa",
        example=_commonsense_qa,
        columns=("question", "choices", "answerKey"),
        folder="commonsense_qa",
        hub=Hub("tau/commonsense_qa", revision="94630fe30dad47192a8546eb75f094926d47e155"),
        paper=table2(42.51, 36.12, 36.12, 35.54, 35.38, 37.26, 36.77, 37.18),
        note="the paper's template; the released code writes `Q: …` tab `A: …`",
    ),
    _entry(
        name="swag",
        example=_swag,
        columns=("startphrase", "ending0", "ending1", "ending2", "ending3", "label"),
        folder="swag",
        hub=Hub("allenai/swag", "regular"),
        paper=table2(41.16, 42.20, 41.60, 41.69, 40.28, 40.69, 42.61, 43.20),
        note='what the paper calls "HellaSwag": its sizes and its example are SWAG\'s',
    ),
    _entry(
        name="hellaswag",
        example=_hellaswag,
        columns=("ctx", "endings", "label"),
        folder="hellaswag",
        hub=Hub("Rowan/hellaswag", revision="218ec52e09a7e7462a5400043bb9a69a41d06b76"),
        note="HellaSwag itself; the paper's row of that name is `swag`",
    ),
    TaskSpec(
        name="webqs",
        template=Template("{input} {output}"),
        metric="squad_em",
        example=_web_question,
        columns=("question", "answers"),
        folder="web_questions",
        hub=Hub("stanfordnlp/web_questions", revision="0e473cbe21d1e91ec18da343644498be6a3f5454"),
        validation=("test",),
        max_new_tokens=32,
        paper=table2(4.87, 16.68, 17.62, 16.83, 17.08, 14.57, 19.59, 20.92),
        note="the test split is what the paper evaluates on",
    ),
)

"""Questions with several accepted answers: WebQuestions."""

from __future__ import annotations

from ceil_jax.tasks.example import Example, Template
from ceil_jax.tasks.spec import Hub, Row, TaskSpec, table2, text, texts


def _web_question(id: str, row: Row) -> Example:
    """The first answer stands in prompts; any gold answer counts."""
    answers = texts(row, "answers")
    return Example(id, text(row, "question"), answers[0], references=answers)


TASKS = (
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

"""Two sentences to a short answer: paraphrase (MRPC) and entailment (MNLI, QNLI)."""

from __future__ import annotations

from collections.abc import Callable

from ceil_jax.tasks.example import Example, Template
from ceil_jax.tasks.spec import Hub, Row, TaskSpec, label, table2, text

GLUE = "nyu-mll/glue"
GLUE_REVISION = "bcdcba79d07bc864c1c254ccfcedcce55bcc9a8c"

MRPC_WORDS = ("No", "Yes")  # 1 is a paraphrase
MNLI_WORDS = ("Yes", "Maybe", "No")  # 0 entailment, 1 neutral, 2 contradiction
QNLI_WORDS = ("Yes", "No")  # 0 is entailment


def _reader(first: str, second: str, words: tuple[str, ...]) -> Callable[[str, Row], Example]:
    """Retrieval text: both sentences, in the order in which the template has them."""

    def example(id: str, row: Row) -> Example:
        fields = {first: text(row, first), second: text(row, second)}
        answer = words[label(row, "label", len(words))]
        parts = (fields[first], fields[second])
        return Example(id, " ".join(parts), answer, words, fields=fields, parts=parts)

    return example


ENTRIES = (
    TaskSpec(
        name="mrpc",
        template=Template('{sentence1} Can we say "{sentence2}"? {output}'),
        metric="accuracy",
        example=_reader("sentence1", "sentence2", MRPC_WORDS),
        columns=("sentence1", "sentence2", "label"),
        folder="mrpc",
        hub=Hub(GLUE, "mrpc", GLUE_REVISION),
        choices=MRPC_WORDS,
        paper=table2(67.65, 69.36, 67.89, 66.91, 69.36, 69.61, 75.98, 80.15),
    ),
    TaskSpec(
        name="mnli",
        template=Template('{premise} Can we say "{hypothesis}"? {output}'),
        metric="accuracy",
        example=_reader("premise", "hypothesis", MNLI_WORDS),
        columns=("premise", "hypothesis", "label"),
        folder="mnli",
        hub=Hub(GLUE, "mnli", GLUE_REVISION),
        validation=("validation_matched", "validation_mismatched"),
        optional=("validation_mismatched",),
        choices=MNLI_WORDS,
        paper=table2(37.74, 40.68, 45.28, 44.85, 42.15, 39.60, 66.06, 71.74),
        note="the paper's 19,647 queries are matched and mismatched together",
    ),
    TaskSpec(
        name="qnli",
        template=Template('{sentence} Can we know "{question}"? {output}'),
        metric="accuracy",
        example=_reader("sentence", "question", QNLI_WORDS),
        columns=("sentence", "question", "label"),
        folder="qnli",
        hub=Hub(GLUE, "qnli", GLUE_REVISION),
        choices=QNLI_WORDS,
        paper=table2(56.67, 62.29, 60.97, 61.58, 64.65, 63.83, 80.76, 85.41),
    ),
)

"""An adapter that chooses few-shot examples for each question of a task in lm-evaluation-harness.

The harness passes the question to a task's `ContextSampler` only if the task's `fewshot_split` and
`test_split` are the same. So `choose_few_shot` changes a loaded task: it replaces the sampler, and
passes it each question.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, Literal

from ceil_jax.errors import UserError
from ceil_jax.selector import CeilSelector
from ceil_jax.selector.vectors import Encodes
from ceil_jax.tasks.example import Template

log = logging.getLogger(__name__)

try:
    from lm_eval.api.samplers import ContextSampler
    from lm_eval.api.task import ConfigurableTask
except ModuleNotFoundError as missing:
    raise UserError(f"{missing.name} is not installed; pip install 'ceil-jax[lm-eval]'") from None

Doc = dict[str, Any]

QUESTION = "question"
"""The field of the selector's examples with the task's question."""


def choose_few_shot(
    task: ConfigurableTask,
    selector: CeilSelector | Encodes,
    *,
    text: Callable[[Doc], str] | None = None,
    balance: Literal["label"] | None = None,
) -> ConfigurableTask:
    """Make a selector choose a task's few-shot examples for each question, and return the task.

    A few-shot document that asks the same question, word for word, is never among its examples.

    Args:
        task: a task from `TaskManager().load(name)["tasks"][name]`. Its few-shot documents are the
            bank; the harness's `num_fewshot` says how many are in a prompt, and the task how they
            are written.
        selector: a selector, whose encoders, λ and shortlist are used, but not its bank; or an
            encoder, or its name. The task's selector is `task.sampler.selector`, whose settings may
            be changed later.
        text: returns the text of a document for the encoder; by default the task's question
            (`doc_to_text`).
        balance: "label" for as many examples of each answer, or one more.

    Raises:
        UserError: the task draws no few-shot examples, or the text of a document is not a str.
    """
    sampled = isinstance(getattr(task, "sampler", None), ContextSampler)
    if not (isinstance(task, ConfigurableTask) and sampled):
        raise UserError(
            f"{type(task).__name__}: expected a task of the harness that has few-shot documents, "
            'as TaskManager().load(name)["tasks"][name]'
        )
    sampler = CeilSampler(task, selector, text or task.doc_to_text, balance)
    questions = list(task.eval_docs)
    asked = {(row.input, row.fields[QUESTION]) for row in sampler.selector.examples}
    if inside := sum(tuple(sampler.query(doc).values()) in asked for doc in questions):
        log.warning(
            "%s: %d of %d questions are among the few-shot documents; each is left out of its "
            "own prompt",
            task.config.task,
            inside,
            len(questions),
        )
    if not isinstance(task.sampler, CeilSampler):
        _tell(task)
    task.sampler = sampler
    return task


class CeilSampler(ContextSampler):
    """A sampler of a task: a selector chooses the documents for a question, in prompt order.

    Args:
        task: the harness's task; its few-shot documents are the bank.
        selector: a selector, whose encoders and settings are used (`CeilSelector.over`), or an
            encoder.
        text: returns the text of a document for the encoder.
        balance: as in `choose_few_shot`.

    Examples:
        >>> from datasets import Dataset
        >>> rows = [{"text": "a dull film", "label": "bad"}, {"text": "great fun", "label": "good"}]
        >>> task = ConfigurableTask(
        ...     config={
        ...         "task": "films",
        ...         "custom_dataset": lambda **_: {"train": Dataset.from_list(rows)},
        ...         "training_split": "train",
        ...         "test_split": "train",
        ...         "fewshot_split": "train",
        ...         "output_type": "generate_until",
        ...         "doc_to_text": "{{text}} is",
        ...         "doc_to_target": "label",
        ...     }
        ... )
        >>> sampler = CeilSampler(task, "tiny", text=lambda doc: doc["text"], balance=None)
        >>> sampler.sample(1, {"text": "what fun"})
        [{'text': 'great fun', 'label': 'good'}]
    """

    def __init__(
        self,
        task: ConfigurableTask,
        selector: CeilSelector | Encodes,
        text: Callable[[Doc], str],
        balance: str | None,
    ) -> None:
        docs = task.sampler.fewshot_docs()
        super().__init__(docs)
        self.text = text
        self.balance = balance
        self._asks = task.doc_to_text
        rows = (
            {"id": str(i), **self.query(doc), "output": _answer(task, doc)}
            for i, doc in enumerate(docs)
        )
        self.selector = CeilSelector.over(rows, selector)
        # many documents may share their `text`, such as a passage, and are other questions
        self.selector.template = Template(f"{{{QUESTION}}}\n{{output}}")
        self.question: Doc | None = None
        """The question for the next call of `sample`, for a harness that does not pass it on."""

    def sample(
        self, n: int, eval_doc: Doc | None = None, df: Sequence[Doc] | None = None, **kwargs: Any
    ) -> list[Doc]:
        """Return n documents for a question, none of which is the question itself.

        Raises:
            UserError: fewer than n documents differ from the question and from one another.
        """
        if df is not None:
            raise UserError(
                "CeilSampler has embedded its documents; give choose_few_shot a task with the "
                "others"
            )
        question = self.question if eval_doc is None else eval_doc
        assert question is not None, "choose_few_shot lets the task tell it"
        chosen = self.selector.select(
            self.query(question),
            k=n,
            # the harness needs n documents, however relevant they are
            min_relevance=None,
            own_answer=False,
            balance=self.balance,
        )
        if len(chosen) < n:
            raise UserError(
                f"num_fewshot is {n}, and only {len(chosen)} of the {len(self.df)} few-shot "
                "documents differ from one another and from the question"
            )
        return [self.df[int(example.id)] for example in chosen]

    def query(self, doc: Doc) -> dict[str, str]:
        """Return a document as a query: its text, and the task's question."""
        text = self._text(doc)
        asked = self._asks(doc)
        return {"input": text, QUESTION: asked if isinstance(asked, str) else text}

    def _text(self, doc: Doc) -> str:
        text = self.text(doc)
        if not isinstance(text, str):
            raise UserError(
                f"the text of a document is {text!r}; give the function that returns the text to "
                "encode: text=…"
            )
        return text


def _tell(task: Any) -> None:
    """Make the task pass each question to its CeilSampler, also if the sampler is replaced later."""
    context = task.fewshot_context
    requests = task.build_all_requests

    def fewshot_context(doc: Doc, *args: Any, **kwargs: Any) -> Any:
        task.sampler.question = doc
        return context(doc, *args, **kwargs)

    def build_all_requests(*, cache_requests: bool = False, **kwargs: Any) -> None:
        if cache_requests:
            # the harness caches them by the task's name and num_fewshot alone
            raise UserError(
                "cache_requests would give these prompts to other samplers and theirs to this one"
            )
        requests(**kwargs)

    task.fewshot_context = fewshot_context
    task.build_all_requests = build_all_requests


def _answer(task: ConfigurableTask, doc: Doc) -> str:
    """The answer of a document, by which `balance` counts."""
    target = task.doc_to_target(doc)
    if isinstance(target, list) and target:
        target = target[0]
    if isinstance(target, int) and task.config.doc_to_choice is not None:
        return str(task.doc_to_choice(doc)[target])
    return str(target)

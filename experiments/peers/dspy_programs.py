"""DSPy's optimisers of demonstrations, applied to a one-step program whose prompt is the task's own."""

from __future__ import annotations

import contextlib
import io
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import dspy
from dspy.teleprompt import (
    BootstrapFewShotWithRandomSearch,
    KNNFewShot,
    LabeledFewShot,
)

from ceil_jax.tasks.example import Example
from peers.arena import Arena, Asker, Chosen


class OwnLM(dspy.BaseLM):
    """The LM in the form in which DSPy passes it to an adapter."""

    def __init__(self, ask: Callable[[str, Example], str]) -> None:
        super().__init__(model="own")
        self.ask = ask


class TemplateAdapter(dspy.Adapter):
    """Writes a prompt by the task's template, in place of DSPy's own instructions and headings.

    Args:
        arena: whose examples the demonstrations are.
    """

    def __init__(self, arena: Arena) -> None:
        super().__init__()
        self._arena = arena

    def __call__(
        self, lm: Any, lm_kwargs: Any, signature: Any, demos: Sequence[Any], inputs: Any
    ) -> list[dict[str, str]]:
        """Return the LM's answer to a query, in DSPy's form."""
        query = self._arena.by_input[inputs["query"]]
        prompt = self._arena.prompt(query, demonstrated(self._arena, demos))
        return [{"answer": lm.ask(prompt, query)}]


def demonstrated(arena: Arena, demos: Sequence[Any]) -> list[Example]:
    """Return DSPy's demonstrations as examples, with the answers that they have."""
    return [replace(arena.by_input[demo["query"]], output=str(demo["answer"])) for demo in demos]


def labeled(arena: Arena) -> Chosen:
    """Choose by LabeledFewShot: K random examples, the same for all queries."""
    with _quiet(arena, _never):
        rows = _examples(arena.bank)
        # it draws with the same seed whenever it is called: the split orders the rows
        order = list(rows)
        _shuffled(order, arena.split)
        program = LabeledFewShot(k=arena.k).compile(_program(), trainset=order)
    return fixed(arena, demonstrated(arena, program.predictors()[0].demos))


def random_search(arena: Arena) -> Chosen:
    """Choose by BootstrapFewShotWithRandomSearch, with labelled examples of the whole bank as demonstrations.

    The LM's own answers are none, because collecting them may cost more than the budget. Each program
    answers all validating rows; there are as many programs as the budget pays for, and at least the
    three that are always tried.
    """
    rows = _examples(arena.bank)
    _shuffled(rows, arena.split)
    with arena.asking(arena.budget) as asker, _quiet(arena, asker):
        optimiser = BootstrapFewShotWithRandomSearch(
            metric=_metric(arena),
            max_bootstrapped_demos=0,
            max_labeled_demos=arena.k,
            num_candidate_programs=max(0, arena.sizes.prompts // arena.sizes.validating - 3),
            num_threads=arena.sizes.validating,
        )
        # it draws a number from this one to max_bootstrapped_demos
        optimiser.min_num_samples = 0
        program = optimiser.compile(_program(), trainset=rows, valset=_examples(arena.validating))
    return fixed(arena, demonstrated(arena, program.predictors()[0].demos))


def nearest(arena: Arena) -> Chosen:
    """Choose by KNNFewShot without bootstrapping; the nearest example comes last, as in all of our prompts."""

    def vectors(texts: Sequence[str]) -> Any:
        # DSPy puts the field's name before its text
        return arena.shared.encoder.encode([text.removeprefix("query: ") for text in texts])

    embedder = dspy.Embedder(vectors, caching=False)
    optimiser = KNNFewShot(
        k=arena.k,
        trainset=_examples(arena.bank),
        vectorizer=embedder,
        max_bootstrapped_demos=0,
        max_labeled_demos=arena.k,
    )

    def prompts(queries: Sequence[Example]) -> list[str]:
        texts = []
        for query in queries:
            near = demonstrated(arena, optimiser.KNN(query=query.input))
            texts.append(arena.prompt(query, near[::-1]))
        return texts

    return Chosen(prompts, arena.k)


def fixed(arena: Arena, examples: Sequence[Example]) -> Chosen:
    """Return a choice of the same examples for every query."""

    def prompts(queries: Sequence[Example]) -> list[str]:
        return [arena.prompt(query, examples) for query in queries]

    return Chosen(prompts, len(examples), " ".join(example.id for example in examples))


def _program() -> Any:
    return dspy.Predict("query -> answer")


def _examples(rows: Sequence[Example]) -> list[Any]:
    return [dspy.Example(query=row.input, answer=row.output).with_inputs("query") for row in rows]


def _shuffled(rows: list[Any], seed: int) -> None:
    import random

    random.Random(seed).shuffle(rows)


def _metric(arena: Arena) -> Callable[..., float]:
    def metric(example: Any, prediction: Any, trace: Any = None) -> float:
        query = arena.by_input[example.query]
        return float(arena.scores([str(prediction.answer)], [query])[0])

    return metric


def _never(prompt: str, query: Example) -> str:
    raise AssertionError("this optimiser makes no LM calls")


@contextmanager
def _quiet(arena: Arena, ask: Callable[[str, Example], str] | Asker) -> Iterator[None]:
    """Use our LM and template in DSPy inside the block, without its printing."""
    logging.getLogger("dspy").setLevel(logging.ERROR)
    settings = {"lm": OwnLM(ask), "adapter": TemplateAdapter(arena), "disable_history": True}
    with (
        dspy.context(**settings),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        yield

"""A DSPy teleprompter whose programs take other demos for every query."""

from __future__ import annotations

import asyncio
import functools
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Unpack

from ceil_jax.errors import UserError
from ceil_jax.selector import CeilSelector
from ceil_jax.selector.rows import OWN
from ceil_jax.selector.settings import Options
from ceil_jax.selector.vectors import Encodes
from ceil_jax.tasks.example import Example

try:
    from dspy import Example as Demo
    from dspy import Module, Predict
    from dspy.teleprompt import Teleprompter
except ModuleNotFoundError as missing:
    raise UserError(f"{missing.name} is not installed; pip install 'ceil-jax[dspy]'") from None

Chooser = Callable[[Mapping[str, Any]], list[Demo]]
"""A predictor's inputs → its demos."""


class CeilFewShot(Teleprompter):
    """Compiles a program so that each of its predictors chooses its demos for each call.

    No LM is called to compile. What a predictor is given is its query, so a program of several
    steps gets demos for each step. `program.save` keeps no bank: load, then compile again.

    Examples:
        >>> import dspy
        >>> from dspy.utils import DummyLM
        >>> rows = [{"input": "a dull film", "output": "bad"}, {"input": "great fun", "output": "good"}]
        >>> selector = CeilSelector.from_examples(rows, encoder="tiny")
        >>> program = CeilFewShot(selector, k=1).compile(dspy.Predict("text -> label"))
        >>> with dspy.context(lm=DummyLM([{"label": "good"}])):
        ...     program(text="what fun").label
        'good'
    """

    def __init__(
        self,
        selector: CeilSelector | Encodes,
        *,
        input: str | None = None,
        output: str | None = None,
        **options: Unpack[Options],
    ) -> None:
        """
        Args:
            selector: a bank with its encoders; or an encoder alone (its name will do) for a
                `trainset`.
            input: the signature's field that is an example's input in the selector's own bank; by
                default its only input field.
            output: likewise; by default its last output field, which comes after any reasoning.
            options: of `CeilSelector.select`. Examples of a trainset can be filtered by their
                fields.
        """
        super().__init__()
        self.selector = selector
        self.input = input
        self.output = output
        self.options = options

    def compile(
        self,
        student: Module,
        *,
        trainset: Sequence[Demo] | None = None,
        teacher: Module | None = None,
        valset: Sequence[Demo] | None = None,
    ) -> Module:
        """A copy of the program that chooses demos per query; the student is left as it was.

        Args:
            student: the program; it is copied.
            trainset: the bank, in place of the selector's own; λ and encoders are still the
                selector's. A predictor is asked by those of its input fields that all examples
                have. One that shares no input or no output with them keeps the student's demos.
            teacher: not used; DSPy passes it to every teleprompter.
            valset: not used either.

        Raises:
            UserError: no bank; a trainset that fits no predictor; a signature of several inputs for
                the selector's own bank, with `input` not given.
        """
        program = student.deepcopy()
        # predictors of the same inputs share a bank
        bank_of = functools.cache(functools.partial(self._bank_of, trainset or ()))
        changed = 0
        for predictor in program.predictors():
            if trainset is None:
                chooser = self._own_bank(predictor)
            elif names := _shared(predictor, trainset):
                chooser = bank_of(names)
            else:
                continue
            if not isinstance(predictor, _Choosing):
                # a class of its own kind: it may be of the user's own kind
                kind = type(predictor)
                predictor.__class__ = types.new_class(f"Ceil{kind.__name__}", (_Choosing, kind))
            predictor.chooser = chooser
            changed += 1
        if not changed:
            fields = sorted(set().union(*(example.keys() for example in trainset or ())))
            raise UserError(
                f"no predictor of {type(student).__name__} has an input and an output among the "
                f"trainset's fields ({', '.join(fields) or 'it is empty'}); compile with examples "
                "of its signature"
            )
        program._compiled = True
        return program

    def _own_bank(self, predictor: Predict) -> Chooser:
        if not isinstance(self.selector, CeilSelector):
            raise UserError(
                "CeilFewShot has an encoder but no bank: give compile trainset=…, or a CeilSelector"
            )
        inputs = list(predictor.signature.input_fields)
        outputs = list(predictor.signature.output_fields)
        if self.input is None and len(inputs) != 1:
            raise UserError(
                f"the signature takes {', '.join(inputs)}; say which of them the bank's input is: "
                "input=…"
            )
        query = self.input or inputs[0]
        answer = self.output or outputs[-1]
        for name, known, what in ((query, inputs, "input"), (answer, outputs, "output")):
            if name not in known:
                raise UserError(
                    f"{what}={name!r} is no field of the signature; it has {', '.join(known)}"
                )

        def demo(example: Example) -> Demo:
            more = {
                name: value for name, value in example.fields.items() if name in (*inputs, *outputs)
            }
            return Demo({**more, query: example.input, answer: example.output})

        return self._chooser(self.selector, (query,), demo)

    def _bank_of(self, trainset: Sequence[Demo], names: tuple[str, ...]) -> Chooser:
        rows = []
        for number, example in enumerate(trainset):
            metadata = {
                n: v
                for n, v in example.items()
                if isinstance(v, (str, int, float)) and n not in OWN
            }
            answer = "\n".join(
                str(v) for n, v in example.items() if n not in names and v is not None
            )
            rows.append(
                {**metadata, "id": str(number), "input": _text(example, names), "output": answer}
            )
        bank = CeilSelector.over(rows, self.selector)
        return self._chooser(bank, names, lambda example: trainset[int(example.id)])

    def _chooser(
        self, selector: CeilSelector, names: tuple[str, ...], demo: Callable[[Example], Demo]
    ) -> Chooser:
        """The object that selects by the input fields `names`; deep copies of a program share it,
        and so the live bank."""
        options = self.options
        return lambda inputs: [
            demo(one) for one in selector.select(_text(inputs, names), **options)
        ]


class _Choosing:
    """A wrapper of a Predict that takes its demos from the chooser, unless the call names its
    own."""

    chooser: Chooser

    def forward(self, **inputs: Any) -> Any:
        inputs.setdefault("demos", self.chooser(inputs))
        return super().forward(**inputs)  # type: ignore[misc]

    async def aforward(self, **inputs: Any) -> Any:
        inputs.setdefault("demos", await asyncio.to_thread(self.chooser, inputs))
        return await super().aforward(**inputs)  # type: ignore[misc]


def _shared(predictor: Predict, trainset: Sequence[Demo]) -> tuple[str, ...]:
    """The predictor's input fields that all examples have; none where no output is among their
    fields, because DSPy shows a demo only if it has some of both."""
    outputs = predictor.signature.output_fields
    if not any(name in example for name in outputs for example in trainset):
        return ()
    return tuple(
        n for n in predictor.signature.input_fields if all(n in example for example in trainset)
    )


def _text(values: Any, names: tuple[str, ...]) -> str:
    missing = [name for name in names if name not in values]
    if missing:
        raise UserError(
            f"no {missing[0]!r} among the inputs; demos are chosen by {', '.join(names)}"
        )
    return "\n".join(str(values[name]) for name in names)

"""A DSPy teleprompter whose compiled programs choose their demos for each query."""

from __future__ import annotations

import asyncio
import functools
import os
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Unpack

from ceil_jax.errors import UserError
from ceil_jax.selector import CeilSelector
from ceil_jax.selector.settings import Options
from ceil_jax.selector.vectors import Encodes
from ceil_jax.store.opened import Files

try:
    from dspy import Example as Demo
    from dspy import Module, Predict
    from dspy.teleprompt import Teleprompter
except ModuleNotFoundError as missing:
    raise UserError(f"{missing.name} is not installed; pip install 'ceil-jax[dspy]'") from None

from ceil_jax.selector.adapters.dspy_bank import KEY, DemoBank, bank_of_demos, bank_of_state

_KEYS = (KEY, "fields", "metadata")
"""Keys that may be missing in the state of a predictor that was not compiled."""


class CeilFewShot(Teleprompter):
    """A teleprompter whose compiled programs choose their demos for each call.

    Compiling calls no LM. The query of a predictor is its inputs, so that a program of several
    steps gets demos for each step. Instructions that MIPROv2 or GEPA have optimised are kept.
    `program.save("program.json")` saves the bank with its vectors, which `load` reads.

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
            selector: a bank with its encoders; or, for a `trainset`, an encoder or its name.
            input: the field of the signature that is the input of the selector's examples; by
                default its only input field.
            output: the field that is their output; by default the last output field, which comes
                after any reasoning.
            options: arguments of `CeilSelector.select`. Examples of a trainset can be filtered by
                their fields.
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
        """Return a copy of the program that chooses demos for each query.

        Args:
            student: the program, which is not changed.
            trainset: the bank, in place of the selector's own; λ and encoders are the selector's.
                Examples are chosen by those input fields of a predictor that all of them have. A
                predictor that shares no input or no output with them keeps its demos.
            teacher: not used; DSPy passes it to every teleprompter.
            valset: not used either.

        Raises:
            UserError: there is no bank; no predictor fits the trainset; or, for the selector's own
                bank, the signature has several inputs and `input` is not given.
        """
        program = student.deepcopy()
        # predictors with the same inputs share a bank
        bank_of = functools.cache(functools.partial(self._bank_of, trainset or ()))
        changed = 0
        for predictor in program.predictors():
            if trainset is None:
                chooser = self._own_bank(predictor)
            elif names := _shared(predictor, trainset):
                chooser = bank_of(names)
            else:
                continue
            _choose_by(predictor, chooser)
            changed += 1
        if not changed:
            fields = sorted(set().union(*(example.keys() for example in trainset or ())))
            raise UserError(
                f"no predictor of {type(student).__name__} has an input and an output among the "
                f"trainset's fields ({', '.join(fields) or 'it is empty'}); compile with examples "
                "of its signature"
            )
        return program

    def load(self, student: Module, file: str | os.PathLike[str]) -> Module:
        """Return a copy of the program in the state that `program.save` wrote, with its banks.

        No text is encoded. LMs are those of the student, never the file's.

        Args:
            student: the program before it was compiled, because a file has no code.
            file: a JSON file. Its banks have to be embedded by the encoder of this teleprompter,
                whose bank is not used, and whose options replace the saved ones.

        Raises:
            UserError: the file does not exist, has no bank, or has one of another encoder.
        """
        path = Path(file)
        with Files(path.parent) as files:
            state = files.json(path.name, dict[str, Any])
        # the state of a program that is a single predictor is the state of that predictor
        is_predictor = isinstance(student, Predict)
        states = {"self": state} if is_predictor else state
        banks = {
            name: bank_of_state(
                predictor_state[KEY], self.selector, self.options, f"{path}, {name!r}"
            )
            for name, predictor_state in states.items()
            if isinstance(predictor_state, dict) and KEY in predictor_state
        }
        program = student.deepcopy()
        known = dict(program.named_parameters())
        if not banks or not banks.keys() <= known.keys():
            raise UserError(
                f"{path} has banks for {', '.join(banks) or 'no predictor'}, and "
                f"{type(student).__name__} has the predictors {', '.join(known)}; give the "
                "program that was compiled and saved"
            )
        plain = {}
        for name, parameter in known.items():
            own = states.get(name)
            if not isinstance(own, dict):
                raise UserError(f"{path}, {name!r}: expected an object, found {own!r:.40}")
            # DSPy would set any other key as an attribute of the predictor, such as the settings of
            # its calls
            unknown = own.keys() - {*parameter.dump_state(), *_KEYS}
            if unknown:
                raise UserError(f"{path}, {name!r}: unknown keys {', '.join(sorted(unknown))[:80]}")
            plain[name] = {key: value for key, value in own.items() if key != KEY}
            # the file's LM would send the user's key to any server
            if isinstance(parameter, Predict):
                plain[name]["lm"] = None
        lms = {name: parameter.lm for name, parameter in known.items() if hasattr(parameter, "lm")}
        try:
            program.load_state(plain["self"] if is_predictor else plain)
        except Exception as error:  # any error of DSPy about a state of another form
            raise UserError(
                f"{path} does not fit {type(student).__name__}: {error!r:.160}"
            ) from None
        for name, lm in lms.items():
            known[name].lm = lm
        for name, bank in banks.items():
            _choose_by(known[name], bank)
        return program

    def _own_bank(self, predictor: Predict) -> DemoBank:
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
                    f"{what}={name!r} is not a field of the signature; it has {', '.join(known)}"
                )

        return DemoBank(
            self.selector,
            query=(query,),
            fields=(*inputs, *outputs),
            answer=answer,
            demos=None,
            options=dict(self.options),
        )

    def _bank_of(self, trainset: Sequence[Demo], names: tuple[str, ...]) -> DemoBank:
        return bank_of_demos(trainset, names, self.selector, dict(self.options))


class _Choosing:
    """A mixin for Predict that takes demos from a bank, unless the call already has demos."""

    chooser: DemoBank

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Return the usual reduction, except that unpickling creates the class again.

        No module has it.
        """
        reduced: Any = super().__reduce_ex__(protocol)
        [base] = (kind for kind in type(self).__bases__ if kind is not _Choosing)
        # the state comes after the function and its arguments
        return (_unpickled, (base,), *reduced[2:])

    def forward(self, **inputs: Any) -> Any:
        inputs.setdefault("demos", self.chooser(inputs))
        return super().forward(**inputs)  # type: ignore[misc]

    async def aforward(self, **inputs: Any) -> Any:
        inputs.setdefault("demos", await asyncio.to_thread(self.chooser, inputs))
        return await super().aforward(**inputs)  # type: ignore[misc]

    def dump_state(self, json_mode: bool = True) -> dict[str, Any]:
        state = super().dump_state(json_mode=json_mode)  # type: ignore[misc]
        return {**state, KEY: self.chooser.state()}

    def load_state(self, state: dict[str, Any], **options: Any) -> Any:
        plain = {name: value for name, value in state.items() if name != KEY}
        super().load_state(plain, **options)  # type: ignore[misc]
        if KEY in state:
            # with the encoder of the present bank, and the options that were saved
            self.chooser = bank_of_state(
                state[KEY],
                encoder=self.chooser.selector,
                options={},
                where="the saved program",
            )
        return self


def _choose_by(predictor: Predict, bank: DemoBank) -> None:
    """Make a predictor take its demos from a bank."""
    if not isinstance(predictor, _Choosing):
        predictor.__class__ = _choosing(type(predictor))
    predictor.chooser = bank


def _choosing(kind: type[Any]) -> type[Any]:
    """The subclass of a predictor class (which may be the user's) that chooses its demos."""
    return types.new_class(f"Ceil{kind.__name__}", (_Choosing, kind))


def _unpickled(kind: type[Any]) -> Any:
    """Return an empty predictor, for unpickling."""
    return object.__new__(_choosing(kind))


def _shared(predictor: Predict, trainset: Sequence[Demo]) -> tuple[str, ...]:
    """The predictor's input fields that all examples have.

    () if no example has an output of the predictor, because DSPy shows only demos that have an
    input and an output.
    """
    outputs = predictor.signature.output_fields
    if not any(name in example for name in outputs for example in trainset):
        return ()
    return tuple(
        n for n in predictor.signature.input_fields if all(n in example for example in trainset)
    )

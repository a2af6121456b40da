"""The bank of a DSPy predictor, which chooses the demos of each call and is saved with the program."""

from __future__ import annotations

import base64
import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import numpy as np
from dspy import Example as Demo
from pydantic import Field, with_config

from ceil_jax.errors import UserError, check_options
from ceil_jax.selector import CeilSelector
from ceil_jax.selector.rows import OWN
from ceil_jax.selector.settings import CallSettings, Options, Settings
from ceil_jax.store.opened import STRICT, checked
from ceil_jax.tasks.example import Example

KEY = "ceil"
"""The key of a bank in the state of a predictor."""

_NOT_KEPT = ("count_tokens", "template", "card")
"""Settings that are not saved, because DSPy writes its own prompts."""


@dataclasses.dataclass(frozen=True, eq=False)
class DemoBank:
    """Chooses the demos for a predictor's calls. Copies of a program share it.

    Args:
        selector: the bank.
        query: the predictor's input fields by which examples are chosen.
        fields: the fields of its signature.
        answer: the field that is the output of the selector's examples; "" with a trainset.
        demos: the trainset, in which an example of the selector has its id as its position; None
            for the selector's own bank.
        options: arguments of `CeilSelector.select`.
    """

    selector: CeilSelector
    query: tuple[str, ...]
    fields: tuple[str, ...]
    answer: str
    demos: Sequence[Demo] | None
    options: Mapping[str, Any]

    def __call__(self, inputs: Mapping[str, Any]) -> list[Demo]:
        """Return the demos for some inputs, in prompt order.

        The other inputs are fields of the query: another context makes another question of the same
        words.
        """
        others = {
            name: value
            for name, value in inputs.items()
            if name in self.fields and name not in (*self.query, *OWN)
        }
        query = {**others, self.selector.input_key: joined(inputs, self.query)}
        chosen = self.selector.select(query, **self.options)
        return [self._demo(example) for example in chosen]

    def _demo(self, example: Example) -> Demo:
        if self.demos is not None:
            return self.demos[int(example.id)]
        more = {name: value for name, value in example.fields.items() if name in self.fields}
        return Demo({**more, self.query[0]: example.input, self.answer: example.output})

    def __deepcopy__(self, memo: dict[int, Any]) -> DemoBank:
        return self

    def state(self) -> dict[str, Any]:
        """Return the bank as JSON values: examples, vectors and settings, without the encoder.

        Raises:
            UserError: an option or a demo is not a JSON value, such as a filter that is a function.
        """
        rows = [
            {**vars(example), "fields": dict(example.fields)} for example in self.selector.examples
        ]
        vectors = np.ascontiguousarray(self.selector.bank.snapshot.live_vectors, np.float32)
        settings = {
            name: value for name, value in self.selector.settings.items() if name not in _NOT_KEPT
        }
        state = {
            "query": list(self.query),
            "fields": list(self.fields),
            "answer": self.answer,
            "options": dict(self.options),
            "settings": settings,
            "rows": rows,
            "vectors": base64.b64encode(vectors.tobytes()).decode(),
            "demos": None if self.demos is None else [demo.toDict() for demo in self.demos],
        }
        try:
            return json.loads(json.dumps(state, default=_number))
        except TypeError as error:
            raise UserError(
                f"a program's bank is saved as JSON, and {error}; give such an option to "
                "CeilFewShot again when the program is loaded"
            ) from None


@with_config(STRICT)
@dataclasses.dataclass
class _Saved:
    """The JSON form of a bank, which `DemoBank.state` returns."""

    query: Annotated[tuple[str, ...], Field(min_length=1)]
    fields: tuple[str, ...]
    answer: str
    options: dict[str, Any]
    settings: Settings
    rows: list[Example]
    vectors: str
    """float32 [N, D] in base64."""
    demos: list[dict[str, Any]] | None


def bank_of_state(
    state: Any, encoder: CeilSelector | Any, options: Mapping[str, Any], where: str
) -> DemoBank:
    """Return the bank with a state that `DemoBank.state` returned.

    Args:
        state: the state, from a file that is not trusted.
        encoder: an encoder, or a selector with encoders.
        options: of `CeilSelector.select`, in place of the saved ones.
        where: the place of the state, for messages.

    Raises:
        UserError: it is not the state of a bank, or its vectors fit neither its rows nor the
            encoder.
    """
    saved = checked(json.dumps(state).encode(), _Saved, f"{where}, the bank of a saved program")
    check_options(f"{where}, options", saved.options, Options.__annotations__)
    settings = {
        name: value for name, value in vars(saved.settings).items() if name not in _NOT_KEPT
    }
    try:
        vectors = np.frombuffer(base64.b64decode(saved.vectors, validate=True), np.float32)
        matrix = vectors.reshape(len(saved.rows), -1) if saved.rows else None
        positions = {int(row.id) for row in saved.rows if saved.demos is not None}
    except ValueError as error:
        raise UserError(f"{where} is not the bank of a saved program: {error!r:.100}") from None
    demos = None if saved.demos is None else [Demo(demo) for demo in saved.demos]
    if not positions <= {*range(len(demos or ()))}:
        raise UserError(f"{where} is not the bank of a saved program: it has rows without a demo")
    encoders: dict[str, Any] = {"encoder": encoder}
    if isinstance(encoder, CeilSelector):
        encoders = {"encoder": encoder.encoder, "query_encoder": encoder.query_encoder}
    selector = CeilSelector.from_examples(saved.rows, vectors=matrix, **encoders, **settings)
    CallSettings(**{**selector.settings, "k": 1, **saved.options, **options})
    return DemoBank(
        selector,
        saved.query,
        saved.fields,
        saved.answer,
        demos,
        {**saved.options, **options},
    )


def bank_of_demos(
    trainset: Sequence[Demo],
    names: tuple[str, ...],
    encoder: CeilSelector | Any,
    options: Mapping[str, Any],
) -> DemoBank:
    """Return a bank of DSPy's own examples.

    Args:
        trainset: the examples.
        names: the fields by which they are chosen.
        encoder: an encoder, or a selector whose encoders and settings are taken.
        options: arguments of `CeilSelector.select`.
    """
    rows = []
    for number, example in enumerate(trainset):
        metadata = {
            name: value
            for name, value in example.items()
            if isinstance(value, (str, int, float)) and name not in OWN
        }
        answer = "\n".join(
            str(value) for name, value in example.items() if name not in names and value is not None
        )
        text = joined(example, names)
        rows.append({**metadata, "id": str(number), "input": text, "output": answer})
    return DemoBank(CeilSelector.over(rows, encoder), names, names, "", trainset, options)


def joined(values: Any, names: tuple[str, ...]) -> str:
    """Return the values of some fields as one text.

    Raises:
        UserError: a field is missing.
    """
    missing = [name for name in names if name not in values]
    if missing:
        raise UserError(
            f"no {missing[0]!r} among the inputs; demos are chosen by {', '.join(names)}"
        )
    return "\n".join(str(values[name]) for name in names)


def _number(value: Any) -> Any:
    """Return a numpy number or a collection as a JSON value. Other values are a TypeError."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, tuple | set | frozenset):
        return list(value)
    raise TypeError(f"{value!r:.60} is not a JSON value")

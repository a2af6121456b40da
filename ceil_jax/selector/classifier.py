"""`LabelClassifier`, which predicts the label of a text without an LM.

It is a logistic regression on an encoder's vectors: the method `classifier` of `ceil-jax compare`,
for applications.

```
classifier.json   the sha256 of every file of the save, and the name of the input in mappings
content-3/        encoder/, the regression and the encoder below it
```
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from jaxtyping import Float

from ceil_jax.encoders.text_encoder import sides
from ceil_jax.errors import UserError
from ceil_jax.selector.rows import ExampleLike, as_examples
from ceil_jax.selector.saved import Manifest, load_content, read_encoders, save_content
from ceil_jax.selector.vectors import Encodes, as_encoders, with_dim
from ceil_jax.store.opened import Files
from ceil_jax.store.places import user_path
from ceil_jax.tasks.rows import Columns

if TYPE_CHECKING:
    from ceil_jax.training.free.encoder import FreeEncoder

MANIFEST = "classifier.json"


class Predictions(NamedTuple):
    """The predicted labels of Q texts, with the probabilities of all labels."""

    labels: list[str]
    """The most probable label of each."""
    probabilities: Float[np.ndarray, "q l"]
    """P(label | text) for each of the classes."""
    classes: tuple[str, ...]
    """The L labels, in the order of the probabilities."""


class LabelClassifier:
    """Multinomial logistic regression on an encoder's vectors of the inputs.

    C is chosen by cross-validation.

    Args:
        encoder: an encoder with a label head, such as one that a run has trained.
        input_key: the name of the input in mappings.

    Attributes:
        classes: the labels, in the order of the probabilities.

    Raises:
        UserError: the head is none of labels.

    Examples:
        >>> rows = [
        ...     {"input": f"{word} film {i}", "output": label}
        ...     for i in range(6)
        ...     for word, label in (("fine", "good"), ("dull", "bad"))
        ... ]
        >>> classifier = LabelClassifier.from_examples(rows, encoder="tiny")
        >>> predicted = classifier.predict(["a fine play", "a dull evening"])
        >>> predicted.labels, predicted.classes
        (['good', 'bad'], ('bad', 'good'))
        >>> predicted.probabilities.shape
        (2, 2)
    """

    def __init__(self, encoder: FreeEncoder, input_key: str = "input") -> None:
        from ceil_jax.training.free.head import LabelHead

        if not isinstance(encoder.head, LabelHead):
            raise UserError(f"a {type(encoder.head).__name__} does not classify; a label head does")
        self.encoder = encoder
        self.classes = encoder.head.labels
        self.input_key = input_key

    @classmethod
    def from_examples(
        cls,
        rows: Iterable[ExampleLike],
        *,
        encoder: Encodes,
        input_key: str = "input",
        output_key: str = "output",
    ) -> Self:
        """Train a classifier on labelled rows; no LM is called.

        Args:
            rows: Examples or mappings with an input and an output, the label.
            encoder: gives the vectors: see `CeilSelector.from_examples`.
            input_key: the name of the input in mappings.
            output_key: the name of the output.

        Raises:
            UserError: a row is not an example, or the outputs are not labels that rows share.
        """
        from ceil_jax.tasks.bank import are_pairs
        from ceil_jax.training.free.encoder import FreeEncoder, marks, observe
        from ceil_jax.training.free.head import fit_label_head

        examples = as_examples(rows, Columns((input_key,), output_key))
        labels = {example.output for example in examples}
        if not 2 <= len(labels) <= len(examples) / 2:
            raise UserError(
                f"{len(labels):,} different outputs in {len(examples):,} rows; expected two labels or "
                "more, each shared by two rows or more on average"
            )
        base = with_dim(sides(as_encoders(encoder)[1]).query)
        pairs = are_pairs(examples)
        head = fit_label_head(observe(base, examples, pairs=pairs))
        return cls(FreeEncoder(base, head, pairs=pairs, learnt=marks(examples)), input_key)

    @classmethod
    def from_pretrained(
        cls, folder: str | os.PathLike[str], *, encoder: Encodes | None = None
    ) -> Self:
        """Load a classifier from a folder that `save_pretrained` wrote.

        The sha256 of every file is checked; nothing in the folder names code, an address or another
        folder.

        Args:
            folder: the folder.
            encoder: the encoder below the regression, if it could not be saved.

        Raises:
            UserError: the folder is none of a classifier, or is damaged; or the encoder has to be
                given.
        """
        given = None if encoder is None else with_dim(as_encoders(encoder)[1])
        return load_content(user_path(folder), MANIFEST, partial(cls._loaded, given=given))

    @classmethod
    def _loaded(cls, manifest: Manifest, files: Files, given: Any) -> Self:
        from ceil_jax.training.free.encoder import FreeEncoder

        encoder = read_encoders(manifest, files, {"encoder": given})["encoder"]
        input_key = manifest.settings.get("input_key")
        if not isinstance(encoder, FreeEncoder) or not isinstance(input_key, str):
            raise UserError(
                f"{files.folder / MANIFEST} is not the manifest of a classifier; save it again"
            )
        return cls(encoder, input_key)

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Write a folder for `from_pretrained`: JSON, npz and safetensors.

        A classifier in it is replaced in one step.

        Raises:
            UserError: the folder cannot be written, or holds something else.
        """
        settings = {"input_key": self.input_key}
        save_content(user_path(folder), MANIFEST, _nothing, {"encoder": self.encoder}, settings)

    def predict(self, texts: Sequence[str | ExampleLike]) -> Predictions:
        """Return the most probable label of each text, and the probabilities of all labels.

        Args:
            texts: Q texts, or mappings or Examples with an input.

        Raises:
            UserError: a text is empty or none; or the classifier compares the two texts of an input,
                and one does not have two.
        """
        queries = as_examples(
            texts, Columns((self.input_key,), ""), "texts", "text", answered=False
        )
        if not queries:
            return Predictions([], np.zeros((0, len(self.classes)), np.float32), self.classes)
        probabilities = self.encoder.probabilities(queries)
        labels = [self.classes[i] for i in probabilities.argmax(axis=1)]
        return Predictions(labels, probabilities, self.classes)


def _nothing(content: Path) -> None:
    """Write no files: a saved classifier has none except its encoder's."""

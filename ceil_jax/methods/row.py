"""A row of a comparison: a method, the retriever that chooses with its vectors, and a label."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from ceil_jax.methods.base import LearnsFromOutputs, Method
from ceil_jax.methods.untrained import Untrained
from ceil_jax.retrieval.retriever import Needs, RetrieverKind
from ceil_jax.retrieval.retrievers import NEAREST, ZERO


@dataclass(frozen=True)
class Row:
    """A line of a results table, named in `--method`: a method, a retriever and a label.

    Args:
        label: its name in tables.
        method: how the encoders are obtained whose vectors the retriever compares; ignored by a
            retriever that compares no vectors.
        retriever: chooses the examples of a query.
        against: the names of the rows with which tables compare this one.
        answers: where answers come from: the LM, the most common output of the bank, a
            classifier trained on the bank's outputs, or the output of the first example that the
            retriever chooses.
        name: its name in `--method`; `register_row` sets it.

    Examples:
        >>> from ceil_jax.methods.epr import EPR
        >>> from ceil_jax.methods.free import Free
        >>> Row("EPR", EPR(start=Free())).title
        'EPR from free'
    """

    label: str
    method: Method = field(default=Untrained())
    retriever: RetrieverKind = NEAREST
    against: tuple[str, ...] = ("topk",)
    answers: Literal["lm", "majority", "classifier", "copied"] = "lm"
    name: str = ""

    @property
    def needs(self) -> Needs:
        """The needs of the row's retriever."""
        return self.retriever.needs

    @property
    def chooses(self) -> bool:
        """True if the row puts examples into a prompt."""
        return self.retriever != ZERO

    @property
    def encodes(self) -> bool:
        """True if the row uses its method: the method's encoders, or its fixed examples."""
        uses_examples = self.needs.fixed != "none"
        return self.needs.encodes or uses_examples or self.answers == "classifier"

    @property
    def trains(self) -> bool:
        """True if the row's method is used and learns something."""
        return self.encodes and self.method.learns

    @property
    def seeded(self) -> bool:
        """True if the row's results depend on the seed."""
        return self.trains or self.needs.seeded

    @property
    def learns_from_lm(self) -> bool:
        """True if the row needs LM tokens for training, before its first query."""
        return self.encodes and self.method.learns_from_lm

    @property
    def needs_log_probs(self) -> bool:
        """True if the row's training needs an LM that gives log-probabilities."""
        return self.encodes and self.method.needs_log_probs

    @property
    def exports(self) -> bool:
        """True if a selector can hold the row; a row that classifies is exported as a classifier."""
        needs = self.needs
        known = needs.ends_in_map or needs.ends_in_nearest or needs.fixed != "none"
        known = known or not self.chooses
        return self.answers == "lm" and known

    @property
    def title(self) -> str:
        """The name of the row in tables.

        It is the row's label and, if its training began with a head, that head, as in "CEIL from
        free".
        """
        heads = [one for one in self.method.chain[1:] if isinstance(one, LearnsFromOutputs)]
        return f"{self.label} from {heads[-1].title}" if heads else self.label

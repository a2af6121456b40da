"""The rows of a comparison: a retriever, and the encoder that it compares with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple

from ceil_jax.retrieval.registry import Needs, Registered, retriever_named, retrievers

TRAINED = ("tst", "epr", "ceil")
"""The encoders that are trained: on outputs, on the LM's scores of single examples, on its scores of sets."""


class Method(NamedTuple):
    """A way of choosing examples: a retriever, and whose encoder it compares with."""

    retriever: str
    """A name in the registry of retrievers."""
    encoder: str | None
    """base (untrained) or one of TRAINED; None where no encoder is used."""
    label: str
    """The row's name in tables."""
    answers: Literal["lm", "majority"] = "lm"
    """Who answers: the LM, or the most common output of the bank, which needs no LM."""
    against: tuple[str, ...] = ()
    """The rows that tables subtract from this one."""

    @property
    def needs(self) -> Needs:
        """The needs of its retriever."""
        return retriever_named(self.retriever).needs


_ROWS = {
    "majority": Method("zero", None, "most common output", "majority"),
    "zero": Method("zero", None, "zero examples"),
    "random": Method("random", None, "random"),
    "bm25": Method("bm25", None, "BM25", against=("topk",)),
    "topk": Method("dense", "base", "dense top-k", against=("zero",)),
    "mmr": Method("mmr", "base", "MMR", against=("topk",)),
    "dpp": Method("dpp", "base", "DPP-MAP", against=("topk",)),
    "tst": Method("dense", "tst", "TST", against=("topk",)),
    "tst_map": Method("dpp", "tst", "TST + MAP", against=("tst",)),
    "epr": Method("dense", "epr", "EPR", against=("topk",)),
    "epr_map": Method("dpp", "epr", "EPR + MAP"),
    "ceil_topk": Method("dense", "ceil", "CEIL top-k", against=("epr",)),
    "ceil": Method("dpp", "ceil", "CEIL", against=("epr", "epr_map", "topk")),
}
"""The paper's rows. Every other retriever is a row under its own name, with the untrained encoder if it needs one."""


class Methods(Mapping[str, Method]):
    """All rows by name, those of retrievers that are registered later included."""

    def __getitem__(self, name: str) -> Method:
        if name in _ROWS:
            return _ROWS[name]
        _, needs, label = self._others()[name]
        return Method(name, "base" if needs.encoder else None, label, against=("topk",))

    def __iter__(self) -> Iterator[str]:
        return iter((*_ROWS, *self._others()))

    def __len__(self) -> int:
        return len(_ROWS) + len(self._others())

    def _others(self) -> dict[str, Registered]:
        used = {row.retriever for row in _ROWS.values()}
        return {name: entry for name, entry in retrievers().items() if name not in used}


METHODS = Methods()
"""The rows that `--retriever` names."""


def trains(method: str) -> bool:
    """Return whether a method needs a trained encoder; False for one that is not known here.

    Args:
        method: the name of a row of METHODS.
    """
    return method in METHODS and METHODS[method].encoder in TRAINED

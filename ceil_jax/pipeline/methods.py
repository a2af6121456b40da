"""The rows of a comparison: a retriever, and the encoder that it compares with, which a guard may replace."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Literal, NamedTuple

import numpy as np

from ceil_jax.metrics.bootstrap import Sample
from ceil_jax.racing.paired import chance
from ceil_jax.retrieval.registry import Needs, Registered, retrievers

log = logging.getLogger(__name__)

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
        return retrievers()[self.retriever].needs


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


def whose(source: str) -> str:
    """Return whose encoder `base`, `tst`, `epr` or `ceil` is, in words."""
    return "the untrained" if source == "base" else f"{source.upper()}'s"


BY_CHANCE = 1 / 6
"""How often chance may give the difference that speaks against a trained encoder: about one standard error. With the
hundred queries of a training that has 400, two standard errors would be ten points."""

_SINGLE = {"base": "topk", "tst": "tst", "epr": "epr"}
_SETS = {"base": "dpp", "tst": "tst_map", "epr": "epr_map", "ceil": "ceil"}
"""Encoders → the methods that answer with them: those that compare single examples, and those that choose sets."""


class Guard:
    """Decides whose encoder a method uses: the trained one, or one that its training started from.

    Training ranks sets of examples that its starting encoder found. Which examples the trained encoder finds in the
    whole bank, and how the LM answers with them, shows only when it is asked. The queries that training held out are;
    no validation query is.

    Args:
        starts: trained encoder → the encoders that its training goes back to.
        held_out: trained encoder → bank positions of the queries that its training held out.
        answered: (trained encoder that is judged, method, bank positions of queries) → the method's answers, and the
            metric of them.
    """

    def __init__(
        self,
        starts: Callable[[str], tuple[str, ...]],
        held_out: Callable[[str], np.ndarray],
        answered: Callable[[str, str, np.ndarray], Sample],
    ) -> None:
        self._starts, self._held_out, self._answered = starts, held_out, answered
        self._used: dict[str, str] = {}

    def used(self, source: str) -> str:
        """Return the encoder that stands in for `source`: itself, unless answers are better with an earlier one.

        The earlier ones are the encoder that training started from and the untrained one. One is better where chance
        gives such a difference of the metric less often than BY_CHANCE (`racing.paired`); of two the better is taken.

        Args:
            source: `base`, `tst`, `epr` or `ceil`.
        """
        if source not in TRAINED:
            return source
        if source not in self._used:
            self._used[source] = self._judged(source)
        return self._used[source]

    def needed(self, source: str) -> set[str]:
        """Return the names in a run's ledger of what judging `tst`, `epr` or `ceil` takes."""
        methods = self._methods(source)
        tuned = {f"scoring λ of {one}" for one in methods} if source == "ceil" else set()
        return tuned | {entry(source, method) for method in methods.values()}

    def _methods(self, source: str) -> dict[str, str]:
        """The encoder that is judged and those before it, each with the method that answers with it."""
        methods = _SETS if source == "ceil" else _SINGLE
        return {one: methods[one] for one in (source, *self._starts(source))}

    def _judged(self, source: str) -> str:
        asked = self._held_out(source)
        answers = {
            one: self._answered(source, method, asked) for one, method in self._methods(source).items()
        }
        values = {
            one: 100 * float(it.statistic(it.values.sum(axis=0), len(asked))) for one, it in answers.items()
        }
        higher = [one for one in values if values[one] > values[source]]
        better = [one for one in higher if chance(answers[one], answers[source]) < BY_CHANCE]
        found = max(better, key=values.__getitem__, default=source)
        said = ", ".join(f"{value:.1f} with {whose(one)} encoder" for one, value in values.items())
        log.info("%d held-out training queries: %s; used: %s", len(asked), said, whose(found))
        return found


def entry(source: str, method: str) -> str:
    """Return the name in a run's ledger of answering training queries with `method` to judge `source`."""
    return f"guarding {source.upper()}: {method}"

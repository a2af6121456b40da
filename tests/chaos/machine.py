"""A selector against a slow model of it: added to, removed from, asked, saved and loaded in any order."""

from __future__ import annotations

import random
import shutil
import tempfile
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from selector_words import SUBJECTS

from ceil_jax import CeilSelector, UserError, load_encoder
from ceil_jax.selector import Selection

TOLERANCE = 2e-3
"""In log gains, which are of float32."""

WHERE = [f"the {subject} at {time}" for subject in SUBJECTS for time in ("noon", "night")]
OUTPUTS = ("light", "dark", "neither")
TRADE_OFFS = (0.05, 0.3, 2.0)

TINY = load_encoder("tiny")
VECTOR = dict(zip(WHERE, np.float64(TINY.encode(WHERE)), strict=True))


class Machine(RuleBasedStateMachine):
    """The model is a list of (id, input, output, town), and what `select` promises, computed the slow way."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="machine-"))
        self.rows: list[tuple[str, str, str, str]] = []
        self.given: set[str] = set()
        self.saved: tuple[list[tuple[str, str, str, str]], set[str], float] | None = None

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    @initialize(trade_off=st.sampled_from(TRADE_OFFS))
    def begin(self, trade_off: float) -> None:
        self.selector = CeilSelector.from_examples([], encoder=TINY, trade_off=trade_off)

    @rule(
        rows=st.lists(st.tuples(st.sampled_from(WHERE), st.sampled_from(OUTPUTS)), min_size=1, max_size=3),
        named=st.one_of(st.none(), st.integers(0, 12)),
    )
    def add(self, rows: list[tuple[str, str]], named: int | None) -> None:
        """The first row may have an id of its own, which may be there already."""
        given: list[dict[str, Any]] = [
            {"input": text, "output": output, "town": text[4]} for text, output in rows
        ]
        if named is not None:
            given[0]["id"] = f"bank-{named}" if named % 2 else f"own-{named}"
        if any(given[0].get("id") == id for id, *_ in self.rows):
            with pytest.raises(UserError, match="is there already"):
                self.selector.add(given)
            return
        ids = self.selector.add(given)
        made = ids if named is None else ids[1:]
        assert not {*made} & self.given, "an id given twice"
        self.given |= {*made}
        self.rows += [(id, text, output, text[4]) for id, (text, output) in zip(ids, rows, strict=True)]

    @rule(data=st.data(), unknown=st.booleans())
    def remove(self, data: st.DataObject, unknown: bool) -> None:
        known = [id for id, *_ in self.rows]
        ids = data.draw(st.lists(st.sampled_from(known), max_size=6)) if known else []
        if unknown:
            with pytest.raises(UserError, match="nothing was removed"):
                self.selector.remove([*ids, "ghost"])
            return
        self.selector.remove(ids)
        self.rows = [row for row in self.rows if row[0] not in ids]

    @rule()
    def save(self) -> None:
        self.selector.save_pretrained(self.folder / "selector")
        self.saved = [*self.rows], {*self.given}, self.selector.trade_off

    @rule(verify=st.booleans())
    def load(self, verify: bool) -> None:
        if self.saved is None:
            with pytest.raises(UserError):
                CeilSelector.from_pretrained(self.folder)
            return
        self.selector = CeilSelector.from_pretrained(self.folder / "selector", verify=verify)
        self.rows, self.given = [*self.saved[0]], {*self.saved[1]}
        assert self.selector.trade_off == self.saved[2]

    @rule(
        query=st.sampled_from(WHERE),
        k=st.integers(1, 6),
        trade_off=st.sampled_from(TRADE_OFFS),
        town=st.one_of(st.none(), st.sampled_from("rbmhg")),
        near=st.sampled_from([None, 0.8]),
    )
    def select(self, query: str, k: int, trade_off: float, town: str | None, near: float | None) -> None:
        chosen = self.selector.select(
            query,
            k=k,
            trade_off=trade_off,
            near_duplicate=near,
            filter=None if town is None else lambda e: e.fields["town"] == town,
        )
        rows = [row for row in self.rows if town in (None, row[3])]
        self.check(chosen, rows, VECTOR[query], k, trade_off, near)

    @staticmethod
    def check(
        chosen: Selection,
        rows: list[tuple[str, str, str, str]],
        query: np.ndarray,
        k: int,
        trade_off: float,
        near: float | None,
    ) -> None:
        """Each pick has the highest gain of log det; the determinants are formed anew for each.

        Of equal inputs one is chosen: with two, the determinant would be 0. What is near a chosen one comes last.
        """
        known = {(id, text, output) for id, text, output, _ in rows}
        inputs = sorted({text for _, text, _ in known})
        picks = [chosen.picks[place] for place in chosen.order]
        places = [inputs.index(pick.example.input) for pick in picks]
        assert len(places) == len({*places}) == min(k, len(inputs)), (places, len(inputs))
        # of copies any may be chosen: encoded in different batches, their vectors may differ in the last bits
        assert {(pick.example.id, pick.example.input, pick.example.output) for pick in picks} <= known
        if not inputs:
            return
        unit = np.array([VECTOR[text] / np.linalg.norm(VECTOR[text]) for text in inputs])
        relevance = (1 + unit @ query / np.linalg.norm(query)) / 2
        quality = np.exp((relevance - relevance.max()) / (2 * trade_off))
        kernel = quality[:, None] * (1 + unit @ unit.T) / 2 * quality

        def log_det(items: list[int]) -> float:
            return float(np.linalg.slogdet(kernel[np.ix_(items, items)])[1])

        for step in range(len(places)):
            done = places[:step]
            left = [i for i in range(len(inputs)) if i not in done]
            fresh = [i for i in left if near is None or not done or max(unit[done] @ unit[i]) < near]
            gains = {i: log_det([*done, i]) - log_det(done) for i in fresh or left}
            assert places[step] in gains, (step, "a near duplicate before its time")
            own = gains[places[step]]
            assert own >= max(gains.values()) - TOLERANCE, (step, own, max(gains.values()))
            assert abs(own - picks[step].gain) < TOLERANCE, (step, own, picks[step].gain)
        shown = [pick.relevance for pick in chosen.picks]
        assert shown == sorted(shown)

    @invariant()
    def same_rows(self) -> None:
        if hasattr(self, "selector"):
            found = [(e.id, e.input, e.output, e.fields["town"]) for e in self.selector.examples]
            assert found == self.rows and len(self.selector) == len(self.rows)


def run_machine(draw: random.Random, examples: int = 4, steps: int = 25) -> tuple[str, str]:
    """A few random sequences of steps; a failure names its steps."""
    chosen = settings(
        max_examples=examples,
        stateful_step_count=steps,
        database=None,
        deadline=None,
        print_blob=False,
        phases=[Phase.generate],  # shrinking may take minutes
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    try:
        run_state_machine_as_test(seed(draw.randrange(2**32))(Machine), settings=chosen)
    except Exception as error:
        steps_taken = " ".join(getattr(error, "__notes__", []))
        return "failed", f"{type(error).__name__}: {str(error)[:300]} {steps_taken[:1500]}"
    return f"{examples} sequences of {steps} steps", ""

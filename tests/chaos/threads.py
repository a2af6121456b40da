"""One selector and one folder in the hands of threads that add, remove, select, save and load at once."""

from __future__ import annotations

import random
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
from selector_words import ROWS

from ceil_jax import CeilSelector
from chaos.machine import TINY, VECTOR, WHERE

SECONDS = 120
"""Threads that take longer hang."""


def run_threads(folder: Path, draw: random.Random, turns: int = 12) -> tuple[str, str]:
    """Threads work `turns` turns each; what is loaded is whole, and in the end nothing is lost."""
    fixed = [{**row, "input": WHERE[i % len(WHERE)]} for i, row in enumerate(ROWS[:20])]
    selector = CeilSelector.from_examples(fixed, encoder=TINY)
    failures: list[str] = []
    own = {row["id"] for row in fixed}

    def add(rng: random.Random, name: str) -> None:
        for turn in range(turns):
            rows = [
                {"id": f"{name}-{turn}-{i}", "input": rng.choice(WHERE), "output": rng.choice("xyz")}
                for i in range(rng.randint(1, 3))
            ]
            ids = selector.add(rows)
            if turn + 1 < turns:
                selector.remove(ids)
            else:
                kept.update(ids)

    def select(rng: random.Random, name: str) -> None:
        for _ in range(2 * turns):
            chosen = selector.select(rng.choice(WHERE), k=5)
            texts = {(e.input, e.output) for e in chosen.examples}
            if len(texts) != 5:
                failures.append(f"{name}: {len(texts)} different examples of 5")

    def save(rng: random.Random, name: str) -> None:
        for _ in range(max(turns // 3, 1)):
            selector.save_pretrained(place)

    def load(rng: random.Random, name: str) -> None:
        for _ in range(max(turns // 2, 1)):
            failures.extend(_wrong(CeilSelector.from_pretrained(place, verify=rng.random() < 0.5), own))

    kept: set[str] = set()
    jobs = [add, add, select, select, save, save, load, load]
    with tempfile.TemporaryDirectory(dir=folder) as place:
        selector.save_pretrained(place)
        threads = [
            threading.Thread(
                target=_noting, args=(job, random.Random(draw.random()), f"{job.__name__}-{i}", failures)
            )
            for i, job in enumerate(jobs)
        ]
        for thread in threads:
            thread.daemon = True
            thread.start()
        for thread in threads:
            thread.join(SECONDS)
        if any(thread.is_alive() for thread in threads):
            return "failed", f"threads hang: {[thread.name for thread in threads if thread.is_alive()]}"
        if {e.id for e in selector.examples} != own | kept:
            failures.append("examples lost, or not removed")
        selector.save_pretrained(place)
        last = CeilSelector.from_pretrained(place)
        if last.examples != selector.examples:
            failures.append("the last save holds other examples")
        failures.extend(_wrong(last, own | kept))
    return ("failed", "; ".join(failures[:3])) if failures else (f"{len(jobs)} threads", "")


def _noting(job: Callable, rng: random.Random, name: str, failures: list[str]) -> None:
    try:
        job(rng, name)
    except Exception as error:
        failures.append(f"{name}: {type(error).__name__}: {str(error)[:200]}")


def _wrong(selector: CeilSelector, expected: set[str]) -> list[str]:
    """Return the faults of a loaded selector: examples that are not there, or vectors that are of other texts."""
    examples = selector.examples
    wrong = (
        [] if {e.id for e in examples} >= expected else ["loaded without examples that were never removed"]
    )
    vectors = np.float64(selector.bank.view.vectors(range(len(examples))))
    true = np.array([VECTOR[example.input] for example in examples])
    true /= np.linalg.norm(true, axis=1, keepdims=True)
    if not np.allclose(vectors, true, atol=1e-4):
        wrong.append("loaded with vectors of other texts")
    return wrong

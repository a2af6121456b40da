"""Free supervision without an LM: how right the examples are that each free method chooses, measured on the outputs.

    python experiments/free_offline.py --data ../shared/data --tasks sst5 mrpc geoquery.template

Every setting is chosen on a tenth of the bank that is held out, whose values stand in brackets; the table is of the
task's own validation queries (600 at most, drawn at random). Label: equal outputs, percent. Tokens, vectors,
structures: mean similarity of the k outputs to the gold one. Edges: share of the gold program's names and edges that
the k examples hold together, edges only. The last line of a task is what the rule on the bank picks.
"""

from __future__ import annotations

import argparse
import hashlib
import logging
import time
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import numpy as np

from ceil_jax.encoders.registry import load_encoder
from ceil_jax.retrieval.embedded_bank import unit_rows
from ceil_jax.retrieval.shortlists import greedy_map_shortlists
from ceil_jax.tasks.example import Example
from ceil_jax.tasks.load import load_task
from ceil_jax.tasks.structures import structure_parser_of
from ceil_jax.training.free.choice import best_free, held_out_rows, measured_by, nearest
from ceil_jax.training.free.cover import cover_shortlists
from ceil_jax.training.free.fitting import fit_adapter
from ceil_jax.training.free.head import LabelHead, fit_label_head
from ceil_jax.training.free.output_similarity import OutputComparison
from ceil_jax.training.free.rows import Cosine, FreeMethod, Observed
from ceil_jax.training.free.structures import StructureHead, fit_structure_head
from ceil_jax.training.tuning import TRADE_OFFS

TASKS = [
    *("sst5", "movie_reviews", "mrpc", "qnli", "mnli", "cmsqa", "webqs", "nl2bash"),
    *("geoquery", "geoquery.template", "mtop", "smcalflow_cs.0s", "smcalflow_cs.0c"),
]
SHORTLIST = 100
COVER_TRADE_OFFS = (0.03, 0.1, 0.3, 1.0)


@cache
def encoder():
    return load_encoder("all-MiniLM-L6-v2")


def encoded(texts: Sequence[str], folder: Path) -> np.ndarray:
    """Unit vectors of the texts, kept on disk by what the texts are."""
    file = folder / f"{hashlib.sha256(chr(0).join(texts).encode()).hexdigest()[:20]}.npy"
    if not file.is_file():
        unique = {text: i for i, text in enumerate(dict.fromkeys(texts))}
        np.save(file, encoder().encode(list(unique))[[unique[text] for text in texts]])
    return unit_rows(np.load(file))


def rows_of(examples: Sequence[Example], parser: Callable | None, folder: Path) -> Observed:
    parts = None
    if examples[0].parts:
        columns = [[example.parts[i] for example in examples] for i in range(2)]
        parts = np.stack([encoded(column, folder) for column in columns], axis=1)
    outputs = [example.output for example in examples]
    same_choices = len({example.choices for example in examples}) == 1 and bool(examples[0].choices)
    return Observed(
        [example.input for example in examples],
        encoded([example.input for example in examples], folder),
        parts,
        outputs,
        None if same_choices else encoded(outputs, folder),
        [parser(output) for output in outputs] if parser else (),
    )


def joined(a: Observed, b: Observed) -> Observed:
    def both(x, y):
        if isinstance(x, np.ndarray):
            return np.concatenate([x, y])
        return None if x is None else [*x, *y]

    return Observed(*(both(x, y) for x, y in zip(a, b, strict=True)))


def measures(positions: np.ndarray, bank: Observed, queries: Observed) -> dict[str, np.ndarray]:
    """What the examples at places [q, k] of the bank share with each query's gold output."""
    everything, n = joined(queries, bank), len(queries.texts)
    kinds = ["label"] if queries.output_vectors is None else ["tokens", "vectors"]
    kinds += ["structures"] if queries.structures else []
    found = {}
    for kind in kinds:
        similarity = OutputComparison(kind, everything)
        values = [similarity(np.array([q]), n + row)[0].mean() for q, row in enumerate(positions)]
        found[kind] = np.array(values)
    if queries.structures:
        edges = [{one for one in gold if ">" in one} for gold in queries.structures]
        held = [set().union(*(bank.structures[p] for p in row)) for row in positions]
        found["edges"] = np.array([len(e & h) / max(len(e), 1) for e, h in zip(edges, held, strict=True)])
    return found


def sets(
    method: FreeMethod, bank: Observed, queries: Observed, k: int, choose, trade_off: float
) -> np.ndarray:
    asked, items = unit_rows(method.query(queries)), unit_rows(method.examples(bank))
    shortlists = nearest(method, bank, queries, min(SHORTLIST, len(items) - 1))
    return np.asarray(choose(asked, items, shortlists.astype(np.int32), k, trade_off).items)


def cover(head: StructureHead):
    return lambda *given: cover_shortlists(*given, width=len(head.structures) + 1)


def fits(bank: Observed, same_choices: bool) -> dict[str, Callable[[Observed], FreeMethod]]:
    """The free methods that apply to a task."""
    found: dict[str, Callable[[Observed], FreeMethod]] = {"cosine": lambda rows: Cosine()}
    if same_choices:
        found["label head"] = fit_label_head
        labels = tuple(sorted(set(bank.outputs)))
        found["adapter, label"] = lambda rows: adapter("label", rows, labels)
    else:
        for kind in ("tokens", "vectors", *(["structures"] if bank.structures else [])):
            found[f"adapter, {kind}"] = lambda rows, kind=kind: adapter(kind, rows)
    if bank.structures:
        found["structures"] = fit_structure_head
    return found


def adapter(kind: str, rows: Observed, labels: tuple[str, ...] = ()) -> FreeMethod:
    return fit_adapter(rows, kind, labels=labels)


def table(name: str, data: Path, folder: Path, k: int, bank_limit: int | None, methods: list[str]) -> None:
    task = load_task(
        name, data_dir=None if name == "movie_reviews" else data, limit=600, bank_limit=bank_limit
    )
    parser = structure_parser_of(task)
    bank, queries = rows_of(task.train, parser, folder), rows_of(task.validation, parser, folder)
    same_choices = len({example.choices for example in task.train}) == 1 and bool(task.train[0].choices)
    inner, outer = held_out_rows(len(bank.texts))
    inside, outside = bank.take(inner), bank.take(outer)
    kind, agreed = measured_by(bank, same_choices), {}

    def line(method: str, own: np.ndarray, reported: np.ndarray, note: str) -> None:
        on_bank, found = measures(own, inside, outside), measures(reported, bank, queries)
        agreed[method] = on_bank[kind]
        cells = ", ".join(
            f"{key} {100 * value.mean():.1f} ({100 * on_bank[key].mean():.1f})"
            for key, value in found.items()
        )
        print(f"| {name} | {method} | {cells} | {note} |", flush=True)

    print(f"| {name} | | bank {len(bank.texts)}, {len(queries.texts)} queries, k = {k} | |", flush=True)
    for label, fit in fits(bank, same_choices).items():
        if methods and label not in methods:
            continue
        begun = time.process_time()
        whole = fit(bank)
        note = f"{time.process_time() - begun:.0f} s of CPU"
        half = fit(inside)
        if isinstance(whole, LabelHead):
            right = np.mean([a == b for a, b in zip(whole.classify(queries), queries.outputs, strict=True)])
            note += f"; classifier alone {100 * right:.1f}"
        line(label, nearest(half, inside, outside, k), nearest(whole, bank, queries, k), note)
        if isinstance(whole, StructureHead):
            for set_name, choose, grid in (
                ("cover", cover, COVER_TRADE_OFFS),
                ("DPP", lambda _: greedy_map_shortlists, TRADE_OFFS),
            ):
                own = {t: sets(half, inside, outside, k, choose(half), t) for t in grid}
                value = {t: measures(o, inside, outside) for t, o in own.items()}
                both = {t: (100 * v["structures"].mean(), 100 * v["edges"].mean()) for t, v in value.items()}
                said = [f"{t}: {f1:.0f}/{edges:.0f}" for t, (f1, edges) in both.items()]
                best = max(both, key=lambda t: sum(both[t]))
                reported = sets(whole, bank, queries, k, choose(whole), best)
                line(f"structures, {set_name}", own[best], reported, f"λ {best}; bank {', '.join(said)}")
    single = {
        method: own
        for method, own in agreed.items()
        if method not in ("structures, cover", "structures, DPP")
    }
    print(f"| {name} | rule on the bank | {best_free(single)} by {kind} | |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--tasks", nargs="+", default=TASKS)
    parser.add_argument("--vectors", type=Path, default=Path("runs/vectors"))
    parser.add_argument("--k", type=int, default=4)
    parser.add_argument("--methods", nargs="+", default=[], help="lines of the table; all by default")
    parser.add_argument("--bank", type=int, help="examples of the bank at most; all by default")
    given = parser.parse_args()
    logging.disable(logging.WARNING)
    given.vectors.mkdir(parents=True, exist_ok=True)
    for name in given.tasks:
        table(name, given.data, given.vectors, given.k, given.bank, given.methods)


if __name__ == "__main__":
    main()

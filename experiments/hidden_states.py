"""The LM's own hidden states as what `free`'s label head reads, in place of the encoder's vectors,
offline.

    python experiments/hidden_states.py --data-dir DATA --out OUT --record experiments/results.jsonl
    python experiments/results.py --experiment hidden_states --minus "classifier alone"

The recipe was fixed before the first number. SmolLM2-135M-Instruct reads every query as the
template shows it, without its answer, so that the two texts of a pair are read together: 1,000 rows
of the bank and 400 held-out ones, drawn at random. A text has four vectors, the mean of its tokens
and its last token in the middle layer and in the last one. Each is centred and scaled by the bank,
dimension by dimension. On them a multinomial logistic regression learns the labels, as `free`'s
head does; vector and penalty have the smallest log loss in three-fold cross-fitting on the bank.

Beside it: the head on the encoder's vectors, as it is in the package ("classifier alone") and with
the wider range of penalties; and on both, the chosen vectors and the encoder's.

What was read lies in OUT. A task that was read is not read again.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from harness.beside import beside
from harness.command import script
from harness.grid import Cell, Entry, Grid, records_of
from harness.results_file import RESULTS, Published, keep
from sklearn.linear_model import LogisticRegression

from ceil_jax.lm import load_lm
from ceil_jax.pipeline import row_stages
from ceil_jax.pipeline.answering import Classified
from ceil_jax.pipeline.config import SCALES, RunConfig
from ceil_jax.pipeline.learning import TrainedHead
from ceil_jax.pipeline.setup import Session
from ceil_jax.report.runs import Runs
from ceil_jax.report.table import signed
from ceil_jax.store.cost import Cost
from ceil_jax.store.folder import load_arrays, save_arrays
from ceil_jax.store.progress import bar
from ceil_jax.tasks.example import Example, Task
from ceil_jax.training.free.head import fold_numbers
from ceil_jax.training.free.rows import features

TASKS = ("mnli", "qnli", "mrpc", "sst5")
BANK = 1_000
QUERIES = 400
LM = "SmolLM2-135M-Instruct"
PENALTIES = (0.1, 1.0, 10.0, 100.0)
"""The grid for C, the inverse strength of the L2 penalty: coarser than that of `free`'s head, and
beyond it."""
FOLDS = 3
TOKENS = 2_048
"""Tokens that the LM reads at once, padding included."""
ENCODER = "encoder's vectors"
BASE = "classifier alone"


class Block(NamedTuple):
    """A kind of vectors: of the bank, float [N, d], and of the queries, float [Q, d]."""

    bank: np.ndarray
    queries: np.ndarray

    def standard(self) -> Block:
        """Return both less the bank's mean, divided by its standard deviation in each dimension and
        by √d, so that a row is about as long as a unit vector."""
        mean = self.bank.mean(axis=0)
        scale = np.maximum(self.bank.std(axis=0), 1e-6) * np.sqrt(self.bank.shape[1])
        return Block((self.bank - mean) / scale, (self.queries - mean) / scale)

    def beside(self, other: Block) -> Block:
        """Return the vectors of both kinds, one after the other."""
        return Block(*(np.hstack(pair) for pair in zip(self, other, strict=True)))


class Fitted(NamedTuple):
    """What cross-fitting has chosen, and its predictions."""

    block: str
    penalty: float
    labels: list[str]
    """Of the queries."""


def classify(blocks: Mapping[str, Block], outputs: Sequence[str]) -> Fitted:
    """Return the labels of the queries by the block and the C with the smallest cross-fitted log
    loss on the bank.

    Args:
        blocks: kinds of vectors by name.
        outputs: the labels of the bank.
    """
    labels, y = np.unique(list(outputs), return_inverse=True)
    fold = fold_numbers(len(y), FOLDS)

    def fitted(rows: np.ndarray, x: np.ndarray, penalty: float) -> LogisticRegression:
        return LogisticRegression(C=penalty, tol=1e-3, max_iter=300).fit(x[rows], y[rows])

    def loss(name: str, penalty: float) -> float:
        x = blocks[name].bank
        total = 0.0
        for part in range(FOLDS):
            model = fitted(np.flatnonzero(fold != part), x, penalty)
            held_out = np.flatnonzero(fold == part)
            likely = np.full((len(held_out), len(labels)), 1e-6)
            likely[:, model.classes_] = np.maximum(model.predict_proba(x[held_out]), 1e-6)
            total -= float(np.log(likely[np.arange(len(held_out)), y[held_out]]).sum())
        return total

    settings = [(name, penalty) for name in blocks for penalty in PENALTIES]
    with bar(len(settings), "fitting the head", delay=2.0) as progress:
        losses = []
        for setting in settings:
            losses.append(loss(*setting))
            progress.update()
    name, penalty = settings[int(np.argmin(losses))]
    model = fitted(np.arange(len(y)), blocks[name].bank, penalty)
    return Fitted(name, penalty, [str(labels[i]) for i in model.predict(blocks[name].queries)])


def pooled(states: torch.Tensor, mask: torch.Tensor) -> dict[str, np.ndarray]:
    """Return the mean of each row's tokens and its last token, float [B, d], where the mask [B, T]
    is 1 from the left."""
    mean = (states * mask[:, :, None]).sum(dim=1) / mask.sum(dim=1, keepdim=True)
    last = states[torch.arange(len(states)), mask.sum(dim=1) - 1]
    return {"mean": mean.float().numpy(), "last token": last.float().numpy()}


def batches(lengths: Sequence[int], tokens: int = TOKENS) -> list[list[int]]:
    """Return positions of texts in batches of at most so many tokens with padding, shortest
    first."""
    found: list[list[int]] = []
    for position in np.argsort(lengths, kind="stable").tolist():
        if found and (len(found[-1]) + 1) * lengths[position] <= tokens:
            found[-1].append(position)
        else:
            found.append([position])
    return found


class Reader:
    """The LM, loaded once, and the tokens that it has read."""

    def __init__(self) -> None:
        self._lm: Any = None
        self.tokens = 0

    def states(self, texts: Sequence[str], what: str) -> dict[str, np.ndarray]:
        """Return four vectors of each text, float [N, d], by the name of layer and pooling."""
        if self._lm is None:
            self._lm = load_lm(LM, dtype="float32")
        network = self._lm.model.model
        layers = network.config.num_hidden_layers
        wanted = {f"layer {layers // 2}": layers // 2, f"layer {layers}": layers}
        ids = self._lm.tokenizer(list(texts))["input_ids"]
        found: dict[str, np.ndarray] = {}
        with torch.inference_mode(), bar(len(texts), what) as progress:
            for rows in batches([len(own) for own in ids]):
                length = max(len(ids[row]) for row in rows)
                padded = torch.zeros((len(rows), length), dtype=torch.long)
                mask = torch.zeros((len(rows), length), dtype=torch.long)
                for place, row in enumerate(rows):
                    padded[place, : len(ids[row])] = torch.tensor(ids[row])
                    mask[place, : len(ids[row])] = 1
                read = network(padded, attention_mask=mask, output_hidden_states=True)
                for name, layer in wanted.items():
                    for how, vectors in pooled(read.hidden_states[layer], mask).items():
                        all_rows = found.setdefault(
                            f"{name}, {how}", np.empty((len(texts), vectors.shape[1]), np.float32)
                        )
                        all_rows[rows] = vectors
                self.tokens += int(mask.sum())
                progress.update(len(rows))
        return found


def hidden(task: Task, reader: Reader, file: Path) -> tuple[dict[str, Block], Cost]:
    """Return the blocks of the LM's states, as they are, and their cost; from a file if it is
    there."""
    if not file.is_file():
        began = time.perf_counter()
        before = reader.tokens
        examples: list[Example] = [*task.train, *task.validation]
        shown = [task.template.query(example) for example in examples]
        vectors = reader.states(shown, f"reading {task.name}")
        cost = [time.perf_counter() - began, reader.tokens - before]
        file.parent.mkdir(parents=True, exist_ok=True)
        save_arrays(file, cost=np.array(cost), **vectors)
    arrays = dict(load_arrays(file))
    seconds, tokens = arrays.pop("cost").tolist()
    count = len(task.train)
    blocks = {name: Block(rows[:count], rows[count:]) for name, rows in arrays.items()}
    return blocks, Cost(seconds, int(tokens))


def encoded(session: Session) -> Block:
    """Return the encoder's vectors as `free`'s head reads them."""
    run, setup = session
    answers = row_stages.predictions(setup, setup.row("classifier"))
    assert isinstance(answers, Classified)
    assert isinstance(answers.head, TrainedHead)
    return Block(*(features(run.get(rows)) for rows in (answers.head.rows, answers.rows)))


def rows_of(task: Task, states: Mapping[str, Block], encoder: Block) -> dict[str, Fitted]:
    """Return the predictions of every row but the package's own."""
    outputs = [example.output for example in task.train]
    standard = {name: block.standard() for name, block in states.items()}
    alone = classify(standard, outputs)
    both = standard[alone.block].beside(encoder)
    return {
        "hidden states": alone,
        "encoder, wide grid": classify({ENCODER: encoder}, outputs),
        "hidden states and encoder": classify({f"{alone.block}, and {ENCODER}": both}, outputs),
    }


def measured(
    config: RunConfig, grid: Grid, reader: Reader, say: Callable[[str], None]
) -> list[Published]:
    """Return the records of a task's rows."""
    task = grid.task(config)
    cell = Cell(config, "classifier")
    entry = Entry(BASE, task.name, cell)
    [base] = records_of([grid.measure(entry, (0,))], "hidden_states")
    states, cost = hidden(task, reader, config.out / "states.npz")
    found = [base]
    for row, fitted in rows_of(task, states, encoded(grid.open(cell))).items():
        right = [
            float(label == query.output)
            for label, query in zip(fitted.labels, task.validation, strict=True)
        ]
        spent = cost if "hidden" in row else Cost()
        record = beside(base, row, np.array(right)[:, None], spent)
        found.append(record)
        less = signed(Runs([record]).minus(Runs([base])))
        say(f"{task.name}, {row}: {less} ({fitted.block}, C = {fitted.penalty:g})")
    return found


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="a folder for what the LM reads")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--tasks", nargs="+", default=list(TASKS))
    parser.add_argument("--record", type=Path, default=RESULTS, help="a results file")
    options = parser.parse_args(arguments)
    grid = Grid()
    reader = Reader()
    for name in options.tasks:
        config = replace(
            SCALES["small"],
            task=name,
            data_dir=options.data_dir,
            bank_limit=BANK,
            limit=QUERIES,
            dtype="float32",
            out=options.out / name,
        )
        keep(options.record, measured(config, grid, reader, lambda line: print(line, flush=True)))


if __name__ == "__main__":
    script(main)

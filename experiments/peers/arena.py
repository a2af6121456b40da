"""One split of a task's rows for the comparison, and the LM that all methods call."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ceil_jax.lm import load_lm
from ceil_jax.lm.base import LanguageModel
from ceil_jax.lm.cached import ReadingMeter
from ceil_jax.lm.prompts import Prompt
from ceil_jax.metrics import METRICS
from ceil_jax.pipeline.config import TUNE
from ceil_jax.pipeline.models import Models, NamedLM
from ceil_jax.pipeline.ways import ask
from ceil_jax.store.hashing import digest
from ceil_jax.tasks.draws import draw
from ceil_jax.tasks.example import Example, Task
from ceil_jax.tasks.identity import question_key
from ceil_jax.tasks.load import load_task
from ceil_jax.tasks.words import first_of_each
from ceil_jax.tuning.budget import Budget
from ceil_jax.tuning.config import TuneConfig
from ceil_jax.tuning.field import Field
from ceil_jax.tuning.search import Search
from peers.counted import CountedLM

LONGEST = {"geoquery": 32, "mtop": 80, "nl2bash": 48, "webqs": 16}
"""The maximum number of tokens of an answer, enough for 99 of 100 right answers."""


@dataclass(frozen=True)
class Sizes:
    """The rows and the budget of a comparison."""

    rows: int = 100
    """The number of rows that judge the methods."""
    shots: int = 4
    """The number of examples in a prompt, for methods that do not choose it."""
    bank: int = 1000
    """The maximum number of training rows of the task."""
    tuning: int = 40
    """The number of bank rows on which `tune` races; other methods may use them too."""
    final: int = 24
    """The number of further bank rows on which `tune` compares its finalists; other methods may use them too."""
    validating: int = 64
    """The number of these rows on which DSPy's random search compares its programs."""
    prompts: int = 200
    """The budget for preparing, in prompts: the LM tokens of this many prompts with `shots` random examples."""


class Chosen(NamedTuple):
    """The result of a method: the prompt of each query, or predictions without an LM."""

    prompts: Callable[[Sequence[Example]], list[str]] | None
    examples: float
    """The mean number of examples in a prompt."""
    what: str = ""
    """A description of the choice."""
    predictions: Callable[[Sequence[Example]], list[str]] | None = None


class KeptVectors:
    """An encoder that encodes each text once in a process, and otherwise behaves like the encoder that it wraps."""

    def __init__(self, encoder: object) -> None:
        self._encoder = encoder
        self._vectors: dict[str, np.ndarray] = {}

    def __getattr__(self, name: str) -> object:
        return getattr(self._encoder, name)

    def encode(self, texts: Sequence[str], **options: int) -> np.ndarray:
        """Return the vectors of texts, float32 [N, D]."""
        new = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        if new:
            self._vectors |= zip(new, self._encoder.encode(new, **options), strict=True)  # type: ignore[attr-defined]
        return np.stack([self._vectors[text] for text in texts])


class CountingModels(Models):
    """Models with an LM that counts the tokens that a server would bill."""

    def __init__(self, lm: LanguageModel, task: Task, queries: Sequence[Example]) -> None:
        super().__init__()
        self._counted = CountedLM(lm, task, queries)

    def load_lm(self, lm: NamedLM) -> LanguageModel:
        return self._counted


class Shared:
    """The LM and the encoder, shared by all tasks and splits."""

    def __init__(self, lm: str = TUNE.lm, encoder: str = TUNE.encoder) -> None:
        self.lm_name = lm
        self.encoder_name = encoder

    @cached_property
    def lm(self) -> LanguageModel:
        """The loaded LM."""
        return load_lm(self.lm_name)

    @cached_property
    def encoder(self) -> KeptVectors:
        """The untrained encoder that all methods use."""
        from ceil_jax.encoders.registry import load_encoder

        return KeptVectors(load_encoder(self.encoder_name))


class Arena:
    """One split of one task, with its rows, models and budget.

    Its training rows are drawn into those of preparing and the bank; the rows that judge are
    held-out queries, the same in every split, and no method sees them before it has ended.

    Args:
        name: the task.
        split: draws the rows of preparing, and seeds what a method draws.
        sizes: rows and budget.
        shared: the LM and the encoder.
        out: the folder of what the LM has read.
        data_dir: where data sets are.
    """

    def __init__(
        self,
        name: str,
        split: int,
        sizes: Sizes,
        shared: Shared,
        out: Path,
        data_dir: Path | None,
    ) -> None:
        self.split = split
        self.sizes = sizes
        self.shared = shared
        task = load_task(name, data_dir, bank_limit=sizes.bank)
        task = replace(task, max_new_tokens=LONGEST.get(name, task.max_new_tokens))
        known = {_shown(task, example) for example in task.train}
        queries = first_of_each(task.validation, lambda example: _shown(task, example))
        queries = [query for query in queries if _shown(task, query) not in known]
        # as many for fewer rows as among the first for more, so that readings are shared
        order = np.random.default_rng(8).permutation(len(queries))
        self.judging = [queries[i] for i in order[: sizes.rows]]
        order = np.random.default_rng([split, 58]).permutation(len(task.train))
        final = [task.train[i] for i in order[: sizes.final]]
        left = [task.train[i] for i in sorted(order[sizes.final :])]
        self.config = replace(
            TUNE,
            task=name,
            data_dir=data_dir,
            lm=shared.lm_name,
            encoder=shared.encoder_name,
            shots=sizes.shots,
            seed=split,
            data_seed=split,
            out=out / name,
        )
        self.models = CountingModels(shared.lm, task, [*task.train, *self.judging])
        self.models.once(("encoder", shared.encoder_name, None), lambda: shared.encoder)
        self.whole = replace(task, train=left, validation=final)
        """The task as given to `tune`, with all of its rows."""
        drawn = draw(left, sizes.tuning, split + 1)
        raced = {example.id for example in drawn}
        self.bank = [example for example in left if example.id not in raced]
        rows = [*drawn, *final]
        order = np.random.default_rng([split, 59]).permutation(len(rows))
        self.preparing = [rows[i] for i in order]
        """The rows on which methods compare what they try."""
        self.task = replace(task, train=self.bank, validation=self.judging)
        self.field = Field(self.config, self.task, Budget(10**12), self.models)
        self.lm = self.field.lm

    @cached_property
    def budget(self) -> int:
        """The number of LM tokens that a method may spend on preparing."""
        draws = np.random.default_rng(7)
        prompts = [
            self.prompt(query, [self.bank[i] for i in draws.permutation(len(self.bank))[: self.k]])
            for query in self.preparing
        ]
        answers = [query.output for query in self.preparing]
        tokens = self.lm.count_tokens(prompts) + self.lm.count_tokens(answers)
        return round(self.sizes.prompts * float(tokens.mean()))

    @property
    def k(self) -> int:
        """The number of examples in a prompt."""
        return self.sizes.shots

    @property
    def validating(self) -> list[Example]:
        """The rows on which DSPy's random search compares its programs."""
        return self.preparing[: self.sizes.validating]

    @cached_property
    def by_input(self) -> dict[str, Example]:
        """A dict from an input to its row, over the bank, the rows of preparing and the rows that judge."""
        return {row.input: row for row in (*self.bank, *self.preparing, *self.judging)}

    def search(self) -> Search:
        """Return the search of `ceil-jax tune` on this split."""
        wanted = TuneConfig(
            ks=tuple(sorted({max(1, self.k // 2), self.k})),
            lm_tokens=self.budget,
            tuning_rows=self.sizes.tuning,
            final_rows=self.sizes.final,
        )
        search = Search(self.config, self.whole, wanted, self.models)
        assert [row.id for row in search.task.train] == [row.id for row in self.bank]
        return search

    def prompt(self, query: Example, examples: Sequence[Example]) -> str:
        """Return the prompt of a query with examples in the given order."""
        return Prompt(self.task.template).text(query, examples)

    def answers(self, prompts: Sequence[str], queries: Sequence[Example]) -> list[str]:
        """Return the LM's answers to prompts."""
        answering = self.field.base.answering
        replies = ask(self.lm, answering, self.task.stop, prompts, queries)
        return [reply.prediction for reply in replies]

    def scores(self, predictions: Sequence[str], queries: Sequence[Example]) -> np.ndarray:
        """Return the metric of each answer, float64 [N]."""
        return METRICS[self.task.metric].scored(predictions, queries)

    @contextmanager
    def asking(self, limit: int) -> Iterator[Asker]:
        """Yield an `Asker`, through which threads call the LM; together they may use `limit` tokens."""
        with self.lm.metered("preparing") as meter:
            asker = Asker(self, meter, limit)
            try:
                yield asker
            finally:
                asker.close()

    @property
    def texts(self) -> str:
        """A hash of the rows that judge."""
        return digest([[row.input, row.output] for row in self.judging])[:12]


def _shown(task: Task, example: Example) -> str:
    return question_key(task.template.query(example))


class Asker:
    """Calls the LM for threads that each have one prompt: prompts that arrive together are read
    together.

    Once the budget is spent, every further answer is "", without the LM.
    """

    def __init__(self, arena: Arena, meter: ReadingMeter, limit: int) -> None:
        self._arena = arena
        self._limit = limit
        self._meter = meter
        self._waiting: queue.Queue[tuple[str, Example, Future[str]] | None] = queue.Queue()
        self._worker = threading.Thread(target=self._work, daemon=True)
        self._worker.start()

    @property
    def tokens(self) -> int:
        """LM tokens that were spent."""
        return self._meter.cost.tokens

    @property
    def spent(self) -> bool:
        """Whether the budget of tokens is spent."""
        return self.tokens >= self._limit

    def __call__(self, prompt: str, query: Example) -> str:
        """Return the LM's answer to a query's prompt."""
        future: Future[str] = Future()
        self._waiting.put((prompt, query, future))
        return future.result()

    def close(self) -> None:
        """End the thread that reads."""
        self._waiting.put(None)
        self._worker.join()

    def _work(self) -> None:
        open_ = True
        while open_:
            batch = [self._waiting.get()]
            # threads that ask at the same time arrive within a moment
            while len(batch) < 64:
                try:
                    batch.append(self._waiting.get(timeout=0.05))
                except queue.Empty:
                    break
            open_ = None not in batch
            requests = [request for request in batch if request is not None]
            if not requests:
                continue
            try:
                answers = [""] * len(requests)
                if not self.spent:
                    prompts = [prompt for prompt, _, _ in requests]
                    answers = self._arena.answers(prompts, [query for _, query, _ in requests])
            except Exception as error:
                for _, _, future in requests:
                    future.set_exception(error)
                continue
            for (_, _, future), answer in zip(requests, answers, strict=True):
                future.set_result(answer)

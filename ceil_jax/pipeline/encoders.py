"""Encoders as stages: untrained and trained; and the vectors that they give."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ceil_jax.encoders.encoder import Encoder, require_network
from ceil_jax.encoders.text_encoder import TextEncoder, sides
from ceil_jax.encoders.tokenizers import LENGTHS, TRAINING_LENGTHS, padded_length
from ceil_jax.pipeline.models import Pretrained
from ceil_jax.pipeline.stage import Run, Stage, Work, closure, unkeyed
from ceil_jax.pipeline.views import Examples, RetrievalTexts
from ceil_jax.retrieval.embedded_bank import unit_rows
from ceil_jax.store.folder import SCRATCH, load_arrays, save_arrays
from ceil_jax.store.hashing import digest
from ceil_jax.store.locking import disk_errors
from ceil_jax.tasks.example import Example
from ceil_jax.training.candidates import ScoredSets, TrainingData
from ceil_jax.training.free.encoder import FreeEncoder

log = logging.getLogger(__name__)


class Encoders(NamedTuple):
    """The encoder of queries and the encoder of examples."""

    query: TextEncoder
    context: TextEncoder


@dataclass(frozen=True)
class Untrained(Stage[Encoders]):
    """The encoder as it was loaded, for queries and examples."""

    in_memory: ClassVar[bool] = True
    encoder: Pretrained

    def load(self, run: Run, folder: Path) -> Encoders:
        return Encoders(*sides(self.encoder.get()))


@dataclass(frozen=True)
class _Texts(Stage[np.ndarray]):
    """The vectors of some texts, float32 [N, D], by the content of both."""

    what = "encoding texts"
    kind = "vectors"
    shared: ClassVar[bool] = True
    encoder: TextEncoder = unkeyed()
    texts: Sequence[str] = unkeyed()
    encoder_key: str = ""
    texts_key: str = ""

    def compute(self, run: Run, folder: Path) -> Mapping[str, Any]:
        place = {text: i for i, text in enumerate(dict.fromkeys(self.texts))}
        vectors = self.encoder.encode(list(place))
        save_arrays(folder / "vectors.npz", vectors=vectors[[place[text] for text in self.texts]])
        return {"texts": len(self.texts)}

    def load(self, run: Run, folder: Path) -> np.ndarray:
        return load_arrays(folder / "vectors.npz")["vectors"]


def vectors(run: Run, encoder: TextEncoder, texts: Sequence[str]) -> np.ndarray:
    """Return `encoder.encode(texts)`, float32 [N, D], computed once for equal encoders and
    texts."""
    key = getattr(encoder, "fingerprint", encoder.name)
    return run.get(_Texts(encoder, list(texts), key, digest(list(texts))))


class CachedEncoder:
    """An encoder that encodes texts once in a folder of runs; all else is the encoder's own."""

    def __init__(self, run: Run, encoder: TextEncoder) -> None:
        self._run, self._encoder = run, encoder

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """Return the vectors of texts, float32 [N, D]."""
        return vectors(self._run, self._encoder, texts)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._encoder, name)


def cached(run: Run, encoder: TextEncoder) -> Any:
    """Return an encoder that encodes texts once: itself, or a free method over such vectors."""
    if isinstance(encoder, FreeEncoder):
        network = encoder.network and cached(run, encoder.network)
        return replace(encoder, base=cached(run, encoder.base), network=network)
    return CachedEncoder(run, encoder)


def encode_bank(encoder: TextEncoder, examples: Sequence[Example]) -> np.ndarray:
    """Return the vectors of bank examples, float32 [N, D]; a free method reads their outputs
    too."""
    if isinstance(encoder, FreeEncoder):
        return encoder.encode_examples(examples)
    return encoder.encode([example.input for example in examples])


@dataclass(frozen=True)
class Encoded(Stage[np.ndarray]):
    """The vectors of retrieval texts, unit rows float32 [N, D], by the encoder of queries or of
    examples."""

    what = "encoding texts"
    encoders: Stage[Encoders]
    view: RetrievalTexts
    side: str = "query"

    def compute(self, run: Run, folder: Path) -> Mapping[str, Any]:
        self.load(run, folder)
        return {}

    def load(self, run: Run, folder: Path) -> np.ndarray:
        encoders, examples = run.get(self.encoders), run.get(self.view)
        if self.side == "context":
            return unit_rows(encode_bank(cached(run, encoders.context), examples))
        encoder = cached(run, encoders.query)
        if isinstance(encoder, FreeEncoder):
            return unit_rows(encoder.encode_queries(examples))
        return unit_rows(encoder.encode([one.input for one in examples]))

    def estimate(self, run: Run) -> Work:
        count, tokens, parameters = text_facts(self.encoders, self.view, 0.5)
        return Work(encoded=count * tokens * parameters)


def text_facts(
    encoders: Stage[Encoders], view: RetrievalTexts, quantile: float, training: bool = False
) -> tuple[int, int, int]:
    """Return the number of texts, the padded tokens of a text, and the parameters of the untrained
    encoder.

    A batch is padded to this quantile of the lengths of a sample; inputs stand in for rewritten
    texts.
    """
    base = next(one for one in closure([encoders]) if isinstance(one, Untrained)).encoder.get()
    rows: Examples = next(one.rows for one in closure([view]) if hasattr(one, "rows"))
    if not isinstance(base, Encoder):
        return len(rows), 0, 0
    texts = [example.input for example in rows.examples[:200]]
    lengths = [len(ids) for ids in base.tokenizer(texts, base.max_length)]
    longest = float(np.quantile(lengths, quantile))
    tokens = padded_length(longest, base.max_length, TRAINING_LENGTHS if training else LENGTHS)
    return len(rows), tokens, sum(int(np.prod(leaf.shape)) for leaf in base.params.values())


@dataclass(frozen=True)
class Lesson:
    """The input of a training."""

    folder: Path
    """Where it leaves what `Training.load` reads; its scratch folder is for checkpoints."""
    start: Encoders
    bank: Sequence[Example]
    """The bank; its inputs are the texts that trained encoders read."""
    data: TrainingData | None
    """Training queries with scored candidates; None for a method that learns from the bank's
    outputs alone."""
    cached: Callable[[TextEncoder], Any]
    """Encoder → the same, whose vectors are computed once."""
    settings: Any
    seed: int
    trade_off: float | None

    @property
    def scratch(self) -> Path:
        """The folder of checkpoints; it is removed when the stage is done."""
        return self.folder / SCRATCH


@dataclass(frozen=True, kw_only=True)
class Training:
    """A way of training encoders: where it starts, what it learns from, and how. `register_method`
    takes one."""

    name: str
    """As in `--ceil.initial`; its settings are the field of RunConfig with this name, if there is
    one."""
    title: str
    scored: Callable[[Any, Any], Stage[ScoredSets]] | None = None
    """(The run's `Graph`, settings) → the training queries with their candidate sets and scores;
    none where the bank's outputs are all that it learns from."""
    train: Callable[[Lesson], Mapping[str, Any]]
    """Trains, leaves files in the lesson's folder, and returns a summary (`history`, `ending`)."""
    load: Callable[[Path, Encoders], Encoders] | None = None
    """(Folder, the starting encoders) → the trained ones; by default networks, as `save_networks`
    leaves them."""
    settings: Any = None
    """A frozen dataclass, or a function (graph) → one; used where RunConfig has no field of that
    name. Its `initial` names the encoders that training starts from (untrained ones without it),
    its `trade_off` is λ of the kernel that is trained; "tuned" takes the starting encoder's."""
    refusal: Callable[[Any], str] = lambda task: ""
    """Task → why it cannot be trained there; "" if it can."""
    check: Callable[[Any, Any], None] = lambda graph, settings: None
    """(Graph, settings) → refuse settings that cannot be, before the LM scores anything."""
    sets: bool = False
    """Whether it learns from sets, so that its encoders are judged by the sets that MAP chooses."""
    cross_fitted: Callable[[Any], Stage[np.ndarray]] | None = None
    """(Its `Weights`) → its vectors of the bank's rows as queries, each without what that row's
    output has taught: for a free method, which learns from all outputs."""
    lm_tokens: bool = True
    """Whether an LM scores what it learns from."""
    version: int = 1
    """Raised when the same settings give other weights."""

    @property
    def key(self) -> list[Any]:
        """The training's name and version, as keys have them."""
        return [self.name, self.version]


def save_networks(lesson: Lesson, params: Mapping[str, Any]) -> None:
    """Write trained networks into a lesson's folder: {"query": …} is one encoder of queries and
    examples, {"query": …, "context": …} are two."""
    with disk_errors(lesson.folder):
        for name, own_params in params.items():
            # a process that was killed while it saved has left files that belong to no encoder
            shutil.rmtree(lesson.folder / name, ignore_errors=True)
            network_of(lesson.start.query).with_params(own_params).save_pretrained(
                lesson.folder / name
            )


def network_of(encoder: TextEncoder) -> Encoder:
    """Return the network that can be trained: the encoder itself, or the one below a free method.

    Raises:
        UserError: it only gives vectors, as an encoder behind an endpoint does.
    """
    if isinstance(encoder, FreeEncoder):
        return network_of(encoder.network or encoder.base)
    return require_network(encoder)


def load_networks(folder: Path, start: Encoders, title: str) -> Encoders:
    """Return trained networks; where training started from a free method, they replace the encoder
    inside it."""
    from ceil_jax.encoders.registry import load_encoder

    found: list[Any] = []
    for name, side in zip(("query", "context"), start, strict=True):
        if (folder / name).is_dir():
            loaded = load_encoder(folder / name)
            label = title if name == "query" else f"{title} {name}"
            # it shares compiled functions with the encoder that training began with
            found.append(network_of(side).with_params(loaded.params).renamed(label))
    sides = zip(start, (found[0], found[-1]), strict=True)
    return Encoders(
        *(
            replace(side, network=one) if isinstance(side, FreeEncoder) else one
            for side, one in sides
        )
    )


@dataclass(frozen=True)
class Weights(Stage[Encoders]):
    """Trained encoders."""

    training: Training
    scored: Stage[ScoredSets] | None
    queries: RetrievalTexts | None
    bank: RetrievalTexts
    """The bank, as trained encoders read it."""
    start: Stage[Encoders]
    settings: Any
    seed: int = 0
    trade_off: float | Stage[float] | None = None
    seen: np.ndarray | None = field(default=None, repr=False)
    """bool [Q]: training queries that the starting encoder has learnt from."""
    asked: Stage[Encoders] | None = None
    """The starting encoders for the bank's queries, where they are others (`AskedByBank`)."""

    @property
    def kind(self) -> str:
        return self.training.name

    @property
    def what(self) -> str:
        return f"training {self.training.title}"

    def compute(self, run: Run, folder: Path) -> Mapping[str, Any]:
        bank, data = run.get(self.bank), None
        if self.scored is not None and self.queries is not None:
            candidates, scores = run.get(self.scored)
            queries, fixed = run.get(self.queries), None
            if self.asked and isinstance(asked := run.get(self.asked).query, FreeEncoder):
                fixed = cached(run, asked).fixed(queries, bank)
            data = TrainingData(queries, bank, candidates, scores, self.seen, fixed)
        start, trade_off, once = (
            run.get(self.start),
            run.value(self.trade_off),
            partial(cached, run),
        )
        lesson = Lesson(folder, start, bank, data, once, self.settings, self.seed, trade_off)
        found = self.training.train(lesson)
        if (found.get("ending") or {}).get("kept") == "start":
            log.warning(
                "training %s: it ranked held-out sets no better than the start, which is kept "
                "(more training queries may help)",
                self.training.title,
            )
        return found

    def load(self, run: Run, folder: Path) -> Encoders:
        start = run.get(self.start)
        if self.training.load is None:
            return load_networks(folder, start, self.training.title)
        return self.training.load(folder, start)

    def estimate(self, run: Run) -> Work:
        from ceil_jax.training.loop import held_out_count, step_count

        settings = self.settings
        if self.queries is None or not all(
            hasattr(settings, name) for name in ("epochs", "batch_size")
        ):
            return Work()
        texts = 3
        if self.training.sets:
            encoded = 0
            if not settings.frozen_examples:
                encoded = settings.sets_in_a_step(settings.subsets) * settings.size
            texts = 1 + min(settings.shortlist, encoded)
        count, tokens, parameters = text_facts(self.start, self.queries, 0.75, training=True)
        instances = count - held_out_count(count)
        return Work(
            trained=texts * instances * settings.epochs * tokens * parameters,
            steps=step_count(instances, settings.epochs, settings.batch_size),
        )


@dataclass(frozen=True)
class AskedByBank(Stage[Encoders]):
    """Trained encoders for queries of the bank, whose own outputs a free method at their start has
    learnt from."""

    in_memory: ClassVar[bool] = True
    encoders: Stage[Encoders]
    bank: RetrievalTexts
    cross_fitted: Stage[np.ndarray]

    def load(self, run: Run, folder: Path) -> Encoders:
        found = run.get(self.encoders)
        if not isinstance(found.query, FreeEncoder):
            return found
        ids = (example.id for example in run.get(self.bank))
        by_id = dict(zip(ids, run.get(self.cross_fitted), strict=True))
        query: Any = replace(found.query, cross_fitted=by_id)
        return found._replace(query=query)

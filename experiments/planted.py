"""Train CEIL on a planted score, to judge training without an LM.

    python experiments/planted.py --task movie_reviews python experiments/planted.py --task mtop
    --data-dir DATA --queries 1600 --size 3 --sets 13 --epochs 3 \
        --learning-rate 1e-4

The planted score of a set is the mean, or with `--planted max` the largest, similarity of its
examples' outputs to the query's output, as the encoder sees them before training, plus Gaussian
noise. `--noise 1` is noise as large as the score's spread within a query. Training starts from the
encoder itself, or with `--candidates N` from EPR, trained on planted scores of N single examples a
query.

A run prints one line and appends it to `--out`: Kendall's τ with the planted score before and after
training, on the held-out queries and on independent queries, the planted score of the sets that
greedy MAP chooses for the independent queries, and the seconds of training. Independent queries are
judged on the same sets whatever training ranks: `--judged` sets of `--shots` examples, drawn
uniformly from the untrained encoder's shortlist (τ with the noise, and without it) and from its
k-DPP, near what MAP chooses; its own top-k is not among them.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import jax
import numpy as np
import tyro
from harness.command import script

from ceil_jax.dpp.greedy import greedy_map
from ceil_jax.dpp.kernel import conditional_kernel, relevance, similarity, similarity_from_features
from ceil_jax.dpp.lengths import unit_rows
from ceil_jax.encoders.encoder import Encoder
from ceil_jax.encoders.registry import load_encoder
from ceil_jax.errors import UserError
from ceil_jax.methods.ceil import CEIL
from ceil_jax.methods.epr import EPR
from ceil_jax.retrieval.index import top_k
from ceil_jax.tasks.example import Example, Task
from ceil_jax.tasks.load import load_task
from ceil_jax.training.candidates import TrainingData
from ceil_jax.training.ceil import set_log_probs, train_ceil
from ceil_jax.training.contrastive import output_similarity, train_epr
from ceil_jax.training.held_out import split_held_out
from ceil_jax.training.losses import ranking_quality
from ceil_jax.training.samplers import epr_candidates, k_dpp_sets, uniform_sets

DEFAULT = CEIL()
CHUNK = 16
"""Number of queries whose sets are scored at a time."""


@dataclass(frozen=True)
class Options:
    """Train CEIL on a planted score."""

    task: str = "movie_reviews"
    """The task whose bank supplies queries and examples."""
    data_dir: Path | None = None
    """A folder of datasets; by default the hub or the package."""
    bank_limit: int | None = None
    """The maximum number of examples in the bank."""
    encoder: str = "all-MiniLM-L6-v2"
    """"tiny", a packaged name or a folder."""
    queries: int = DEFAULT.instances
    """Number of training queries, including held-out ones."""
    independent: int = 300
    """Number of queries that training never sees."""
    judged: int = 20
    """Number of sets of each independent query."""
    shots: int = 8
    """Number of examples in the sets of independent queries."""
    sets: int = DEFAULT.subsets
    """Number of candidate sets of each training query."""
    size: int = DEFAULT.size
    """Number of examples in a candidate set."""
    shortlist: int = DEFAULT.shortlist
    """Number of nearest examples from which sets are drawn."""
    noise: float = 0.0
    """Standard deviation of the noise, relative to the score's spread within a query."""
    planted: Literal["mean", "max"] = "mean"
    """The formula for the score of a set, from the similarities of its examples."""
    candidates: int = 0
    """Start from EPR, trained on this many single examples for each query; 0 to start untrained."""
    sampler: Literal["random", "k_dpp"] = "random"
    learning_rate: float = DEFAULT.learning_rate
    epochs: int = DEFAULT.epochs
    batch_size: int = DEFAULT.batch_size
    trade_off: float = 0.05
    """λ of the kernel."""
    train_context: Literal["frozen", "shared", "both"] = "frozen"
    loss: str = DEFAULT.loss
    """A registered loss."""
    loss_options: tuple[str, ...] = ()
    """Options of the loss, each as NAME=VALUE."""
    seed: int = 0
    out: Path = Path("runs/planted.jsonl")


def config_of(options: Options) -> CEIL:
    """Return CEIL's settings."""
    names = (
        "sampler",
        "trade_off",
        "train_context",
        "loss",
        "loss_options",
        "epochs",
        "batch_size",
        "learning_rate",
    )
    return CEIL(
        subsets=options.sets, size=options.size, **{name: getattr(options, name) for name in names}
    )


def planted_scores(
    similar: np.ndarray, subsets: np.ndarray, noise: float, seed: int, planted: str = "mean"
) -> tuple[np.ndarray, np.ndarray]:
    """Return the planted scores [Q, M], with noise and without.

    Args:
        similar: float [Q, n]: similarity of each shortlisted example's output to the query's
            output.
        subsets: int [Q, M, k]: places in the shortlist.
        noise: standard deviation of the noise, relative to the mean standard deviation within a
            query.
        seed: of the noise.
        planted: "mean" or "max" over a set's examples.
    """
    each = np.take_along_axis(similar[:, None], subsets, axis=2)
    clean = (each.max(axis=2) if planted == "max" else each.mean(axis=2)).astype(np.float32)
    drawn = np.random.default_rng([seed, 6]).normal(size=clean.shape)
    return (clean + noise * clean.std(axis=1).mean() * drawn).astype(np.float32), clean


def singles_of(
    options: Options,
    queries: list[Example],
    bank: Sequence[Example],
    outputs: np.ndarray,
    positions: np.ndarray,
) -> TrainingData:
    """Return EPR's candidates of training queries with their planted scores."""
    candidates = epr_candidates(queries, bank, options.candidates)
    similar = output_similarity(outputs[positions], outputs, candidates.shortlist)
    scores, _ = planted_scores(similar, candidates.subsets, options.noise, options.seed + 1000)
    return TrainingData(queries, bank, candidates, scores)


def judged_sets(
    options: Options,
    queries: list[Example],
    shortlist: np.ndarray,
    vectors: np.ndarray,
    cosines: np.ndarray,
) -> dict[str, np.ndarray]:
    """Return the sets on which independent queries are judged, int [Q, M, k] each, without the top-k."""
    count = options.judged + 1
    size = options.shots
    seed = options.seed
    uniform = uniform_sets(queries, shortlist, count, size, seed)
    near = k_dpp_sets(shortlist, vectors, similarity(cosines), count, size, options.trade_off, seed)
    return {"uniform": uniform.subsets[:, 1:], "near_map": near.subsets[:, 1:]}


def map_score(
    queries: np.ndarray,
    examples: np.ndarray,
    similar: np.ndarray,
    size: int,
    trade_off: float,
    planted: str,
) -> float:
    """Return the mean planted score, without noise, of the sets that greedy MAP chooses."""

    @jax.jit
    @jax.vmap
    def choose(query: jax.Array, examples: jax.Array) -> jax.Array:
        kernel = conditional_kernel(
            relevance(query, examples), similarity_from_features(examples), trade_off
        )
        return greedy_map(kernel, size).items

    items = np.asarray(choose(queries, examples))
    each = np.where(items < 0, np.nan, np.take_along_axis(similar, items, axis=1))
    return float(np.nanmax(each, axis=1).mean() if planted == "max" else each.mean())


def run(options: Options, task: Task) -> dict[str, Any]:
    """Train once, and return the measurements."""
    encoder = load_encoder(options.encoder)
    bank = task.train
    size = options.size
    count = options.queries + options.independent
    if count > len(bank) or options.shortlist >= len(bank) or size > options.shortlist:
        raise UserError(
            f"the bank of {options.task} has {len(bank)} examples: --queries and --independent "
            f"take {count} of them, --shortlist {options.shortlist} has to be smaller, and --size "
            f"{size} no larger than the shortlist"
        )
    positions = np.random.default_rng([options.seed, 7]).permutation(len(bank))[:count]
    queries = [bank[i] for i in positions]
    texts = [example.input for example in bank]
    outputs = unit_rows(encoder.encode([example.output for example in bank]))
    singles = None
    if options.candidates:
        training_positions = positions[: options.queries]
        singles = singles_of(options, queries[: options.queries], bank, outputs, training_positions)
        with tempfile.TemporaryDirectory() as folder:
            encoder = encoder.with_params(
                train_epr(encoder, singles, EPR(), seed=options.seed, folder=Path(folder)).params[
                    "query"
                ]
            )
    vectors = unit_rows(encoder.encode(texts))
    cosines, nearest = top_k(vectors[positions], vectors, options.shortlist + 1)
    others = np.argsort(nearest == positions[:, None], axis=1, kind="stable")[
        :, : options.shortlist
    ]
    cosines = np.take_along_axis(cosines, others, 1)
    shortlist = np.take_along_axis(nearest, others, 1)
    similar = output_similarity(outputs[positions], outputs, shortlist)
    of_training = slice(options.queries)
    of_independent = slice(options.queries, None)
    judged = judged_sets(
        options,
        queries[of_independent],
        shortlist[of_independent],
        vectors,
        cosines[of_independent],
    )
    how = options.noise, options.seed, options.planted
    with_noise, clean = planted_scores(similar[of_independent], judged["uniform"], *how)
    near, _ = planted_scores(similar[of_independent], judged["near_map"], 0, *how[1:])
    scores = {
        "": ("uniform", with_noise),
        "_without_noise": ("uniform", clean),
        "_near_map": ("near_map", near),
    }

    def measured(query: Encoder, context: Encoder) -> dict[str, float]:
        independent_vectors = unit_rows(
            query.encode([example.input for example in queries[of_independent]])
        )
        bank = vectors if context is encoder else unit_rows(context.encode(texts))
        examples = bank[shortlist[of_independent]]
        score = jax.jit(
            lambda query_vectors, example_vectors, sets: set_log_probs(
                query_vectors, example_vectors, sets, None, options.trade_off
            )
        )
        ours = {
            name: np.concatenate(
                [
                    np.asarray(
                        score(
                            *(
                                part[i : i + CHUNK]
                                for part in (independent_vectors, examples, subsets)
                            )
                        )
                    )
                    for i in range(0, options.independent, CHUNK)
                ]
            )
            for name, subsets in judged.items()
        }
        taus = {
            f"tau{name}": float(ranking_quality(ours[sets], planted).mean())
            for name, (sets, planted) in scores.items()
        }
        score_of_map = map_score(
            independent_vectors,
            examples,
            similar[of_independent],
            options.shots,
            options.trade_off,
            options.planted,
        )
        return {**taus, "map_score": score_of_map}

    config = config_of(options)
    shape = options.sets, options.size
    if options.sampler == "k_dpp":
        relevances = similarity(cosines[of_training])
        candidates = k_dpp_sets(
            shortlist[of_training], vectors, relevances, *shape, options.trade_off, options.seed
        )
    else:
        candidates = uniform_sets(
            queries[of_training], shortlist[of_training], *shape, options.seed
        )
    noisy, _ = planted_scores(similar[of_training], candidates.subsets, *how)
    data = TrainingData(queries[of_training], bank, candidates, noisy)
    if singles is not None:
        # what EPR held out stays held out
        training, _ = split_held_out(options.queries, options.seed)
        data = data._replace(used_by_start=np.isin(np.arange(options.queries), training))
    before = measured(encoder, encoder)
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        trained = train_ceil(
            encoder,
            data,
            config,
            bank_vectors=vectors,
            trade_off=float(config.trade_off),
            seed=options.seed,
            folder=Path(folder),
        )
    seconds = time.perf_counter() - began
    query = encoder.with_params(trained.params["query"])
    context = (
        encoder.with_params(trained.params["context"]) if "context" in trained.params else query
    )
    after = measured(query, context)
    name_of_ending, quality = trained.ending
    return {
        "kept": name_of_ending,
        "held_out_before": quality["start"],
        "held_out_after": quality[name_of_ending],
        **{
            f"{name}_{when}": values[name]
            for name in before
            for when, values in (("before", before), ("after", after))
        },
        "seconds": seconds,
    }


def main(argv: list[str] | None = None) -> None:
    options = tyro.cli(Options, args=argv, description=__doc__)
    task = load_task(options.task, options.data_dir, bank_limit=options.bank_limit)
    results = {
        name: round(value, 4) if isinstance(value, float) else value
        for name, value in run(options, task).items()
    }
    print(
        f"τ held out {results['held_out_before']:.3f} → {results['held_out_after']:.3f}, independent "
        f"{results['tau_before']:.3f} → {results['tau_after']:.3f} (without noise "
        f"{results['tau_without_noise_before']:.3f} → {results['tau_without_noise_after']:.3f}, near "
        f"MAP {results['tau_near_map_before']:.3f} → {results['tau_near_map_after']:.3f}), MAP sets "
        f"{results['map_score_before']:.3f} → {results['map_score_after']:.3f}, {results['seconds']:.0f} "
        "s"
    )
    settings = {
        name: value for name, value in asdict(options).items() if name not in ("out", "data_dir")
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with options.out.open("a") as file:
        file.write(json.dumps({**settings, **results}) + "\n")


if __name__ == "__main__":
    script(main)

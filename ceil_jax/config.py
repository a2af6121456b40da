"""What a run is."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal


@dataclass(frozen=True)
class EPRConfig:
    """Retrievers of single examples: EPR, which CEIL starts from, is trained on the LM's scores of candidates; TST on
    how alike their outputs are to the query's, which costs no LM tokens."""

    instances: int = 400
    """Training queries, each with its candidates."""
    candidates: int = 20
    """Examples a query, scored one at a time."""
    positives: int = 5
    """A positive is drawn from this many best-scored candidates, a hard negative from as many worst."""
    epochs: int = 6
    """Passes over the instances."""
    batch_size: int = 16
    """Queries a step; each one's positive and hard negative are negatives to the others."""
    learning_rate: float = 3e-5
    """Peak of the schedule."""
    temperature: float = 0.05
    """Divides the inner products; 1 is the raw product, for encoders whose vectors are not unit length."""


@dataclass(frozen=True)
class CEILConfig:
    """Training on scored subsets."""

    instances: int = 400
    """Training queries, each scored with its subsets."""
    subsets: int = 20
    """M: subsets a query is scored with; the first is the top-k."""
    size: int = 8
    """k: examples a subset."""
    shortlist: int = 50
    """n: nearest examples that subsets are drawn from."""
    sampler: Literal["random", "tree", "k_dpp", "bank"] = "random"
    """How subsets are drawn from the shortlist: uniformly; uniformly, but so that they share the halves that
    open their prompts, which the LM then reads once; by the k-DPP. Or uniformly from the whole bank, not from the
    shortlist."""
    trade_off: float | Literal["tuned"] = 0.05
    """λ of the kernel, in training and in MAP inference; tuned: see the run's; training then takes the λ
    tuned for the encoder it starts from."""
    initial: Literal["epr", "tst", "base"] = "epr"
    """The weights to start from, and the encoder that shortlists."""
    train_context: Literal["frozen", "shared", "both"] = "frozen"
    """Which encoder of the examples learns: none, the query's own, or a second one."""
    loss: Literal["pairwise", "info_nce"] = "pairwise"
    """Ranking of all pairs, or the best subset against the rest."""
    reduction: Literal["pairs", "gap_mean"] = "pairs"
    """Of the pairwise loss: mean over pairs, or the released code's sum of means over rank gaps."""
    epochs: int = 6
    """Passes over the instances."""
    batch_size: int = 16
    """Queries a step."""
    learning_rate: float = 1e-5
    """Peak of the schedule."""


@dataclass(frozen=True)
class SkillConfig:
    """Rewriting inputs as skills (Skill-KNN)."""

    lm: str | None = None
    """The rewriter, as in --lm; by default the run's own LM."""
    demonstrations: str | None = None
    """sql, cogs, or a JSON file of [{"input": …, "skill": …}] (FILE#NAME of several lists); by default the
    task's own."""
    orders: int = 5
    """m: shuffled orders of the demonstrations, each of which gives a skill."""
    order: int = 0
    """The one whose skill `skill_base` and --text skill take."""


@dataclass(frozen=True)
class EndpointConfig:
    """Servers of an OpenAI-compatible interface, where `lm` or `encoder` is an address."""

    api_key_env: str | None = None
    """The environment variable that holds the key; it is read from nowhere else and written nowhere."""
    concurrency: int = 8
    """Requests under way at a time."""
    batch: int = 8
    """Prompts a request; vectors are asked for eight times as many at a time."""
    timeout: float = 120.0
    """Seconds until a request must be answered in full."""
    attempts: int = 6
    """Of a request that fails in passing: 408, 429, 5xx, time-outs, dropped connections, torn answers."""
    back_off: float = 0.5
    """Seconds before the second attempt, doubled before each one after it; a server's Retry-After goes first."""
    max_requests: int | None = None
    """Stop before a server of this run is asked more often, retries counted."""
    max_tokens: int | None = None
    """Stop once a server of this run has read and written so many tokens."""
    chat: bool = False
    """Generate through /chat/completions, each prompt a user's message; scoring needs /completions."""
    tokenizer: str | None = None
    """A folder or hub id with the model's tokenizer, for counting tokens where the server has no /tokenize."""
    context_length: int | None = None
    """Tokens the model reads, where the server does not say."""


@dataclass(frozen=True)
class RunConfig:
    """One task, one LM, one encoder: everything that a number depends on."""

    task: str = "movie_reviews"
    """A name in TASKS."""
    data_dir: Path | None = None
    """A folder of datasets in their hub column names; without it, the hub or the embedded copy."""
    limit: int | None = None
    """Validation examples at most."""
    bank_limit: int | None = None
    """Bank examples at most."""
    encoder: str = "all-MiniLM-L6-v2"
    """A registered or packaged name, a folder, a hub id, module:function, or http://host:port/v1#model."""
    lm: str = "SmolLM2-135M-Instruct"
    """A packaged name, a folder, a hub id or http://host:port/v1#model; "tiny" for tests."""
    dtype: Literal["auto", "bfloat16", "float32"] = "auto"
    """Of the LM: auto is bfloat16 where the machine has it."""
    device_map: str | None = None
    """For an LM too large for one device: transformers' device_map, as in "auto"."""
    shots: int = 8
    """K: in-context examples at most; the token budget may cut them."""
    shortlist: int = 100
    """n: nearest examples that MAP and MMR choose from."""
    index: Literal["exact", "approximate"] = "exact"
    """How the nearest vectors are found; approximate is for banks of many millions."""
    trade_off: float | Literal["tuned"] = 0.05
    """λ of MAP on an encoder that was not trained for it; tuned: the one whose sets make the right answers
    of 64 training queries most probable, of 0.001 to 0.1. Encoders were trained on other queries, unless the
    bank has too few."""
    token_budget: int | None = None
    """A prompt's tokens at most, whatever the method, where queries are answered and λ is tuned; by default what
    the LM reads. Sets that training scores are whole."""
    fit: Literal["greedy", "similarity", "budget"] = "greedy"
    """What to drop when not all examples fit: the last of the greedy order, or the least similar. Or nothing:
    DPP-MAP chooses under each prompt's own budget; the other methods drop the last."""
    order: Literal["similarity", "greedy"] = "similarity"
    """What stands next to the query: the most similar example, as in the papers, or the first chosen. Training and
    the tuning of λ score sets in the first of these orders."""
    signal: Literal["log_prob", "choice"] = "log_prob"
    """What training ranks examples and subsets by: log P(answer), or, on tasks with choices, that less
    log Σ P(choice), which is what decides an answer."""
    text: Literal["input", "skill"] = "input"
    """What retrievers see and encoders are trained on: inputs as they are, or rewritten as skills."""
    context: Literal["input", "example"] = "input"
    """What trained encoders see of a bank example: its input, as in the papers, or its output as well, which
    is known at inference too."""
    seed: int = 0
    """Of training: what is held out, the order of batches, the positives drawn, dropout."""
    data_seed: int = 0
    """Of all that is drawn besides: queries and bank under a limit, the instances and subsets that the LM
    scores, random examples, orders of demonstrations. Runs that differ in `seed` alone share the LM's work."""
    engine: Literal["local", "ray"] = "local"
    """What scores training sets: this process, or Ray actors on the machines of a cluster, an LM each."""
    actors: int = 2
    """Of --engine ray; each takes a GPU where there are any."""
    out: Path = Path("runs")
    """The folder of stages."""
    tst: EPRConfig = field(default_factory=lambda: EPRConfig(instances=2000, candidates=40, epochs=3))
    """Target similarity tuning, for which no LM is asked: of 40 candidates 5 have each of 8 labels."""
    epr: EPRConfig = field(default_factory=EPRConfig)
    """EPR: training on the LM's scores of single examples."""
    ceil: CEILConfig = field(default_factory=CEILConfig)
    """CEIL: training on the LM's scores of sets."""
    skills: SkillConfig = field(default_factory=SkillConfig)
    """Rewriting inputs as skills (Skill-KNN)."""
    endpoint: EndpointConfig = field(default_factory=EndpointConfig)
    """Servers of an OpenAI-compatible interface, where --lm or --encoder is an address."""


Scale = Literal["tiny", "small", "paper"]

SCALES: dict[str, RunConfig] = {
    # about two minutes on 2 CPU cores: does it run?
    "tiny": RunConfig(
        limit=16,
        bank_limit=1000,
        shots=4,
        shortlist=50,
        tst=EPRConfig(instances=24, candidates=10, positives=2, epochs=2),
        epr=EPRConfig(instances=24, candidates=8, positives=3, epochs=2),
        ceil=CEILConfig(instances=24, subsets=6, size=4, shortlist=20, epochs=2),
    ),
    # an hour on 2 CPU cores: which way does it point?
    "small": RunConfig(
        limit=200,
        shots=6,
        trade_off="tuned",
        epr=EPRConfig(epochs=4),
        ceil=CEILConfig(instances=200, subsets=12, size=6, trade_off="tuned", epochs=4),
    ),
    # the papers' settings: a GPU and a weekend
    "paper": RunConfig(
        shots=50,
        trade_off="tuned",
        tst=EPRConfig(instances=44_000, candidates=50, epochs=5, batch_size=128, learning_rate=1e-5),
        epr=EPRConfig(instances=44_000, candidates=50, epochs=30, batch_size=128, learning_rate=1e-5),
        ceil=CEILConfig(
            instances=44_000,
            subsets=50,
            size=16,
            shortlist=100,
            trade_off="tuned",
            epochs=30,
            batch_size=128,
            learning_rate=1e-5,
        ),
    ),
}
"""Where each size of experiment starts from; every flag can still be given."""

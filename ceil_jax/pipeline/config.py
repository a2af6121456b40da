"""The settings of a run, and their defaults for each scale, the demo and `tune`."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from ceil_jax.errors import Range, UserError, check_options, check_ranges
from ceil_jax.lm.openai.config import EndpointConfig
from ceil_jax.lm.prompts import Fit, Form
from ceil_jax.methods.base import Method
from ceil_jax.methods.ceil import CEIL
from ceil_jax.methods.epr import EPR
from ceil_jax.methods.fixed import FixedPrompt
from ceil_jax.methods.free import Free
from ceil_jax.methods.registry import ROWS, registered_methods
from ceil_jax.methods.row import Row
from ceil_jax.methods.second_round import SecondRound
from ceil_jax.methods.tst import TST
from ceil_jax.retrieval.retrievers import ZERO

M = TypeVar("M", bound=Method)


@dataclass(frozen=True)
class SkillConfig:
    """Rewriting inputs as skills (Skill-KNN)."""

    lm: str | None = None
    """The rewriter, as in --lm; by default the run's own LM."""
    demonstrations: str | None = None
    """sql, cogs, or a JSON file of [{"input": …, "skill": …}]; by default the
    task's own."""
    orders: Annotated[int, Range(1)] = 5
    """m: number of shuffled orders of the demonstrations, each of which gives one skill.
    `skill_base` uses the order of the seed, --text skill the first."""


@dataclass(frozen=True)
class RunConfig:
    """All settings of a run on one task with one LM and one encoder, which determine its results.

    Examples:
        >>> config = RunConfig(task="sst5", shots=4, methods=(EPR(epochs=3),))
        >>> config.method(CEIL).start.epochs
        3
    """

    task: str = "movie_reviews"
    """A name in TASKS."""
    data_dir: Path | None = None
    """A folder of datasets with the hub's column names; by default a task is downloaded
    from the hub or comes as a package."""
    limit: Annotated[int | None, Range(1)] = None
    """The largest number of queries, taken from the validation data."""
    bank_limit: Annotated[int | None, Range(1)] = None
    """The largest number of examples to choose from (the bank)."""
    encoder: str = "all-MiniLM-L6-v2"
    """A registered or packaged name, a folder, a hub id, module:function, or
    http://host:port/v1#model."""
    lm: str = "SmolLM2-135M-Instruct"
    """A packaged name, a folder, a hub id, module:function or http://host:port/v1#model; "tiny" for
    tests."""
    dtype: Literal["auto", "bfloat16", "float32"] = "auto"
    """The LM's number format; auto is bfloat16 if the machine supports it, else float32."""
    device_map: str | None = None
    """transformers' device_map, such as "auto", for an LM that is too large for one device."""
    shots: Annotated[int, Range(0)] = 8
    """K, the largest number of in-context examples; the token budget may allow fewer."""
    shortlist: Annotated[int, Range(1)] = 100
    """n: number of nearest examples that MAP and MMR choose from."""
    trade_off: Annotated[float | Literal["tuned"], Range(above=0)] = 0.05
    """λ of MAP with an encoder that was not trained on sets; CEIL uses the λ of its training.
    tuned: the λ from 0.001 to 0.1 whose sets make the right answers of 64 training queries most
    probable. Encoders are trained on other queries, unless the bank has too few."""
    min_relevance: Annotated[float | None, Range(0, 1)] = None
    """The lowest relevance, (1 + cos) / 2, of a chosen example, for rows that compare vectors of
    inputs: a query without near examples gets fewer or none. λ is tuned without it."""
    token_budget: Annotated[int | None, Range(1)] = None
    """The most tokens of a prompt when queries are answered and λ is tuned; by default the LM's
    context. In training, whole sets are scored."""
    fit: Fit = "greedy"
    """Which examples to drop if not all fit: the last chosen (greedy), or the least similar
    (similarity)."""
    order: str = "relevance"
    """The order of a prompt's examples: the most relevant last, next to the query (relevance), or
    an order added by register_order."""
    system: str | None = None
    """The instruction, which comes once, before the examples: a text, or @FILE. {labels} is
    replaced by the labels. None by default, except for a chat LM and labels, where it names
    them."""
    form: Form | None = None
    """The prompt's form: one text, or a chat with a turn for each example. By default turns for a
    chat LM, else text. A local LM needs a chat template for turns."""
    text: Literal["input", "skill"] = "input"
    """The retrieval text, on which encoders are also trained: the inputs, or skills into which an
    LM rewrites them."""
    context: Literal["input", "example"] = "input"
    """The text of a bank example for trained encoders: its input, as in the papers, or its input
    and output."""
    seed: Annotated[int, Range(0)] = 0
    """Seed of training (held-out queries, order of batches, drawn positives, dropout), of random
    examples, and of the order of demonstrations for `skill_base`."""
    data_seed: Annotated[int, Range(0)] = 0
    """Seed of all other draws: queries and bank under a limit, the training queries and sets that
    the LM scores, shuffled demonstrations. Runs that differ only in `seed` share the LM's work."""
    engine: Literal["local", "ray"] = "local"
    """Where the LM runs: in this process, or in Ray actors on a cluster, each with its own copy."""
    actors: Annotated[int, Range(1)] = 2
    """Number of Ray actors with --engine ray; each uses a GPU if there are any."""
    out: Path = Path("runs")
    """The folder in which results are kept."""
    methods: tuple[Method, ...] = ()
    """Methods whose settings differ from their defaults. On the command line, the settings of every
    registered row's method are flags, such as --ceil.epochs."""
    skills: SkillConfig = field(default_factory=SkillConfig)
    """Rewriting inputs as skills (Skill-KNN)."""
    endpoint: EndpointConfig = field(default_factory=EndpointConfig)
    """Settings of OpenAI-compatible servers, if --lm or --encoder is an address."""

    def __post_init__(self) -> None:
        check_ranges(self)
        for method in self.methods:
            check_method_name(method)

    def method(self, kind: type[M]) -> M:
        """Return the method of a class with this configuration's settings.

        The methods that it starts from have them too.

        Examples:
            >>> RunConfig(methods=(EPR(epochs=9),)).method(CEIL).start.epochs
            9
        """
        method = _registered(kind).configured(self._by_name)
        assert isinstance(method, kind), "one name is one class"
        return method

    def row(self, name: str) -> Row:
        """Return a row by its name, with this configuration's settings; see `configured`.

        Raises:
            UserError: the name is unknown, or a method would start from itself.
        """
        return self.configured(ROWS[name])

    def configured(self, row: Row) -> Row:
        """Return a row whose method has this configuration's settings.

        With --shots 0, rows that the LM answers choose no examples.

        Raises:
            UserError: a method would start from itself, or has the name of a setting.
        """
        check_method_name(row.method)
        if self.shots == 0 and row.answers == "lm":
            return Row(row.label, retriever=ZERO, against=row.against, name=row.name)
        return replace(row, method=row.method.configured(self._by_name))

    def using(self, *methods: Method) -> RunConfig:
        """Return this configuration with some methods, which replace those of the same names."""
        return replace(self, methods=tuple((self._by_name | _by_name(methods)).values()))

    def with_method(self, kind: type[Method], **settings: Any) -> RunConfig:
        """Return this configuration with other settings of a method.

        Examples:
            >>> RunConfig().with_method(EPR, epochs=9).method(EPR).epochs
            9

        Raises:
            UserError: the method has no such setting.
        """
        check_options(f"--{kind.name}", settings, [field.name for field in fields(kind)])
        method = self._by_name.get(kind.name) or _registered(kind)
        return self.using(replace(method, **settings))

    @property
    def _by_name(self) -> dict[str, Method]:
        return _by_name(self.methods)


def _registered(kind: type[M]) -> M:
    """A method with the settings that it was registered with, or with the defaults of its class."""
    method = registered_methods().get(kind.name)
    return method if isinstance(method, kind) else kind()


def _by_name(methods: tuple[Method, ...]) -> dict[str, Method]:
    return {method.name: method for method in methods}


def check_method_name(method: Method) -> None:
    """Raise a UserError if a method has the name of a setting of RunConfig.

    One flag would then mean two things.
    """
    if method.name in {field.name for field in fields(RunConfig)}:
        raise UserError(
            f"a method cannot be called {method.name!r}: --{method.name} is a setting of a run; "
            "give its class another name"
        )


def method_flags(config: RunConfig) -> dict[str, Method]:
    """Return the methods whose settings are flags, by name.

    They have the settings of a configuration.
    """
    methods = {
        name: method for name, method in registered_methods().items() if fields(type(method))
    }
    for method in methods.values():
        check_method_name(method)
    return methods | {name: m for name, m in _by_name(config.methods).items() if name in methods}


SCALES: dict[str, RunConfig] = {
    # about two minutes on 2 CPU cores: does it run?
    "tiny": RunConfig(
        limit=16,
        bank_limit=1000,
        shots=4,
        shortlist=50,
        methods=(
            TST(instances=24, candidates=10, positives=2, epochs=2),
            EPR(instances=24, candidates=8, positives=3, epochs=2),
            SecondRound(instances=24, subsets=6, shortlist=20, epochs=2),
            CEIL(instances=24, subsets=6, shortlist=20, epochs=2),
            FixedPrompt(sets=8, rows=4),
        ),
    ),
    # ten minutes on 2 CPU cores that read 1,150 LM tokens a second; more than half of these go into
    # answers, because wide intervals are the first problem of a small comparison
    "demo": RunConfig(
        limit=600,
        bank_limit=3000,
        shots=2,
        methods=(
            EPR(instances=160, candidates=8, epochs=2),
            SecondRound(instances=200, subsets=5, epochs=2),
            CEIL(instances=200, subsets=5, size=2, epochs=2),
        ),
    ),
    # an hour on 2 CPU cores, enough to see a tendency. The settings are those of docs/results.md,
    # with fewer queries; training queries were answered best with four examples
    "small": RunConfig(
        limit=200,
        shots=4,
        trade_off="tuned",
        methods=(
            EPR(candidates=16, epochs=4),
            SecondRound(instances=400),
            CEIL(instances=400, trade_off="tuned"),
        ),
    ),
    # the settings of CEIL's paper, models included, and 120 epochs of EPR as in the released code;
    # if the models are not available: --encoder all-MiniLM-L6-v2 --lm SmolLM2-135M-Instruct
    "paper": RunConfig(
        encoder="google-bert/bert-base-uncased",
        lm="EleutherAI/gpt-neo-2.7B",
        shots=50,
        trade_off="tuned",
        methods=(
            TST(instances=44_000, candidates=50, epochs=5, batch_size=128, learning_rate=1e-5),
            EPR(instances=44_000, candidates=50, epochs=120, batch_size=128, learning_rate=1e-5),
            CEIL(
                instances=44_000,
                subsets=50,
                size=16,
                shortlist=100,
                trade_off="tuned",
                epochs=30,
                batch_size=128,
                learning_rate=1e-5,
                train_context="both",
                sets_per_step="all",
            ),
        ),
    ),
}
"""The defaults of each --scale; flags override them."""


def from_free(config: RunConfig) -> RunConfig:
    """Return settings with which EPR, and CEIL after it, start from `Free`."""
    return config.with_method(EPR, start=Free())


APPLIED = SCALES | {name: from_free(SCALES[name]) for name in ("tiny", "demo", "small")}
"""The defaults of `ceil-jax compare` and `export`, in which training starts from `free`. In
experiments, which study training itself, EPR starts untrained, as in the papers."""

TUNE = from_free(
    RunConfig(
        methods=(
            EPR(instances=240, candidates=16, epochs=5),
            CEIL(instances=240, subsets=12),
        )
    )
)
"""The defaults of `ceil-jax tune`, which has no scales: its budget decides how much is done."""

COMPARED = (
    "majority",
    "classifier",
    "copied",
    "zero",
    "random",
    "bm25",
    "topk",
    "dpp",
    "free",
    "free_map",
    "epr",
    "second_round",
    "ceil",
)
"""The rows of `ceil-jax compare` by default."""

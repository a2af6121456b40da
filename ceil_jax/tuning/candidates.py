"""The search space: which ways of choosing examples are candidates. `options.Space` cuts or extends it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ceil_jax.errors import UserError, unknown_name
from ceil_jax.pipeline.config import RunConfig
from ceil_jax.pipeline.methods import METHODS, TRAININGS
from ceil_jax.tasks.example import Context, Task
from ceil_jax.tuning.options import Space

ZERO = "zero"
"""The name of the candidate without examples."""

LEARNED = ("free", "free_map", "epr", "ceil")
"""The trained methods that are tried by default."""

PLAIN = 8
"""K of plain top-k, with which every choice is compared."""


@dataclass(frozen=True)
class Candidate:
    """One way of choosing examples."""

    method: str
    """A row of METHODS."""
    shots: int
    """K; 0 for ZERO alone."""
    encoder: str = ""
    """The name of the untrained encoder; empty where none is needed."""
    trade_off: float | None = None
    """λ, where it is free."""
    context: Context = "input"

    @property
    def trains(self) -> bool:
        """Whether encoders have to be trained for it on an LM's scores."""
        return METHODS[self.method].learns_from_lm

    @property
    def prepared(self) -> bool:
        """Whether it spends LM tokens before the first query: on training, or on rewriting inputs as skills."""
        return self.trains or METHODS[self.method].needs.skills != "none"

    def config(self, base: RunConfig) -> RunConfig:
        """Return the settings of its run.

        Args:
            base: the settings of all candidates.
        """
        own = replace(base, shots=self.shots, context=self.context)
        if self.encoder:
            own = replace(own, encoder=self.encoder)
        return own if self.trade_off is None else replace(own, trade_off=self.trade_off)

    def label(self, encoders: int = 1) -> str:
        """Return its name in tables.

        Args:
            encoders: how many encoders are searched; the encoder is named where there are several.
        """
        if self.method == ZERO:
            return METHODS[ZERO].label
        parts = [f"K = {self.shots}"]
        parts += [] if self.trade_off is None else [f"λ = {self.trade_off:g}"]
        parts += ["outputs encoded"] if self.context == "example" else []
        parts += [self.encoder] if self.encoder and encoders > 1 else []
        return f"{METHODS[self.method].label}, {', '.join(parts)}"


NOTHING = Candidate(ZERO, 0)
"""No examples at all."""


def plain(config: RunConfig, task: Task) -> Candidate:
    """Return plain top-k: the 8 nearest examples of the encoder that the run names."""
    return Candidate("topk", min(PLAIN, len(task.train) - 1), config.encoder)


def candidates(space: Space, config: RunConfig, task: Task) -> list[Candidate]:
    """Return the candidates that need no preparation, zero examples and plain top-k among them.

    Args:
        space: what is searched.
        config: the settings of all candidates.
        task: its bank limits K.

    Raises:
        UserError: an unknown method, or no number of examples that the bank has.
    """
    ks = _ks(space, task)
    found = (one for name in methods(space, config, task) for one in _variants(name, space, config, ks))
    return list(dict.fromkeys(one for one in found if not one.prepared))


def methods(space: Space, config: RunConfig, task: Task) -> list[str]:
    """Return the names of the methods that are searched.

    Raises:
        UserError: a name that is not known.
    """
    for name in (*space.methods, *space.without):
        if name not in METHODS or METHODS[name].answers != "lm":
            raise unknown_name("method", name, [n for n, m in METHODS.items() if m.answers == "lm"])
    names = space.methods or tuple(_by_default(config, task))
    left = [name for name in dict.fromkeys(names) if name not in space.without]
    if not left:
        raise UserError("--without leaves no method to search; name fewer")
    return left


def prepared(space: Space, config: RunConfig, task: Task, leader: Candidate) -> list[Candidate]:
    """Return the candidates that an LM has to prepare, with the number of examples of the leader.

    Args:
        space: what is searched.
        config: the settings of all candidates.
        task: the task.
        leader: the best candidate so far.
    """
    shots = leader.shots or plain(config, task).shots
    one = replace(space, encoders=())
    found = (c for name in methods(space, config, task) for c in _variants(name, one, config, [shots]))
    return [candidate for candidate in found if candidate.prepared]


def _by_default(config: RunConfig, task: Task) -> Iterator[str]:
    """Names of the methods that the data allows, from cheap to dear."""
    demonstrated = bool(task.language or config.skills.demonstrations)
    for name, method in METHODS.items():
        needs = method.needs
        if method.answers != "lm" or needs.gold_outputs or (needs.skills != "none" and not demonstrated):
            continue
        if method.trains and name not in LEARNED:
            continue
        yield name


def _variants(name: str, space: Space, config: RunConfig, ks: Sequence[int]) -> Iterator[Candidate]:
    """All settings of one method."""
    if name == ZERO:
        yield NOTHING
        return
    method, needs = METHODS[name], METHODS[name].needs
    trained = method.trains
    encoders = dict.fromkeys((config.encoder, *space.encoders)) if method.encoder else ("",)
    by_sets = method.trains and TRAININGS[method.encoder].sets  # type: ignore[index]
    free = needs.trade_off == "tunable" and not by_sets
    for encoder in encoders:
        for trade_off in space.trade_offs if free else (None,):
            for context in space.contexts if trained else ("input",):
                for shots in ks:
                    yield Candidate(name, shots, encoder, trade_off, context)


def _ks(space: Space, task: Task) -> list[int]:
    found = [k for k in sorted(set(space.ks)) if 1 <= k < len(task.train)]
    if not found:
        raise UserError(
            f"--ks {' '.join(map(str, space.ks))}: the bank of {task.name} has {len(task.train)} examples; "
            f"give numbers from 1 to {len(task.train) - 1}"
        )
    return found

"""The speed of a machine, for estimates of time. The speed of this machine is measured once."""

from __future__ import annotations

import importlib.util
import logging
import timeit
from functools import cache
from typing import NamedTuple

from ceil_jax.distributed.machine import device
from ceil_jax.errors import UserError
from ceil_jax.store.folder import read_json, write_json
from ceil_jax.store.hashing import digest
from ceil_jax.store.kept import Work
from ceil_jax.tasks.assets import cache_path, has_cache

log = logging.getLogger(__name__)

WRITING = 4.0
"""The cost of generating a token, in tokens read. A guess: a step generates one token of each
text."""


class Machine(NamedTuple):
    """The speed of a machine, in parameters × tokens per second.

    A network twice as large takes twice as long.
    """

    name: str
    lm: float
    encode: float
    """The speed of encoding."""
    train: float
    """The speed of training, forward and backward pass together."""

    def seconds(self, work: Work) -> float:
        """Return the seconds that some work takes."""
        read = tokens_as_read(work) * work.parameters
        return read / self.lm + work.encoded / self.encode + work.trained / self.train


def tokens_as_read(work: Work) -> float:
    """Return the LM tokens of some work; a generated token counts as WRITING tokens read."""
    return work.read + WRITING * work.written


NAME = "this machine (from its speed when it was first measured)"
"""The name of this machine in dry runs and plans."""

LAYOUT = 1
"""The version of the measurement."""

ENCODING = {"cpu": 1.28, "gpu": 0.1}
"""The speed of encoding as a share of that of a float32 matrix product; measured as below."""

TRAINING = {"cpu": 0.24, "gpu": 0.033}
"""The speed of training as the same kind of share. On a CPU it was measured with all-MiniLM-L6-v2,
whose embeddings count as parameters but take no products; on a GPU it is a guess."""


@cache
def this_machine() -> Machine:
    """Return the speed of this machine.

    It is measured once, in about two seconds, and kept in the cache folder, if there is one.
    """
    if not has_cache():
        return measured()
    file = cache_path() / f"machine-{digest([device(), LAYOUT])[:8]}.json"
    try:
        speeds = read_json(file)
        return Machine(NAME, speeds["lm"], speeds["encode"], speeds["train"])
    except (OSError, ValueError, KeyError, TypeError):
        machine = measured()
    speeds = {"lm": machine.lm, "encode": machine.encode, "train": machine.train}
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_json(file, speeds)
    except (OSError, UserError):
        log.info("%s cannot be written: the machine is measured again next time", file)
    return machine


def measured() -> Machine:
    """Measure this machine, in about two seconds."""
    import jax
    import jax.numpy as jnp

    kind = "cpu" if jax.default_backend() == "cpu" else "gpu"
    # 1,024 tokens through a layer of all-MiniLM-L6-v2
    left = jnp.ones((1024, 384))
    right = jnp.ones((384, 1536))
    product = jax.jit(jnp.matmul)
    times = timeit.repeat(lambda: product(left, right).block_until_ready(), number=1, repeat=50)
    speed = left.size * right.shape[1] / min(times)
    # without torch, no LM reads here
    reading = speed
    if importlib.util.find_spec("torch") is not None:
        from ceil_jax.lm.torch.loading import reading_speed

        reading = reading_speed()
    return Machine(
        NAME,
        reading,
        ENCODING[kind] * speed,
        TRAINING[kind] * speed,
    )

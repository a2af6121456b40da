"""A synthetic task: requests for repairs, and the calls that order them.

It tests new combinations of known parts. A small grammar generates it, so no data set is needed.

A request names a *device*, a *fault* and a *place*. Its call says who repairs such a device, which
tool fixes such a fault, and which colour the key of the place has: "In Oslo the printer is leaking
again" is `fix(printer(Anna),leaking(tape),Oslo(red))`. What belongs to a part can only be read off
an example that has the same part. Each pair of parts is either seen or held out, by a hash of the
two. The bank has only seen pairs, and a query only held-out ones: every part of a query is in the
bank, and no example has two of them (as in COGS, Kim and Linzen 2020, and in SMCalFlow-CS, Yin et
al. 2021, but so small that the parts can be counted). So a prompt shows all that a query needs if
its examples have the three parts *between them*.

The grammar and the sizes were chosen on other seeds than the task's.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import random
from collections.abc import Iterator

from ceil_jax.tasks.spec import Row, pair_task

BANK_SIZE = 600
QUERIES = 300
HELD_OUT = 3
"""One in this many pairs of parts is held out of the bank."""
SEED = "repairs"

DEVICES = (
    "printer",
    "heater",
    "projector",
    "lift",
    "scanner",
    "kettle",
    "fridge",
    "router",
    "monitor",
    "window",
    "door",
    "lamp",
    "fan",
    "camera",
    "radiator",
    "tap",
)
FAULTS = (
    "leaking",
    "broken",
    "stuck",
    "cracked",
    "rusty",
    "dirty",
    "loose",
    "noisy",
    "slow",
    "missing",
    "frozen",
    "overheating",
    "flickering",
    "vibrating",
)
PLACES = (
    "Lisbon",
    "Oslo",
    "Prague",
    "Dublin",
    "Turin",
    "Ghent",
    "Porto",
    "Basel",
    "Lyon",
    "Vienna",
    "Riga",
    "Zagreb",
    "Bilbao",
    "Leeds",
)
PEOPLE = (
    "Anna",
    "Ben",
    "Clara",
    "David",
    "Emma",
    "Frank",
    "Grace",
    "Henry",
    "Iris",
    "Jack",
    "Karen",
    "Leo",
    "Maria",
    "Nick",
    "Olga",
    "Paul",
)
TOOLS = (
    "hammer",
    "ladder",
    "drill",
    "glue",
    "brush",
    "saw",
    "rope",
    "tape",
    "oil",
    "wire",
    "filter",
    "pump",
    "sponge",
    "wrench",
)
KEYS = (
    "red",
    "blue",
    "green",
    "yellow",
    "black",
    "white",
    "brown",
    "orange",
    "purple",
    "pink",
    "grey",
    "silver",
    "gold",
    "violet",
)
PHRASES = (
    "The {0} in our {2} office is {1}",
    "{2}: the {0} is {1}",
    "Please send somebody to {2}, the {0} is {1}",
    "Our {0} is {1}, the address is {2}",
    "Hello, the {0} here in {2} is {1}",
    "In {2} the {0} is {1} again",
)


def known(seed: str) -> tuple[dict[str, str], ...]:
    """Return the person for each device, the tool for each fault, and the key of each place."""
    rng = random.Random(f"{seed} known")
    slots = ((DEVICES, PEOPLE), (FAULTS, TOOLS), (PLACES, KEYS))
    return tuple(
        dict(zip(parts, rng.sample(words, len(parts)), strict=True)) for parts, words in slots
    )


def is_held_out(seed: str, one: str, other: str) -> bool:
    """Return whether no example of the bank has both parts, given in the order of a call."""
    return hashlib.sha256(f"{seed} {one} {other}".encode()).digest()[0] % HELD_OUT == 0


def requests(seed: str, held_out: bool) -> Iterator[Row]:
    """Yield distinct requests without end, in which every pair of parts is held out, or none is."""
    rng = random.Random(f"{seed} {'queries' if held_out else 'bank'}")
    known_of = known(seed)
    yielded: set[str] = set()
    while True:
        parts = [rng.choice(words) for words in (DEVICES, FAULTS, PLACES)]
        request = rng.choice(PHRASES).format(*parts)
        pairs = itertools.combinations(parts, 2)
        if request not in yielded and all(is_held_out(seed, *pair) == held_out for pair in pairs):
            yielded.add(request)
            call = ",".join(f"{part}({known_of[slot][part]})" for slot, part in enumerate(parts))
            yield {"request": request, "call": f"fix({call})"}


@functools.cache
def repairs(seed: str = SEED) -> dict[str, list[Row]]:
    """Return BANK_SIZE requests of seen pairs, and QUERIES requests of held-out pairs."""
    return {
        "train": list(itertools.islice(requests(seed, held_out=False), BANK_SIZE)),
        "validation": list(itertools.islice(requests(seed, held_out=True), QUERIES)),
    }


ENTRIES = (
    pair_task(
        name="repairs",
        columns=("request", "call"),
        embedded=repairs,
        max_new_tokens=40,
        note="made here from a grammar; every query combines three parts that the bank has only apart",
    ),
)

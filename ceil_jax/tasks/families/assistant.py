"""Commands to an assistant and the calls that carry them out: programs with known parts in new
combinations. They are generated from a small grammar, so no data set is needed.

A command has an *action* ("let Anna's boss know that the train is late") and one or two *slots*,
each filled with a *form*: a name, a relative, somebody's boss, a place near by, an hour, an event.
Each pair of an action and a form is either seen or held out, by a hash of the two. The bank has
only seen pairs; every query has at least one held-out pair, while its action and each of its forms
occur in the bank in other pairs. So the bank holds all parts of a query, but never in one example
(as in COGS, Kim and Linzen 2020, and in SMCalFlow-CS, Yin et al. 2021, at a size that trains in
minutes).

The grammar, the seed and the sizes were written down before any method was run on them.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ceil_jax.tasks.spec import Row, pair_task

BANK_SIZE = 1_000
QUERIES = 300
HELD_OUT = 3
"""One in this many pairs of an action and a form is held out."""

NAMES = ("Anna", "Ben", "Chloe", "David", "Elena", "Farid", "Grace", "Hugo", "Ines", "Jonas")
RELATIVES = ("sister", "brother", "mother", "father", "cousin", "neighbour")
CITIES = ("Lisbon", "Oslo", "Prague", "Dublin", "Turin", "Ghent", "Porto", "Basel")
KINDS = ("pharmacy", "bakery", "library", "bank", "museum", "station")
EVENTS = ("lunch", "the concert", "the exam", "the game", "yoga", "the lecture")
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
HOURS = ("six", "seven", "eight", "nine", "ten", "eleven")
CHORES = ("water the plants", "pay the rent", "feed the cat", "buy stamps", "return the keys")
NEWS = (
    "the train is late",
    "dinner is ready",
    "I am ill",
    "the door is open",
    "the plan has changed",
)


def _symbol(words: str) -> str:
    """Return words as one symbol of a program: "water the plants" is water_plants."""
    return "_".join(word.lower() for word in words.split() if word.lower() not in ("the", "i"))


@dataclass(frozen=True)
class Form:
    """One way of filling a slot: a phrase and a program that are filled with the same drawn
    words."""

    name: str
    phrase: str
    program: str
    words: tuple[Sequence[str], ...]

    def filled(self, rng: random.Random) -> tuple[str, str]:
        """Return a phrase and its program, filled with the same drawn words."""
        drawn = [rng.choice(choices) for choices in self.words]
        return self.phrase.format(*drawn), self.program.format(*map(_symbol, drawn))


@dataclass(frozen=True)
class Action:
    """An action of the assistant: phrases of equal meaning, and the slots that they have."""

    name: str
    phrases: tuple[str, ...]
    slots: tuple[str, ...]


FORMS: Mapping[str, tuple[Form, ...]] = {
    "person": (
        Form("name", "{}", "{}", (NAMES,)),
        Form("relative", "my {}", "kin(me,{})", (RELATIVES,)),
        Form("relative_of", "{}'s {}", "kin({},{})", (NAMES, RELATIVES)),
        Form("boss", "the person {} works for", "boss({})", (NAMES,)),
        Form("host", "whoever organises {}", "host({})", (EVENTS,)),
        Form("owner", "the owner of the {}", "owner({})", (KINDS,)),
    ),
    "place": (
        Form("city", "{}", "{}", (CITIES,)),
        Form("nearest", "the closest {}", "nearest({})", (KINDS,)),
        Form("home", "where {} lives", "home({})", (NAMES,)),
        Form("venue", "the place where {} is", "venue({})", (EVENTS,)),
        Form("kind_in", "a {} in {}", "find({},{})", (KINDS, CITIES)),
    ),
    "time": (
        Form("hour", "at {}", "at({})", (HOURS,)),
        Form("day", "on {}", "on({})", (DAYS,)),
        Form("day_hour", "on {} at {}", "on({},at({}))", (DAYS, HOURS)),
        Form("after", "as soon as {} is over", "after({})", (EVENTS,)),
        Form("before", "an hour ahead of {}", "before({},1h)", (EVENTS,)),
        Form("weekly", "every {}", "each({})", (DAYS,)),
    ),
    "chore": (Form("chore", "{}", "{}", (CHORES,)),),
    "news": (Form("news", "{}", "{}", (NEWS,)),),
}

ACTIONS = (
    Action("call", ("call {}", "ring {} up", "get {} on the phone"), ("person",)),
    Action("call", ("call {} {}", "phone {} {}"), ("person", "time")),
    Action("tell", ("tell {} that {}", "let {} know that {}"), ("person", "news")),
    Action("invite", ("invite {} {}", "ask {} over {}"), ("person", "time")),
    Action("share", ("send {} my location", "show {} where I am"), ("person",)),
    Action("route", ("take me to {}", "how do I get to {}"), ("place",)),
    Action(
        "weather", ("will it rain in {} {}", "what is the weather like in {} {}"), ("place", "time")
    ),
    Action("taxi", ("order a taxi to {} {}", "I need a cab to {} {}"), ("place", "time")),
    Action("remind", ("remind me to {} {}", "do not let me forget to {} {}"), ("chore", "time")),
    Action("alarm", ("wake me {}", "set an alarm {}"), ("time",)),
    Action("mute", ("no calls {}", "keep the phone silent {}"), ("time",)),
)


def is_held_out(action: str, form: str) -> bool:
    """Return whether the bank has no example of this action with this form."""
    digest = hashlib.sha256(f"{action} {form}".encode()).digest()
    return digest[0] % HELD_OUT == 0


def commands(seed: str, held_out: bool) -> Iterator[Row]:
    """Yield distinct commands without end: those with a held-out pair, or those without one."""
    rng = random.Random(seed)
    yielded: set[str] = set()
    while True:
        action = rng.choice(ACTIONS)
        forms = [rng.choice(FORMS[slot]) for slot in action.slots]
        fillings = [form.filled(rng) for form in forms]
        phrase = rng.choice(action.phrases)
        command = phrase.format(*(words for words, _ in fillings))
        # a slot with a single form has no pairs: that form has been seen with the action
        pairs = [
            (action.name, form.name)
            for slot, form in zip(action.slots, forms, strict=True)
            if len(FORMS[slot]) > 1
        ]
        if command not in yielded and held_out == any(is_held_out(*pair) for pair in pairs):
            yielded.add(command)
            program = ",".join(call for _, call in fillings)
            yield {"command": command, "call": f"{action.name}({program})"}


@functools.cache
def assistant() -> dict[str, list[Row]]:
    """Return BANK_SIZE commands of seen pairs, and QUERIES commands with a held-out pair."""
    bank = itertools.islice(commands("assistant bank", held_out=False), BANK_SIZE)
    queries = itertools.islice(commands("assistant queries", held_out=True), QUERIES)
    return {"train": list(bank), "validation": list(queries)}


ENTRIES = (
    pair_task(
        name="assistant",
        columns=("command", "call"),
        embedded=assistant,
        max_new_tokens=48,
        note="made here from a grammar; every query combines an action with a form that the bank has "
        "only apart",
    ),
)

"""SCAN (Lake & Baroni 2018): commands to actions, enumerated from its grammar.

C → S and S | S after S | S        S → V twice | V thrice | V
V → D | U | M opposite T | M around T        D → M T        M → U | turn
U → walk | look | run | jump        T → left | right
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable

from ceil_jax.tasks.spec import Row, TaskSpec, pair_task

VERBS = ("walk", "look", "run", "jump")
SIMPLE_TEST = 4_182
"""How many of the 20,910 commands the random split tests on."""
LONGEST_TRAINED = 22
"""The most actions that the length split trains on; it tests on 24 to 48."""
PRIMITIVE_SHARE = 10
"""In the add-primitive splits one of ten training rows is the primitive alone."""


def _phrases() -> dict[str, list[str]]:
    """Return the 34 phrases of V with their actions."""
    phrases = {}
    for verb in ("turn", *VERBS):
        act = [] if verb == "turn" else [f"I_{verb.upper()}"]
        if act:
            phrases[verb] = act
        for side in ("left", "right"):
            turn = [f"I_TURN_{side.upper()}"]
            phrases[f"{verb} {side}"] = turn + act
            phrases[f"{verb} opposite {side}"] = turn + turn + act
            phrases[f"{verb} around {side}"] = 4 * (turn + act)
    return phrases


@functools.cache
def commands() -> tuple[tuple[str, str], ...]:
    """Return all 20,910 (command, actions), in the order of the grammar."""
    repeated = {"": 1, " twice": 2, " thrice": 3}
    sentences = {v + word: n * acts for v, acts in _phrases().items() for word, n in repeated.items()}
    pairs = dict(sentences)
    for first, first_acts in sentences.items():
        for second, second_acts in sentences.items():
            pairs[f"{first} and {second}"] = first_acts + second_acts
            pairs[f"{first} after {second}"] = second_acts + first_acts
    return tuple((command, " ".join(acts)) for command, acts in pairs.items())


def _split(tested: Callable[[str, str], bool]) -> dict[str, list[Row]]:
    rows: dict[str, list[Row]] = {"train": [], "validation": []}
    for command, actions in commands():
        side = "validation" if tested(command, actions) else "train"
        rows[side].append({"commands": command, "actions": actions})
    return rows


def simple() -> dict[str, list[Row]]:
    """Return 16,728 and 4,182 rows, as many as published. The published draw is random and unnamed, ours by hash."""
    by_hash = sorted(commands(), key=lambda pair: hashlib.sha256(pair[0].encode()).digest())
    tested = {command for command, _ in by_hash[:SIMPLE_TEST]}
    return _split(lambda command, _: command in tested)


def length() -> dict[str, list[Row]]:
    """Return 16,990 rows of at most 22 actions, and 3,920 longer ones."""
    return _split(lambda _, actions: len(actions.split()) > LONGEST_TRAINED)


def add_primitive(primitive: str) -> dict[str, list[Row]]:
    """Return 14,670 and 7,706 rows for jump, 21,890 and 1,208 for turn left.

    Every longer command with the primitive in it is tested. As published, the primitive alone is repeated
    until it is a tenth of the training rows; de-duplicating the bank leaves one (13,204 and 19,702).
    """
    split = _split(lambda command, _: f" {primitive} " in f" {command} " and command != primitive)
    alone = next(row for row in split["train"] if row["commands"] == primitive)
    others = len(split["train"]) - 1
    copies = others // (PRIMITIVE_SHARE - 1) - 1
    return {"train": split["train"] + copies * [alone], "validation": split["validation"]}


def _entry(name: str, splits: Callable[[], dict[str, list[Row]]], bank: int, queries: int) -> TaskSpec:
    return pair_task(
        name=f"scan.{name}",
        columns=("commands", "actions"),
        embedded=splits,
        sizes=(bank, queries),
        max_new_tokens=400,
    )


ENTRIES = (
    _entry("simple", simple, 16_728, 4_182),
    _entry("length", length, 16_990, 3_920),
    _entry("addprim_jump", functools.partial(add_primitive, "jump"), 13_204, 7_706),
    _entry("addprim_turn_left", functools.partial(add_primitive, "turn left"), 19_702, 1_208),
)

"""Utterances to programs: GeoQuery, NL2Bash, Break, MTOP, SMCalFlow; and shell commands that need no hub."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping

from ceil_jax.tasks import assets
from ceil_jax.tasks.example import Example, Template
from ceil_jax.tasks.spec import Hub, Row, TaskSpec, pair_task, table2, text
from ceil_jax.tasks.words import hash_split


def numbered_steps(decomposition: str) -> str:
    """Return Break's `return flights ;return #1 from denver` as it is written in prompts:
    `1#) return flights 2#) return #1 from denver`."""
    steps = decomposition.split(";")
    return _one_space(" ".join(f"{i}#) {step.strip()}" for i, step in enumerate(steps, 1)))


def _one_space(words: str) -> str:
    return re.sub(" {2,}", " ", words).strip()


def _break(id: str, row: Row) -> Example:
    return Example(id, _one_space(text(row, "question_text")), numbered_steps(text(row, "decomposition")))


_LONGEST_DESCRIPTION = 200
_PLACEHOLDER = re.compile(r"<[A-Za-z][\w ./-]*>|\.\.\.|…|->")


def shell_pairs(sheet: str) -> list[tuple[str, str]]:
    """Return (description, command) for each `#` comment of a cheat sheet with exactly one command line under it.

    Left out are recipes of several lines, commands with a placeholder (`<file>`, `...`) instead of an argument,
    and comments that describe nothing (fewer than two words) or everything (over 200 characters).
    """
    pairs: list[tuple[str, str]] = []
    comments: list[str] = []
    commands: list[str] = []
    for line in [*(line.strip() for line in sheet.splitlines()), ""]:
        ends_block = not line or (line.startswith("#") and commands)
        if ends_block and comments and len(commands) == 1:
            description = _one_space(" ".join(comments)).rstrip(" :.")
            described = re.search(r"[A-Za-z]\S*\s+\S", description) is not None
            short = len(description) <= _LONGEST_DESCRIPTION
            if described and short and not _PLACEHOLDER.search(commands[0]):
                pairs.append((description, commands[0]))
        if ends_block and (commands or not line):
            comments, commands = [], []
        if line.startswith("#"):
            comments.append(line.lstrip("# "))
        elif line:
            commands.append(line.removeprefix("$ "))
    return pairs


@functools.cache
def shell() -> dict[str, list[Row]]:
    """Return rows of description and command; about a tenth, by hash of the description, is validation."""
    folder = assets.fetch("cheatsheets")
    sheets = sorted(path for path in folder.rglob("*") if path.is_file() and not path.suffix)
    rows: list[Row] = [
        {"description": description, "command": command, "sheet": path.name}
        for path in sheets
        for description, command in shell_pairs(path.read_text(encoding="utf-8", errors="replace"))
    ]
    train, validation = hash_split(rows, lambda row: row["description"])
    return {"train": train, "validation": validation}


def _geoquery(name: str, split: str, paper: Mapping[str, float] | None = None) -> TaskSpec:
    return pair_task(
        name=name,
        columns=("question", "funql"),
        folder="geoquery",
        train=(f"{split}.train",),
        validation=(f"{split}.validation",),
        paper=paper or {},
        note="entities are placeholders m0, m1, … (the preprocessing of NQG)",
    )


TASKS = (
    _geoquery("geoquery", "standard", table2(33.93, 62.86, 68.93, 66.43, 66.79, 70.71, 68.57, 73.21)),
    # the compositional splits are in other tables of the paper
    *(_geoquery(f"geoquery.{split}", split) for split in ("template", "tmcd", "length")),
    pair_task(
        name="nl2bash",
        columns=("nl", "bash"),
        metric="char_bleu",
        more_metrics=("exact_match", "bleu"),
        folder="nl2bash",
        hub=Hub("jiacheng-ye/nl2bash", revision="refs/convert/parquet"),
        paper=table2(34.35, 58.98, 53.69, 54.89, 51.30, 48.99, 56.82, 59.91),
        note="the paper says exact match, the released code computes character BLEU-4: both are reported",
    ),
    TaskSpec(
        name="break",
        template=Template("{input}\t{output}"),
        metric="lf_em",
        example=_break,
        columns=("question_text", "decomposition"),
        folder="break_data",
        hub=Hub("allenai/break_data", "QDMR"),
        max_new_tokens=256,
        paper=table2(1.70, 26.00, 26.34, 26.58, 26.84, 26.70, 31.90, 34.18),
        note="low-level QDMR; LF-EM is our reimplementation",
    ),
    pair_task(
        name="mtop",
        columns=("question", "logical_form"),
        folder="mtop",
        hub=Hub("KaiLv/UDR_MTOP"),
        paper=table2(7.30, 52.70, 49.84, 47.29, 52.13, 53.14, 64.20, 67.43),
        note="English",
    ),
    pair_task(
        name="smcalflow",
        columns=("user_utterance", "lispress"),
        folder="smcalflow",
        hub=Hub("KaiLv/UDR_SMCalFlow"),
        max_new_tokens=300,
        paper=table2(8.90, 46.10, 43.44, 42.59, 44.63, 43.26, 54.30, 60.73),
        note="the hub's copy has 58 thousand training rows, the paper 102,491",
    ),
    pair_task(
        name="shell",
        columns=("description", "command"),
        metric="char_bleu",
        more_metrics=("exact_match",),
        embedded=shell,
        sizes=(896, 94),
        note="cheat sheets: how-to comments and the command under each",
    ),
)

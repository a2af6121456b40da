"""Skill-KNN's rewriter (An et al. 2023): an LM writes the skill that an input needs, whatever its topic.

The prompt is an instruction, annotated demonstrations (input → skill) and the input. For text to SQL the input is the
question with the schema of its database (the paper's footnote 3), although embeddings see the question only (footnote
4). The demonstrations are shuffled into m orders, and each order gives one skill. The paper states neither an
instruction nor a temperature. Here the instruction is INSTRUCTION, and generation is greedy with at most 200 tokens;
the first line is kept.
"""

from __future__ import annotations

import json
import logging
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from ceil_jax.errors import UserError, unknown_name
from ceil_jax.lm.base import LanguageModel
from ceil_jax.lm.prompts import context_budget, examples_text, prompt_text
from ceil_jax.store.rows import Cost
from ceil_jax.store.store import Store
from ceil_jax.tasks.example import Example, Template

log = logging.getLogger(__name__)

INSTRUCTION = "Say which skill each input asks for: its structure and operations, not its topic or its words."
TEMPLATE = Template("Input: {input}\nSkill: {output}", separator="\n\n")
WITH_SCHEMA = Template("Database: {schema}\n" + TEMPLATE.pattern, TEMPLATE.separator)
"""Template for demonstrations with a schema: a text-to-SQL input is a question and its database's schema."""
MAX_NEW_TOKENS = 200
RUNAWAY = 0.95
"""A rewrite with this share of MAX_NEW_TOKENS is a runaway: it never ended its line. The share is below 1 because a
text that is tokenized again may have fewer tokens than were generated."""
PACKAGED = ("cogs", "sql")

_CHUNK = 32
"""Inputs per call of the LM; a kill loses at most one call."""


@dataclass(frozen=True)
class Demonstration:
    """An input and its annotated skill."""

    input: str
    skill: str
    schema: str = ""
    """Tables and columns of the input's database, for text to SQL."""


def load_demonstrations(source: str | Path) -> list[Demonstration]:
    """Return the packaged demonstrations of a name (`sql`, `cogs`), or those of a JSON file.

    A file holds a list of `{"input": …, "skill": …}`; either all have a `"schema"` or none has. Other fields are
    ignored. It may also hold several such lists by name, of which `FILE#NAME` takes one.

    Raises:
        UserError: no such file or name; the entry and field that is not a text, a skill of several lines.
    """
    if source in PACKAGED:
        content = (
            resources.files("ceil_jax.skills").joinpath(f"demonstrations/{source}.json").read_text("utf-8")
        )
        return _demonstrations(json.loads(content), str(source))
    file, hash, name = str(source).rpartition("#")
    path = Path(file if hash else name).expanduser()
    if not path.is_file():
        raise unknown_name("demonstrations", str(source), PACKAGED, "A JSON file that is there will do too.")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read {path} as JSON: {error}") from None
    except RecursionError:
        raise UserError(f"cannot read {path} as JSON: nested too deeply") from None
    if isinstance(content, dict):
        lists = [key for key, value in content.items() if isinstance(value, list)]
        if not lists:
            raise UserError(f'{path}: expected a list of {{"input": …, "skill": …}}, found an object')
        if not hash or name not in lists:
            raise UserError(
                f"{path} holds several lists of demonstrations; name one of {', '.join(lists)}, as in {path}#NAME"
            )
        content = content[name]
    elif hash:
        raise UserError(f"{path} holds one list and has no {name!r} in it; leave out #{name}")
    return _demonstrations(content, str(source))


def _demonstrations(content: Any, source: str) -> list[Demonstration]:
    if not isinstance(content, list) or not content:
        raise UserError(f'{source}: expected a list of {{"input": …, "skill": …}}, at least one')
    schemas = any(isinstance(entry, dict) and "schema" in entry for entry in content)
    names = ("input", "skill", "schema") if schemas else ("input", "skill")
    return [
        Demonstration(*(_field(entry, name, f"{source}, entry {place}") for name in names))
        for place, entry in enumerate(content, 1)
    ]


def _field(entry: Any, name: str, where: str) -> str:
    """The text of one field, which must be a single line, because a rewrite stops at the end of a line."""
    if not isinstance(entry, dict):
        raise UserError(f'{where}: expected an object {{"input": …, "skill": …}}, found {str(entry)[:60]!r}')
    value = entry.get(name)
    if not isinstance(value, str) or not value.strip() or "\n" in value.strip():
        raise UserError(f"{where}, field {name!r}: expected a text of one line, found {str(value)[:60]!r}")
    return value.strip()


class Rewriter:
    """Rewrites inputs as skills with one LM and one set of demonstrations, and keeps the rewrites in a store.

    A stage holds the rewrites of one LM and one order, one row per input. When a bank grows, only its new inputs are
    rewritten; other demonstrations rewrite all.

    Args:
        orders: m, the number of shuffled orders.
        seed: seed of the shuffles.

    Raises:
        UserError: the demonstrations have fewer orders than m, or leave no room for an input and its skill in
            what the LM reads.
    """

    def __init__(
        self,
        lm: LanguageModel,
        demonstrations: Sequence[Demonstration],
        store: Store,
        *,
        orders: int = 5,
        seed: int = 0,
    ) -> None:
        self.lm, self.store = lm, store
        if math.factorial(len(demonstrations)) < orders:
            raise UserError(
                f"{len(demonstrations)} demonstrations have {math.factorial(len(demonstrations))} orders: give more "
                f"of them, or fewer --skills.orders than {orders}"
            )
        self.template = WITH_SCHEMA if any(one.schema for one in demonstrations) else TEMPLATE
        self.openings = [
            _opening(self.template, [demonstrations[i] for i in shuffled])
            for shuffled in _shuffles(len(demonstrations), orders, seed)
        ]
        self._shown_inputs = {demonstration.input for demonstration in demonstrations}
        self._shown_skills = {demonstration.skill for demonstration in demonstrations}
        longest = int(lm.count_tokens(self.openings).max())
        self._budget = context_budget(lm, MAX_NEW_TOKENS)
        if longest >= self._budget:
            raise UserError(
                f"{len(demonstrations)} demonstrations take {longest} tokens, and {lm.name} reads "
                f"{lm.context_length} with {MAX_NEW_TOKENS} for the skill; give fewer or a longer-reading LM"
            )
        self._known: list[dict[str, str]] = [{} for _ in self.openings]
        self.costs = [Cost(0.0)] * orders
        """The cost of the rewrites that were asked for, by order."""
        self.failures: Counter[str] = Counter()
        """Number of failed rewrites, each replaced by the raw input, by kind: empty, runaway, too long an input, the
        input itself, a demonstration's input."""
        self.copies = 0
        """Number of rewrites that repeat a demonstration's skill. They are kept: the input may need that skill."""

    def rewrite(
        self, inputs: Sequence[str], orders: Sequence[int], schemas: Sequence[str] | None = None
    ) -> list[list[str]]:
        """Return the skills of each input, one for each of the orders; the input itself where a rewrite failed.

        Args:
            inputs: N inputs, each of one line where there are schemas.
            orders: numbers of orders of the demonstrations.
            schemas: the schema of each input's database, one line each; used only if the demonstrations have
                schemas too.
        """
        texts = list(inputs)
        if self.template is WITH_SCHEMA:
            texts = [
                f"{schema}\n{text}" for schema, text in zip(schemas or [""] * len(texts), texts, strict=True)
            ]
        for order in orders:
            self._learn(order, [text for text in dict.fromkeys(texts) if text not in self._known[order]])
        return [[self._known[order][text] for order in orders] for text in texts]

    def _split(self, text: str) -> tuple[str, str]:
        """The schema and the input of a text that is rewritten."""
        schema, _, asked = text.rpartition("\n") if self.template is WITH_SCHEMA else ("", "", text)
        return schema, asked

    @property
    def rewrites(self) -> int:
        """The number of requested rewrites."""
        return sum(map(len, self._known))

    def _learn(self, order: int, inputs: list[str]) -> None:
        if not inputs:
            return
        opening = self.openings[order]
        key = {
            "lm": self.lm.name,
            "prompt": opening + self.template.pattern,
            "max_new_tokens": MAX_NEW_TOKENS,
        }
        with self.store.stage("skills", key) as stage:
            rows = stage.keyed_rows(
                inputs,
                lambda some: self._work(opening, some),
                chunk=_CHUNK,
                what=f"rewriting, order {order}",
                cost=lambda: self.lm.tokens_read,
            )
        before = self.costs[order]
        self.costs[order] = Cost(before.seconds + rows.seconds, before.tokens + rows.tokens)
        for text, row in zip(inputs, rows, strict=True):
            asked = self._split(text)[1]
            failure = row["failure"] or self._repeated(asked, row["text"])
            self.failures.update([failure] if failure else [])
            self._known[order][text] = skill = asked if failure else row["text"]
            self.copies += skill in self._shown_skills

    def _repeated(self, text: str, written: str) -> str:
        """Kind of input that the LM repeated in place of a skill, or ""."""
        if written == text.strip():
            return "the input itself"
        return "a demonstration's input" if written in self._shown_inputs else ""

    def _work(self, opening: str, inputs: list[str]) -> list[dict[str, str]]:
        """The LM's text for each input with the kind of its failure, or "" for a skill."""
        examples = [
            Example("", asked, "", fields={"schema": schema}) for schema, asked in map(self._split, inputs)
        ]
        prompts = [prompt_text(self.template, [], example, opening) for example in examples]
        fits = self.lm.count_tokens(prompts) <= self._budget
        fitting = [prompt for prompt, fit in zip(prompts, fits, strict=True) if fit]
        written = iter(self.lm.generate(fitting, MAX_NEW_TOKENS, ("\n",)) if fitting else ())
        texts = [next(written).strip() if fit else "" for fit in fits]
        lengths = self.lm.count_tokens(texts)
        return [
            {"text": text, "failure": _failure(text, bool(fit), int(length))}
            for text, fit, length in zip(texts, fits, lengths, strict=True)
        ]

    def report(self) -> str:
        """Return a line with the number of failed rewrites, of different skills, and of copies.

        An LM that is too small writes the same skill for all inputs, which cannot be seen from a single rewrite.
        """
        total = self.failures.total()
        kinds = ", ".join(f"{count} {kind}" for kind, count in self.failures.most_common())
        said = Counter(skill for known in self._known for skill in known.values())
        commonest = 100 * max(said.values(), default=0) / max(self.rewrites, 1)
        return (
            f"{self.lm.name}: {total} of {self.rewrites:,} rewrites failed"
            + (f" ({kinds}): raw inputs stand for them" if total else "")
            + f"; {len(said):,} different skills, the commonest for {commonest:.0f} %; "
            + f"{self.copies:,} are a demonstration's skill word for word"
        )


def _shuffles(count: int, orders: int, seed: int) -> list[list[int]]:
    """Different orders of `count` things; each depends only on the seed and on the orders before it."""
    found: list[list[int]] = []
    for order in range(orders):
        generator = np.random.default_rng([seed, order])
        shuffled = generator.permutation(count).tolist()
        while shuffled in found:
            shuffled = generator.permutation(count).tolist()
        found.append(shuffled)
    return found


def _opening(template: Template, demonstrations: Sequence[Demonstration]) -> str:
    """The text before the input: the instruction and the demonstrations."""
    pieces = [Example("", one.input, one.skill, fields={"schema": one.schema}) for one in demonstrations]
    return INSTRUCTION + template.separator + examples_text(template, pieces)


def _failure(text: str, fits: bool, tokens: int) -> str:
    if not fits:
        return "too long"
    if not text:
        return "empty"
    return "runaway" if tokens >= RUNAWAY * MAX_NEW_TOKENS else ""

"""The rewriting of inputs as skills, as in Skill-KNN (An et al. 2023).

An LM states the skill that an input needs, independent of its topic.

The prompt is an instruction, annotated demonstrations (input → skill) and the input, which for text
to SQL is the question and the schema of its database (the paper's footnote 3; embeddings see the
question alone, footnote 4). The demonstrations are shuffled into m orders, each of which gives a
skill. The paper states neither an instruction nor a temperature: ours is INSTRUCTION, and
generation is greedy, of at most 200 tokens, of which the first line is kept.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ceil_jax.errors import UserError, unknown_name
from ceil_jax.lm.base import LanguageModel
from ceil_jax.lm.prompts import context_budget, examples_text
from ceil_jax.store.places import user_path
from ceil_jax.tasks.example import Example, Template
from ceil_jax.tasks.rows import examples_of
from ceil_jax.tasks.spec import FieldError, Row, text
from ceil_jax.tasks.tables import read_table

INSTRUCTION = (
    "Say which skill each input asks for: its structure and operations, not its topic or its words."
)
TEMPLATE = Template("Input: {input}\nSkill: {output}", separator="\n\n")
WITH_SCHEMA = Template("Database: {schema}\n" + TEMPLATE.pattern, TEMPLATE.separator)
"""The template for demonstrations with a schema: a text-to-SQL input is a question and its
database's schema."""
MAX_NEW_TOKENS = 200
RUNAWAY = 0.95
"""A rewrite with at least this share of MAX_NEW_TOKENS counts as cut off. (The share is below 1
because a text may have fewer tokens than were generated when it is tokenized again.)"""
DEMONSTRATIONS = ("cogs", "sql")


@dataclass(frozen=True)
class Demonstration:
    """An input and the skill that it needs, as annotated by a person."""

    input: str
    skill: str
    schema: str = ""
    """The tables and columns that the input asks about, for text to SQL."""


def load_demonstrations(source: str | Path) -> list[Demonstration]:
    """Return the packaged demonstrations, or those of a file.

    The packaged ones are `sql` and `cogs`. `read_table` reads the file.

    A file has rows of "input" and "skill", such as a JSON list, all with a "schema" or all without.
    Other fields are ignored.

    Raises:
        UserError: there is no such file or name; a field is not a text, or has several lines.
    """
    packaged = Path(__file__).parent / "demonstrations" / f"{source}.json"
    path = packaged if source in DEMONSTRATIONS else user_path(source)
    if not path.is_file():
        raise unknown_name(
            "demonstrations",
            str(source),
            DEMONSTRATIONS,
            "The name of an existing JSON file is accepted too.",
        )
    table = read_table(path)
    names = ("input", "skill", "schema") if "schema" in table.columns else ("input", "skill")

    def read(id: str, row: Row) -> Example:
        return Example(id, "", "", fields={name: _line(row, name) for name in names})

    return [
        Demonstration(**example.fields) for example in examples_of(table, path.stem, names, read)
    ]


def _line(row: Row, name: str) -> str:
    """A field that is a text of one line.

    Others are refused, because a rewrite stops at the end of a line.
    """
    value = text(row, name).strip()
    if "\n" in value:
        raise FieldError(name, "a text of one line", value)
    return value


class Rewrites(NamedTuple):
    """The skills of some examples."""

    skills: list[str]
    """The skill of each example; its input if the rewrite failed."""
    failures: Counter[str]
    """Number of failed rewrites by kind: empty, runaway, too long, the input itself, a
    demonstration's input."""
    copies: int
    """Number of rewrites that repeat a demonstration's skill. They are kept, because an input may
    need that skill."""
    rewrites: int
    """Number of distinct inputs."""


class Rewriter:
    """A rewriter of inputs into skills, with an LM and demonstrations.

    Args:
        lm: writes the skills.
        demonstrations: inputs with their skills, with which every prompt begins.
        orders: m, the number of shuffled orders of the demonstrations, each of which gives a skill;
            5 by default.
        seed: seeds the shuffles; 0 by default.

    Raises:
        UserError: the demonstrations have fewer orders than m, or leave too little of the LM's
            context for an input and its skill.
    """

    def __init__(
        self,
        lm: LanguageModel,
        demonstrations: Sequence[Demonstration],
        *,
        orders: int = 5,
        seed: int = 0,
    ) -> None:
        self.lm = lm
        if math.factorial(len(demonstrations)) < orders:
            raise UserError(
                f"{len(demonstrations)} demonstrations have {math.factorial(len(demonstrations))} "
                f"orders: give more of them, or fewer --skills.orders than {orders}"
            )
        self.template = (
            WITH_SCHEMA
            if any(demonstration.schema for demonstration in demonstrations)
            else TEMPLATE
        )
        examples = [
            Example(
                "",
                demonstration.input,
                demonstration.skill,
                fields={"schema": demonstration.schema},
            )
            for demonstration in demonstrations
        ]
        self._openings = [
            INSTRUCTION
            + self.template.separator
            + examples_text(self.template, [examples[i] for i in shuffled])
            for shuffled in _shuffles(len(demonstrations), orders, seed)
        ]
        self._shown_inputs = {demonstration.input for demonstration in demonstrations}
        self._shown_skills = {demonstration.skill for demonstration in demonstrations}
        # a token may be split differently in each order
        longest = int(lm.count_tokens(self._openings).max())
        self._budget = context_budget(lm, MAX_NEW_TOKENS)
        if longest >= self._budget:
            raise UserError(
                f"{len(demonstrations)} demonstrations take {longest} tokens, and {lm.name} reads "
                f"{lm.context_length} with {MAX_NEW_TOKENS} for the skill; give fewer, or an LM "
                "with a longer context"
            )

    def prompts(self, examples: Sequence[Example], order: int) -> list[str]:
        """Return the prompt for each example's skill.

        It shows the schema if demonstrations have one.
        """
        queries = [
            Example("", example.input, "", fields={"schema": example.fields.get("schema", "")})
            for example in examples
        ]
        return [self._openings[order] + self.template.query(query) for query in queries]

    def rewrite(self, examples: Sequence[Example], order: int) -> Rewrites:
        """Return the skill of each example's input, with the demonstrations in one order.

        The input itself if a rewrite failed.

        If demonstrations have schemas, inputs must be single lines.
        """
        prompts = self.prompts(examples, order)
        # each distinct prompt → its input
        inputs = dict(zip(prompts, (example.input for example in examples), strict=True))
        fits = self.lm.count_tokens(list(inputs)) <= self._budget
        fitting = [prompt for prompt, fit in zip(inputs, fits, strict=True) if fit]
        failures: Counter[str] = Counter()
        if len(fitting) < len(inputs):
            failures["too long"] = len(inputs) - len(fitting)
        # each distinct prompt → its skill, which is its input unless a rewrite succeeds
        skills = dict(inputs)
        if fitting:
            texts = [text.strip() for text in self.lm.generate(fitting, MAX_NEW_TOKENS, ("\n",))]
            for prompt, skill, tokens in zip(
                fitting, texts, self.lm.count_tokens(texts), strict=True
            ):
                failure = self._failure(inputs[prompt], skill, tokens)
                if failure:
                    failures[failure] += 1
                else:
                    skills[prompt] = skill
        copies = sum(skill in self._shown_skills for skill in skills.values())
        return Rewrites([skills[prompt] for prompt in prompts], failures, copies, len(inputs))

    def _failure(self, input: str, skill: str, tokens: int) -> str:
        """Return the kind of failure of a rewrite; "" if it did not fail."""
        if not skill:
            return "empty"
        if tokens >= RUNAWAY * MAX_NEW_TOKENS:
            return "runaway"
        if skill == input.strip():
            return "the input itself"
        return "a demonstration's input" if skill in self._shown_inputs else ""


def _shuffles(count: int, orders: int, seed: int) -> list[list[int]]:
    """Distinct orders of `count` items.

    Each depends only on the seed and on the orders before it.
    """
    shuffles: list[list[int]] = []
    for order in range(orders):
        generator = np.random.default_rng([seed, order])
        shuffled = generator.permutation(count).tolist()
        while shuffled in shuffles:
            shuffled = generator.permutation(count).tolist()
        shuffles.append(shuffled)
    return shuffles

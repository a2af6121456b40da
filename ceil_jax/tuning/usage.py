"""Ten lines of Python that use what a search recommends: plain, in LangChain, in DSPy."""

from __future__ import annotations

from pathlib import Path

from ceil_jax.pipeline.config import RunConfig
from ceil_jax.pipeline.methods import METHODS
from ceil_jax.tasks.example import Task
from ceil_jax.tuning.candidates import ZERO, Candidate

SELECTOR, BANK = "selector", "bank.jsonl"
"""The names of what lies beside the page: a folder for `CeilSelector.from_pretrained`, or the bank's rows."""


def selects(candidate: Candidate) -> bool:
    """Return whether a candidate can be written as a selector."""
    return METHODS[candidate.method].exports


def usage(candidate: Candidate, config: RunConfig, task: Task, folder: Path) -> dict[str, str]:
    """Return programs by the name of what they are for.

    Args:
        candidate: how examples are chosen.
        config: its run's settings.
        task: its template is written into the programs.
        folder: where the page and what it exports are.
    """
    if candidate.method == ZERO:
        return {"Plain": _zero(task)}
    if selects(candidate):
        programs = {"Plain": _selector(candidate, task, folder)}
        if set(task.template.names) == {"input", "output"}:
            programs["LangChain"] = _langchain(candidate, task, folder)
        programs["DSPy"] = _dspy(candidate, folder)
        return programs
    return {"Plain": _retriever(candidate, config, task, folder)}


def _fields(task: Task) -> dict[str, str]:
    """The fields that the template names besides input and output."""
    return {name: "…" for name in task.template.names[:-1] if name != task.template.input}


def _example(task: Task) -> str:
    """A query as an Example."""
    fields = f", fields={_fields(task)!r}" if _fields(task) else ""
    return f'Example("query", "a new text", ""{fields})'


def _selector(candidate: Candidate, task: Task, folder: Path) -> str:
    query = {"input": "a new text", **_fields(task)} if _fields(task) else "a new text"
    return f"""from ceil_jax import CeilSelector

selector = CeilSelector.from_pretrained({str(folder / SELECTOR)!r})
print(selector.select({query!r}, k={candidate.shots}).prompt)"""


def _langchain(candidate: Candidate, task: Task, folder: Path) -> str:
    pattern = task.template.pattern
    suffix = pattern.removesuffix("{output}").removesuffix(" ")
    return f"""from ceil_jax import CeilSelector
from ceil_jax.selector.adapters.langchain import CeilExampleSelector
from langchain_core.prompts import FewShotPromptTemplate, PromptTemplate

selector = CeilSelector.from_pretrained({str(folder / SELECTOR)!r})
prompt = FewShotPromptTemplate(
    example_selector=CeilExampleSelector(selector, k={candidate.shots}, braces="f-string"),
    example_prompt=PromptTemplate.from_template({pattern!r}),
    suffix={suffix!r},
    input_variables=["input"],
    example_separator={task.template.separator!r},
)
print(prompt.format(input="a new text"))"""


def _dspy(candidate: Candidate, folder: Path) -> str:
    return f"""import dspy
from ceil_jax import CeilSelector
from ceil_jax.selector.adapters.dspy import CeilFewShot

selector = CeilSelector.from_pretrained({str(folder / SELECTOR)!r})
program = CeilFewShot(selector, k={candidate.shots}).compile(dspy.Predict("input -> output"))
# print(program(input="a new text").output) asks the LM of dspy.configure(lm=…)"""


def _zero(task: Task) -> str:
    return f"""from ceil_jax import Example, Template

template = {task.template!r}
print(template.query({_example(task)}))"""


def _retriever(candidate: Candidate, config: RunConfig, task: Task, folder: Path) -> str:
    needs = METHODS[candidate.method].needs
    more = f", encoder=load_encoder({candidate.encoder!r})" if needs.encoder else ""
    if needs.trade_off is not None:
        value = needs.trade_off if isinstance(needs.trade_off, float) else candidate.trade_off
        more += f", trade_off={value!r}"
    if needs.shortlist:
        more += f", shortlist={config.shortlist}"
    load = ", load_encoder" if needs.encoder else ""
    retriever = METHODS[candidate.method].retriever
    return f"""import json
from ceil_jax import Example, Template, build_retriever{load}
from ceil_jax.lm.prompts import prompt_order, prompt_text

bank = [Example(**json.loads(line)) for line in open({str(folder / BANK)!r}, encoding="utf-8")]
retriever = build_retriever({retriever!r}, bank{more}, seed={config.data_seed})
query = {_example(task)}
[picks] = retriever.retrieve([query], k={candidate.shots})
order = prompt_order([pick.relevance for pick in picks])
template = {task.template!r}
print(prompt_text(template, [bank[picks[place].position] for place in order], query))"""

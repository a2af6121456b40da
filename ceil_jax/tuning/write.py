"""The files of a search: the page, the numbers, and the recommended selector."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from textwrap import indent
from typing import NamedTuple

from ceil_jax.lm.openai.address import parse_address
from ceil_jax.pipeline.export import classifier_of, save, selector_of
from ceil_jax.pipeline.models import NamedLM
from ceil_jax.store.locking import write_files
from ceil_jax.tasks.example import Task
from ceil_jax.tuning.advice import advice
from ceil_jax.tuning.outcome import Outcome
from ceil_jax.tuning.page import page
from ceil_jax.tuning.search import Search
from ceil_jax.tuning.standing import Standing


class TuneFiles(NamedTuple):
    """The files that `write_outcome` wrote, and how the selector is used."""

    page: Path
    selector: Path
    """The folder of a selector: the recommended prompt, or the best one if an answer without an LM is
    recommended."""
    classifier: Path | None
    """The folder of a classifier, if that is recommended, alone or before the LM."""
    note: str
    """Which prompt the selector has, if none is recommended; else ""."""
    program: str
    """A program that uses what is recommended."""


_CLASSIFIES = """from ceil_jax import LabelClassifier

classifier = LabelClassifier.from_pretrained({folder!r})
print(classifier.predict(["a new text"]).labels)"""
"""Template of a program that uses a classifier."""
_CLASSIFIES_FIRST = """from ceil_jax import LabelClassifier

classifier = LabelClassifier.from_pretrained({folder!r})
predicted = classifier.predict([{query!r}])
if predicted.probabilities.max() >= {threshold!r}:
    print(predicted.labels[0])
else:
{asks}"""
"""Template of a program that asks an LM where a classifier is not sure."""


def write_outcome(search: Search, outcome: Outcome, folder: Path) -> TuneFiles:
    """Write the page, the numbers and the selector of a search.

    They are tune.html, tune.json, the selector with its model card, and the classifier if that is
    recommended.
    """
    chosen = outcome.recommended
    target = folder / "selector"
    note = _note(outcome, chosen)
    program = program_of(search, target)
    classifier = None
    finals = outcome.finals
    answered = finals.without_lm
    alone = finals.needs_no_lm and answered is not None and answered.row.answers == "classifier"
    if answered is not None and (alone or finals.then_lm is not None):
        classifier = folder / "classifier"
        if finals.then_lm is None:
            program = _CLASSIFIES.format(folder=str(classifier))
        else:
            program = _CLASSIFIES_FIRST.format(
                folder=str(classifier),
                query=_query(search.task),
                threshold=finals.then_lm.threshold,
                asks=indent(program, "    "),
            )
        made = classifier_of(search.field.run, search.field.base, answered.row)
        made.save_pretrained(classifier)
    numbers = json.dumps(outcome.data(), indent=2, ensure_ascii=False)
    content = page(outcome, program, note).encode()
    write_files(folder, {"tune.json": f"{numbers}\n".encode(), "tune.html": content})
    _export(search, outcome, chosen, target)
    return TuneFiles(folder / "tune.html", target, classifier, note, program)


def _note(outcome: Outcome, chosen: Standing) -> str:
    """A line on which prompt the selector has, if none is recommended; else ""."""
    if outcome.finals.needs_no_lm:
        return f"selector/ holds {chosen.label}, in case you want to use an LM."
    return ""


def program_of(search: Search, folder: Path) -> str:
    """Return a program that sends a new text to the LM of a search, with the prompt of a selector.

    Args:
        search: names the LM, and how it was asked.
        folder: the selector's.
    """
    query = _query(search.task)
    lm = search.field.base.lm
    has_turns = search.field.base.prompt.form == "turns"
    opened = (
        f"selector = CeilSelector.from_pretrained({str(folder)!r})\n"
        f"chosen = selector.select({query!r})\n"
    )
    limit = search.task.max_new_tokens
    if lm.is_served:
        address = parse_address(lm.spec)
        variable = lm.endpoint.api_key_env
        imports = "" if variable is None else "import os\n\n"
        key = "'none'" if variable is None else f"os.environ[{variable!r}]"
        create, said = "completions.create", "text"
        asked, stop = "prompt=chosen.prompt", f", stop={list(search.task.stop)!r}"
        if search.field.lm.ends_itself:
            create, said, stop = "chat.completions.create", "message.content", ""
            asked = "messages=chosen.messages"
            if not has_turns:
                asked = "messages=[{'role': 'user', 'content': chosen.prompt}]"
        return (
            f"{imports}from ceil_jax import CeilSelector\n"
            f"from openai import OpenAI\n\n{opened}"
            f"client = OpenAI(base_url={address.base!r}, api_key={key})\n"
            f"answer = client.{create}(\n"
            f"    model={_model_of(lm)!r}, {asked}, temperature=0, max_tokens={limit}{stop}\n"
            f")\nprint(answer.choices[0].{said})"
        )
    prompt = "lm.chat(chosen.messages)" if has_turns else "chosen.prompt"
    return (
        f"from ceil_jax import CeilSelector, load_lm\n\n{opened}lm = load_lm({lm.spec!r})\n"
        f"print(lm.generate([{prompt}], {limit}, {list(search.task.stop)!r})[0])"
    )


def _model_of(lm: NamedLM) -> str | None:
    """The name of a model on a server: as given, or of the only one that the server lists."""
    # a server's LM needs the openai package, which only a server's user has
    from ceil_jax.lm.openai.model import EndpointLM

    loaded = lm.get()
    return loaded.model if isinstance(loaded, EndpointLM) else parse_address(lm.spec).model


def _query(task: Task) -> str | dict[str, str]:
    """A new query, with the fields that the template names."""
    fields = {name: "…" for name in task.template.names[:-1] if name != task.template.input}
    return {task.input_key: "a new text", **fields} if fields else "a new text"


def _export(search: Search, outcome: Outcome, chosen: Standing, folder: Path) -> None:
    setup, row = search.field.setup_and_row(chosen.candidate)
    score = chosen.score.percent()
    selector = selector_of(search.field.run, setup, row)
    metric = f"{outcome.metric} (percent of {outcome.finals.rows:,} final rows, {chosen.label}, {outcome.lm})"
    notes = (
        f"Chosen by `ceil-jax tune` on {outcome.tuning_rows:,} other rows; 95 % interval "
        f"{score.low:.1f} to {score.high:.1f}. Use it with `k={chosen.candidate.shots}`. "
        f"{' '.join(advice(outcome.finals))}"
    )
    selector.card = replace(selector.card, metrics={metric: round(score.mean, 2)}, notes=notes)
    save(selector, folder)

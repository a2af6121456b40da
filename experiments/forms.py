"""The effect of a prompt's form and of an instruction (not in a paper): text and turns, with and
without an instruction, with zero and four examples.

    python experiments/forms.py --tasks sst5 mrpc geoquery nl2bash --scale small --limit 400 --seeds 0 \\
        --data-dir DATA

The LM is an instruct model with a chat template of its own, in which `turns` are rendered. For labels the
instruction is the one that a chat LM gets by default; for programs it says what to write.
"""

import sys
from dataclasses import replace

from harness.command import Experiment, ExperimentOptions
from harness.drawing import points
from harness.grid import Cell, Entry

from ceil_jax.lm.prompts import NAMES_LABELS, Form
from ceil_jax.pipeline.config import RunConfig

INSTRUCTIONS = {
    "geoquery": "Write the query to the geography database that answers the question, and nothing else.",
    "nl2bash": "Write the bash command that does what the text says, and nothing else.",
}
"""The instruction of each task; NAMES_LABELS for tasks that are not here."""
FORMS: tuple[Form, ...] = ("text", "turns")
METHODS = {"zero": "zero examples", "topk": "four nearest"}


def entries(config: RunConfig, _: ExperimentOptions) -> list[Entry]:
    """Return a row for each combination of a number of examples, a form and an instruction."""
    instruction = INSTRUCTIONS.get(config.task, NAMES_LABELS)
    return [
        Entry(
            f"{label}, {form}, {'an instruction' if system else 'no instruction'}",
            config.task,
            Cell(replace(config, form=form, system=system, shots=4), method),
        )
        for method, label in METHODS.items()
        for form in FORMS
        for system in ("", instruction)
    ]


EXPERIMENT = Experiment("forms", "Forms of a prompt", entries, points)

if __name__ == "__main__":
    sys.exit(EXPERIMENT.main())

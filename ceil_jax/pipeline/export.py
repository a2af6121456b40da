"""A method of a run as a selector, which applications import."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ceil_jax.errors import UserError, unknown_name
from ceil_jax.pipeline.methods import METHODS, Method
from ceil_jax.pipeline.run import Run
from ceil_jax.selector import Card, CeilSelector
from ceil_jax.selector.folder.files import check_target
from ceil_jax.training.config import CEILConfig, EPRConfig

NEAREST = 1e-9
"""λ of a selector that takes the nearest examples: relevance that differs in its last digit outweighs diversity."""


def exports(method: Method) -> bool:
    """Return whether a method can be written as a selector."""
    return method.needs.ends_in_map or method.needs.ends_in_nearest


def export(run: Run, method: str, folder: Path, license: str = "") -> str:
    """Write a method as a selector into a folder, and return what to tell the user.

    Args:
        run: trains what the method needs and is not on disk.
        method: a row of METHODS that ends in DPP-MAP or takes the nearest.
        folder: where to; a selector that is there already is replaced.
        license: of the examples, as an SPDX name, for the card.

    Raises:
        UserError: the folder holds something else, or the method is of another kind. Both are said before
            anything is trained.
    """
    check_target(folder)
    selector = selector_of(run, method)
    selector.card = replace(selector.card, license=license)
    selector.save_pretrained(folder)
    measured = ", ".join(f"{name} {value:.1f}" for name, value in selector.card.metrics.items())
    measured = measured or "not evaluated: `ceil-jax compare` with the same flags measures it"
    return (
        f"{folder}: {selector.card.title}, {len(selector):,} examples; {measured}\n"
        f'in Python: CeilSelector.from_pretrained("{folder}").select("a query", k={run.config.shots})'
    )


def selector_of(run: Run, name: str = "ceil") -> CeilSelector:
    """Return a method that ends in DPP-MAP, or takes the nearest, trained if need be, as a selector.

    Args:
        run: trains what the method needs and is not on disk.
        name: a row of METHODS such as topk, dpp, epr, epr_map or ceil.

    Raises:
        UserError: any other method, or --text skill.
    """
    method = METHODS.get(name)
    if method is None or not exports(method):
        raise unknown_name("selector", name, [n for n, m in METHODS.items() if exports(m)])
    if run.config.text != "input":
        raise UserError("a selector embeds inputs as they are, not skills: train with --text input for it")
    method = run.used(name)
    assert method.encoder is not None
    encoders, task, config = run.encoders(method.encoder), run.task, run.config
    trained = method.encoder != "base"
    return CeilSelector.from_examples(
        task.train,
        encoder=encoders.context,
        query_encoder=encoders.query,
        vectors=run.embed(encoders.context, [example.input for example in run.bank_of(method)]),
        trade_off=run.trade_off_of(method) if method.needs.ends_in_map else NEAREST,
        near_duplicate=None,  # what was evaluated passes over nothing
        shortlist=config.shortlist,
        template=task.template,
        context=config.context if trained else "input",
        count_tokens=lambda texts: run.lm.count_tokens(texts),
        card=Card(
            title=f"{method.label} on {task.name}",
            training_data=_training_data(run, method),
            language_model=config.lm if trained else "",
            metrics=run.measured(name),
        ),
    )


def _training_data(run: Run, method: Method) -> str:
    """A line for the model card."""
    config, name = run.config, run.task.name
    queries = len(run.task.train)

    def of(one: EPRConfig | CEILConfig, what: str) -> str:
        return f"{name}: {min(one.instances, queries)} queries × {what}"

    data = {
        "tst": of(config.tst, f"{config.tst.candidates} examples by their outputs"),
        "epr": of(config.epr, f"{config.epr.candidates} single examples"),
        "ceil": of(config.ceil, f"{config.ceil.subsets} sets of {config.ceil.size}"),
    }
    stages = (config.ceil.initial, "ceil") if method.encoder == "ceil" else (method.encoder,)
    used = "; then ".join(data[stage] for stage in stages if stage in data)
    return f"from {config.encoder} on {used}" if used else "none: the encoder is as loaded"

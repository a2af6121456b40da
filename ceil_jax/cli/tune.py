"""`ceil-jax tune`: the best prompt for the user's data and LM, within a budget."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import tyro

from ceil_jax.cli.commands import Switch, print_json
from ceil_jax.cli.data_flags import NO_FILE, OwnData, load
from ceil_jax.cli.first import check_first
from ceil_jax.cli.propose import settled
from ceil_jax.errors import Range, UserError
from ceil_jax.pipeline.config import RunConfig
from ceil_jax.racing.budget import Limits
from ceil_jax.racing.split import SHARE
from ceil_jax.store.hashing import digest
from ceil_jax.tuning.options import Rows, Space

_SPACE, _LIMITS, _ROWS = Space(), Limits(), Rows()


def tune(
    config: Annotated[RunConfig, tyro.conf.arg(name="")],
    own: Annotated[OwnData, tyro.conf.arg(name="")] = NO_FILE,
    space: Annotated[Space, tyro.conf.arg(name="")] = _SPACE,
    limits: Annotated[Limits, tyro.conf.arg(name="")] = _LIMITS,
    rows: Annotated[Rows, tyro.conf.arg(name="")] = _ROWS,
    minutes: Annotated[float | None, Range(above=0)] = None,
    prompt_tokens: Annotated[int | None, Range(1)] = None,
    json: Switch = False,
) -> None:
    """Find how to choose examples for your data and your LM within a budget, and export it.

    Methods, numbers of examples and λ race on some of the rows; the best, the cheapest within noise of it,
    plain top-k and zero examples then answer rows that nothing was chosen by. Recommended is the cheapest that is not
    certainly worse. A search that was stopped goes on with the same command and finds the same.

    Writes tune-TASK-*/ into the folder runs (--out): tune.html, frontier.svg, tune.json, and selector/ for
    CeilSelector.from_pretrained. A fifth of --data is held out for the end, and a fifth of the rest is raced on.

    Args:
        minutes: As --seconds, in minutes.
        prompt_tokens: The most tokens of a prompt, as --token-budget.
        json: Print the outcome as JSON.
    """
    from ceil_jax.tuning.tune import Search
    from ceil_jax.tuning.write import write

    if minutes is not None:
        if limits.seconds is not None:
            raise UserError("--minutes beside --seconds: give one of them")
        limits = replace(limits, seconds=60 * minutes)
    if prompt_tokens is not None:
        config = replace(config, token_budget=prompt_tokens)
    if config.trade_off != RunConfig().trade_off or config.shots != RunConfig().shots:
        raise UserError("--shots and --trade-off are searched: give --ks and --trade-offs")
    own = settled("tune", own)
    check_first(config, own)
    task = load(config, own, held_out=SHARE)
    config = replace(config, task=task.name)
    search = Search(config, task, space, limits, rows)
    outcome = search.run()
    key = [replace(config, out=Path()), own, space, limits, rows]
    files = write(search, outcome, config.out / f"tune-{task.name}-{digest(key)[:8]}")
    if json:
        print_json({**outcome.data(), "page": str(files.page), "selector": str(files.selector)})
        return
    print(f"\n{outcome.text()}\n")
    if files.note:
        print(files.note)
    print(f"page: {files.page}\nselector: {files.selector}\n\n{files.programs['Plain']}")

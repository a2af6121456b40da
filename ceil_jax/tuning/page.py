"""The page of a search: what is recommended, then why, then the prompt and its mistakes."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Sequence
from importlib import resources

from ceil_jax.lm.messages import Rendered, content_of
from ceil_jax.report.page import page_file
from ceil_jax.report.scatter import Point, scatter
from ceil_jax.report.table import money_columns, typeset
from ceil_jax.tuning.advice import advice, differences
from ceil_jax.tuning.finals import Finals
from ceil_jax.tuning.finals_table import finals_table
from ceil_jax.tuning.outcome import Outcome

LEGEND = {
    "K": "examples in the prompt",
    "λ": "weighs how near examples are to the query against how different they are from one "
    "another; small values prefer near ones",
    "dense top-k": "the nearest examples, by an encoder's vectors",
    "BM25": "the examples that share the rarest words with the query",
    "MMR": "near examples that differ from those chosen before",
    "DPP-MAP": "a set of near examples that differ from one another",
    "free": "the nearest examples, by vectors that were trained on the bank's outputs",
    "free + MAP": "a diverse set, by vectors that were trained on the bank's outputs",
    "fixed": "the same examples for every query, chosen on rows of the bank; a provider "
    "may cache them",
    "fixed + near": "fixed examples first, then the nearest ones",
    "EPR, CEIL": "encoders trained on this LM's scores of single examples (EPR) or of sets (CEIL)",
    "classifier alone": "a classifier trained on the bank's labels; no LM calls",
    "nearest output, copied": "the nearest example's output is the answer; no LM calls",
    "95 % interval": "in 95 of 100 draws of as many rows, it contains the score on all such rows",
}
"""The meanings of the words in the tables."""

_LONGEST = 600
"""The maximum number of characters of a text that the page shows."""

_COPY = """
const button = document.getElementById("copy");
button?.addEventListener("click", async () => {
  await navigator.clipboard.writeText(document.getElementById("prompt").textContent);
  button.textContent = "Copied";
});
"""
"""The page's script: it copies the prompt that is shown."""


def page(outcome: Outcome, program: str, note: str) -> str:
    """Return the page as HTML, without requests, and with no script but `_COPY`.

    Args:
        outcome: the outcome of a search.
        program: a program that uses the selector; "" without a selector.
        note: which prompt the selector has, if none is recommended; else "".
    """
    recommendation, *others = advice(outcome.finals)
    notes = [text for text in dict.fromkeys((*outcome.notes, note)) if text]
    template = resources.files(__package__).joinpath("tune.html").read_text("utf-8")
    hashed = base64.b64encode(hashlib.sha256(_COPY.encode()).digest()).decode()
    return template.format(
        script=_COPY,
        script_hash=f"'sha256-{hashed}'",
        title=html.escape(f"{outcome.task}: which prompt?"),
        style=page_file("page.css"),
        lead=html.escape(
            f"{outcome.lm} on {outcome.finals.rows:,} final rows, which were used once; "
            f"{outcome.metric} in percent. Spent: {outcome.spending}."
        ),
        recommended=html.escape(typeset(recommendation.removeprefix("Recommended: "))),
        advice="".join(f"<p>{html.escape(typeset(text))}</p>" for text in others),
        chart=_chart(outcome),
        finals=_finals(outcome.finals),
        differences="".join(
            f"<li>{html.escape(typeset(text))}</li>" for text in differences(outcome.finals)
        ),
        example=_example(outcome),
        wrong=_wrong(outcome),
        notes="".join(f'<p class="note">{html.escape(typeset(text))}</p>' for text in notes),
        program=_program(program),
        race=_race(outcome),
        legend="".join(
            f"<dt>{html.escape(word)}</dt><dd>{html.escape(meaning)}</dd>"
            for word, meaning in LEGEND.items()
        ),
    )


def _chart(outcome: Outcome) -> str:
    finals = outcome.finals
    finalists = {standing.candidate for standing in finals.standings}
    points = [
        Point("", standing.tokens, *standing.score.percent())
        for standing in outcome.race
        if standing.candidate not in finalists
    ]
    points += [
        Point(
            standing.label,
            standing.tokens,
            *standing.score.percent(),
            best=standing.label == finals.label,
        )
        for standing in finals.standings
    ]
    without_lm = finals.without_lm
    if without_lm is not None:
        score = without_lm.score.percent()
        points.append(Point(without_lm.label, 0.0, *score, best=finals.needs_no_lm))
        both = without_lm.then_lm
        if both is not None:
            tokens = both.share * finals.recommended.tokens
            best = finals.then_lm is not None
            points.append(Point(both.label, tokens, *both.score.percent(), best=best))
    title = f"Score against tokens of a prompt on {finals.rows:,} final rows"
    return scatter(points, "tokens a prompt", f"{outcome.metric}, %", title)


def _finals(finals: Finals) -> str:
    """The table of the finalists, the recommended one first.

    Remarks are below the names, so that its three columns fit on a phone.
    """
    rows = []
    header, *lines = finals_table(finals).lines()
    money = () if finals.price is None else money_columns(finals.price)
    for line in lines:
        cells = dict(zip(header, line, strict=True))
        remark = cells.pop("is")
        del cells["rows"]  # the table's title says it once
        label = cells.pop("prompt")
        score = cells.pop("score")
        interval = cells.pop("95 % interval")
        tokens = cells.pop("tokens a prompt")
        prices = [f"{cells.pop(name)} {name}" for name in money]
        # the columns that are left count answers with a trouble
        troubles = [f"{count} answers {trouble}" for trouble, count in cells.items() if count]
        mark = ' class="best"' if remark.startswith("recommended") else ""
        remark = "; ".join(text for text in (remark, *troubles) if text)
        rows.append(_row(mark, label, remark, score, interval, tokens, prices))
    return _table(rows, f"on {finals.rows:,} rows")


def _race(outcome: Outcome) -> str:
    rows = []
    for standing in outcome.race:
        score = standing.score.percent()
        interval = f"{score.low:.1f} to {score.high:.1f}"
        remark = f"{standing.remark}, {standing.rows} rows"
        tokens = f"{standing.tokens:,.0f}"
        rows.append(_row("", standing.label, remark, f"{score.mean:.1f}", interval, tokens))
    if not rows:
        return "<p>There were no tuning rounds.</p>"
    count = f"{len(rows)} candidates" if len(rows) > 1 else "1 candidate"
    table = _table(rows, "on the tuning rows")
    return f"<details><summary>{count}, the best first</summary>{table}</details>"


def _row(
    mark: str,
    label: str,
    remark: str,
    score: str,
    interval: str,
    tokens: str,
    prices: Sequence[str] = (),
) -> str:
    money = "".join(f"<small>{html.escape(price)}</small>" for price in prices)
    return (
        f"<tr{mark}><td>{html.escape(label)}<small>{html.escape(remark)}</small></td><td>{score}"
        f"<small>{interval}</small></td><td>{tokens}{money}</td></tr>"
    )


def _table(rows: Sequence[str], where: str) -> str:
    return (
        "<table class='standings'><thead><tr><th scope=col>prompt</th><th scope=col>score"
        f"<small>{where}, 95 % interval</small></th><th scope=col>tokens<small>a prompt</small>"
        f"</th></tr></thead><tbody>{''.join(rows)}</tbody></table>"
    )


def _example(outcome: Outcome) -> str:
    answered_row = outcome.example
    if answered_row is None:
        return ""
    verdict = "right" if answered_row.right else f"wrong: {_cut(answered_row.gold)} was expected"
    return (
        f"<h2>The prompt, for one of the final rows</h2>{_shown(answered_row.prompt)}"
        f"<p>{html.escape(outcome.lm)} answers <b>{html.escape(_cut(answered_row.answer))}</b>, which "
        f"is {html.escape(verdict)}. This is {html.escape(outcome.recommended.label)}.</p>"
    )


def _shown(prompt: Rendered) -> str:
    """A prompt, of messages role by role, and a button that copies it whole: messages as JSON."""
    if isinstance(prompt, str):
        copied = prompt
        shown = f"<pre>{html.escape(_cut(prompt, 3000))}</pre>"
    else:
        copied = json.dumps(prompt, ensure_ascii=False, indent=1)
        shown = "".join(
            f"<dt>{html.escape(message['role'])}</dt>"
            f"<dd><pre>{html.escape(_cut(content_of(message)))}</pre></dd>"
            for message in prompt
        )
        shown = f"<dl class='messages'>{shown}</dl>"
    return (
        f'{shown}<p><button type="button" id="copy">Copy</button></p>'
        f'<pre id="prompt" hidden>{html.escape(copied)}</pre>'
    )


def _wrong(outcome: Outcome) -> str:
    if not outcome.wrong:
        return ""
    rows = "".join(
        f"<tr><td class='text'>{html.escape(_cut(answered_row.query))}</td>"
        f"<td class='text'>{html.escape(_cut(answered_row.answer))}</td>"
        f"<td class='text'>{html.escape(_cut(answered_row.gold))}</td></tr>"
        for answered_row in outcome.wrong
    )
    return (
        f"<h2>What it gets wrong</h2><p>The first {len(outcome.wrong)} of the final rows that "
        f"{html.escape(outcome.recommended.label)} answers wrongly.</p><table class='mistakes'><thead>"
        "<tr><th class='text'>query</th><th class='text'>answer</th><th class='text'>expected</th>"
        f"</tr></thead><tbody>{rows}</tbody></table>"
    )


def _program(program: str) -> str:
    if not program:
        return ""
    return (
        f"<h2>In Python</h2><pre>{html.escape(program)}</pre><p>Adapters bring the selector into "
        "LangChain, DSPy and lm-evaluation-harness: <code>ceil_jax.selector.adapters</code>.</p>"
    )


def _cut(text: str, longest: int = _LONGEST) -> str:
    return text if len(text) <= longest else f"{text[:longest]}…"

"""The lines under the table of a comparison."""

import re
from dataclasses import replace

import pytest
from films import SMALL, TASK, One, metric_of

from ceil_jax.lm.answers import Answer
from ceil_jax.lm.price import Price
from ceil_jax.lm.tiny import TinyLM
from ceil_jax.methods.fixed import FixedPrompt
from ceil_jax.pipeline.answering import prompts_of
from ceil_jax.pipeline.config import SkillConfig
from ceil_jax.pipeline.evaluate import lineup_of
from ceil_jax.pipeline.rewriting import skills_of
from ceil_jax.pipeline.setup import open_run
from ceil_jax.pipeline.speed import Machine
from ceil_jax.pipeline.ways import NO_OPTION, without_label
from ceil_jax.report.compare import compare
from ceil_jax.report.dry_run import DryRun, planned
from ceil_jax.report.write import write_page
from ceil_jax.skills.rewriter import Rewriter
from ceil_jax.store.kept import closure

FEW = replace(TASK, validation=TASK.validation[:4])


class CountsNothing(TinyLM):
    """An LM of a plugin that forgets to count."""

    @property
    def tokens_read(self):
        return 0

    @tokens_read.setter
    def tokens_read(self, value):
        pass


def test_an_lm_that_counts_no_tokens_is_told_of(tmp_path):
    config = replace(SMALL, out=tmp_path)
    table = compare(*open_run(config, FEW, One(CountsNothing())), ["topk", "random"])
    assert "tiny counts no tokens" in table.note
    assert "tokens_read" in table.note
    counted = compare(*open_run(replace(config, out=tmp_path / "other"), FEW), ["topk"])
    assert "counts no tokens" not in counted.note


class Rambles(TinyLM):
    """An LM that writes, as a chat does: the right label where it has examples, else no label, or an
    answer that was cut."""

    can_score = False

    def write(self, prompts, limit, stop, temperature, seeds):
        no_option = Answer("who knows?")
        cut = Answer("the film is", "length")
        wrong = [no_option, cut, no_option, no_option]
        with_examples = "\n" in prompts[0]
        return [Answer("good") if with_examples else wrong.pop(0) for _ in prompts]


def test_troubled_answers_are_columns_of_the_table_and_of_every_later_page(tmp_path):
    config = replace(SMALL, out=tmp_path)
    run = open_run(config, FEW, One(Rambles()))
    table = compare(*run, ["classifier", "zero", "topk"])
    header, *lines = table.table().lines()
    first = header.index("unmatched")
    last = header.index("cut off")
    cells = {line[0]: (line[first], line[last]) for line in lines}
    assert cells == {
        "classifier alone": ("", ""),
        "zero examples": ("3", "1"),
        "dense top-k": ("", ""),
    }
    said = [
        "Unmatched: answers of the LM that are none of the labels in their first or last line, and "
        "so counted as wrong: 3 of 4 (zero examples)."
        + without_label([("who knows?", NO_OPTION)] * 3),
        "Cut off: answers of the LM that are cut by the limit of 128 tokens (--max-new-tokens): "
        "1 of 4 (zero examples).",
    ]
    assert "\n".join(said) in table.text()
    troubles = {row["method"]: row["troubles"] for row in table.data()["rows"]}
    assert troubles == {"classifier": {}, "zero": {"no option": 3, "length": 1}, "topk": {}}
    page = write_page([tmp_path], tmp_path / "report.html").read_text()
    for column, line in zip(("unmatched", "cut off"), said, strict=True):
        assert f"<th scope=col>{column}</th>" in page
        assert f'<p class="note">{line}</p>' in page


def test_a_price_makes_columns_of_money(tmp_path):
    config = replace(SMALL, out=tmp_path).using(FixedPrompt(sets=4, rows=4))
    session = open_run(config, FEW)
    names = ["classifier", "zero", "topk", "fixed"]
    price = Price(read=2.0, written=8.0, cached=0.5, currency="EUR")
    table = compare(*session, names, price=price)
    header, *lines = table.table().lines()
    assert header[-2:] == ["EUR a thousand queries", "EUR to prepare"]
    cells = {line[0]: line[-2:] for line in lines}
    assert cells["classifier alone"] == ["0", "0"]
    assert cells["dense top-k"][1] == "0"
    run, setup = session
    # topk: its prompts have nothing in common; fixed: all but the query's own line is cached
    [topk, fixed] = [metric_of(setup, name).predictions for name in ("topk", "fixed")]
    lm = TinyLM()

    def counted(stage):
        prompts = prompts_of(run, stage, FEW.validation, run.get(stage.choice))
        return [prompt.text for prompt in prompts], lm.count_tokens([p.text for p in prompts])

    texts, lengths = counted(fixed)
    beginning = texts[0].rpartition("\n")[0] + "\na "  # and the words that all queries begin with
    cached = lm.count_tokens([beginning])[0]
    # an answer is a label of one token
    each = (lengths.mean() - cached) * 2.0 + cached * 0.5 + 8.0
    money = {row["method"]: row for row in table.data()["rows"]}
    assert money["fixed"]["price_of_thousand"] == pytest.approx(each / 1000, rel=0.02)
    assert money["fixed"]["price_to_prepare"] == pytest.approx(
        2.0 * money["fixed"]["training_tokens"] / 1e6
    )
    _, lengths = counted(topk)
    assert money["topk"]["price_of_thousand"] == pytest.approx(
        (2 * lengths.mean() + 8) / 1000, rel=0.1
    )
    assert money["fixed"]["price_of_thousand"] < 0.6 * money["topk"]["price_of_thousand"]
    page = table.write_report(tmp_path / "report").read_text()
    assert "EUR a thousand queries" in page
    plain = compare(*session, names)
    assert "thousand" not in plain.text()
    assert "price_of_thousand" not in plain.data()["rows"][0]


def test_rewriting_a_query_is_paid_for_too(tmp_path):
    demonstrations = tmp_path / "demonstrations.json"
    demonstrations.write_text('[{"input": "a dull film", "skill": "a complaint"}]')
    skills_config = SkillConfig(demonstrations=str(demonstrations), orders=1)
    session = open_run(replace(SMALL, out=tmp_path, skills=skills_config), FEW)
    table = compare(*session, ["topk", "skill_base"], price=Price(read=2.0, written=0.0))
    run, setup = session
    predictions = metric_of(setup, "skill_base").predictions
    [skills] = [
        stage
        for stage in closure([predictions])
        if stage.is_of(skills_of) and stage.rows.key == predictions.queries.key
    ]
    rewriter = Rewriter(TinyLM(), skills.demonstrations, orders=skills.orders, seed=skills.seed)
    rewriting = TinyLM().count_tokens(rewriter.prompts(FEW.validation, skills.order)).mean()
    answering = (
        TinyLM()
        .count_tokens(
            [
                prompt.text
                for prompt in prompts_of(
                    run, predictions, FEW.validation, run.get(predictions.choice)
                )
            ]
        )
        .mean()
    )
    money = {row["method"]: row for row in table.data()["rows"]}
    assert money["skill_base"]["prompt_tokens"] == pytest.approx(rewriting + answering)
    assert money["skill_base"]["price_of_thousand"] == pytest.approx(
        2.0 * (rewriting + answering) / 1000
    )
    assert money["topk"]["prompt_tokens"] < rewriting


def test_a_dry_run_says_what_its_tokens_cost(tmp_path):
    run, setup = open_run(replace(SMALL, out=tmp_path), FEW)
    lineup = lineup_of(run, setup, [setup.row("zero")])
    text = planned(lineup, Price(read=2.0, written=8.0))
    [tokens] = re.findall(r"about ([\d,]+) LM tokens to read and 0 to write", text)
    money = Price(2.0, 8.0).shown(2e-6 * int(tokens.replace(",", "")))
    assert f"about {money}" in text.splitlines()
    assert "$" not in planned(lineup)


def test_a_dry_run_names_no_seconds_that_starting_and_compiling_would_dwarf(tmp_path):
    run, setup = open_run(replace(SMALL, out=tmp_path), FEW)
    lineup = lineup_of(run, setup, [setup.row("zero")])
    last = planned(lineup).splitlines()[-1]
    assert "less than 10 s of reading" in last
    assert "compiling, tokenizing and searching are not counted" in last
    slow = DryRun({"slow": Machine("slow", 1.0, 1.0, 1.0)})
    slow.add(lineup)
    assert "slow: about " in slow.text().splitlines()[-1]

"""What stands under the table of a comparison."""

from dataclasses import replace

from films import SMALL, TASK, One

from ceil_jax.lm.answers import Answer
from ceil_jax.lm.tiny import TinyLM
from ceil_jax.pipeline.setup import open_run
from ceil_jax.report.compare import compare
from ceil_jax.report.write import write_page

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
    first, last = header.index("unmatched"), header.index("cut off")
    cells = {line[0]: (line[first], line[last]) for line in lines}
    assert cells == {
        "classifier alone": ("", ""),
        "zero examples": ("3", "1"),
        "dense top-k": ("", ""),
    }
    said = [
        "Unmatched: answers of the LM that are none of the options, or several at once, and so "
        "counted as wrong: 3 of 4 (zero examples).",
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

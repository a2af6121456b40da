"""What stands under the table of a comparison."""

from dataclasses import replace

from films import SMALL, TASK, One

from ceil_jax.lm.tiny import TinyLM
from ceil_jax.pipeline.setup import open_run
from ceil_jax.report.compare import compare

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

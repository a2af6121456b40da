"""The answers that need no LM, beside the prompts."""

import io
import zlib
from collections import Counter
from contextlib import redirect_stdout
from dataclasses import replace

import numpy as np
import pytest
from films import One

from ceil_jax import Example, Task, Template
from ceil_jax.lm import TinyLM
from ceil_jax.metrics.bootstrap import Interval
from ceil_jax.pipeline import export as pipeline_export
from ceil_jax.pipeline.config import TUNE
from ceil_jax.pipeline.ways import Reply
from ceil_jax.tasks.load import load_task
from ceil_jax.tuning.advice import advice
from ceil_jax.tuning.config import TuneConfig
from ceil_jax.tuning.finals_table import finals_table
from ceil_jax.tuning.loss import Loss
from ceil_jax.tuning.search import Search
from ceil_jax.tuning.without_lm import lowest_threshold, note_on_majority, row_without_lm
from ceil_jax.tuning.write import write_outcome

REPAIRS = load_task("repairs", limit=30, bank_limit=60)
FILMS = load_task("movie_reviews", limit=5, bank_limit=40)


def test_labels_are_classified_and_written_outputs_copied():
    assert row_without_lm(FILMS).name == "classifier"
    assert row_without_lm(REPAIRS).name == "copied"


def test_options_of_a_query_are_answered_by_nothing_but_an_lm():
    own = [
        replace(row, choices=(f"{row.id} yes", f"{row.id} no"), output=f"{row.id} yes")
        for row in FILMS.train
    ]
    assert row_without_lm(replace(FILMS, train=own, validation=own[:5])) is None


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    out = tmp_path_factory.mktemp("copied")
    config = replace(TUNE, encoder="tiny", lm="tiny", out=out)
    options = TuneConfig(lm_tokens=200_000, ks=(2,), method=("topk",), minutes=None)
    return Search(config, REPAIRS, options).run()


def test_the_nearest_output_stands_beside_the_prompts(outcome):
    result = outcome.finals.without_lm
    assert result.label == "nearest output, copied"
    line = next(line for line in finals_table(outcome.finals).lines() if line[0] == result.label)
    assert line[-1].endswith("no LM calls")
    assert outcome.data()["without_lm"]["label"] == result.label


def test_it_is_recommended_where_it_does_as_well(outcome):
    same = Interval(0.0, 0.0, 0.0)
    result = outcome.finals.without_lm._replace(minus=same, loss=Loss(0.0, 0.001, 200))
    sentence = advice(replace(outcome.finals, without_lm=result))[0]
    assert sentence.startswith(
        "Recommended: copying the nearest example's output does as well without LM calls: it scores"
    )
    worse = result._replace(minus=Interval(-0.3, -0.4, -0.2), loss=Loss(0.3, 0.05, 200))
    finals = replace(outcome.finals, without_lm=worse)
    assert not advice(finals)[0].startswith("Recommended: copying")
    assert any("Without an LM, nearest output, copied minus" in text for text in advice(finals))


# the classifier where it is sure, the LM elsewhere

MOODS = ("bad", "good")


def review(i):
    """A review; of every other one the words say nothing, and only the LM knows its label."""
    told = ("grey dull slow", "bright funny warm")
    words = f"{told[i // 2 % 2]} film" if i % 2 else f"film of {zlib.crc32(b'%d' % i)}"
    text = f"{words} about the topic {i}"
    mood = MOODS[i // 2 % 2 if i % 2 else zlib.crc32(text.encode()) % 2]
    return Example(f"r{i}", text, mood, MOODS)


REVIEWS = [review(i) for i in range(340)]
MOOD_OF = {row.input: row.output for row in REVIEWS}
MIXED = Task(
    "reviews", REVIEWS[:120], REVIEWS[120:], Template("{input} It is {output}"), "accuracy"
)


class Knows(TinyLM):
    """Writes the right label of every review."""

    can_score = False

    def write(self, prompts, limit, stop, temperature, seeds):
        self.tokens_read += int(self.count_tokens(prompts).sum())
        return [MOOD_OF[text.splitlines()[-1].removesuffix(" It is")] for text in prompts]


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    config = replace(TUNE, encoder="tiny", lm="tiny", out=tmp_path_factory.mktemp("mixed"))
    options = TuneConfig(lm_tokens=400_000, ks=(2,), method=("topk",), minutes=None)
    made = Search(config, MIXED, options, One(Knows()))
    return made, made.run()


def test_the_classifier_answers_where_it_is_sure(mixed):
    made, outcome = mixed
    finals = outcome.finals
    assert not finals.needs_no_lm
    both = finals.then_lm
    assert finals.label == both.label
    assert 0.2 < both.share < 0.8
    # measured on the final rows, with the answers that are known
    final = made.final[: finals.rows]
    classifier = pipeline_export.classifier_of(
        made.field.run, made.field.base, finals.without_lm.row
    )
    predicted = classifier.predict(final)
    sure = predicted.probabilities.max(axis=1) >= both.threshold
    assert both.share == pytest.approx(1 - sure.mean())
    right = [
        not is_sure or label == row.output
        for is_sure, label, row in zip(sure, predicted.labels, final, strict=True)
    ]
    assert both.score.mean == pytest.approx(np.mean(right))
    line = finals_table(finals).lines()[1]
    assert line[0] == both.label
    assert line[-1] == f"recommended, {both.share:.0%} of the queries reach the LM"
    tokens = float(line[4].replace(",", ""))
    assert tokens == pytest.approx(both.share * finals.recommended.tokens, abs=1)
    assert "and the LM elsewhere" in advice(finals)[0]
    assert outcome.data()["without_lm"]["then_lm"]["threshold"] == both.threshold


def test_both_are_written_and_answer_in_a_row(mixed, tmp_path):
    made, outcome = mixed
    files = write_outcome(made, outcome, tmp_path / "tune")
    assert files.selector.is_dir()
    assert files.classifier.is_dir()
    assert "    print(predicted.labels[0])\nelse:\n    from ceil_jax import" in files.program
    compile(files.program, "program", "exec")
    # the sure half runs without the LM
    sure = files.program.replace("a new text", "bright funny warm film about the topic 1")
    out = io.StringIO()
    with redirect_stdout(out):
        exec(sure, {})
    assert out.getvalue().strip() == "good"


def test_both_are_not_recommended_where_they_are_worse(mixed):
    _, outcome = mixed
    finals = outcome.finals
    worse = finals.without_lm.then_lm._replace(
        minus=Interval(-0.1, -0.2, -0.05), loss=Loss(0.1, 0.03, 100)
    )
    finals = replace(finals, without_lm=finals.without_lm._replace(then_lm=worse))
    assert finals.then_lm is None
    assert finals.label == finals.recommended.label
    assert any("and the LM elsewhere" in sentence for sentence in advice(finals)[1:])


def test_the_most_frequent_label_is_told_where_it_does_nearly_as_well(mixed):
    made, outcome = mixed
    final = made.final[: outcome.finals.rows]
    right = made.field.score([Reply(row.output) for row in final], final)
    assert note_on_majority(made.field, final, right, None) == ""
    assert not any("most frequent label" in note for note in outcome.notes)
    [(label, _)] = Counter(row.output for row in made.task.train).most_common(1)
    same = made.field.score([Reply(label)] * len(final), final)
    said = note_on_majority(made.field, final, same, None)
    assert said.startswith(f"The most frequent label alone, {label!r}, is not significantly worse")
    assert said.endswith("+0.0 points (+0.0 to +0.0).")


def test_a_threshold_loses_nothing_on_the_rows_that_chose_it():
    probabilities = np.array([0.95, 0.9, 0.8, 0.7])
    assert lowest_threshold(probabilities, np.array([0, 1, -1, -1])) == 0.8
    assert lowest_threshold(probabilities, np.array([-1, 0, 0, 1])) == 0.7
    assert lowest_threshold(probabilities, np.array([-1, 0, 0, 0])) is None


# the race ends where no LM is needed


class Guesses(Knows):
    """Writes a label that has nothing to do with the review."""

    def write(self, prompts, limit, stop, temperature, seeds):
        self.tokens_read += int(self.count_tokens(prompts).sum())
        return [MOODS[zlib.crc32(text.encode()) % 2] for text in prompts]


def told(i):
    return replace(review(2 * i + 1), id=f"t{i}", input=f"{review(2 * i + 1).input} {i}")


@pytest.mark.parametrize(("lm", "ended"), [(Guesses, True), (Knows, False)])
def test_the_race_ends_where_answers_without_an_lm_are_clearly_better(tmp_path, lm, ended):
    rows = [told(i) for i in range(320)] if ended else REVIEWS
    task = replace(MIXED, train=rows[:200], validation=rows[200:])
    config = replace(TUNE, encoder="tiny", lm="tiny", out=tmp_path)
    options = TuneConfig(lm_tokens=2_000_000, ks=(2, 4), method=("topk",), minutes=None)
    search = Search(config, task, options, One(lm()))
    outcome = search.run()
    notes = "\n".join(outcome.notes)
    assert ("Nothing better is likely to be found" in notes) == ended
    most = max(standing.rows for standing in outcome.race)
    assert (most < len(search.tuning)) == ended
    if ended:
        assert outcome.finals.label == "classifier alone"

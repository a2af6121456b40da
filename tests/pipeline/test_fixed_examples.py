"""A fixed prompt as rows of a run: which prompts are read, what is chosen, what it costs, and its
selector, with the test LM and the test encoder."""

from dataclasses import replace

import numpy as np
import pytest
from films import SMALL, TASK, One, choose, evaluated, metric_of

from ceil_jax import CeilSelector, UserError
from ceil_jax.lm.counting import CountingLM
from ceil_jax.lm.request import LMRequest
from ceil_jax.lm.tiny import TinyLM
from ceil_jax.methods.epr import EPR
from ceil_jax.methods.fixed import FixedPrompt
from ceil_jax.methods.fixed_near import FixedNear
from ceil_jax.methods.registry import usable_with
from ceil_jax.pipeline.answering import prompts_of
from ceil_jax.pipeline.export import export_row
from ceil_jax.pipeline.fixed_examples import random_sets
from ceil_jax.pipeline.plan import plan
from ceil_jax.pipeline.setup import open_run
from ceil_jax.pipeline.steps import StepsOf

FIXED = FixedPrompt(sets=8, rows=4)
FEW = replace(TASK, validation=TASK.validation[:6])
CONFIG = replace(SMALL, shots=4).using(FIXED).using(FixedNear(sets=8, rows=4))


def opened(out, task=FEW, **models):
    return open_run(replace(CONFIG, out=out), task, **models)


def best_of(setup):
    return StepsOf(setup).learnt(setup.row("fixed").method).fixed


def sets_of(best):
    return random_sets(best.bank, best.rounds, best.sets, best.size, best.seed)


class Asked(TinyLM):
    """Notes the prompts that it reads."""

    def __init__(self):
        super().__init__()
        self.asked = []

    def choice_log_likelihood(self, prompts, choices, *, per_token=False):
        self.asked += prompts
        return super().choice_log_likelihood(prompts, choices, per_token=per_token)


def test_every_query_has_the_same_examples_in_the_same_order(tmp_path):
    run, setup = opened(tmp_path)
    shown = [row["examples"] for row in evaluated(run, setup, "fixed").rows()]
    assert len(shown[0]) == 4
    assert all(row == shown[0] for row in shown)
    positions = run.get(best_of(setup))
    # the last of the set stands first in a prompt, as in the prompts that scored it
    assert [example[0] for example in shown[0]] == [FEW.train[p].id for p in positions[::-1]]


def test_no_row_is_scored_with_itself_in_the_prompt_and_the_answer_is_scored_as_asked(tmp_path):
    lm = Asked()
    run, setup = opened(tmp_path, models=One(lm))
    best = best_of(setup)
    run.get(best)
    held = {row.input for rows in best.rounds for row in rows.examples}
    assert len(held) == 4 + 4 + 8
    for prompt in lm.asked:
        *examples, query = prompt.split("\n")
        assert query.removesuffix(" It is") in held
        assert len(examples) == 4
        assert not any(example.rpartition(" It is ")[0] in held for example in examples)
    # the winner's prompt begins as those that answer the task's queries
    stage = metric_of(setup, "fixed").predictions
    [prompt, *_] = prompts_of(run, stage, FEW.validation, run.get(stage.choice))
    beginning = prompt.text.rpartition("\n")[0]
    assert sum(asked.startswith(beginning) for asked in lm.asked) == len(held)


def test_each_round_has_rows_of_its_own_and_half_of_the_sets(tmp_path):
    lm = Asked()
    run, setup = opened(tmp_path, models=One(lm))
    best = best_of(setup)
    run.get(best)
    assert [len(rows) for rows in best.rounds] == [4, 4, 8]
    sets_of_rows = []
    for rows in best.rounds:
        inputs = {row.input for row in rows.examples}
        read = [prompt.rpartition("\n") for prompt in lm.asked]
        sets = {text for text, _, query in read if query.removesuffix(" It is") in inputs}
        sets_of_rows.append(sets)
    assert list(map(len, sets_of_rows)) == [8, 4, 2]
    assert sets_of_rows[2] <= sets_of_rows[1] <= sets_of_rows[0]


def test_the_set_that_helps_most_is_found(tmp_path):
    """The LM is made to like one of the random sets."""
    run, setup = opened(tmp_path / "plain")
    [*_, liked] = sets_of(best_of(setup))
    inputs = [FEW.train[position].input for position in liked]

    class Partial(TinyLM):
        def choice_log_likelihood(self, prompts, choices, *, per_token=False):
            found = []
            for prompt, own in zip(prompts, choices, strict=True):
                query = prompt.rpartition("\n")[2]
                gold = "good" if "funny" in query else "bad"
                right = 0.8 if all(text in prompt for text in inputs) else 0.5
                found.append(np.log([right if text.strip() == gold else 1 - right for text in own]))
            return found

    run, setup = opened(tmp_path / "partial", models=One(Partial()))
    assert run.get(best_of(setup)).tolist() == liked.tolist()


def test_a_stopped_search_goes_on_and_finds_the_same(tmp_path):
    whole = opened(tmp_path / "whole")
    expected = whole.run.get(best_of(whole.setup))

    class Stopping(Asked):
        def choice_log_likelihood(self, prompts, choices, *, per_token=False):
            if len(self.asked) > 33:
                raise KeyboardInterrupt
            return super().choice_log_likelihood(prompts, choices, per_token=per_token)

    stopped = Stopping()
    with pytest.raises(KeyboardInterrupt):
        run, setup = opened(tmp_path / "parts", models=One(stopped))
        run.get(best_of(setup))
    rest = Asked()
    run, setup = opened(tmp_path / "parts", models=One(rest))
    assert (run.get(best_of(setup)) == expected).all()
    assert set(stopped.asked).isdisjoint(rest.asked)
    assert run.cost([best_of(setup)]).tokens == whole.run.cost([best_of(whole.setup)]).tokens


def test_near_examples_stand_behind_the_fixed_ones_that_both_rows_share(tmp_path):
    run, setup = opened(tmp_path)
    two = open_run(replace(CONFIG, out=tmp_path, shots=2), FEW)
    fixed = two.run.get(best_of(two.setup))
    method = setup.row("fixed_near").method
    steps = StepsOf(setup)
    assert steps.learnt(method).fixed == best_of(two.setup)
    near = run.get(steps.nearest(steps.learnt(method.start), setup.queries, 4)).positions
    for number, picks in enumerate(choose(run, setup, "fixed_near", FEW.validation)):
        chosen = [pick.position for pick in picks]
        assert chosen[:2] == fixed.tolist()
        others = [position for position in near[number].tolist() if position not in fixed]
        assert chosen[2:] == others[:2]
    [row, *_] = evaluated(run, setup, "fixed_near").rows()
    ids = [example[0] for example in row["examples"]]
    assert ids[:2] == [FEW.train[p].id for p in fixed[::-1]]
    assert setup.row("fixed_near").title == "fixed + near from free"


def test_an_lm_that_only_writes_is_scored_by_the_metric(tmp_path):
    class Writer(TinyLM):
        can_score = False

        def write(self, prompts, limit, stop, temperature, seeds):
            self.tokens_read += len(prompts)
            return ["It is good."] * len(prompts)

    lm = Writer()
    run, setup = opened(tmp_path, models=One(lm))
    learning = (setup.row("fixed"), setup.row("fixed_near"))
    assert usable_with(lm, learning, FEW).rows == learning
    best = best_of(setup)
    assert len(run.get(best)) == 4
    assert run.cost([best]).tokens == lm.tokens_read == 8 * 4 + 4 * 4 + 2 * 8
    with_epr = replace(setup.row("fixed_near").method, start=EPR())
    assert with_epr.needs_log_probs


def test_a_plan_counts_what_is_read_and_the_row_is_charged_for_it(tmp_path):
    run, setup = opened(tmp_path)
    planned = plan(run, [best_of(setup)])
    assert planned.tokens > 0
    assert not (tmp_path / "readings.sqlite").exists()
    record = evaluated(run, setup, "fixed")
    assert record.preparing.tokens == run.own_cost(best_of(setup)).tokens
    assert planned.tokens == pytest.approx(record.preparing.tokens, rel=0.15)
    assert record.config["fixed"]["rows"] == 4
    assert plan(run, [best_of(setup)]).tokens == 0


def test_what_prompts_share_is_counted_once_where_an_lm_reads_trees():
    beginning = "one two three four "
    requests = [LMRequest(beginning + word, (" a",)) for word in ("x", "y", "z")]
    plain = CountingLM("lm", 99, 1, lambda texts: np.array([len(t.split()) for t in texts]))
    tree = replace(plain, reads_trees=True)
    assert plain.count(requests, (), together=True)[0] == 3 * 5
    assert tree.count(requests, (), together=True)[0] == 4 + 3 * 1
    assert tree.count(requests, ())[0] == 3 * 5


def test_the_set_is_the_same_for_all_seeds_and_a_smaller_search_is_another(tmp_path):
    _, setup = opened(tmp_path)
    other = open_run(replace(CONFIG, out=tmp_path, seed=5), FEW).setup
    assert best_of(setup).key == best_of(other).key
    fewer = open_run(CONFIG.using(replace(FIXED, rows=2)), FEW).setup
    assert best_of(fewer).key != best_of(setup).key
    assert FIXED.smaller() is None
    assert FixedPrompt(rows=8).smaller() == FixedPrompt(rows=4)
    # 32 sets have five rounds, of 1 + 1 + 2 + 4 + 8 times as many rows
    assert FixedPrompt(sets=32, rows=16).training_query_count == 16 * 16
    assert FixedPrompt(sets=32, rows=16).with_training_queries(64) == FixedPrompt(rows=4)


@pytest.mark.parametrize("method", ["fixed", "fixed_near"])
def test_a_selector_has_the_prompt_of_the_run(tmp_path, method):
    run, setup = opened(tmp_path / "runs")
    said = export_row(run, setup, setup.row(method), tmp_path / "selector")
    assert f"{setup.row(method).label} on films" in said
    selector = CeilSelector.from_pretrained(tmp_path / "selector")
    stage = metric_of(setup, method).predictions
    prompts = prompts_of(run, stage, FEW.validation, run.get(stage.choice))
    for query, prompt in zip(FEW.validation, prompts, strict=True):
        chosen = selector.select(query, k=4)
        assert chosen.prompt == prompt.text
        assert sum(pick.fixed for pick in chosen.picks) == (4 if method == "fixed" else 2)
    text = (tmp_path / "selector" / "prompt.txt").read_text()
    lines = prompts[0].text.split("\n")
    fixed = lines[: 4 if method == "fixed" else 2]
    assert text.splitlines() == [*fixed, "{input} It is"]
    card = selector.card
    assert "fixed prompt: the best of 8 sets of" in card.training_data
    assert card.language_model == "tiny"
    # another row in the same folder has no text of its own
    export_row(run, setup, setup.row("topk"), tmp_path / "selector")
    assert not (tmp_path / "selector" / "prompt.txt").exists()


def test_what_cannot_be_is_said_before_anything_is_read(tmp_path):
    def of(**settings):
        return open_run(replace(CONFIG, out=tmp_path, **settings), FEW).setup

    with pytest.raises(UserError, match="45 fixed examples are drawn from the 44 examples"):
        best_of(of(shots=45))
    with pytest.raises(UserError, match="--shots 2: 2 of them are near the query"):
        metric_of(of(shots=2), "fixed_near")
    with pytest.raises(
        UserError, match=r"--epr\.start fixed: it finds examples, and has no encoder"
    ):
        open_run(CONFIG.with_method(EPR, start=FIXED), FEW).setup.row("epr")
    with pytest.raises(UserError, match=r"--fixed-near\.start fixed: it finds examples"):
        open_run(replace(CONFIG, out=tmp_path).using(FixedNear(start=FIXED)), FEW).setup.row(
            "fixed_near"
        )
    with pytest.raises(UserError, match="a bank of 3 examples is too small"):
        FIXED.rounds(3)

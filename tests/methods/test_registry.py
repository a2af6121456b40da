"""Rows and methods by name: what is refused, and what each row says of itself."""

from dataclasses import dataclass

import pytest
from films import SMALL, TASK

from ceil_jax import EPR, NEAREST, Free, Row, Untrained, UserError, register_row
from ceil_jax.methods.base import Method
from ceil_jax.methods.ceil import CEIL
from ceil_jax.methods.registry import ROWS, applicable, registered_methods
from ceil_jax.pipeline.config import RunConfig, method_flags
from ceil_jax.pipeline.setup import open_run


@dataclass(frozen=True)
class Order(EPR):
    """A method with the name of a setting of RunConfig."""

    name = "order"
    title = "order"


@dataclass(frozen=True)
class Mine(EPR):
    """A method from outside."""

    name = "mine"
    title = "mine"


@dataclass(frozen=True)
class Other(EPR):
    """A method with the name of another one."""


def test_a_method_with_the_name_of_a_setting_is_refused_in_one_line():
    register_row("order", Row("by order", Order()))
    for use in (
        lambda: open_run(SMALL, TASK).setup.row("order"),
        lambda: method_flags(SMALL),
        lambda: SMALL.using(Order()),
    ):
        with pytest.raises(UserError, match="cannot be called 'order': --order is a setting"):
            use()


def test_a_name_is_one_row_and_one_class():
    with pytest.raises(UserError, match="'ceil' is registered already"):
        register_row("ceil", Row("mine", CEIL()))
    with pytest.raises(UserError, match="a method 'epr' is registered already"):
        register_row("mine", Row("mine", Other()))
    register_row("mine", Row("mine", EPR(epochs=9), NEAREST))
    assert ROWS["mine"].name == "mine"
    assert registered_methods()["epr"] == ROWS["epr"].method


class Undecorated(EPR):
    """A method that lacks its decorator, so that its field is not a setting."""

    name = "undecorated"
    title = "undecorated"
    floor: float = 0.0


@dataclass(frozen=True)
class Idle(Method):
    """A method that says in no way how it learns."""

    name = "idle"
    title = "idle"


@pytest.mark.parametrize(
    ("method", "message"),
    [(Undecorated(), r"write @dataclass\(frozen=True\)"), (Idle(), "does not define `learn`")],
    ids=["without its decorator", "without a way to learn"],
)
def test_a_class_that_is_no_method_is_refused(method, message):
    with pytest.raises(UserError, match=message):
        register_row("mine", Row("mine", method))
    assert "mine" not in ROWS


def test_a_methods_defaults_are_those_it_was_registered_with():
    register_row("order", Row("mine", Mine(instances=7)))
    assert RunConfig().method(Mine).instances == 7
    changed = RunConfig().with_method(Mine, epochs=2).row("order").method
    assert (changed.instances, changed.epochs) == (7, 2)


def test_registrations_for_a_while_are_forgotten():
    with ROWS.temporarily():
        register_row("mine", Row("mine", EPR()))
        ROWS.pop("ceil")
    assert "mine" not in ROWS
    assert next(iter(ROWS)) == "majority"
    assert "ceil" in ROWS


def test_what_a_row_says_of_itself():
    facts = {
        name: (row.trains, row.seeded, row.learns_from_lm, row.exports, row.chooses)
        for name, row in ROWS.items()
    }
    assert facts["zero"] == (False, False, False, True, False)
    assert facts["random"] == (False, True, False, False, True)
    assert facts["topk"] == (False, False, False, True, True)
    assert facts["classifier"] == (True, True, False, False, False)
    assert facts["tst"] == (True, True, False, True, True)
    assert facts["ceil"] == (True, True, True, True, True)
    assert facts["skill_base"] == (False, True, False, False, True)


def test_a_method_that_starts_from_one_that_does_not_apply_is_left_out():
    ceil = CEIL(start=EPR(start=Free()))
    assert [method.name for method in ceil.chain] == ["ceil", "epr", "free"]
    assert CEIL(start=Untrained()).chain == (CEIL(start=Untrained()), Untrained())
    kept, left_out = applicable(TASK, [ROWS[name] for name in ("copied", "ceil", "bm25")])
    assert [row.name for row in kept] == ["ceil", "bm25"]
    assert left_out.startswith("Left out: nearest output, copied:")

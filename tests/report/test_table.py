"""One table in four renderings."""

from html_parts import Parts

from ceil_jax.metrics.bootstrap import Interval
from ceil_jax.report.table import Number, Table, signed

TABLE = Table(
    ["method", "metric", "score", "95 % interval", "tokens", "− EPR"],
    [
        ["a | <b>", "lf_em", Number(43.25, sd=0.6, paper=42.8), Interval(0, 1.25, 60), 12345, None],
        ["EPR", None, 7.0, None, 9, signed(Interval(1.5, -0.5, 3.5))],
    ],
    "Scores",
)


def test_markdown():
    assert TABLE.markdown() == (
        "## Scores\n\n"
        "| method | metric | score | 95 % interval | tokens | − EPR |\n"
        "| --- | --- | ---: | ---: | ---: | ---: |\n"
        r"| a \| <b> | lf_em | 43.2 ± 0.6 (paper 42.8) | 1.2 to 60.0 | 12,345 |  |"
        "\n| EPR |  | 7.0 |  | 9 | +1.5 (-0.5 to +3.5) |\n"
    )


def test_text_is_aligned():
    table = Table(
        ["stage", "state", "tokens"], [["one", "on disk", None], ["two more", "runs", 12345]]
    )
    assert table.text() == (
        "stage     state    tokens\n"
        "one       on disk\n"
        "two more  runs     12,345"
    )  # fmt: skip


def test_html_shows_the_same_cells_and_nothing_else():
    parsed = Parts(TABLE.html())
    # a page has the minus sign where a terminal has the hyphen
    said = [cell.replace("(-", "(−") for line in TABLE.lines() for cell in line]
    assert parsed.cells == said
    assert parsed.elements == {"div", "table", "thead", "tbody", "tr", "th", "td"}


def test_places_without_a_value_stay_empty():
    table = Table(["", "films", "shows"], [["CEIL", 1.0, None], ["EPR", None, 2.0]])
    assert table.lines()[1:] == [["CEIL", "1.0", ""], ["EPR", "", "2.0"]]
    assert table.with_column("mean", [None, None]) is table
    assert table.with_column("mean", [None, 3]).lines()[2] == ["EPR", "", "2.0", "3"]


def test_a_table_without_rows_is_its_header():
    assert Table(["a", "b"], []).text() == "a  b"
    assert Table(["a", "b"], []).markdown() == "| a | b |\n| --- | ---: |\n"


def test_a_page_has_one_minus_sign():
    html = Table(["", "less"], [["a-1", Number(-1.5, interval=Interval(-1.5, -2.0, 0.5))]]).html()
    assert "−1.5 (−2.0 to 0.5)" in html
    assert "a-1" in html

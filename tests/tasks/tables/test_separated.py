"""Tables of text: the separator of values, the header, and quotes."""

import pytest
from refusing import refused

from ceil_jax.tasks.files import read_table


def read(tmp_path, content, name="a.csv", **options):
    (tmp_path / name).write_text(content, encoding="utf-8", newline="")
    return [tuple(row.values()) for row in read_table(tmp_path / name, **options).rows]


@pytest.mark.parametrize(
    ("name", "content", "rows"),
    [
        # quoted, with commas inside, as R's write.csv2 and LibreOffice have it
        ("a.csv", '"t";"l"\n"a, b";"x"\n"c, d";"y"\n', [("a, b", "x"), ("c, d", "y")]),
        # decimal commas, which make two cells of the rows and not of the header
        ("a.csv", "t;price\na;1,5\nb;2,25\n", [("a", "1,5"), ("b", "2,25")]),
        # decimal commas, as many as the header has
        ("a.csv", "t, text;l\na;1,5\nb;2\n", [("a", "1,5"), ("b", "2")]),
        ("a.csv", "t\tl\na, b\tx\nc\ty\n", [("a, b", "x"), ("c", "y")]),
        ("a.csv", "t|l|n\na|x|1\nb|y|2\n", [("a", "x", "1"), ("b", "y", "2")]),
        ("a.tsv", "t,l\na,x\nb,y\n", [("a", "x"), ("b", "y")]),
        ("a.txt", "t\tl\na\tx\n", [("a", "x")]),
        ("a.txt", "t;l\n'a;x\n", [("'a", "x")]),
        ("a.txt", '"t","l"\n"a; b","x"\n', [("a; b", "x")]),
        # a quoted line's end, and quotes that pair up with one separator only
        ("a.csv", '"t";"l"\n"a\nb";"x"\n', [("a\nb", "x")]),
        ("a.csv", 't;l\n"a ""b"", c";x\n', [('a "b", c', "x")]),
        # the usual one where another fits as well
        ("a.csv", "t;u,l\na;b,x\n", [("a;b", "x")]),
        ("a.tsv", "t,u\tl\na,b\tx\n", [("a,b", "x")]),
        # and where some rows are bad
        ("a.csv", "t,l\na,x\nb;c,y\nd,x\n", [("a", "x"), ("b;c", "y"), ("d", "x")]),
        ("a.csv", "sep=|\nt|l,m\na|x\n", [("a", "x")]),
        # as Excel writes it again, and as people do
        ("a.csv", '"sep=;"\r\nt,u;l\r\na;x\r\n', [("a", "x")]),
        ("a.csv", "SEP=,,\nt,l\na,x\n", [("a", "x")]),
        ("a.csv", "\ufeffsep = ;\nt;l\na, b;x\n", [("a, b", "x")]),
        ("a.csv", "sep=\t\nt\tl\na, b\tx\n", [("a, b", "x")]),
        # quotes inside quotes as Spark and MySQL write them
        (
            "a.csv",
            't,l\n"say \\"hi\\", then go",x\nb,y\n',
            [('say "hi", then go', "x"), ("b", "y")],
        ),
        # rows of a spreadsheet that hold nothing, and cells behind the last column
        ("a.csv", "t,l\na,x\n,\n ,\nb,y,,\n", [("a", "x"), ("b", "y")]),
        # comments above the header, and a header that looks like one
        ("a.csv", "# from 2024\n#\n# by me, myself\nt,l\n#a,x\n", [("#a", "x")]),
        ("a.tsv", "# t\tl\na\tx\n", [("a", "x")]),
    ],
)
def test_what_separates_values(tmp_path, name, content, rows):
    assert read(tmp_path, content, name) == rows


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.txt"])
@pytest.mark.parametrize(
    "content",
    [
        "| t | l |\n|---|:-:|\n| a, b \\| c | x |\n| d | |\n",
        "|t|l|\n|:--|--:|\n|a, b \\| c|x|\n|d|\n",
        "t | l\n- | -\na, b \\| c | x\nd | \n",
        "      t      | l \n-------------+---\n a, b \\| c   | x\n d           | \n(2 rows)\n",
        "+---+---+\n| t | l |\n+---+---+\n| a, b \\| c | x |\n| d |  |\n+---+---+\n"
        "2 rows in set (0.01 sec)\n",
    ],
)
def test_tables_that_are_drawn(tmp_path, name, content):
    """Markdown's, psql's and MySQL's."""
    assert read(tmp_path, content, name) == [("a, b | c", "x"), ("d", "")]


def test_dashes_between_other_separators_are_values(tmp_path):
    assert read(tmp_path, "t,l\n-,-\na,x\n") == [("-", "-"), ("a", "x")]


def test_columns_of_a_fixed_width_are_told(tmp_path):
    rows = "".join(f"{f'a film, {number}':<20}x\n" for number in range(9))
    with refused(r"a.txt: its columns have a fixed width.*pandas.read_fwf\('.*a.txt'\)"):
        read(tmp_path, f"{'text':<20}label\n{rows}", "a.txt")


def test_a_separator_that_is_said_is_taken(tmp_path):
    assert read(tmp_path, "t,u;l\na,b;x\n", delimiter=";") == [("a,b", "x")]
    assert read(tmp_path, "t:l\na:x\n", "a.txt", delimiter=":") == [("a", "x")]
    with refused("a.txt: say what separates its values, as in --delimiter ';'"):
        read(tmp_path, "t:l\na:x\n", "a.txt")


def test_the_separator_of_a_long_file_is_known_by_its_beginning(tmp_path):
    rows = "".join(f'"film {i},\nand more";good\n' for i in range(2_000))
    assert len(read(tmp_path, '"t";"l"\n' + rows)) == 2_000


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "Ticket export 2025-03-01\n\ntext,team,state\na,b,c\nd,e,f\n",
            r"line 1 was taken for the header: 'Ticket export 2025-03-01'; it has 1 cell, and 3 of 3 "
            r"lines below it have 3. If the header is line 3 \('text', 'team', 'state'\)",
        ),
        (
            "Report;2025\ntext;team;state\na, x;b;c\nd;e;f\n",
            "line 1 was taken for the header: 'Report', '2025'.*3 of 3 .*header is line 2",
        ),
        (
            '"Report, 2025"\ntext,team\na,b\nc,d\n',
            "line 1 was taken for the header: 'Report, 2025'",
        ),
        (
            "# exported, today\nid,text,team\n1,a,b\n2,c,d\n",
            "line 1 was taken for the header: '# exp",
        ),
        # R's row names have no name
        (
            "text,team\n1,a,b\n2,c,d\n",
            "it has 2 cells, and 2 of 2 lines .*name the missing columns",
        ),
        ("text,team\na,b\nc,d,e\n", None),
    ],
)
def test_a_line_that_is_not_the_header_is_shown(tmp_path, content, message):
    if message is None:
        (tmp_path / "a.csv").write_text(content)
        _, bad = read_table(tmp_path / "a.csv").rows
        assert str(bad) == "3 cells, the header has 2 (line 1: 'text', 'team')"
        return
    with refused(message):
        read(tmp_path, content)


def test_names_that_are_one_name(tmp_path):
    with refused("line 1: two columns have one name: 'text', 'l', 'text'"):
        read(tmp_path, "text,l,text \na,b,c\n")
    with refused(r"two columns have one name: 'text', 'text\\u200b'"):
        read(tmp_path, "text,text\u200b\na,b\n")
    assert read(tmp_path, "text,,\na,b,c\n") == [("a", "c")]


def test_a_header_behind_a_byte_order_mark_is_the_header_once_more(tmp_path):
    (tmp_path / "a.csv").write_text("a,b\n1,2\n\ufeffa,b\n3,4\n", encoding="utf-8")
    first, second, third = read_table(tmp_path / "a.csv").rows
    assert (first, third) == ({"a": "1", "b": "2"}, {"a": "3", "b": "4"})
    assert str(second) == "the header once more"

"""Tables of numbers: whole, wrapped, cut, and with cells that are none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostdoctor.parsers.matrix import bandwidth, microseconds, read_matrix

WHOLE = """\
   D\\D     0      1      2
     0 923.40  25.56  26.00
     1  25.76 920.97  26.01
     2  25.73  25.80 922.04
"""


def table(text, corner=r"D\\D"):
    return read_matrix(text.splitlines(), 0, corner)


def texts(matrix):
    return [list(row) for row in matrix.rows.values()]


def test_a_whole_table():
    matrix = table(WHOLE)
    assert matrix.columns == [0, 1, 2]
    assert texts(matrix)[1] == ["25.76", "920.97", "26.01"]
    assert not matrix.is_cut
    assert [line for *_, line in matrix.cells()][::3] == [1, 2, 3]


def test_rows_that_a_narrow_window_wrapped():
    wrapped = WHOLE.replace("  2\n", "\n  2\n", 1).replace("  26.0", "\n  26.0").replace(" 922.04", "\n 922.04")
    assert texts(table(wrapped)) == texts(table(WHOLE))
    assert table(wrapped).columns == [0, 1, 2]


def test_a_wrapped_table_of_ones_and_zeroes():
    text = "D\\D 0 1 2 3\n0\t1 1 0\n0\n1 1 1 0 0\n2 0 0 1 1\n3 0 0 1 1\n"
    assert texts(table(text)) == [["1", "1", "0", "0"], ["1", "1", "0", "0"], ["0", "0", "1", "1"], ["0", "0", "1", "1"]]


def test_it_ends_where_other_text_begins():
    matrix = table(f"{WHOLE}Bidirectional P2P=Enabled\n     9 1.00 1.00 1.00\n")
    assert matrix.end == 4
    assert list(matrix.rows) == [0, 1, 2]


@pytest.mark.parametrize("kept", ["     2  25.73  25.8", "     2  25.73  25.", "     2  25.73  2"])
def test_a_number_that_the_paste_cuts_is_none(kept):
    matrix = table(WHOLE.replace("     2  25.73  25.80 922.04\n", kept))
    assert matrix.rows[2] == ["25.73"]
    assert matrix.is_cut


def test_a_head_alone_has_no_rows():
    matrix = table("   D\\D     0      1\n")
    assert matrix.rows == {}
    assert matrix.is_cut


@pytest.mark.parametrize("text", ["", "\n\n", "no table\n", "   GPU     0      1\n", "D\\D\n"])
def test_what_is_no_table(text):
    assert table(text) is None


def test_a_table_without_a_corner():
    matrix = table("           0         1\n 0       N/A     26.34\n 1     26.34       N/A\n", corner="")
    assert texts(matrix) == [["N/A", "26.34"], ["26.34", "N/A"]]


@pytest.mark.parametrize("text", ["N/A", "nan", "-nan", "inf", "-3.5", "99999.00", "1e400", "FAIL", ""])
def test_what_is_no_rate(text):
    assert bandwidth(text) is None


def test_rates():
    assert bandwidth("0.00") == 0.0
    assert bandwidth("6.608") == 6.608
    assert bandwidth("8000.0", inside=True) == 8000.0
    assert microseconds("0.00") is None
    assert microseconds("1.58") == 1.58


@given(st.text(alphabet="DGPUN/A.0123456789\\ \t\nnaif-", max_size=300))
def test_any_text_is_read_without_an_exception(text):
    for corner in (r"D\\D", "D/D", "GPU", ""):
        if (matrix := read_matrix(text.split("\n"), 0, corner)) is not None:
            assert matrix.end <= len(text.split("\n"))
            assert all(len(row) <= len(matrix.columns) for row in matrix.rows.values())

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostdoctor.parsers.counters import parse_aer_counters

CORRECTABLE = (
    "RxErr 12\nBadTLP 0\nBadDLLP 3\nRollover 0\nTimeout 1\nNonFatalErr 0\nCorrIntErr 0\nHeaderOF 0\nTOTAL_ERR_COR 16\n"
)


def test_only_what_was_counted_is_kept_and_not_the_sum():
    assert parse_aer_counters(CORRECTABLE) == {"RxErr": 12, "BadDLLP": 3, "Timeout": 1}


def test_names_of_older_kernels_have_spaces():
    assert parse_aer_counters("Receiver Error 2\nBad TLP 0\n") == {"Receiver Error": 2}


@pytest.mark.parametrize(
    "line", ["", "RxErr", "RxErr x", "RxErr -1", " 5", "RxErr " + "9" * 5000, "RxErr ²", "TOTAL_ERR_FATAL 7"]
)
def test_other_lines_are_left_out(line):
    assert parse_aer_counters(f"{line}\nDLP 1\n") == {"DLP": 1}


def test_a_count_that_fits_no_report_is_cut():
    assert parse_aer_counters("RxErr 18446744073709551615\n") == {"RxErr": (1 << 63) - 1}


@given(st.text())
def test_any_text_gives_counts(text):
    assert all(name and number > 0 for name, number in parse_aer_counters(text).items())

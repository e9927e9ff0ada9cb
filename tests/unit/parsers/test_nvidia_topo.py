"""The matrices of nvidia-smi topo."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostdoctor.parsers.nvidia_topo import nvlinks_of, parse_matrices

TWO_SOCKETS = """\
\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID
GPU0\t X \tSYS\t0-9,20-29\t\tN/A\t\tN/A
GPU1\tSYS\t X \t10-19,30-39\t1\t\tN/A

Legend:

  X    = Self"""

WITH_CARDS = """\
\tGPU0\tGPU1\tNIC0\tmlx5_1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID
GPU0\t X \tNV18\tPIX\tSYS\t0-47\t0\t\tN/A
GPU1\tNV18\t X \tSYS\tPIX\t48-95\t1\t\tN/A
NIC0\tPIX\tSYS\t X \tSYS\t\t\t\t
mlx5_1\tSYS\tPIX\tSYS\t X \t\t\t\t"""

GRANTS = """\
        GPU0    GPU1    GPU2
 GPU0   X       OK      CNS
 GPU1   GNS     X       NS
 GPU2   DR      U       X"""


def only(text):
    (matrix,) = parse_matrices(text.split("\n"))
    return matrix


def test_a_shifted_row_names_no_node():
    found = only(TWO_SOCKETS)
    assert found.gpus == ("GPU0", "GPU1")
    assert found.cells == {("GPU0", "GPU1"): "SYS", ("GPU1", "GPU0"): "SYS"}
    assert found.numa_nodes == {"GPU1": 1}
    assert (found.rows["GPU1"], found.is_p2p) == (2, False)


def test_blanks_for_tabs():
    assert only(TWO_SOCKETS.replace("\t\t", "\t").replace("\t", "    ")).numa_nodes == {"GPU1": 1}


def test_network_cards_are_left_out():
    found = only(WITH_CARDS)
    assert set(found.cells) == {("GPU0", "GPU1"), ("GPU1", "GPU0")}
    assert found.numa_nodes == {"GPU0": 0, "GPU1": 1}
    assert nvlinks_of(found.cells["GPU0", "GPU1"]) == 18
    assert nvlinks_of("NODE") == 0


def test_grants_are_directional():
    found = only(GRANTS)
    assert found.is_p2p
    assert (found.cells["GPU0", "GPU1"], found.cells["GPU1", "GPU0"]) == ("OK", "GNS")


def test_without_its_heading():
    found = only("\n".join(GRANTS.split("\n")[1:]))
    assert found.gpus == ("GPU0", "GPU1", "GPU2")
    assert found.cells["GPU2", "GPU1"] == "U"


def test_several_in_a_row():
    assert len(parse_matrices(f"{GRANTS}\n\n{TWO_SOCKETS}".split("\n"))) == 2


@pytest.mark.parametrize(
    "text",
    [
        "       GPU0         GPU1\nGPU0   0            15\nGPU1   15           0",  # rocm-smi --showtopo
        "       GPU0         GPU1\nGPU0   0            XGMI\nGPU1   XGMI         0",
        "GPU0 and GPU1 are mine",
        "GPU0\tGPU1",
        "",
    ],
)
def test_no_matrix_of_nvidia(text):
    assert parse_matrices(text.split("\n")) == []


def test_a_cut_row_is_left_out():
    assert list(only(GRANTS[: GRANTS.index("S\n GPU2")]).rows) == ["GPU0"]
    assert list(only(GRANTS[: GRANTS.index("X       NS")]).rows) == ["GPU0"]


@given(st.lists(st.sampled_from([*GRANTS.split("\n"), *WITH_CARDS.split("\n"), "", "GPU0 X", "GPU0"]), max_size=30))
def test_any_order_of_lines(lines):
    parse_matrices(lines)


@given(st.text(max_size=400))
def test_any_text(text):
    parse_matrices(text.split("\n"))

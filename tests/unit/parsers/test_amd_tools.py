"""rocm-smi and amd-smi: what the lines, tables and JSON of their versions say, and any other text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostdoctor.parsers.amd_pairs import allowed, link_type, read_table
from hostdoctor.parsers.amd_smi import parse_amd_smi, parse_amd_smi_json
from hostdoctor.parsers.rocm_smi import parse_rocm_smi, parse_rocm_smi_json

TABLE = """       GPU0         GPU1         GPU2
GPU0   0            PCIE         XGMI

GPU1   PCIE         0            XXXX

GPU2   XGMI         N/A          0
"""
SMI = f"""==================== Link Type between two GPUs ====================
{TABLE}
============================ Numa Nodes ============================
GPU[0]\t\t: (Topology) Numa Node: 0
GPU[0]\t\t: (Topology) Numa Affinity: 1
GPU[2]\t\t: GPU ID: 0x740f
GPU[2]\t\t: PCIe Replay Count: 7
GPU[2]\t\t: VIS_VRAM Total Memory (B): 68702699520
"""
STATIC = """GPU: 1
    ASIC:
        MARKET_NAME: AMD Instinct MI300X
        DEVICE_ID: 0x74a1
    BUS:
        BDF: 0000:05:00.0
        MAX_PCIE_WIDTH: 16
        MAX_PCIE_SPEED: 32 GT/s
    CACHE:
        SIZE: 4 MB
    NUMA:
        NODE: 0
        AFFINITY: 1
    VRAM:
        SIZE: 196592 MB
    PCIE:
        WIDTH: 8
        SPEED: 2.5 GT/s
        REPLAY_COUNT: N/A
"""
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["gpu", "bdf", "links", "pcie", "card0", "system", "gpu_data", "speed"]) | st.text(), inner
        )
    ),
    max_leaves=20,
)


def cells(text):
    return {(cell.row, cell.column): cell.text for cell in read_table(text.splitlines(), 0, "link")}


def test_a_table():
    assert cells(TABLE) == {
        ("GPU0", "GPU1"): "PCIE",
        ("GPU0", "GPU2"): "XGMI",
        ("GPU1", "GPU0"): "PCIE",
        ("GPU1", "GPU2"): "XXXX",
        ("GPU2", "GPU0"): "XGMI",
        ("GPU2", "GPU1"): "N/A",
    }


def test_a_cut_table_gives_what_it_has():
    assert cells(TABLE[: TABLE.index("XXXX")]) == {
        ("GPU0", "GPU1"): "PCIE",
        ("GPU0", "GPU2"): "XGMI",
        ("GPU1", "GPU0"): "PCIE",
    }
    assert cells("GPU0 GPU1") == cells("") == cells("something else") == {}


@pytest.mark.parametrize(("text", "value"), [("True", True), ("ENABLED", True), ("False", False), ("DISABLED", False)])
def test_access(text, value):
    assert allowed(text) is value


def test_what_says_nothing():
    assert allowed("N/A") is None
    assert [link_type(text) for text in ("XGMI", "PCIE", "XXXX", "N/A", "SELF", "0-0")] == ["XGMI", "PCIE", "", "", "", ""]


def test_rocm_smi():
    found = parse_rocm_smi(SMI.splitlines())
    gpus = {gpu.number: gpu for gpu in found.gpus}
    assert gpus[0].numa_affinity == 1
    assert (gpus[2].device, gpus[2].replays, gpus[2].visible_vram_bytes) == (0x740F, 7, 68702699520)
    assert sorted(gpus) == [0, 1, 2]
    assert {cell.what for cell in found.cells} == {"link"}


@pytest.mark.parametrize(
    ("heading", "row", "device"),
    [
        ("GPU  Temp (DieEdge)  AvgPwr", "0    35.0c           37.0W", 0),
        ("Device  [Model : Revision]    Temp", "0       [0x74a1 : 0x00]       35.0°C", 0x74A1),
        ("Device  Node  IDs              Temp", "0       1     0x740f,   33298  34.0°C", 0x740F),
    ],
)
def test_the_overview_of_rocm_smi(heading, row, device):
    (found,) = parse_rocm_smi([heading, "=" * 80, row, "=" * 80, "1   no row"]).gpus
    assert (found.number, found.device) == (0, device)


def test_amd_smi():
    (found,) = parse_amd_smi(STATIC.splitlines()).gpus
    assert (found.number, found.address, found.device, found.name) == (1, "0000:05:00.0", 0x74A1, "AMD Instinct MI300X")
    assert (found.max_width, found.max_speed_gts, found.link_width, found.link_speed_gts) == (16, 32.0, 8, 2.5)
    assert (found.memory_bytes, found.numa_affinity, found.replays) == (196592 << 20, 1, None)


def test_amd_smi_without_its_indentation():
    assert parse_amd_smi([line.strip() for line in STATIC.splitlines()]) == parse_amd_smi(STATIC.splitlines())


def test_amd_smi_of_rocm_6_0():
    lines = ["GPU: 0", "    PCIE_INFO:", "        CURRENT_LANES: 16", "        CURRENT_SPEED: 16000 MT/s"]
    (found,) = parse_amd_smi(lines).gpus
    assert (found.link_width, found.link_speed_gts) == (16, 16.0)


def test_links_of_xgmi_give_addresses_and_no_verdict():
    """AMD SMI reports links as down where the driver may not tell their state."""
    lines = [
        "XGMI LINK STATUS:",
        "        bdf            GPU0  GPU1",
        "GPU0   0000:08:00.0  U  U  D  X",
        "GPU1\t0000:44:00.0  U  U",
    ]
    found = parse_amd_smi(lines)
    assert [gpu.address for gpu in found.gpus] == ["0000:08:00.0", "0000:44:00.0"]
    assert found.cells == ()


def test_csv():
    lines = ["gpu,market_name,vendor_name,device_id,bdf,size", '0,MI300X,"AMD, Inc.",0x74a1,0000:05:00.0,N/A', "", "1,x"]
    (found,) = parse_amd_smi(lines).gpus
    assert (found.name, found.device, found.address) == ("MI300X", 0x74A1, "0000:05:00.0")


@given(st.text())
def test_any_text(text):
    parse_rocm_smi(text.splitlines())
    parse_amd_smi(text.splitlines())


@given(
    st.lists(st.sampled_from([*SMI.splitlines(), *STATIC.splitlines(), "gpu,a", "0,1", "| 0000:01:00.0 x |", "ACCESS TABLE:"]))
)
def test_lines_in_any_order(lines):
    parse_rocm_smi(lines)
    parse_amd_smi(lines)


@given(JSON)
def test_any_json(data):
    parse_rocm_smi_json(data)
    parse_amd_smi_json(data)

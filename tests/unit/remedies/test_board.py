"""Which board a host has, from what vendors write into DMI."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostdoctor.facts.host import Cpu, Firmware
from hostdoctor.facts.unknown import Unknown
from hostdoctor.knowledge.firmware import load_firmware_families
from hostdoctor.remedies.board import cleaned, identify

XEON = Cpu("GenuineIntel", 6, 85, "Intel(R) Xeon(R) Gold 6130 CPU @ 2.10GHz")
EPYC = Cpu("AuthenticAMD", 0x19, 1, "AMD EPYC 7543 32-Core Processor")
RYZEN = Cpu("AuthenticAMD", 0x19, 0x61, "AMD Ryzen 9 7950X 16-Core Processor")
CORE = Cpu("GenuineIntel", 6, 183, "13th Gen Intel(R) Core(TM) i7-13700K")
NONE = Cpu()

# Strings as hosts carry them, and the family whose menus they have.
HOSTS = [
    (("Supermicro", "X11DPG-QT", "Supermicro", "SYS-7049GP-TRT"), XEON, "supermicro-x11"),
    (("Supermicro", "X11DPi-N", "transtec", "CALLEO"), XEON, "supermicro-x11"),
    (("Supermicro", "X11SPL-F", "Supermicro", "Super Server"), XEON, "supermicro-x11"),
    (("Supermicro", "X11SSM-F", "Supermicro", "Super Server"), CORE, "supermicro"),
    (("Supermicro", "X10DRG-Q", "Supermicro", "SYS-7048GR-TR"), XEON, "supermicro-x10"),
    (("Supermicro", "X10SLL-F", "Supermicro", "X10SLL-F"), CORE, "supermicro"),
    (("Supermicro", "X12DPG-QT6", "Supermicro", "SYS-740GP-TNRT"), XEON, "supermicro-x12"),
    (("Supermicro", "X13DEG-QT", "Supermicro", "SYS-741GE-TNRT"), XEON, "supermicro-x12"),
    (("Supermicro", "H11SSL-i", "Supermicro", "Super Server"), EPYC, "supermicro-h11"),
    (("Supermicro", "H12DSG-O-CPU", "Supermicro", "AS -4124GS-TNR"), EPYC, "supermicro-h12"),
    (("Dell Inc.", "0DPRKF", "Dell Inc.", "PowerEdge R740"), XEON, "dell-poweredge"),
    (("Dell Inc.", "0H3K7P", "Dell Inc.", "PowerEdge C4140"), XEON, "dell-poweredge"),
    (("Dell Inc.", "0XXXXX", "Dell Inc.", "PowerEdge R7525"), EPYC, "dell-poweredge-amd"),
    (("Dell Inc.", "0XXXXX", "Dell Inc.", "PowerEdge XE8545"), EPYC, "dell-poweredge-amd"),
    (("Dell Inc.", "0XXXXX", "Dell Inc.", "PowerEdge R710"), XEON, ""),
    (("HP", "ProLiant DL380 Gen9", "HP", "ProLiant DL380 Gen9"), XEON, "hpe-gen8-gen9"),
    (("HPE", "ProLiant DL380 Gen10", "HPE", "ProLiant DL380 Gen10"), XEON, "hpe-gen10-intel"),
    (("HPE", "ProLiant DL385 Gen11", "HPE", "ProLiant DL385 Gen11"), EPYC, "hpe-gen10"),
    (("Hewlett-Packard", "1589", "Hewlett-Packard", "HP Z420 Workstation"), NONE, "hp-z-2012"),
    (("HP", "212B", "HP", "HP Z440 Workstation"), NONE, "hp-z440"),
    (("Lenovo", "-[7X06CTO1WW]-", "Lenovo", "ThinkSystem SR650 -[7X06CTO1WW]-"), XEON, "lenovo-thinksystem"),
    (("ASUSTeK COMPUTER INC.", "K15PG-D24 Series", "ASUSTeK COMPUTER INC.", "ESC8000A-E13P"), EPYC, "asus-server"),
    (("ASUSTeK COMPUTER INC.", "Pro WS WRX90E-SAGE SE", "ASUS", "System Product Name"), NONE, "asus-pro-ws"),
    (("ASUSTeK COMPUTER INC.", "Z10PE-D8 WS", "ASUSTeK COMPUTER INC.", "Z10PE-D8 WS"), XEON, "asus-c612"),
    (("ASUSTeK COMPUTER INC.", "PRIME Z790-P", "ASUS", "System Product Name"), CORE, "asus-client"),
    (("ASRockRack", "ROMED8-2T", "To Be Filled By O.E.M.", "To Be Filled By O.E.M."), EPYC, "asrock-rack"),
    (("ASRock", "X570 Taichi", "To Be Filled By O.E.M.", "To Be Filled By O.E.M."), RYZEN, "asrock-client"),
    (("GIGABYTE", "MZ92-FS0-00", "GIGABYTE", "G292-Z20-00"), EPYC, "gigabyte-epyc"),
    (("Gigabyte Technology Co., Ltd.", "X570 AORUS MASTER", "Gigabyte", "X570"), RYZEN, "gigabyte-client"),
    (("Micro-Star International Co., Ltd.", "MEG X570 ACE (MS-7C35)", "MSI", "MS-7C35"), RYZEN, "msi-client"),
    (("TYAN", "S8030GM2NE", "TYAN", "B8030T75"), EPYC, "tyan"),
    (("Intel Corporation", "M50CYP2SB1U", "Intel Corporation", "M50CYP"), XEON, "intel-m50cyp"),
    (("Inspur", "YZMB-02382-10D", "Inspur", "NF5280M6"), XEON, "inspur-h3c"),
    (("Oracle Corporation", "ASM,MB,X8-2", "Oracle Corporation", "ORACLE SERVER X8-2"), XEON, "oracle-x8"),
    (("Cisco Systems Inc", "UCSC-C240-M5SX", "Cisco Systems Inc", "UCSC-C240-M5SX"), XEON, "cisco-ucs"),
    (("HUANANZHI", "X99-F8 V2.0", "INTEL", "X99"), NONE, "x99-china"),
    (("INTEL", "X79", "INTEL", "X79"), NONE, "x79-china"),
    (("Biostar", "B650MP-E PRO", "BIOSTAR Group", "B650MP-E PRO"), RYZEN, "amd-client"),
    (("Default string", "Default string", "Default string", "Default string"), EPYC, "amd-epyc"),
    (("Nobody", "NB-1", "Nobody", "NB-1"), NONE, ""),
]


@pytest.mark.parametrize(
    ("strings", "cpu", "family"), HOSTS, ids=lambda value: "-".join(value[:2]) if isinstance(value, tuple) else ""
)
def test_boards_are_known_by_what_vendors_write(dmi, strings, cpu, family):
    _, families = identify(dmi(*strings), cpu)
    assert next((each.id for each in families), "") == family


def test_every_family_has_a_host_here():
    assert {family for _, _, family in HOSTS} | {"portable"} >= {each.id for each in load_firmware_families()}


@pytest.mark.parametrize("chassis", ["8", "9", "10", "14", "31"])
@pytest.mark.parametrize(("strings", "cpu", "family"), HOSTS[:1] + HOSTS[24:30])
def test_a_portable_computer_gets_no_other_menus(dmi, strings, cpu, family, chassis):
    board, families = identify(dmi(*strings, chassis=chassis), cpu)
    assert [each.id for each in families] == ["portable"]
    assert board.kind == "portable"


def test_a_desktop_gets_no_menus_of_servers(dmi):
    for strings, cpu, family in HOSTS:
        board, families = identify(dmi(*strings, chassis="3"), cpu)
        if board.kind == "client" and family != "asrock-rack":
            assert not [each.id for each in families if each.kind == "server"], strings


def test_the_screens_of_this_very_board_make_sure(dmi):
    board, _ = identify(dmi("Supermicro", "X11DPG-QT", "Supermicro", "SYS-7049GP-TRT"), XEON)
    assert board.confidence == "certain"
    assert board.name == "Supermicro X11DPG-QT (SYS-7049GP-TRT)"
    assert board.bios == "BIOS 3.8a of 10/28/2022"
    assert {each.source for each in board.evidence} >= {"/sys/class/dmi/id/board_name"}
    like_it, _ = identify(dmi("Supermicro", "X11DPi-N", "Supermicro", "x"), XEON)
    unknown, _ = identify(dmi("Nobody", "NB-1"), NONE)
    assert (like_it.confidence, unknown.confidence, unknown.family) == ("likely", "possible", "")


@pytest.mark.parametrize(
    ("strings", "name"),
    [
        (("Dell Inc.", "0DPRKF", "Dell Inc.", "PowerEdge R740"), "Dell Inc. PowerEdge R740"),
        (("Lenovo", "x", "Lenovo", "ThinkSystem SR650 -[7X06CTO1WW]-"), "Lenovo ThinkSystem SR650"),
        (("ASRockRack", "ROMED8-2T", "To Be Filled By O.E.M.", "To Be Filled By O.E.M."), "ASRockRack ROMED8-2T"),
        (("Supermicro", "X11DPi-N", "Supermicro", "Super Server"), "Supermicro X11DPi-N"),
        (("", "", "", ""), ""),
        (("Default string",) * 4, ""),
    ],
)
def test_names_are_those_people_know(dmi, strings, name):
    assert identify(dmi(*strings), NONE)[0].name == name


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("'V3.01   '", "V3.01"), ("-[IVE136X-2.13]-", "IVE136X-2.13"), ("  P3.50 ", "P3.50"), ("To be filled by O.E.M.", ""),
        ("TO BE FILLED BY O.E.M.", ""), ("NULL", ""), ("", ""), (Unknown("needs root"), ""), ("a\tb\nc", "a b c"),
    ],
)  # fmt: skip
def test_padding_of_vendors_is_taken_off(text, plain):
    assert cleaned(text) == plain


def test_a_host_that_says_nothing(dmi):
    board, families = identify(Firmware(), Cpu())
    assert (board.name, board.bios, board.kind, families) == ("", "", "", ())


@given(strings=st.lists(st.text(max_size=300), min_size=8, max_size=8), name=st.text(max_size=200))
def test_any_strings_are_taken(strings, name):
    board, families = identify(Firmware(*strings), Cpu(name=name))
    assert len(board.name) <= 3 * 80 + 4
    assert isinstance(families, tuple)

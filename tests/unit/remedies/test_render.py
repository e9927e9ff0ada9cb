"""Guides as text, Markdown and HTML: the right names in all of them, and nothing of a host's own strings that acts."""

from __future__ import annotations

import html
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostdoctor.facts.host import Cpu, Firmware
from hostdoctor.remedies.render import render

FORMATS = ("text", "markdown", "html")
VOID = {"meta", "br", "link", "img", "hr", "input"}
GIB, TIB = 1 << 30, 1 << 40


class Balanced(HTMLParser):
    """Fails where tags do not match; keeps the text, the tags and their attributes."""

    def __init__(self):
        super().__init__()
        self.open, self.text, self.tags, self.attributes = [], [], set(), []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.text.append(data)


def parsed(page):
    parser = Balanced()
    parser.feed(page)
    parser.close()
    assert parser.open == []
    return parser


def shown(guide, format_):
    """What a reader sees of a format."""
    page = render(guide, format_)
    if format_ == "html":
        return "".join(parsed(page).text)
    return html.unescape(page).replace("\\", "") if format_ == "markdown" else page


XEON = Cpu("GenuineIntel", 6, 85, "Intel(R) Xeon(R) Gold 6130 CPU @ 2.10GHz")
EPYC = Cpu("AuthenticAMD", 0x19, 1, "AMD EPYC 7543 32-Core Processor")
RYZEN = Cpu("AuthenticAMD", 0x19, 0x61, "AMD Ryzen 9 7950X 16-Core Processor")
CORE = Cpu("GenuineIntel", 6, 183, "13th Gen Intel(R) Core(TM) i7-13700K")

# Board, processor, what is wrong, and the names that must stand in the guide.
BOARDS = [
    (
        ("Supermicro", "X11DPG-QT", "Supermicro", "SYS-7049GP-TRT"),
        XEON,
        "far",
        ("MMIO High Base", "MMIO High Granularity Size"),
    ),
    (("Supermicro", "X10DRG-Q", "Supermicro", "x"), XEON, "far", ("MMIOHBase", "4T")),
    (("Supermicro", "X12DPG-QT6", "Supermicro", "x"), XEON, "small", ("Above 4G Decoding", "Re-Size BAR Support")),
    (("Supermicro", "H11SSL-i", "Supermicro", "x"), EPYC, "small", ("Above 4G Decoding", "This generation has no option")),
    (("Supermicro", "H12SSL-i", "Supermicro", "x"), EPYC, "small", ("Advanced > PCIe/PCI/PnP Configuration", "Re-Size BAR")),
    (("Supermicro", "X11SSM-F", "Supermicro", "x"), CORE, "small", ("Above 4G Decoding",)),
    (("Dell Inc.", "x", "Dell Inc.", "PowerEdge R740"), XEON, "far", ("Memory Mapped I/O Base", "12TB", "racadm set")),
    (("Dell Inc.", "x", "Dell Inc.", "PowerEdge R7525"), EPYC, "far", ("Memory Mapped I/O Limit", "8TB", "MmioLimit")),
    (("HP", "x", "HP", "ProLiant DL380 Gen9"), XEON, "small", ("PCI Express 64-Bit BAR Support", "Ctrl+A")),
    (("HPE", "x", "HPE", "ProLiant DL380 Gen10"), XEON, "lacking", ("PCI Resource Padding", "ilorest set PciResourcePadding")),
    (("HP", "x", "HP", "HP Z420 Workstation"), XEON, "small", ("MMIO Assignment Mode", "64 Bit")),
    (("HP", "x", "HP", "HP Z440 Workstation"), XEON, "small", ("shows no such option",)),
    (("Lenovo", "x", "Lenovo", "ThinkSystem SR650"), XEON, "small", ("PCI 64-Bit Resource Allocation", "onecli config set")),
    (("ASUSTeK COMPUTER INC.", "x", "x", "ESC8000A-E13P"), EPYC, "small", ("Advanced > PCI Subsystem Settings",)),
    (("ASUSTeK COMPUTER INC.", "Pro WS WRX90E-SAGE SE", "x", "x"), RYZEN, "small", ("Re-Size BAR Support",)),
    (("ASUSTeK COMPUTER INC.", "Z10PE-D8 WS", "x", "x"), XEON, "small", ("Boot, or Advanced > PCI Subsystem Settings",)),
    (("ASUSTeK COMPUTER INC.", "PRIME Z790-P", "x", "x"), CORE, "small", ("Above 4G Decoding", "Re-Size BAR Support")),
    (("ASRockRack", "ROMED8-2T", "x", "x"), EPYC, "small", ("C.A.M.", "Above 4G Decoding")),
    (("ASRock", "X570 Taichi", "x", "x"), RYZEN, "small", ("C.A.M. (Clever Access Memory)",)),
    (("GIGABYTE", "MZ22-G20", "x", "x"), EPYC, "lacking", ("Prefetchable MMIO Above 4G Size",)),
    (("Gigabyte Technology Co., Ltd.", "X570 AORUS", "x", "x"), RYZEN, "small", ("Settings > IO Ports",)),
    (("MSI", "MEG X570 ACE", "x", "x"), RYZEN, "small", ("Above 4G memory/Crypto Currency mining",)),
    (("TYAN", "S8030GM2NE", "x", "x"), EPYC, "small", ("Above 4G Decoding",)),
    (("Intel Corporation", "M50CYP2SB1U", "x", "x"), XEON, "far", ("MMIO High Base", "Memory Mapped I/O Size")),
    (("Inspur", "x", "Inspur", "NF5280M6"), XEON, "far", ("MMIO High Base", "MMIO High Granularity Size")),
    (("Oracle Corporation", "x", "x", "ORACLE SERVER X8-2"), XEON, "small", ("PCI 64 Bit Resources Allocation",)),
    (("Cisco Systems Inc", "x", "x", "UCSC-C240-M5SX"), XEON, "far", ("MMIO High Base", "MmiohBase")),
    (("HUANANZHI", "X99-F8", "x", "x"), XEON, "far", ("MMIOHBase", "IntelRCSetup")),
    (("HUANANZHI", "X79-8D", "x", "x"), XEON, "lacking", ("MMIOH Size", "128G")),
    (("Biostar", "B650MP", "x", "x"), RYZEN, "far", ("Above 4GB MMIO Limit", "40bit (1 TB)")),
    (("Nobody", "NB-1", "Nobody", "NB-1"), Cpu(), "far", ("generic guide", "MMIO High Base")),
]


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("board", BOARDS, ids=[" ".join(board[0][:2]) for board in BOARDS])
def test_every_family_is_called_by_its_own_names(board, format_, dmi, request, guide_of):
    strings, cpu, fault, words = board
    host = request.getfixturevalue(fault)(firmware=dmi(*strings), cpu=cpu)
    text = " ".join(shown(guide_of(host), format_).split())
    for word in words:
        assert word in text


@pytest.mark.parametrize("format_", FORMATS)
def test_the_founding_host(far, guide_of, format_):
    text = " ".join(shown(guide_of(far()), format_).split())
    for word in ("X11DPG-QT", "MMIO High Base", "56T", "4T", "1024G", "16T is not low enough", "clear the CMOS", "bar-reach"):
        assert word in text
    assert "Above 4G Decoding" not in text


@pytest.mark.parametrize("format_", FORMATS)
def test_nothing_is_said_where_nothing_is_needed(build, dmi, guide_of, format_):
    board = dmi("ASUSTeK COMPUTER INC.", "PRIME Z790-P", "ASUS", "x")
    for host in (build.host(build.two_navi_cards(), firmware=board), build.host(firmware=board, environment=build.GUEST)):
        text = " ".join(shown(guide_of(host), format_).split())
        assert "Nothing to change in the firmware" in text
        assert "PRIME Z790-P" in text
        for word in ("MMIO High Base", "Above 4G Decoding", "CMOS"):
            assert word not in text


def test_the_page_stands_alone(far, guide_of):
    page = render(guide_of(far()), "html")
    parser = parsed(page)
    assert parser.tags.isdisjoint({"script", "link", "img", "iframe", "form"})
    assert not [value for name, value in parser.attributes if name.startswith("on") or name in ("src", "href")]
    assert "@media print" in page
    assert "prefers-color-scheme: dark" in page
    assert "url(" not in page


def test_text_fits_a_terminal(far, guide_of):
    lines = render(guide_of(far()), "text").splitlines()
    assert all(len(line) <= 80 for line in lines if not line.startswith("    curl"))
    assert all(line == line.rstrip() for line in lines)


HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "{{ 7 * 7 }}{% raw %}{# x #}",
    "\x1b]0;owned\x07\x1b[31m\x9b2J",
    "a\r\nb\u2028c\u202ed",
    "`a` **b** __c__ [d](http://e.example) ![f](g) |h| # i",
    "```\nrm -rf /\n```",
    "@everyone www.example.org https://example.org",
    "\\$(reboot) `reboot` ; reboot",
    "</pre></body>",
)


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_names_do_nothing(text, format_, far, guide_of):
    firmware = Firmware(text, text, text, text, text, text, text, "1")
    page = render(guide_of(far(firmware=firmware)), format_)
    assert all(sign.isprintable() or sign == "\n" for sign in page)
    assert "49" not in page.splitlines()[0]
    if format_ == "html":
        parser = parsed(page)
        assert parser.tags.isdisjoint({"script", "img"})
        assert " ".join(text.split()).strip("'\" ")[:8].strip() in "".join(parser.text) or not text.isprintable()
    if format_ == "markdown":
        first = page.splitlines()[0]
        for harmful in ("<script", "<img", "](", "**", "http://", "https://", "www.", "@everyone", " `", "|h|"):
            assert harmful not in first.replace("\\*", "").replace("\\|", "").replace("\\`", "").replace("\\]", "")


ANY = st.text(max_size=60)


@settings(max_examples=40)
@given(strings=st.lists(ANY, min_size=7, max_size=7), format_=st.sampled_from(FORMATS))
def test_any_names_render_to_printable_balanced_pages(strings, format_, far, guide_of):
    page = render(guide_of(far(firmware=Firmware(*strings, "1"))), format_)
    assert all(sign.isprintable() or sign == "\n" for sign in page)
    if format_ == "html":
        assert "script" not in parsed(page).tags

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostdoctor.facts.host import Cpu
from hostdoctor.facts.unknown import Unknown
from hostdoctor.parsers.cpuinfo import parse_cpuinfo

XEON = """processor\t: {processor}
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 85
model name\t: Intel(R) Xeon(R) Gold 6130 CPU @ 2.10GHz
stepping\t: 4
microcode\t: 0x2007006
cpu MHz\t\t: 2100.000
physical id\t: {socket}
siblings\t: 32
flags\t\t: fpu vme de pse tsc msr {flags}
bogomips\t: 4200.00
address sizes\t: 46 bits physical, 48 bits virtual
power management:

"""
PI = """processor\t: 0
BogoMIPS\t: 108.00
Features\t: fp asimd evtstrm aes pmull sha1 sha2 crc32
CPU implementer\t: 0x41
CPU architecture: 8
CPU part\t: 0xd0b

Revision\t: d04171
Model\t\t: Raspberry Pi 5 Model B Rev 1.1
"""


def xeon(sockets=2, flags="vmx", count=4):
    return "".join(XEON.format(processor=n, socket=n % sockets, flags=flags) for n in range(count))


def test_a_server_with_two_sockets():
    assert parse_cpuinfo(xeon()) == Cpu(
        "GenuineIntel", 6, 85, "Intel(R) Xeon(R) Gold 6130 CPU @ 2.10GHz", 46, 2, hypervisor_flag=False
    )


def test_a_guest_has_the_hypervisor_flag():
    assert parse_cpuinfo(xeon(flags="vmx hypervisor")).hypervisor_flag is True


def test_no_flags_say_nothing_of_a_hypervisor():
    text = "\n".join(line for line in xeon().splitlines() if not line.startswith("flags"))
    assert isinstance(parse_cpuinfo(text).hypervisor_flag, Unknown)


def test_only_the_first_processor_s_flags_count():
    assert parse_cpuinfo(xeon(count=1) + xeon(flags="hypervisor", count=1)).hypervisor_flag is False


@pytest.mark.parametrize("text", [PI, "", "\n\n"])
def test_where_there_are_no_x86_lines_all_is_unknown(text):
    cpu = parse_cpuinfo(text)
    assert all(isinstance(getattr(cpu, field), Unknown) for field in Cpu.__struct_fields__)


def test_a_file_cut_within_the_first_processor():
    cpu = parse_cpuinfo(xeon()[:90])
    assert (cpu.vendor, cpu.family, cpu.model) == ("GenuineIntel", 6, 85)
    assert isinstance(cpu.physical_bits, Unknown)


@given(st.integers(1, 8), st.integers(1, 40))
def test_sockets_are_counted_over_all_processors(sockets, count):
    assert parse_cpuinfo(xeon(sockets, count=count)).sockets == min(sockets, count)


@given(st.text() | st.text(alphabet="model physicalid: \t\n0", max_size=200))
def test_any_text_gives_a_result(text):
    assert isinstance(parse_cpuinfo(text), Cpu)

"""uname, sysctl, lscpu and dmidecode as files of the host."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hostdoctor.parsers.cpuinfo import parse_cpuinfo
from hostdoctor.parsers.system_tools import dmidecode_files, lscpu_files, release_files, sysctl_files

LSCPU = """Architecture:             x86_64
  CPU op-mode(s):         32-bit, 64-bit
  Address sizes:          52 bits physical, 57 bits virtual
Vendor ID:                AuthenticAMD
  Model name:             AMD EPYC 9684X 96-Core Processor
    CPU family:           25
    Model:                17
    Socket(s):            2
    Flags:                fpu vme svm
NUMA:
  NUMA node(s):           2
"""
DMIDECODE = """# dmidecode 3.3
Handle 0x0000, DMI type 0, 26 bytes
BIOS Information
\tVendor: American Megatrends Inc.
\tVersion: 3.3
\tRelease Date: 02/21/2020

Handle 0x0002, DMI type 2, 15 bytes
Base Board Information
\tManufacturer: Supermicro
\tProduct Name: X11DPG-QT
\tSerial Number: NM18BS012345
"""


def test_releases():
    line = "Linux gpu01 6.8.0-51-generic #52-Ubuntu SMP PREEMPT_DYNAMIC Thu Dec 5 x86_64 GNU/Linux"
    assert release_files([line]) == {"proc/sys/kernel/osrelease": "6.8.0-51-generic"}
    assert release_files(["Linux version 5.15.0-91-generic (buildd@x)"]) == {"proc/sys/kernel/osrelease": "5.15.0-91-generic"}
    assert release_files(["Linux"]) == {}


def test_sysctl():
    assert sysctl_files(["kernel.numa_balancing = 1", "vm.swappiness = 60"]) == {"proc/sys/kernel/numa_balancing": "1"}


def test_lscpu():
    files = lscpu_files(LSCPU.splitlines())
    cpu = parse_cpuinfo(files["proc/cpuinfo"])
    assert (cpu.vendor, cpu.family, cpu.model, cpu.physical_bits, cpu.sockets) == ("AuthenticAMD", 25, 17, 52, 2)
    assert cpu.hypervisor_flag is False
    assert files["sys/devices/system/node/online"] == "0-1"


def test_lscpu_of_a_guest_without_flags():
    lines = [*LSCPU.replace("    Flags:                fpu vme svm\n", "").splitlines(), "Hypervisor vendor: KVM"]
    assert parse_cpuinfo(lscpu_files(lines)["proc/cpuinfo"]).hypervisor_flag is True


def test_dmidecode_without_serial_numbers():
    files = dmidecode_files(DMIDECODE.splitlines())
    assert files["sys/class/dmi/id/board_name"] == "X11DPG-QT"
    assert files["sys/class/dmi/id/bios_version"] == "3.3"
    assert not [text for text in files.values() if "NM18" in text]


@given(st.lists(st.text() | st.sampled_from([*LSCPU.splitlines(), *DMIDECODE.splitlines()]), max_size=12))
def test_any_text(lines):
    for read in (release_files, sysctl_files, lscpu_files, dmidecode_files):
        assert all(isinstance(text, str) for text in read(lines).values())

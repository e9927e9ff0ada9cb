"""Functions from what lspci and sysfs print: names to ids, the tree, several outputs of one host, guests."""

import msgspec
import pytest

from hostdoctor.evidence.attached import Attached, Attachment
from hostdoctor.facts.host import Boot, Environment, Host, KernelVersion
from hostdoctor.facts.pci import Acs, Link
from hostdoctor.facts.unknown import NEEDS_ROOT, Unknown
from hostdoctor.names import device_name
from hostdoctor.parsers.paste import split
from hostdoctor.readers.attached import Pasted, lspci, read_attached
from hostdoctor.topology import Topology
from hostdoctor.view import View

AMD = "Advanced Micro Devices, Inc. [AMD/ATI]"


def host_of(*texts):
    parts = [part for number, text in enumerate(texts) for part in split(text, f"{number}.txt")]
    return lspci.apply(Host(environment=Environment("bare-metal"), functions=Unknown("none")), parts)


def functions_of(*texts):
    functions = host_of(*texts).functions
    return {} if isinstance(functions, Unknown) else functions


def scanned(text):
    attached = Attached((Attachment("paste.txt", "", text),), ())
    return read_attached(Pasted(attached, ("paste.txt",)), None, 1.0, assume_bare_metal=False)


# --- names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "id_"),
    [
        ("VGA compatible controller: NVIDIA Corporation GA102 [GeForce RTX 3090] (rev a1)", "10de:2204"),
        (f"VGA compatible controller: {AMD} Navi 31 [Radeon RX 7900 XT/7900 XTX/7900M] (rev c8)", "1002:744c"),
        (f"Display controller: {AMD} Navi 21 [Radeon RX 6800/6800 XT / 6900 XT] (rev c1)", "1002:73bf"),
        (f"PCI bridge: {AMD} Navi 10 XL Upstream Port of PCI Express Switch (rev c1)", "1002:1478"),
        ("PCI bridge: Intel Corporation Device 4fa0 (rev 01)", "8086:4fa0"),
        ("PCI bridge: PLX Technology, Inc. PEX 8747 48-Lane, 5-Port PCI Express Gen 3 (8.0 GT/s) Switch (rev ca)", "10b5:8747"),
        ("Host bridge: Intel Corporation Sky Lake-E DMI3 Registers (rev 04)", "8086:2020"),
        ("Bridge: Red Hat, Inc. QEMU PCIe Root port", "1b36:0000"),
        ("PCI bridge: Red Hat, Inc. Device 000c", "1b36:000c"),
        ("Ethernet controller: Red Hat, Inc. Device 1041 (rev 01)", "1af4:1041"),
        ("Ethernet controller: Red Hat, Inc. Virtio 1.0 network device (rev 01)", "1af4:0000"),
        ("Ethernet controller: Nobody Ever Heard Of It GbE", "0000:0000"),
    ],
)
def test_ids_of_names(header, id_):
    assert functions_of(f"05:00.0 {header}\n")["0000:05:00.0"].id == id_


def test_one_name_of_several_ids_gives_none_of_them():
    found = functions_of(f"05:00.0 Display controller: {AMD} Arcturus GL-XL [Instinct MI100] (rev 01)\n")["0000:05:00.0"]
    assert found.device == 0
    assert found.id == "1002:738c", "for the tables, which say the same of both"
    assert found.has_known_id
    other = functions_of("05:00.0 VGA compatible controller: NVIDIA Corporation GA106 [GeForce RTX 3060]\n")["0000:05:00.0"]
    assert (other.device, other.stand_in_id) == (0, ""), "of the others the tables know nothing"


def test_the_port_type_tells_the_two_ports_of_one_name_apart():
    text = "".join(
        f"0{n}:00.0 PCI bridge: Advanced Micro Devices, Inc. [AMD] Vega 10 PCIe Bridge\n"
        f"\tCapabilities: [58] Express (v2) {port} Port, MSI 00\n\n"
        for n, port in ((3, "Upstream"), (4, "Downstream"))
    )
    found = functions_of(text)
    assert [found[f"0000:0{n}:00.0"].id for n in (3, 4)] == ["1022:1470", "1022:1471"]


def test_a_name_that_no_table_has_reaches_the_report():
    gpu = functions_of("05:00.0 VGA compatible controller: NVIDIA Corporation GX999 [GeForce RTX 9990] (rev a1)\n")[
        "0000:05:00.0"
    ]
    assert device_name(gpu) == "GX999 [GeForce RTX 9990]"
    assert not gpu.has_known_id
    assert gpu.class_code == 0x030000


def test_virtual_functions_are_known_by_their_name_or_place():
    found = functions_of(
        "00:08.0 Infiniband controller: Mellanox Technologies MT28908 Family [ConnectX-6 Virtual Function]\n"
        "05:00.0 3D controller: NVIDIA Corporation GA100 [A100 PCIe 80GB]\n"
        "\tCapabilities: [250 v1] Single Root I/O Virtualization (SR-IOV)\n"
        "\t\tInitial VFs: 20, Total VFs: 20, Number of VFs: 2, Function Dependency Link: 00\n"
        "\t\tVF offset: 4, stride: 1, Device ID: 20b5\n"
        "05:00.4 3D controller: NVIDIA Corporation GA100 [A100 PCIe 80GB]\n"
        "05:00.5 3D controller: NVIDIA Corporation GA100 [A100 PCIe 80GB]\n"
        "05:00.6 3D controller: NVIDIA Corporation GA100 [A100 PCIe 80GB]\n"
    )
    assert [address[-7:] for address, each in found.items() if each.is_virtual_function] == ["00:08.0", "05:00.4", "05:00.5"]


# --- the tree ---------------------------------------------------------------------------------------------------------

CHAIN = """\
40:00.0 Host bridge: Advanced Micro Devices, Inc. [AMD] Starship/Matisse Root Complex
40:01.1 PCI bridge: Advanced Micro Devices, Inc. [AMD] Starship/Matisse GPP Bridge
\tBus: primary=40, secondary=41, subordinate=43, sec-latency=0
41:00.0 PCI bridge: Advanced Micro Devices, Inc. [AMD/ATI] Navi 10 XL Upstream Port of PCI Express Switch
\tBus: primary=41, secondary=42, subordinate=43, sec-latency=0
42:00.0 PCI bridge: Advanced Micro Devices, Inc. [AMD/ATI] Navi 10 XL Downstream Port of PCI Express Switch
\tBus: primary=42, secondary=43, subordinate=43, sec-latency=0
43:00.0 VGA compatible controller: Advanced Micro Devices, Inc. [AMD/ATI] Navi 31 [Radeon Pro W7900]
83:00.0 VGA compatible controller: Advanced Micro Devices, Inc. [AMD/ATI] Navi 31 [Radeon Pro W7900]
"""


def test_bridges_by_their_bus_numbers():
    found = functions_of(CHAIN)
    assert found["0000:43:00.0"].parent == "0000:42:00.0"
    assert found["0000:43:00.0"].root == "0000:40"
    assert found["0000:40:01.1"].parent is None, "a host bridge sits on its bus"
    assert isinstance(found["0000:83:00.0"].parent, Unknown)
    assert Topology(found).cards[0].top.address == "0000:41:00.0", "the card's own switch is known by its name"


def test_a_tree_and_a_listing_join():
    tree = (
        "-[0000:80]---01.1-[81-83]----00.0-[82-83]----00.0-[83]----00.0  Advanced Micro Devices, Inc. [AMD/ATI] Navi 31 [X]\n"
    )
    found = functions_of(CHAIN, tree)
    assert found["0000:83:00.0"].parent == "0000:82:00.0"
    assert found["0000:83:00.0"].root == "0000:80"
    assert found["0000:82:00.0"].is_bridge
    assert isinstance(found["0000:82:00.0"].driver, Unknown)


def test_a_wide_domain_has_buses_of_its_own():
    found = functions_of(
        "0000:e0:01.0 PCI bridge: X\n\tBus: primary=e0, secondary=e1, subordinate=e1, sec-latency=0\n"
        "10000:e0:06.0 PCI bridge: X\n\tBus: primary=e0, secondary=e1, subordinate=e1, sec-latency=0\n"
        "10000:e1:00.0 Non-Volatile memory controller: X\n"
    )
    assert found["10000:e1:00.0"].parent == "10000:e0:06.0"


def test_pastes_of_one_device_each_join():
    one = "01:00.0 VGA compatible controller: NVIDIA Corporation GA102 [GeForce RTX 3090]\n\tLnkSta:\tSpeed 8GT/s, Width x16\n"
    port = "00:01.0 PCI bridge: X\n\tBus: primary=00, secondary=01, subordinate=01, sec-latency=0\n"
    assert functions_of(one, port)["0000:01:00.0"].parent == "0000:00:01.0"


def test_more_detail_completes_less():
    plain = "01:00.0 VGA compatible controller: NVIDIA Corporation GA102 [GeForce RTX 3090] (rev a1)\n"
    numbers = "01:00.0 0300: 10de:2204 (rev a1)\n"
    registers = f"{plain}\t\tLnkSta:\tSpeed 8GT/s, Width x16, x\n"
    for texts in ((plain, numbers, registers), (registers, numbers, plain)):
        found = functions_of(*texts)["0000:01:00.0"]
        assert found.id == "10de:2204"
        assert isinstance(found.link, Link)
        assert found.link.current_width == 16


def test_what_a_tree_of_sysfs_says_stands(build):
    known = build.host(build.two_nvidia_gpus())
    gpu = next(each for each in known.functions.values() if each.base_class == 3)
    parts = split(f"{gpu.address} VGA compatible controller: X\n\t\tLnkSta:\tSpeed 2.5GT/s, Width x1, x\n", "x")
    assert lspci.apply(known, parts).functions[gpu.address].link == gpu.link


# --- what else ---------------------------------------------------------------------------------------------------------


def test_evidence_says_where_it_stands():
    gpu = functions_of("\n\n01:00.0 VGA compatible controller: NVIDIA Corporation GA102 [GeForce RTX 3090]\n")["0000:01:00.0"]
    assert gpu.origin == "0.txt:3"
    assert gpu.source("current_link_width") == "0.txt:3 link status"
    assert gpu.source("config") == "0.txt:3"
    assert gpu.source("resource1_resize") == "0.txt:3 Resizable BAR"


def test_denied_capabilities_are_no_rights():
    host = host_of("01:00.0 VGA compatible controller: X\n\tFlags: fast devsel\n\tCapabilities: <access denied>\n")
    assert not host.privileged
    assert host.functions["0000:01:00.0"].acs is NEEDS_ROOT


def test_lines_of_no_port_keep_their_place():
    line = "ACSCtl:\tSrcValid+ TransBlk- ReqRedir- CmpltRedir- UpstreamFwd- EgressCtrl- DirectTrans-"
    host = host_of(f"$ sudo lspci -vvv | grep ACSCtl\n\t\t{line}\n\t\t{line}\n")
    assert host.loose_acs == (("0.txt:2", Acs(1, 1)), ("0.txt:3", Acs(1, 1)))


def test_a_paste_without_indentation():
    text = (
        "00:01.0 PCI bridge: Intel Corporation X (rev 02)\nControl: I/O+ Mem+\nStatus: Cap+ 66MHz-\n"
        "Bus: primary=00, secondary=01, subordinate=01, sec-latency=0\n"
        "Capabilities: [40] Express (v2) Root Port (Slot+), MSI 00\n"
        "LnkSta: Speed 8GT/s, Width x8\n01:00.0 3D controller: NVIDIA Corporation GA100 [A100 PCIe 80GB] (rev a1)\n"
    )
    found = functions_of(text)
    assert found["0000:01:00.0"].parent == "0000:00:01.0"
    assert found["0000:00:01.0"].link.current_width == 8


def test_asleep():
    text = "01:00.0 3D controller: X\n\tCapabilities: [60] Power Management version 3\n\t\tStatus: D3 NoSoftRst+ PME-Enable-\n"
    assert functions_of(text)["0000:01:00.0"].power.state == "D3hot"


def test_files_of_sysfs_that_grep_prints():
    address = "0000:43:00.0"
    place = f"/sys/bus/pci/devices/{address}"
    lines = [
        f"{place}/vendor:0x10de", f"{place}/device:0x2230", f"{place}/class:0x030000", f"{place}/numa_node:1",
        f"{place}/current_link_width:8", f"{place}/max_link_width:16", f"{place}/current_link_speed:16.0 GT/s PCIe",
        f"{place}/max_link_speed:16.0 GT/s PCIe", f"{place}/iommu_group/type:DMA-FQ", f"{place}/uevent:DRIVER=nvidia",
        f"{place}/uevent:PCI_CLASS=30000", f"{place}/uevent:PCI_ID=10DE:2230",
        "/sys/devices/pci0000:40/0000:40:01.1/class:0x060400",
    ]  # fmt: skip
    gpu = scanned("\n".join(lines)).functions[address]
    assert gpu.link == Link(16.0, 8, 16.0, 16)
    assert (gpu.id, gpu.driver, gpu.numa_node, gpu.iommu_type) == ("10de:2230", "nvidia", 1, "DMA-FQ")
    assert gpu.source("current_link_width") == f"{place}/current_link_width"


def test_links_of_sysfs_beside_an_lspci():
    text = "01:00.0 VGA compatible controller: NVIDIA Corporation GA102 [GeForce RTX 3090]\n\n"
    text += "/sys/bus/pci/devices/0000:01:00.0/current_link_width:4\n"
    gpu = scanned(text).functions["0000:01:00.0"]
    assert gpu.link.current_width == 4
    assert gpu.base_class == 3


def test_paths_of_sysfs_tell_what_is_above():
    port, gpu = "0000:00:01.1", "0000:01:00.0"
    place = f"/sys/devices/pci0000:00/{port}"
    lines = [
        *(f"{place}/{gpu}/{name}" for name in ("vendor:0x10de", "device:0x2204", "class:0x030000", "current_link_width:8")),
        *(f"{place}/{name}" for name in ("vendor:0x8086", "device:-1", "class:0x060400", "current_link_width:8")),
        "/sys/bus/pci/devices/0000:02:00.0/current_link_width:1",
    ]
    found = functions_of("\n".join(lines))
    assert (found[gpu].id, found[gpu].base_class, found[gpu].parent) == ("10de:2204", 3, port)
    assert (found[port].id, found[port].is_bridge, found[port].parent) == ("8086:ffff", True, None)
    assert isinstance(found["0000:02:00.0"].parent, Unknown)


# --- guests -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "hypervisor"),
    [
        ("00:02.0 VGA compatible controller: Device 1234:1111 (rev 02)", "QEMU"),
        ("00:02.0 PCI bridge: Red Hat, Inc. QEMU PCIe Root port", "QEMU"),
        ("00:0f.0 VGA compatible controller: VMware SVGA II Adapter", "VMware"),
        ("0000:00:08.0 VGA compatible controller: Microsoft Corporation Hyper-V virtual VGA", "Hyper-V"),
        ("00:02.0 VGA compatible controller: InnoTek Systemberatung GmbH VirtualBox Graphics Adapter", "VirtualBox"),
        ("00:00.0 Host bridge: Intel Corporation 440FX - 82441FX PMC [Natoma] (rev 02)", "QEMU"),
        ("00:00.0 Host bridge: Intel Corporation Device 0d57", "cloud-hypervisor"),
        ("00:1e.0 3D controller: NVIDIA Corporation TU104GL [Tesla T4] (rev a1)", ""),
        ("0001:00:00.0 3D controller: NVIDIA Corporation GA100 [A100 PCIe 80GB] (rev a1)", ""),
        ("10:1c.0 3D controller: NVIDIA Corporation GA100 [A100 SXM4 40GB] (rev a1)", ""),
        ("00:02.0 Host bridge [0600]: Intel Corporation X [8086:29c0]\n\tSubsystem: Red Hat, Inc. X [1af4:1100]", ""),
    ],
)
def test_guests(text, hypervisor):
    environment = scanned(f"{text}\n").environment
    assert environment.kind == "virtual-machine"
    assert environment.hypervisor == hypervisor


@pytest.mark.parametrize(
    "text",
    [
        "01:00.0 3D controller: NVIDIA Corporation TU104GL [Tesla T4] (rev a1)",
        "00:02.0 VGA compatible controller: Intel Corporation UHD Graphics 630 (Desktop)",
        f"06:03.0 VGA compatible controller: {AMD} ES1000 (rev 02)",
        f"00:01.0 VGA compatible controller: {AMD} Kaveri [Radeon R7 Graphics]",
        "c1:00.0 3D controller: NVIDIA Corporation GA102GL [RTX A6000]\n"
        "c1:01.3 3D controller: NVIDIA Corporation GA102GL [RTX A6000]",
        "00:03.0 Ethernet controller: Red Hat, Inc. Virtio 1.0 network device (rev 01)",
    ],
)
def test_no_guests(text):
    assert isinstance(scanned(f"{text}\n").environment.kind, Unknown)


# --- cards whose bridges have no ids ----------------------------------------------------------------------------------


def test_bridges_without_ids_give_no_verdict_about_an_amd_card():
    text = CHAIN.replace("Navi 10 XL Upstream Port of PCI Express Switch", "Port A").replace(
        "Navi 10 XL Downstream Port", "Port B"
    )
    text = text.replace("[Radeon Pro W7900]\n83", "[Radeon Pro W7900]\n\t\tLnkSta:\tSpeed 16GT/s, Width x16, x\n83")
    card = Topology(functions_of(text)).cards[0]
    assert isinstance(card.slot, Unknown)
    assert isinstance(card.attachment, Unknown)


def test_two_gpus_of_unknown_names_are_not_of_one_chip():
    text = "01:00.0 3D controller: NVIDIA Corporation GX1 [A]\n02:00.0 3D controller: NVIDIA Corporation GX2 [B]\n"
    first, second = functions_of(text).values()
    assert first.id == second.id
    assert not first.is_twin_of(second)
    assert first.is_twin_of(first)


def states(text):
    boot = Boot(release="6.8.0", version=KernelVersion(6, 8))
    return [pair.state for pair in View(msgspec.structs.replace(scanned(text), boot=boot)).pairs]


def test_a_host_bridge_that_is_only_a_name_is_no_verdict():
    text = (
        "00:00.0 Host bridge: Intel Corporation Some Core Processor Host Bridge\n"
        f"00:01.0 PCI bridge: Intel Corporation Port 1\n\tBus: primary=00, secondary=01, subordinate=01, sec-latency=0\n"
        f"00:02.0 PCI bridge: Intel Corporation Port 2\n\tBus: primary=00, secondary=02, subordinate=02, sec-latency=0\n"
        f"01:00.0 VGA compatible controller: {AMD} Navi 31 [Radeon Pro W7900]\n\tKernel driver in use: amdgpu\n"
        f"02:00.0 VGA compatible controller: {AMD} Navi 31 [Radeon Pro W7900]\n\tKernel driver in use: amdgpu\n"
    )
    assert states(text) == ["unknown", "unknown"]
    listed = text.replace("Some Core Processor Host Bridge", "Device 4660")
    assert states(listed) == ["fails", "fails"]
    without = listed.replace("00:00.0 Host bridge: Intel Corporation Device 4660\n", "")
    assert states(without) == ["unknown", "unknown"], "the first function is not shown"

"""Topologies of NCCL, RCCL and hwloc."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostdoctor.parsers.topology_xml import parse_hwloc, parse_nccl_topology

NCCL = """\
<system version="1">
  <cpu numaid="1" affinity="ff" arch="x86_64" vendor="AuthenticAMD" familyid="175" modelid="1">
    <pci busid="0000:17:00.0" class="0x060400" vendor="0x1000" device="0xc030" link_speed="32.0 GT/s PCIe" link_width="16">
      <pci busid="0000:19:00.0" class="0x030200" vendor="0x10de" device="0x2335" link_speed="16.0 GT/s PCIe" link_width="8">
        <gpu dev="0" sm="90" rank="0" gdr="1">
          <nvlink target="0000:48:00.0" count="5" tclass="0x068000"/>
        </gpu>
      </pci>
      <pci busid="0000:1a:00.0" class="0x020700" vendor="0x15b3" device="0x1021" link_speed="" link_width="">
        <nic>
          <net name="mlx5_0" dev="0" speed="400000" port="1" guid="0x5e2a310003b8cea0"/>
          <net name="eth0" dev="1" speed="x" guid="0x0"/>
        </nic>
      </pci>
    </pci>
  </cpu>
  <cpu numaid="-1" arch="x86_64"/>
</system>"""

HWLOC_2 = """\
<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
  <object type="Machine" os_index="0">
    <info name="DMIBoardName" value="X11DPG-QT"/>
    <info name="OSRelease" value="5.14.0-362.el9.x86_64"/>
    <object type="Package" os_index="0">
      <info name="CPUVendor" value="GenuineIntel"/>
      <info name="CPUFamilyNumber" value="6"/>
      <info name="CPUModelNumber" value="106"/>
      <object type="NUMANode" os_index="0" local_memory="134217728"/>
      <object type="Bridge" bridge_type="0-1" depth="0" bridge_pci="0000:[40-5f]">
        <object type="Bridge" bridge_type="1-1" depth="1" pci_busid="0000:40:01.1" pci_type="0604 [8086:347a] [0000:0000] 06">
          <object type="PCIDev" pci_busid="0000:41:00.0" pci_type="0302 [10de:20b5] [10de:1533] a1" pci_link_speed="31.507692">
            <object type="OSDev" name="nvml0" osdev_type="5"/>
          </object>
        </object>
      </object>
    </object>
    <object type="Package" os_index="1">
      <object type="NUMANode" os_index="1" local_memory="134217728"/>
    </object>
  </object>
</topology>"""

HWLOC_1 = """\
<topology>
  <object type="Machine">
    <object type="NUMANode" os_index="1">
      <object type="Socket" os_index="1">
        <object type="Core" os_index="0"/>
      </object>
      <object type="Bridge" bridge_type="0-1" bridge_pci="0000:[80-ff]">
        <object type="PCIDev" pci_busid="0000:80:05.0" pci_type="0300 [1002:66a1] [1002:0834] 06"/>
      </object>
    </object>
  </object>
</topology>"""


class TestNccl:
    def test_devices(self):
        switch, gpu, card = parse_nccl_topology(NCCL).devices
        assert (switch.bus_id, switch.parent, switch.ports_left_out) == ("0000:17:00.0", "", True)
        assert (gpu.vendor, gpu.device, gpu.class_code, gpu.parent) == (0x10DE, 0x2335, 0x030200, "0000:17:00.0")
        assert (gpu.both_speed_gts, gpu.both_width, gpu.numa_node, gpu.driver, gpu.line) == (16.0, 8, 1, "nvidia", 3)
        assert (card.both_speed_gts, card.both_width, card.driver) == (None, None, "")

    def test_the_family_is_put_together_as_the_kernel_does(self):
        found = parse_nccl_topology(NCCL).processor
        assert (found.vendor, found.family, found.model) == ("AuthenticAMD", 0x19, 1)
        assert parse_nccl_topology(NCCL.replace("175", "6")).processor.family == 6

    def test_fabric_and_cards(self):
        found = parse_nccl_topology(NCCL)
        (fabric,) = found.fabrics
        assert (fabric.source, fabric.target, fabric.target_class, fabric.count) == (
            "0000:19:00.0",
            "0000:48:00.0",
            0x068000,
            5,
        )
        assert [(net.name, net.speed_mbits, net.is_rdma) for net in found.nets] == [
            ("mlx5_0", 400000, True),
            ("eth0", 0, False),
        ]

    def test_nodes_are_only_those_that_are_named(self):
        found = parse_nccl_topology(NCCL)
        assert (found.numa_nodes, found.all_numa_nodes) == ((1,), False)


class TestHwloc:
    def test_version_2(self):
        found = parse_hwloc(HWLOC_2)
        port, gpu = found.devices
        assert (port.class_code, port.root, port.parent) == (0x060400, "0000:40", "")
        assert (gpu.parent, gpu.class_code, gpu.vendor, gpu.device) == ("0000:40:01.1", 0x030200, 0x10DE, 0x20B5)
        assert (gpu.numa_node, gpu.driver, gpu.ports_left_out) == (0, "nvidia", False)
        assert (found.numa_nodes, found.all_numa_nodes) == ((0, 1), True)
        assert (found.processor.vendor, found.processor.model, found.processor.sockets) == ("GenuineIntel", 106, 2)
        assert found.machine["DMIBoardName"] == "X11DPG-QT"

    def test_version_1(self):
        (gpu,) = parse_hwloc(HWLOC_1).devices
        assert (gpu.root, gpu.numa_node, gpu.driver) == ("0000:80", 1, "")

    def test_a_machine_with_nodes_of_its_own_places_nothing(self):
        text = HWLOC_1.replace('<object type="NUMANode" os_index="1">', '<object type="Group">').replace(
            '<object type="Machine">',
            '<object type="Machine"><object type="NUMANode" os_index="0"/><object type="NUMANode" os_index="1"/>',
        )
        assert parse_hwloc(text).devices[0].numa_node is None


@pytest.mark.parametrize("parse", [parse_nccl_topology, parse_hwloc])
@given(text=st.text(max_size=200), at=st.integers(0, len(HWLOC_2)))
def test_any_text(parse, text, at):
    parse(text)
    for whole in (NCCL, HWLOC_2, HWLOC_1):
        parse(whole[:at] + text)

"""What nvidia-smi's outputs, NCCL's logs and topologies in XML tell of a host, and what is judged from them alone."""

from __future__ import annotations

import pytest

from hostdoctor.diagnosis import diagnose
from hostdoctor.drivers import activity
from hostdoctor.facts.driver import Nvml
from hostdoctor.facts.host import Environment, Host, Numa
from hostdoctor.facts.pci import NVIDIA, Function, Link
from hostdoctor.facts.unknown import NOT_CAPTURED, Unknown
from hostdoctor.parsers.paste import split
from hostdoctor.readers.attached import apply_parts
from hostdoctor.registry import built_in
from hostdoctor.view import View

A, B = "0000:01:00.0", "0000:41:00.0"
HEAD = "==============NVSMI LOG==============\n\nDriver Version : 550.54.15\nCUDA Version : 12.4\n\nAttached GPUs : {number}\n"
TOPO = "$ nvidia-smi topo -m\n\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\n{rows}"
GRANTS = " \tGPU0\tGPU1\t\n GPU0\tX\t{there}\t\n GPU1\t{back}\tX\t\n"


def gpu(address, *, id_="0x223110DE", generation=4, most=4, width=16, widest=16, state="P8", memory=24564, bar1=32768, more=""):
    return f"""GPU 0000{address}
    Product Name                          : NVIDIA RTX A5000
    PCI
        Device Id                         : {id_}
        Sub System Id                     : 0x147E10DE
        GPU Link Info
            PCIe Generation
                Max                       : {most}
                Current                   : {generation}
                Device Max                : 4
            Link Width
                Max                       : {widest}x
                Current                   : {width}x
    Performance State                     : {state}
    FB Memory Usage
        Total                             : {memory} MiB
    BAR1 Memory Usage
        Total                             : {bar1} MiB
{more}"""


def listing(*gpus):
    return HEAD.format(number=len(gpus)) + "\n".join(gpus)


def host(*texts, functions=NOT_CAPTURED, **facts):
    """The host that texts tell of; a text may be a pair with the name of its file."""
    named = [text if isinstance(text, tuple) else (f"{number}.txt", text) for number, text in enumerate(texts)]
    parts = [part for name, text in named for part in split(text, name) if part.kind]
    return apply_parts(Host(Environment(Unknown("it is not told")), functions, **facts), parts)


def judged(check, *texts, **facts):
    checks = [each for each in built_in() if each.id == check]
    return diagnose(View(host(*texts, **facts)), checks)


def outcomes(check, *texts, **facts):
    return [(finding.outcome, finding.subject) for finding in judged(check, *texts, **facts)]


class TestFacts:
    def test_a_listing(self):
        found = host(listing(gpu(A), gpu(B)))
        assert (found.nvml.driver_version, found.nvml.cuda_version, found.nvml.origin) == ("550.54.15", 12040, "0.txt:1")
        function = found.functions[A]
        assert (function.id, function.subsystem_device, function.driver, function.name) == (
            "10de:2231", 0x147E, "nvidia", "NVIDIA RTX A5000",
        )  # fmt: skip
        assert function.origin == "0.txt:7"
        assert isinstance(function.parent, Unknown)

    def test_an_id_of_another_vendor_is_none(self):
        assert host(listing(gpu(A, id_="0x22311002"))).functions[A].device == 0

    def test_a_class_is_taken_where_it_is_told(self):
        text = listing(gpu(A)).replace("    PCI\n", "    PCI\n        Base Classcode : 0x3\n        Sub Classcode : 0x2\n")
        assert host(text).functions[A].class_code == 0x030200

    def test_the_moment_is_never_mixed(self):
        """A table under load and a listing at rest: neither the load nor the speed moves over to the other."""
        table = (
            "| NVIDIA-SMI 550.54.15    Driver Version: 550.54.15    CUDA Version: 12.4 |\n"
            "|   0  NVIDIA RTX A5000        On | 00000000:01:00.0 Off | Off |\n"
            "| 90%   83C    P2   229W / 230W | 20211MiB / 24564MiB | 100% Default |"
        )
        (found,) = host(listing(gpu(A, generation=1)), table).nvml.gpus
        assert (found.link_generation, found.performance_state, found.bar1_bytes) == (1, 8, 32768 << 20)
        assert isinstance(found.busy_percent, Unknown)

    def test_what_was_there_stands(self):
        nvml = Nvml("1", "2", 3, (), ())
        assert host(listing(gpu(A)), nvml=nvml).nvml is nvml

    def test_numbers_become_addresses_by_a_whole_listing(self):
        found = host(listing(gpu(A), gpu(B)), TOPO.format(rows="GPU0\t X \tSYS\t0-7\t0\nGPU1\tSYS\t X \t8-15\t1"))
        assert set(found.functions) == {A, B}
        assert [(pair.accessor, pair.owner, pair.topology) for pair in found.nvml.pairs] == [(A, B, 50), (B, A, 50)]
        assert (found.functions[B].numa_node, found.numa.nodes) == (1, (0, 1))

    def test_a_listing_of_some_gpus_numbers_none(self):
        text = listing(gpu(B)).replace("Attached GPUs : 1", "Attached GPUs : 2")
        found = host(text, TOPO.format(rows="GPU0\t X \tSYS\t0-7\t0\nGPU1\tSYS\t X \t0-7\t0"))
        assert set(found.functions) == {B, "GPU0", "GPU1"}

    def test_numbers_become_addresses_by_order_where_the_counts_agree(self):
        functions = {
            address: Function(address, NVIDIA, 0x2231, 0x030000, driver="nvidia", origin="lspci.txt:1") for address in (A, B)
        }
        topo = TOPO.format(rows="GPU0\t X \tPHB\t0-7\t0\nGPU1\tPHB\t X \t0-7\t0")
        assert set(host(topo, functions=functions).functions) == {A, B}
        one = {A: functions[A]}
        assert set(host(topo, functions=one).functions) == {A, "GPU0", "GPU1"}

    def test_nodes_of_the_host_are_taken_only_from_rows_that_all_tell(self):
        rows = "GPU0\t X \tSYS\t0-7\t\tN/A\nGPU1\tSYS\t X \t8-15\t1"
        assert isinstance(host(TOPO.format(rows=rows)).numa.nodes, Unknown)

    @pytest.mark.parametrize("mode", ["Pass-Through", "VGPU"])
    def test_a_guest(self, mode):
        more = f"    GPU Virtualization Mode\n        Virtualization Mode : {mode}"
        found = host(listing(gpu(A, more=more)))
        assert found.environment.is_guest
        assert found.environment.evidence == (("0.txt:7", f"Virtualization Mode: {mode}"),)
        bare = Environment("bare-metal")
        assert Host(bare, NOT_CAPTURED).environment.kind == "bare-metal"

    @pytest.mark.parametrize("mode", ["None", "Host VGPU", "N/A"])
    def test_no_guest(self, mode):
        more = f"    GPU Virtualization Mode\n        Virtualization Mode : {mode}"
        assert isinstance(host(listing(gpu(A, more=more))).environment.kind, Unknown)

    def test_xml(self):
        text = """<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log>
  <driver_version>535.183.01</driver_version>
  <cuda_version>12.2</cuda_version>
  <attached_gpus>1</attached_gpus>
  <gpu id="00000000:01:00.0">
    <pci><pci_device_id>27B810DE</pci_device_id>
      <pci_gpu_link_info>
        <pcie_gen><max_link_gen>4</max_link_gen><current_link_gen>1</current_link_gen></pcie_gen>
        <link_widths><max_link_width>16x</max_link_width><current_link_width>8x</current_link_width></link_widths>
      </pci_gpu_link_info><replay_counter>3</replay_counter>
    </pci>
    <performance_state>P8</performance_state>
    <clocks_event_reasons><clocks_event_reason_gpu_idle>Active</clocks_event_reason_gpu_idle></clocks_event_reasons>
    <ecc_errors><volatile><dram_uncorrectable>4</dram_uncorrectable></volatile></ecc_errors>
  </gpu>
</nvidia_smi_log>"""
        (found,) = host(text).nvml.gpus
        assert (found.address, found.link_generation, found.link_width, found.max_width) == (A, 1, 8, 16)
        assert (found.replay_count, found.throttle_reasons, found.ecc_uncorrected) == (3, 1, 4)
        assert host(text).functions[A].id == "10de:27b8"
        assert host(text[: text.index("<ecc_errors>")]).nvml.gpus[0].link_width == 8


class TestPairs:
    def test_the_command_tells_which_grants_are_meant(self):
        reads, writes = GRANTS.format(there="OK", back="OK"), GRANTS.format(there="OK", back="GNS")
        found = host(
            f"$ nvidia-smi topo -p2p r\n{reads}\nnvidia-smi topo -p2p w:\n{writes}\n$ nvidia-smi topo -p2p a\n{writes}"
        )
        assert [(pair.read, pair.write, pair.atomics) for pair in found.nvml.pairs] == [(0, 0, 0), (0, 2, 2)]

    def test_so_does_the_name_of_the_file(self):
        texts = [(f"nvidia-smi-topo-p2p-{letter}.txt", GRANTS.format(there="NS", back="OK")) for letter in "wn"]
        found = host(*texts).nvml.pairs[0]
        assert (found.write, found.nvlink) == (5, 5)
        assert isinstance(found.read, Unknown)

    def test_without_either_it_is_about_reads(self):
        found = host(GRANTS.format(there="OK", back="OK")).nvml.pairs[0]
        assert found.read == 0
        assert isinstance(found.write, Unknown)

    def test_refused_by_the_model(self):
        found = judged("p2p-pair", GRANTS.format(there="GNS", back="GNS"))
        assert [finding.outcome for finding in found] == ["info", "info"]
        assert "GNS" in found[0].title
        assert found[0].evidence[0].value == "reads GNS"

    def test_a_key_of_the_driver_can_be_taken_away(self):
        assert outcomes("p2p-pair", GRANTS.format(there="DR", back="OK"))[0] == ("failure", ("GPU0", "GPU1"))

    def test_granted_is_no_proof(self):
        assert {outcome for outcome, _ in outcomes("p2p-pair", GRANTS.format(there="OK", back="OK"))} == {"unknown"}

    def test_a_granted_pair_whose_chips_are_unknown_waits_for_the_iommu_only(self):
        grants = GRANTS.format(there="OK", back="OK")
        found = judged("p2p-pair", f"$ nvidia-smi topo -p2p r\n{grants}$ nvidia-smi topo -p2p w\n{grants}")
        assert "IOMMU" in found[0].title

    def test_how_gpus_are_connected_says_nothing_of_grants(self):
        topo = TOPO.format(rows="GPU0\t X \tPIX\t0-7\t0\nGPU1\tPIX\t X \t0-7\t0")
        assert {outcome for outcome, _ in outcomes("p2p-pair", topo)} == {"unknown"}

    def test_nvlink(self):
        topo = TOPO.format(rows="GPU0\t X \tNV4\t0-7\t0\nGPU1\tNV4\t X \t0-7\t0")
        found = judged("p2p-pair", topo)
        assert [(finding.outcome, finding.confidence) for finding in found] == [("ok", "likely")] * 2
        grants = GRANTS.format(there="OK", back="OK")
        both = f"$ nvidia-smi topo -p2p r\n{grants}$ nvidia-smi topo -p2p w\n{grants}"
        assert judged("p2p-pair", topo, both)[0].confidence == "certain"

    def test_a_divided_gpu_does_none(self):
        more = "    MIG Mode\n        Current : Enabled"
        found = judged("p2p-pair", listing(gpu(A, more=more), gpu(B)))
        assert [finding.outcome for finding in found] == ["info", "info"]
        assert "MIG" in found[0].title

    def test_two_gpus_without_ids_are_not_the_same_chip(self):
        topo = TOPO.format(rows="GPU0\t X \tPHB\t0-7\t0\nGPU1\tPHB\t X \t0-7\t0")
        assert "same chip" in judged("p2p-pair", topo)[0].title


class TestLinks:
    @pytest.mark.parametrize(
        ("width", "widest", "outcome"),
        [(16, 16, "ok"), (8, 8, "ok"), (8, 16, "unknown"), (4, 16, "unknown"), (1, 16, "unknown")],
    )
    def test_width(self, width, widest, outcome):
        """Fewer lanes than NVML's maximum are seen in slots of four, so they prove nothing without the port."""
        (found,) = judged("link-width", listing(gpu(A, width=width, widest=widest)))
        assert (found.outcome, found.subject) == (outcome, (A,))
        assert found.evidence[0].source == "0.txt:7, link width"

    def test_a_card_with_all_its_lanes_is_in_order_whatever_nvml_says(self):
        assert outcomes("link-width", listing(gpu(A, id_="0x28B010DE", width=8, widest=16))) == [("ok", (A,))]

    @pytest.mark.parametrize(
        ("generation", "most", "state", "outcome"),
        [(4, 4, "P0", "ok"), (3, 3, "P0", "ok"), (1, 4, "P8", "unknown"), (1, 4, "P0", "unknown"), (3, 4, "P2", "unknown")],
    )
    def test_speed(self, generation, most, state, outcome):
        (found,) = judged("link-speed", listing(gpu(A, generation=generation, most=most, state=state)))
        assert found.outcome == outcome

    def test_an_idle_gpu_is_said_to_be_idle(self):
        assert "was idle" in judged("link-speed", listing(gpu(A, generation=1)))[0].title

    def test_load_at_another_moment_blames_no_link(self):
        """lspci at rest beside an nvidia-smi under load: the link of the one is not slow for the load of the other."""
        found = host(listing(gpu(A, state="P0")))
        assert activity(found, found.functions[A]).state == "unknown"


class TestBars:
    def test_all_memory_shows(self):
        assert outcomes("bar-size", listing(gpu(A))) == [("ok", (A,))]

    def test_one_small_among_its_kind(self):
        found = judged("bar-size", listing(gpu(A), gpu(B, bar1=8192)))
        assert [(finding.outcome, finding.subject) for finding in found] == [("warning", (B,)), ("ok", (A,))]
        assert "8.0 GiB" in found[0].title or "8 GiB" in found[0].title
        assert A in found[0].title

    def test_another_product_shows_nothing(self):
        other = gpu(A, id_="0x223010DE")
        assert ("info", (B,)) in outcomes("bar-size", listing(other, gpu(B, bar1=256)))

    def test_all_small_may_be_the_card(self):
        assert {outcome for outcome, _ in outcomes("bar-size", listing(gpu(A, bar1=256), gpu(B, bar1=256)))} == {"info"}


class TestTroubles:
    def test_another_version(self):
        (found,) = judged(
            "gpu-driver", "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 550.90"
        )
        assert (found.outcome, found.subject, found.evidence[0].source) == ("failure", (), "0.txt:1")

    def test_it_is_told_of_each_gpu_that_is_known(self):
        functions = {A: Function(A, NVIDIA, 0x2231, 0x030000, driver=NOT_CAPTURED, origin="lspci.txt:1")}
        text = "Failed to initialize NVML: Driver/library version mismatch"
        assert outcomes("gpu-driver", text, functions=functions) == [("failure", (A,))]

    def test_no_driver(self):
        text = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest"
        assert outcomes("gpu-driver", text) == [("failure", ())]
        guests = {A: Function(A, NVIDIA, 0x2231, 0x030000, driver="vfio-pci", origin="lspci.txt:1")}
        assert outcomes("gpu-driver", text, functions=guests) == [("info", (A,))]
        amd = {A: Function(A, 0x1002, 0x73A1, 0x030000, driver="amdgpu", origin="lspci.txt:1")}
        assert outcomes("gpu-driver", text, functions=amd) == [("ok", (A,))]

    def test_no_devices(self):
        assert outcomes("gpu-driver", "No devices were found") == [("unknown", ())]
        bound = {A: Function(A, NVIDIA, 0x2231, 0x030000, driver="nvidia", origin="lspci.txt:1")}
        assert outcomes("gpu-driver", "No devices were found", functions=bound) == [("failure", (A,))]

    def test_nothing_at_all_is_unknown(self):
        assert outcomes("gpu-driver") == [("unknown", ())]

    def test_a_lost_gpu(self):
        text = "Unable to determine the device handle for GPU 0000:41:00.0: GPU is lost.  Reboot the system to recover this GPU"
        assert outcomes("device-lost", text)[0] == ("failure", (B,))
        assert outcomes("gpu-driver", text) == [("failure", (B,))]
        assert {outcome for outcome, _ in outcomes("p2p-pair", text, listing(gpu(A)))} == {"failure"}

    def test_a_gpu_without_an_answer(self):
        text = "Unable to determine the device handle for GPU2: Unknown Error"
        (found,) = judged("gpu-driver", text)
        assert (found.outcome, found.subject) == ("failure", ("GPU2",))
        assert "Unknown Error" in found.title
        assert not [outcome for outcome, _ in outcomes("device-lost", text) if outcome == "failure"]

    @pytest.mark.parametrize("answer", ["Not Supported", "Insufficient Permissions"])
    def test_an_answer_that_is_no_fault(self, answer):
        assert outcomes("gpu-driver", f"Unable to determine the device handle for GPU 0000:01:00.0: {answer}") == [
            ("unknown", ())
        ]

    def test_a_complaint_beside_an_answer_is_of_another_time(self):
        text = "Failed to initialize NVML: Driver/library version mismatch"
        assert outcomes("gpu-driver", text, listing(gpu(A))) == [("ok", (A,))]


NCCL = """\
box:1:1 [0] NCCL INFO ncclCommInitRank comm 0xf07d5f0 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1000 commId 0xe - Init START
box:1:2 [1] NCCL INFO ncclCommInitRank comm 0xf07d5f1 rank 1 nranks 2 cudaDev 1 nvmlDev 1 busId 41000 commId 0xe - Init START
"""


def words(*texts, **facts):
    return [(word.accessor, word.owner, word.allowed, word.text) for word in host(*texts, **facts).pair_words]


class TestNccl:
    def test_peer_access_is_the_drivers_word(self):
        text = f"{NCCL}box:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM"
        assert words(text) == [(A, B, True, "NCCL: via P2P/CUMEM")]
        assert host(text).functions[A].driver == "nvidia"

    def test_a_receiver_that_reads_is_the_accessor(self):
        text = f"{NCCL}box:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/IPC/read"
        assert words(text) == [(B, A, True, "NCCL: via P2P/IPC/read")]

    def test_shared_memory_is_nccls_own_choice(self):
        text = f"{NCCL}box:1:1 [0] NCCL INFO NCCL_P2P_DISABLE set by environment to 1\n"
        text += "box:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via SHM/direct/direct"
        assert words(text) == [(A, B, None, "NCCL: via SHM/direct/direct (NCCL_P2P_DISABLE=1)")]
        found = judged("p2p-pair", text)
        assert [finding.outcome for finding in found] == ["unknown", "unknown"]
        assert "went by SHM/direct/direct (NCCL_P2P_DISABLE=1)" in found[0].explanation
        assert found[0].evidence[-1].source == "0.txt:4"
        assert "SHM" not in found[1].explanation

    def test_the_network_and_third_gpus_say_nothing(self):
        text = f"{NCCL}box:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] [send] via NET/IB/0\n"
        text += "box:1:1 [0] NCCL INFO Channel 01/0 : 0[0] -> 1[1] via P2P/indirect/2[2]"
        assert words(text) == [(A, B, None, "NCCL: via P2P/indirect/2[2]")]

    def test_what_the_driver_refuses(self):
        text = f"{NCCL}box:1:1 [0] NCCL INFO P2P is disabled between connected GPUs 1 and 0. You can repress this message"
        assert words(text) == [(B, A, False, "NCCL: P2P is disabled between connected GPUs")]

    def test_without_addresses_the_numbers_stand(self):
        text = "box:1:1 [0] NCCL INFO P2P is disabled between connected GPUs 1 and 0."
        assert words(text)[0][:2] == ("GPU1", "GPU0")
        assert words(listing(gpu(A), gpu(B)), text)[0][:2] == (B, A)

    def test_ranks_that_two_communicators_number_differently(self):
        again = NCCL.replace("comm 0xf0", "comm 0xe0").replace("busId 1000", "busId 2000").replace("nvmlDev 0", "nvmlDev 2")
        text = f"{NCCL}{again}box:1:1 [0] NCCL INFO Channel 00/0 : 0[2] -> 1[1] via P2P/IPC"
        assert words(text)[0][:2] == ("0000:02:00.0", B)

    def test_amd(self):
        text = (
            'g:1:1 [0] NCCL WARN NUMA auto balancing enabled! Disable by "sudo sysctl kernel.numa_balancing=0"\n'
            "RCCL version 2.18.3+hip6.0 HEAD:2f6d59e\n"
            "g:1:2 [0] NCCL INFO comm 0x2b9d4d0 rank 0 nranks 2 cudaDev 0 busId c3000 commId 0x1 - Init START"
        )
        found = host(text)
        assert found.functions["0000:c3:00.0"].driver == "amdgpu"
        assert found.numa.balancing == 1
        assert host(text, numa=Numa(balancing=0)).numa.balancing == 0


XML = """\
<system version="1">
  <cpu numaid="0" arch="x86_64" vendor="AuthenticAMD" familyid="175" modelid="1">
    <pci busid="0000:17:00.0" class="0x060400" vendor="0x1000" device="0xc030" link_speed="32.0 GT/s PCIe" link_width="16">
      <pci busid="{a}" class="0x030200" vendor="0x10de" device="0x2335" link_speed="32.0 GT/s PCIe" link_width="8">
        <gpu dev="0" sm="90" rank="0" gdr="1">{links_a}</gpu>
      </pci>
      <pci busid="{b}" class="0x030200" vendor="0x10de" device="0x2335" link_speed="32.0 GT/s PCIe" link_width="16">
        <gpu dev="1" sm="90" rank="1" gdr="1">{links_b}</gpu>
      </pci>
    </pci>
  </cpu>
</system>"""
SWITCH = '<nvlink target="0000:48:00.0" count="18" tclass="0x068000"/>'


class TestTopologies:
    def test_what_a_link_can_do_is_no_state(self):
        text = XML.format(a=A, b=B, links_a="", links_b="")
        found = host(text)
        assert (found.functions[A].link.max_width, found.functions[A].link.max_speed_gts) == (8, 32.0)
        for check in ("link-width", "link-speed", "slot-limit", "path-bottleneck", "shared-uplink", "acs-redirect"):
            assert {outcome for outcome, _ in outcomes(check, text)} == {"unknown"}, check

    def test_processor_and_parents(self):
        found = host(XML.format(a=A, b=B, links_a="", links_b=""))
        assert (found.cpu.vendor, found.cpu.family, found.cpu.model) == ("AuthenticAMD", 0x19, 1)
        assert (found.functions[A].parent, found.functions[A].ports_left_out) == ("0000:17:00.0", True)
        assert isinstance(found.functions["0000:17:00.0"].parent, Unknown)
        assert isinstance(found.functions["0000:17:00.0"].driver, Unknown)

    def test_a_parent_that_is_known_stands(self):
        known = {A: Function(A, NVIDIA, 0x2335, 0x030200, parent="0000:18:00.0", origin="lspci.txt:1")}
        found = host(XML.format(a=A, b=B, links_a="", links_b=""), functions=known).functions[A]
        assert (found.parent, found.ports_left_out) == ("0000:18:00.0", False)

    def test_gpus_at_one_switch_of_the_fabric(self):
        text = XML.format(a=A, b=B, links_a=SWITCH, links_b=SWITCH)
        assert [(found.outcome, found.confidence) for found in judged("p2p-pair", text)] == [("ok", "likely")] * 2

    def test_gpus_that_a_fabric_joins(self):
        link = '<xgmi target="{}" count="1" tclass="0x038000"/>'
        text = XML.format(a=A, b=B, links_a=link.format(B), links_b=link.format(A)).replace("0x10de", "0x1002")
        assert [(word.accessor, word.owner, word.link) for word in host(text).pair_words] == [(A, B, "XGMI"), (B, A, "XGMI")]
        assert host(text).functions[A].driver == "amdgpu"

    def test_a_card_with_its_own_switch(self):
        text = """<system version="2"><cpu numaid="0" arch="x86_64" vendor="AuthenticAMD" familyid="175" modelid="1">
<pci busid="0000:24:00.0" class="0x060400" vendor="0x1022" device="0x14c7" link_speed="16.0 GT/s PCIe" link_width="16">
<pci busid="0000:26:00.0" class="0x038000" vendor="0x1002" device="0x740f" link_speed="32.0 GT/s PCIe" link_width="16">
<gpu dev="0" sm="104" rank="0"/></pci></pci></cpu></system>"""
        (card,) = View(host(text)).cards
        assert (card.top.address, card.has_own_switch) == ("0000:24:00.0", True)

    def test_hwloc(self):
        text = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0"><object type="Machine"><info name="DMISysVendor" value="QEMU"/><info name="OSRelease" value="6.8.0-52"/>
<object type="Package"><info name="CPUVendor" value="GenuineIntel"/><info name="CPUModel" value="Xeon"/>
<object type="NUMANode" os_index="0"/>
<object type="Bridge" bridge_type="0-1" bridge_pci="0000:[40-5f]">
<object type="Bridge" bridge_type="1-1" pci_busid="0000:40:01.1" pci_type="0604 [8086:347a] [0000:0000] 06">
<object type="PCIDev" pci_busid="0000:41:00.0" pci_type="0302 [10de:20b5] [10de:1533] a1"/>
</object></object></object></object></topology>"""
        found = host(text)
        assert (found.cpu.name, found.cpu.sockets, found.firmware.system_vendor) == ("Xeon", 1, "QEMU")
        assert (str(found.boot.version), found.numa.nodes) == ("6.8", (0,))
        gpu_, port = found.functions[B], found.functions["0000:40:01.1"]
        assert (gpu_.parent, gpu_.root, gpu_.numa_node, port.parent) == ("0000:40:01.1", "0000:40", 0, None)
        (card,) = View(found).cards
        assert card.slot.upper.address == "0000:40:01.1"


# --- what a bug report says in passing --------------------------------------------------------------------------------

LISTED = "GPU {}: NVIDIA RTX A6000 (UUID: GPU-5e0a1b2c-aaaa-bbbb-cccc-12345678900{})\n"
LINKS = "\t Link 0: 14.062 GB/s\n\t Link 1: 14.062 GB/s\n\t Link 2: <inactive>\n"


class TestLists:
    def test_the_list_of_gpus(self):
        found = host(LISTED.format(0, 0) + LISTED.format(1, 1))
        assert [(each.address, each.name) for each in found.functions.values()] == [
            ("GPU0", "NVIDIA RTX A6000"),
            ("GPU1", "NVIDIA RTX A6000"),
        ]

    def test_nvlinks_of_each(self):
        found = host("$ nvidia-smi nvlink -s\n" + LISTED.format(0, 0) + LINKS + LISTED.format(1, 1) + LINKS)
        assert [each.nvlinks_active for each in found.nvml.gpus] == [2, 2]

    def test_names_and_addresses_of_two_outputs_are_joined(self):
        query = "index, pci.bus_id\n0, 00000000:01:00.0\n1, 00000000:41:00.0\n"
        found = host(LISTED.format(0, 0) + LISTED.format(1, 1), query)
        assert {each.address: each.name for each in found.functions.values()} == dict.fromkeys((A, B), "NVIDIA RTX A6000")

    def test_a_divided_gpu(self):
        found = host(LISTED.format(0, 0) + "  MIG 1g.10gb     Device  0: (UUID: MIG-11111111-2222)\n")
        assert found.nvml.gpus[0].mig_enabled is True


def busy(percent, generation):
    load = f"    Utilization\n        Gpu                               : {percent} %\n"
    return listing(gpu("0000:01:00.0", generation=generation, state="P0", more=load))


@pytest.mark.parametrize(("percent", "generation", "outcome"), [(92, 1, "failure"), (3, 1, "unknown"), (92, 4, "ok")])
def test_speed_and_load_of_one_output(percent, generation, outcome):
    assert [each.outcome for each in judged("link-speed", busy(percent, generation))] == [outcome]


def test_heat_that_slows_a_busy_gpu_down_is_not_its_link():
    reasons = "    Clocks Event Reasons\n        HW Slowdown                       : Active\n"
    assert [each.outcome for each in judged("link-speed", busy(92, 1) + reasons)] == ["unknown"]


@pytest.mark.parametrize(("replays", "outcomes"), [(48213, ["warning"]), (12, ["unknown"]), (0, ["unknown"])])
def test_replays_that_the_driver_counts(replays, outcomes):
    text = listing(gpu("0000:01:00.0")).replace(
        "    Performance", f"        Replays Since Reset               : {replays}\n    Performance"
    )
    assert [each.outcome for each in judged("link-errors", text)] == outcomes


def test_widths_that_contradict_each_other_are_named():
    known = {A: Function(A, NVIDIA, 0x2231, 0x030000, link=Link(2.5, 16, 16.0, 16), origin="lspci.txt:1")}
    found = host(listing(gpu("0000:01:00.0", width=8)), functions=known)
    assert [(each.what, each.said[0][1], each.said[1][1]) for each in found.contradictions] == [("link width", "x16", "x8")]
    assert not host(listing(gpu("0000:01:00.0")), functions=known).contradictions


@pytest.mark.parametrize(
    ("rows", "word"),
    [
        ("Pending                           : Yes\n        Remapping Failure Occurred        : No", "waits to be replaced"),
        ("Pending                           : No\n        Remapping Failure Occurred        : Yes", "could not be replaced"),
    ],
)
def test_memory_that_has_to_be_replaced(rows, word):
    text = listing(gpu("0000:01:00.0", more=f"    Remapped Rows\n        {rows}\n"))
    (found,) = judged("gpu-driver", text)
    assert found.outcome == "failure"
    assert word in found.title


def test_a_complaint_is_no_name():
    text = listing(gpu("0000:01:00.0")) + "GPU 00000000:41:00.0\n    Product Name                          : GPU is lost\n"
    assert host(text).functions[B].name == ""


def test_nccl_says_that_the_driver_and_its_libraries_differ():
    text = "n1:77:99 [0] misc/nvmlwrap.cc:183 NCCL WARN nvmlInit_v2() failed: Driver/library version mismatch\n"
    assert [each.outcome for each in judged("gpu-driver", text)] == ["failure"]


NO_DRIVER = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that it runs.\n"


def test_nouveau_where_somebody_asked_for_nvidias_driver():
    known = {A: Function(A, NVIDIA, 0x2204, 0x030000, driver="nouveau", origin="lspci.txt:1")}
    assert [each.outcome for each in judged("gpu-driver", functions=known)] == ["info"]
    assert [each.outcome for each in judged("gpu-driver", NO_DRIVER, functions=known)] == ["warning"]


def test_the_log_tells_more_of_a_failure_than_a_tool():
    log = (
        "[    0.000000] Linux version 6.8.0-45-generic\n[   12.0] x\n"
        "[   12.000000] NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x26:0x56:1474)\n"
    )
    known = {A: Function(A, NVIDIA, 0x2684, 0x030000, driver="nvidia", origin="lspci.txt:1")}
    (found,) = judged("gpu-driver", "No devices were found\n", log, functions=known)
    assert found.outcome == "failure"
    assert any("RmInitAdapter" in each.value for each in found.evidence)


def test_an_open_question_keeps_the_drivers_word():
    text = GRANTS.format(there="OK", back="OK")
    for found in judged("p2p-pair", text):
        assert found.outcome == "unknown"
        assert "NVIDIA's driver allows P2P" in found.explanation

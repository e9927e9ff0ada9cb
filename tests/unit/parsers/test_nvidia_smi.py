"""nvidia-smi's table, long listing, query CSV and complaints, in the shapes that drivers 390 to 580 print."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostdoctor.facts.unknown import Unknown
from hostdoctor.parsers.nvidia_smi import (
    Trouble,
    hex_of,
    number_of,
    nvml_gpu,
    parse_listing,
    parse_query,
    parse_table,
)

TABLE_470 = """\
+-----------------------------------------------------------------------------+
| NVIDIA-SMI 470.82.01    Driver Version: 470.82.01    CUDA Version: 11.4     |
|-------------------------------+----------------------+----------------------+
| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |
|                               |                      |               MIG M. |
|===============================+======================+======================|
|   0  NVIDIA GeForce ...  Off  | 00000000:17:00.0 Off |                  N/A |
| 30%   34C    P8    22W / 350W |      1MiB / 24268MiB |      0%      Default |
|                               |                      |                  N/A |
+-------------------------------+----------------------+----------------------+
|   1  NVIDIA RTX A6000    On   | 00000000:CA:00.0 Off |                  Off |
| 90%   83C    P2   299W / 300W |  40211MiB / 48685MiB |    100%      Default |
|                               |                      |                  N/A |
+-------------------------------+----------------------+----------------------+
+-----------------------------------------------------------------------------+
| Processes:                                                                  |
|    1   N/A  N/A      1423      C   python                          40205MiB |
+-----------------------------------------------------------------------------+"""

TABLE_390 = """\
| NVIDIA-SMI 390.116                Driver Version: 390.116                   |
|   0  Tesla K80           Off  | 00000000:04:00.0 Off |                    0 |
| N/A   36C    P8    27W / 149W |      0MiB / 11441MiB |      0%      Default |"""

TABLE_580 = """\
| NVIDIA-SMI 580.95.05              Driver Version: 580.95.05      CUDA Version: 13.0     |
|   0  NVIDIA GB10                    On  |   0000000F:01:00.0 Off |                  N/A |
| N/A   35C    P8              4W /  N/A  | Not Supported          |      0%      N/A     |"""

LISTING = """
==============NVSMI LOG==============

Timestamp                                 : Fri Mar 10 10:00:00 2023
Driver Version                            : 525.85.12
CUDA Version                              : 12.0

Attached GPUs                             : 2
GPU 00000000:07:00.0
    Product Name                          : NVIDIA A100-SXM4-80GB
    MIG Mode
        Current                           : Enabled
        Pending                           : Enabled
    MIG Device
        Index                             : 0
        FB Memory Usage
            Total                         : 40192 MiB
    GPU Virtualization Mode
        Virtualization Mode               : None
    PCI
        Device Id                         : 0x20B210DE
        Bus Id                            : 00000000:07:00.0
        Sub System Id                     : 0x147F10DE
        GPU Link Info
            PCIe Generation
                Max                       : 4
                Current                   : 3
                Device Current            : 3
                Device Max                : 4
                Host Max                  : 4
            Link Width
                Max                       : 16x
                Current                   : 8x
        Replays Since Reset               : 12
    Performance State                     : P0
    Clocks Throttle Reasons
        Idle                              : Not Active
        SW Power Cap                      : Active
        HW Slowdown                       : Active
            HW Thermal Slowdown           : Active
            HW Power Brake Slowdown       : Not Active
    FB Memory Usage
        Total                             : 81920 MiB
        Used                              : 5 MiB
    BAR1 Memory Usage
        Total                             : 131072 MiB
    Utilization
        Gpu                               : 97 %
    Ecc Mode
        Current                           : Enabled
    ECC Errors
        Volatile
            SRAM Uncorrectable            : 1
            DRAM Uncorrectable            : 2
        Aggregate
            DRAM Uncorrectable            : 50
GPU 00000000:0F:00.0
    Product Name                          : NVIDIA A100-SXM4-80GB
    PCI
        GPU Link Info
            Link Width
                Max                       : N/A
                Current                   : N/A
    GPU Recovery Action                   : None"""


def gpu(reading):
    return nvml_gpu(reading, "0000:07:00.0", "smi.txt:9")


def listing(text=LISTING):
    return parse_listing(text.split("\n"))


class TestTable:
    def test_the_driver(self):
        found = parse_table(TABLE_470.split("\n"))
        assert (found.driver_version, found.cuda_version) == ("470.82.01", "11.4")
        assert parse_table(TABLE_390.split("\n")).cuda_version == ""

    def test_two_gpus(self):
        first, second = parse_table(TABLE_470.split("\n")).gpus
        assert first.fields == {
            "bus_id": "00000000:17:00.0", "index": "0", "state": "P8", "memory": "24268MiB", "busy": "0",
        }  # fmt: skip
        assert second.fields["name"] == "NVIDIA RTX A6000"
        found = gpu(second)
        assert (found.performance_state, found.busy_percent, found.memory_bytes) == (2, 100, 48685 << 20)
        assert (found.trouble, found.lost) == ("", False)

    @pytest.mark.parametrize(("text", "name"), [(TABLE_390, "Tesla K80"), (TABLE_580, "NVIDIA GB10")])
    def test_older_and_newer_ones(self, text, name):
        (only,) = parse_table(text.split("\n")).gpus
        assert only.fields["name"] == name
        assert gpu(only).performance_state == 8

    def test_memory_that_is_not_told_is_unknown(self):
        assert isinstance(gpu(parse_table(TABLE_580.split("\n")).gpus[0]).memory_bytes, Unknown)

    def test_a_gpu_that_answers_nothing(self):
        text = (
            "|   1  NVIDIA GeForce RTX 3090        Off | 00000000:4B:00.0 Off |                  N/A |\n"
            "|ERR!   ERR! ERR!             ERR! / ERR! |     12MiB / 24576MiB |     ERR!      Default |"
        )
        assert "ERR! in place of 6" in gpu(parse_table(text.split("\n")).gpus[0]).trouble

    def test_a_fan_that_is_not_read_is_no_trouble(self):
        assert gpu(parse_table(TABLE_470.replace("| 30% ", "|ERR! ").split("\n")).gpus[0]).trouble == ""


class TestListing:
    def test_the_head(self):
        found = listing()
        assert (found.driver_version, found.cuda_version, found.attached) == ("525.85.12", "12.0", 2)

    def test_everything_of_one_gpu(self):
        found = gpu(listing().gpus[0])
        assert (found.link_generation, found.max_generation, found.gpu_max_generation) == (3, 4, 4)
        assert (found.link_width, found.max_width, found.replay_count) == (8, 16, 12)
        assert (found.performance_state, found.busy_percent) == (0, 97)
        assert (found.memory_bytes, found.bar1_bytes) == (81920 << 20, 131072 << 20)
        assert (found.ecc_enabled, found.ecc_uncorrected, found.mig_enabled) == (True, 3, True)
        assert found.throttle_reasons == 0x4 | 0x8 | 0x40
        assert (found.origin, found.trouble, found.lost) == ("smi.txt:9", "", False)

    def test_what_is_not_told_is_unknown(self):
        found = gpu(listing().gpus[1])
        assert found.link_width == Unknown("nvidia-smi says 'N/A'")
        assert found.link_generation == Unknown("nvidia-smi does not tell it")
        assert isinstance(found.throttle_reasons, Unknown)
        assert isinstance(found.mig_enabled, Unknown)

    def test_sections_alone(self):
        text = "GPU 00000000:06:00.0\n    BAR1 Memory Usage\n        Total                             : 8192 MiB"
        assert gpu(listing(text).gpus[0]).bar1_bytes == 8192 << 20

    def test_windows_that_cut_the_domain(self):
        assert listing("GPU 0000:06:00.0\n    Performance State : P0").gpus[0].fields["bus_id"] == "0000:06:00.0"

    @pytest.mark.parametrize(
        ("line", "trouble"),
        [
            ("    GPU Recovery Action                   : Reset", "the driver asks for a recovery action: Reset"),
            ("    Performance State                     : GPU requires reset", "the GPU requires a reset"),
            ("    GPU Recovery Action                   : Non", ""),  # cut
        ],
    )
    def test_a_gpu_that_wants_help(self, line, trouble):
        assert gpu(listing(f"GPU 00000000:06:00.0\n{line}").gpus[0]).trouble == trouble

    def test_a_required_reset(self):
        text = "GPU 00000000:06:00.0\n    GPU Reset Status\n        Reset Required                    : Yes"
        assert gpu(listing(text).gpus[0]).trouble == "the GPU requires a reset"
        assert gpu(listing(text.replace("Yes", "No")).gpus[0]).trouble == ""

    def test_a_lost_gpu(self):
        text = "GPU 00000000:06:00.0\n    Performance State                     : GPU is lost"
        assert gpu(listing(text).gpus[0]).lost

    def test_one_unknown_error_is_no_trouble(self):
        one = "GPU 00000000:06:00.0\n    Performance State : Unknown Error"
        assert gpu(listing(one).gpus[0]).trouble == ""
        both = f"{one}\n    Utilization\n        Gpu : Unknown Error"
        assert "Unknown Error" in gpu(listing(both).gpus[0]).trouble


class TestQuery:
    def test_with_a_heading(self):
        text = """index, name, pci.bus_id, pcie.link.gen.current, pcie.link.width.current, memory.total [MiB], pstate
0, NVIDIA GeForce RTX 4090, 00000000:01:00.0, 4, 8, 24564 MiB, P2
1, NVIDIA GeForce RTX 4090, 00000000:02:00.0, 1, 8, 24564 MiB, P8"""
        first, second = (gpu(reading) for reading in parse_query(text.split("\n")).gpus)
        assert (first.link_generation, first.link_width, first.performance_state) == (4, 8, 2)
        assert (second.link_generation, second.memory_bytes, second.name) == (1, 24564 << 20, "NVIDIA GeForce RTX 4090")

    def test_the_command_tells_the_columns(self):
        command = "nvidia-smi --query-gpu=pcie.link.gen.current,pcie.link.width.current --format=csv,noheader"
        first, second = parse_query(["3, 16", "1, 8"], command).gpus
        assert (first.fields["index"], second.fields["index"]) == ("0", "1")
        assert gpu(second).link_width == 8

    @pytest.mark.parametrize("option", ["-i 1", "--id=1", "-l 1", "--loop=1", "-lms 100"])
    def test_rows_are_not_counted_where_they_repeat_or_were_picked(self, option):
        command = f"nvidia-smi {option} --query-gpu=pcie.link.gen.current --format=csv,noheader"
        assert parse_query(["3", "1"], command).gpus == ()

    def test_without_either_only_the_unmistakable(self):
        (only,) = parse_query(["0, NVIDIA L4, 00000000:01:00.0, 4, 16"]).gpus
        assert only.fields == {"name": "NVIDIA L4", "bus_id": "00000000:01:00.0"}
        assert parse_query(["4, 16", "1, 8"]).gpus == ()

    def test_of_repeated_looks_the_fastest_link_counts(self):
        text = "pci.bus_id, pcie.link.gen.current\n" + "\n".join(f"00000000:01:00.0, {n}" for n in (1, 4, 2))
        assert [gpu(each).link_generation for each in parse_query(text.split("\n")).gpus] == [4]

    def test_the_driver_version_and_bits(self):
        text = "gpu_bus_id, driver_version, clocks_event_reasons.active\n00000000:01:00.0, 570.10, 0x0000000000000044"
        found = parse_query(text.split("\n"))
        assert found.driver_version == "570.10"
        text = text.replace("0x0000000000000044", "0x44")
        assert gpu(parse_query(text.split("\n")).gpus[0]).throttle_reasons == 0x44

    def test_rows_of_another_length_are_left_out(self):
        assert parse_query(["pci.bus_id, pstate", "00000000:01:00.0", "no, id"]).gpus == ()

    def test_a_value_in_brackets_is_unknown(self):
        (only,) = parse_query(["pci.bus_id, pstate", "00000000:01:00.0, [N/A]"]).gpus
        assert gpu(only).performance_state == Unknown("nvidia-smi says 'N/A'")


@pytest.mark.parametrize(
    ("line", "text", "about"),
    [
        ("Failed to initialize NVML: Driver/library version mismatch", "Driver/library version mismatch", ""),
        ("No devices were found", "No devices were found", ""),
        (
            "Unable to determine the device handle for GPU 0000:41:00.0: GPU is lost.  Reboot the system to recover this GPU",
            "GPU is lost.  Reboot the system to recover this GPU", "0000:41:00.0",
        ),
        ("Unable to determine the device handle for GPU0000:41:00.0: Unknown Error", "Unknown Error", "0000:41:00.0"),
        ("Unable to determine the device handle for gpu 0000:41:00.0: Unknown Error", "Unknown Error", "0000:41:00.0"),
        ("Unable to determine the device handle for GPU3: 0000:C1:00.0: Unknown Error", "Unknown Error", "0000:C1:00.0"),
        ("Unable to determine the device handle for GPU2: Unknown Error", "Unknown Error", "GPU2"),
    ],
)  # fmt: skip
def test_complaints(line, text, about):
    assert parse_table(["", line]).troubles == (Trouble(1, text, about),)


@pytest.mark.parametrize(
    ("text", "number"), [("16x", 16), ("24564 MiB", 24564), ("P8", 8), ("0", 0), ("[12]", None), ("", None), ("N/A", None)]
)
def test_numbers(text, number):
    found = number_of(text)
    assert found == number if number is not None else isinstance(found, Unknown)


@pytest.mark.parametrize(("text", "value"), [("0x268410DE", 0x268410DE), ("268410DE", 0x268410DE), ("", None), ("xyz", None)])
def test_hexadecimal(text, value):
    assert hex_of(text) == value


TEXTS = st.one_of(
    st.text(max_size=300),
    st.lists(st.sampled_from([*LISTING.split("\n"), *TABLE_470.split("\n"), "", "|", " : ", "a : b"]), max_size=40).map(
        "\n".join
    ),
)


@given(TEXTS, st.sampled_from(["", "nvidia-smi --query-gpu=a,b --format=csv"]))
def test_any_text_gives_something(text, command):
    lines = text.split("\n")
    for found in (parse_listing(lines), parse_table(lines), parse_query(lines, command)):
        for reading in found.gpus:
            gpu(reading)


@given(st.integers(0, len(LISTING)), st.integers(0, len(TABLE_470)))
def test_a_cut_gives_no_more_gpus(at, place):
    assert len(listing(LISTING[:at]).gpus) <= 2
    assert len(parse_table(TABLE_470[:place].split("\n")).gpus) <= 2

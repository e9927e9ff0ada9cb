"""What AMD's tools and listings of device files tell in pastes, from ROCm 4 to 7.

The pastes in pastes/amd-* have the shapes that these tools print; each host is healthy but for what a test says of it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from hostdoctor.diagnosis import diagnose
from hostdoctor.evidence.attached import Attached, Attachment, read_attachments
from hostdoctor.facts.driver import AmdSmi
from hostdoctor.facts.unknown import Unknown
from hostdoctor.readers.attached import Pasted, read_attached
from hostdoctor.registry import built_in
from hostdoctor.view import View

PASTES = Path(__file__).parent / "pastes"
CHECKS = list(built_in())


def host_of(*texts):
    """The host that some texts tell of; a text that names a file is that paste."""
    files = []
    for number, text in enumerate(texts):
        if (PASTES / text).is_file() if len(text) < 60 and "\n" not in text else False:
            files += read_attachments([str(PASTES / text)]).files
        else:
            files.append(Attachment(f"{number}.txt", "", text))
    return read_attached(Pasted(Attached(tuple(files), ()), ("paste",)), None, 10, assume_bare_metal=False)


def findings(*texts):
    return diagnose(View(host_of(*texts)), CHECKS)


def bad(*texts):
    return {(each.check, each.outcome, each.subject) for each in findings(*texts) if each.outcome in ("failure", "warning")}


def of(check, *texts):
    return [each for each in findings(*texts) if each.check == check]


def words(host):
    return {(word.accessor, word.owner): (word.allowed, word.link) for word in host.pair_words}


# --- which GPUs, and what of them -------------------------------------------------------------------------------------


def test_an_mi100_pair_by_rocm_4():
    host = host_of("amd-rocm4-mi100.txt")
    assert [(gpu, fact.name, fact.driver, fact.numa_node) for gpu, fact in host.functions.items()] == [
        ("0000:23:00.0", "AMD Instinct MI100", "amdgpu", 0),
        ("0000:e3:00.0", "AMD Instinct MI100", "amdgpu", 1),
    ]
    assert host.gpu_facts["0000:e3:00.0"].vram_bytes == 34342961152
    assert words(host)["0000:23:00.0", "0000:e3:00.0"] == (None, "PCIE")
    assert bad("amd-rocm4-mi100.txt") == set()


def test_a_healthy_mi300x_node_by_rocm_7():
    host = host_of("amd-mi300x-rocm7.txt")
    assert len(host.functions) == 8
    assert set(words(host).values()) == {(True, "XGMI")}
    assert len(words(host)) == 56
    assert host.environment.kind == "bare-metal"
    assert isinstance(host.amd_smi, AmdSmi)
    assert host.amd_smi.library_version == "26.0.0+37d158ab"
    assert {gpu.memory_bytes for gpu in host.amd_smi.gpus} == {196592 << 20}
    assert bad("amd-mi300x-rocm7.txt") == set()


def test_bandwidth_of_nodes_is_no_measurement():
    assert host_of("amd-mi300x-rocm7.txt").runs == ()
    assert not [each for each in findings("amd-mi300x-rocm7.txt") if "0.0 GB/s" in each.title]


def test_a_mixed_pair_whose_driver_grants_no_access():
    host = host_of("amd-7900-pair.txt")
    assert words(host) == {
        ("0000:03:00.0", "0000:0c:00.0"): (False, "PCIE"),
        ("0000:0c:00.0", "0000:03:00.0"): (False, "PCIE"),
    }
    word = host.pair_words[0]
    assert word.text == "DISABLED, PCIE, 2 hops"
    assert word.source.startswith("amd-7900-pair.txt:")
    first, second = host.amd_smi.gpus
    assert (first.link_width, first.link_speed_gts, first.max_width, first.max_speed_gts) == (16, 2.5, 16, 16.0)
    assert (second.link_width, second.memory_bytes) == (4, 20464 << 20)
    assert {fact.id for fact in host.functions.values()} == {"1002:744c"}


def test_a_link_by_the_driver_alone_is_no_verdict():
    """It may be the one inside the card, and it sleeps when the GPU is idle."""
    assert {each.outcome for each in of("link-width", "amd-7900-pair.txt")} == {"unknown"}
    assert {each.outcome for each in of("link-speed", "amd-7900-pair.txt")} == {"unknown"}


def test_json_of_rocm_smi():
    host = host_of("amd-rocm-smi.json")
    assert list(host.functions) == ["0000:29:00.0", "0000:2c:00.0"]
    assert host.functions["0000:29:00.0"].numa_node == 3
    assert words(host) == dict.fromkeys((("0000:29:00.0", "0000:2c:00.0"), ("0000:2c:00.0", "0000:29:00.0")), (None, "XGMI"))


def test_json_of_amd_smi():
    host = host_of("amd-amd-smi-metric.json")
    first, second = host.amd_smi.gpus
    assert (first.link_width, first.link_speed_gts, first.replay_count) == (16, 32.0, 12)
    assert isinstance(second.replay_count, Unknown)
    assert host.error_counters["0000:05:00.0"].replays == 12
    assert bad("amd-amd-smi-metric.json") == set()


def test_json_of_topology():
    text = """[{"gpu": 0, "bdf": "0000:08:00.0", "links": [
        {"gpu": 0, "bdf": "0000:08:00.0", "link_status": "ENABLED", "link_type": "SELF"},
        {"gpu": 1, "bdf": "0000:44:00.0", "link_status": "DISABLED", "link_type": "PCIE", "num_hops": 2}]},
        {"gpu": 1, "bdf": "0000:44:00.0", "links": [{"gpu": 0, "bdf": "0000:08:00.0", "link_status": "ENABLED"}]}]"""
    assert words(host_of(text)) == {
        ("0000:08:00.0", "0000:44:00.0"): (False, "PCIE"),
        ("0000:44:00.0", "0000:08:00.0"): (True, ""),
    }


def test_another_programs_json_tells_nothing():
    host = host_of('{"nvbandwidth": {"version": "v0.8"}}', '[{"command": 1}]', '{"system": {}}', "[1, 2")
    assert isinstance(host.functions, Unknown)


def test_rocminfo_gives_addresses_and_leaves_out_the_integrated_gpu():
    host = host_of("amd-rocminfo-two-w6800-and-apu.txt")
    assert {address: fact.id for address, fact in host.functions.items()} == {
        "0000:03:00.0": "1002:73a3",
        "0000:0c:00.0": "1002:73a3",
    }
    assert bad("amd-rocminfo-two-w6800-and-apu.txt") == set()


def test_partitions_of_one_gpu_are_one_gpu():
    assert list(host_of("amd-cpx.txt").functions) == ["0000:01:00.0"]


CONCISE = """======================= ROCm System Management Interface =======================
================================= Concise Info =================================
GPU  Temp   AvgPwr  SCLK    MCLK     Fan   Perf  PwrCap  VRAM%  GPU%
0    35.0c  37.0W   300Mhz  1200Mhz  0%    auto  290.0W    0%   0%
1    38.0c  36.0W   300Mhz  1200Mhz  0%    auto  290.0W    0%   0%
================================================================================
============================= End of ROCm SMI Log ==============================
"""
ACCESS = """======================= ROCm System Management Interface =======================
===================== Link accessibility between two GPUs ======================
       GPU0         GPU1
GPU0   True         False
GPU1   True         True
============================= End of ROCm SMI Log ==============================
"""


def test_numbers_are_names_where_no_address_is_known():
    host = host_of(CONCISE, ACCESS)
    assert list(host.functions) == ["GPU0", "GPU1"]
    assert words(host) == {("GPU0", "GPU1"): (False, ""), ("GPU1", "GPU0"): (True, "")}
    assert {each.subject for each in of("gpu-driver", CONCISE)} == {("GPU0",), ("GPU1",)}


def test_numbers_are_addresses_in_order_where_another_tool_knows_as_many():
    host = host_of(ACCESS, "amd-rocminfo-two-w6800-and-apu.txt")
    assert list(host.functions) == ["0000:03:00.0", "0000:0c:00.0"]
    assert words(host)["0000:0c:00.0", "0000:03:00.0"] == (True, "")


def test_numbers_tell_nothing_where_others_know_another_number_of_gpus():
    host = host_of(ACCESS, "amd-mi300x-rocm7.txt")
    assert len(host.functions) == 8
    assert len(host.pair_words) == 56


def test_a_table_without_its_columns_spaces():
    lost = "\n".join(" ".join(line.split()) for line in ACCESS.splitlines())
    assert words(host_of(lost)) == words(host_of(ACCESS))


def test_what_joins_no_two_gpus_directly_is_no_word():
    text = ACCESS.replace("Link accessibility between two GPUs", "Bandwidth").replace("True", "N/A").replace("False", "0-0")
    assert host_of(text).pair_words == ()


def test_csv():
    host = host_of("gpu,gpu_bdf,gpu_uuid\n0,0000:01:00.0,a\n1,0000:43:00.0,b\n")
    assert list(host.functions) == ["0000:01:00.0", "0000:43:00.0"]


# --- guests -----------------------------------------------------------------------------------------------------------


def test_a_guest_is_known_by_amd_smi():
    host = host_of("amd-guest.txt")
    assert host.environment.kind == "virtual-machine"
    assert len(host.functions) == 2
    assert bad("amd-guest.txt") == set()


def test_wsl_is_known_by_rocminfo():
    host = host_of("amd-wsl.txt")
    assert host.environment.kind == "wsl"
    assert isinstance(host.functions, Unknown)
    assert bad("amd-wsl.txt") == set()


# --- why a tool found none --------------------------------------------------------------------------------------------


def test_a_container_without_the_file():
    (found,) = of("gpu-access", "amd-no-kfd-in-container.txt")
    assert (found.outcome, found.subject) == ("failure", ("/dev/kfd",))
    assert "--device=/dev/kfd" in found.next
    assert "failure" not in {each.outcome for each in of("gpu-driver", "amd-no-kfd-in-container.txt")}


def test_no_file_and_no_container_known():
    text = "ROCk module is loaded\nUnable to open /dev/kfd read-write: No such file or directory\n"
    (found,) = of("gpu-driver", text)
    assert (found.outcome, found.subject) == ("failure", ("/dev/kfd",))
    assert "--device=/dev/kfd" in found.next
    assert [each.outcome for each in of("gpu-access", text)] == ["unknown"]


def test_a_user_who_is_not_in_the_group():
    first, second = of("gpu-access", "amd-not-in-render.txt")
    assert (first.outcome, first.subject) == ("failure", ("/dev/kfd",))
    assert "navin" in first.title
    assert "usermod -aG render" in first.next
    assert (second.outcome, second.subject) == ("failure", ("/dev/dri/renderD128",))


def test_a_user_whose_session_is_older_than_the_group():
    (found,) = of("gpu-access", "amd-not-logged-in-again.txt")
    assert (found.outcome, found.subject) == ("failure", ("/dev/kfd",))
    assert "log out and in again" in found.next


def test_the_group_that_rocminfo_names():
    text = (
        "ROCk module is loaded\nUnable to open /dev/kfd read-write: Permission denied\n"
        'user is not member of "video" group, the default DRM access group. Users must be\n'
    )
    (found,) = of("gpu-access", text)
    assert "usermod -aG video" in found.next


def test_what_the_mode_does_not_forbid():
    text = "ROCk module is loaded\nUnable to open /dev/kfd read-write: Operation not permitted\nu is member of render group\n"
    (found,) = of("gpu-access", text)
    assert (found.outcome, "not the file's mode" in found.explanation) == ("failure", True)
    assert "container" in found.next


@pytest.mark.parametrize("answer", ["Cannot allocate memory", "Invalid argument", "Resource temporarily unavailable"])
def test_a_driver_that_refuses(answer):
    text = f"ROCk module is loaded\nUnable to open /dev/kfd read-write: {answer}\nuser is member of render group\n"
    (found,) = of("gpu-driver", text)
    assert (found.outcome, found.subject, answer in found.title) == ("warning", ("/dev/kfd",), True)
    assert not {each.outcome for each in of("gpu-access", text)} & {"failure", "warning"}


def test_a_driver_that_refuses_is_told_of_the_gpus_that_are_known():
    text = "Unable to open /dev/kfd read-write: Cannot allocate memory\n"
    (found,) = of("gpu-driver", text, CONCISE)
    assert (found.outcome, found.subject) == ("warning", ("GPU0", "GPU1"))


@pytest.mark.parametrize(
    "text",
    [
        "ROCk module is NOT loaded, possibly no GPU devices\n",
        "ROCk module is NOT loaded, possibly no GPU devices\nUnable to open /dev/kfd read-write: No such file or directory\n",
        "cat: /sys/module/amdgpu/initstate: No such file or directory\n"
        "ERROR:root:Driver not initialized (amdgpu not found in modules)\n",
        "ERROR:root:Drivers not loaded (amdgpu, amd_hsmp, ionic drivers not found in modules)\n",
        "ERROR:root:Unable to detect any GPU devices, check amdgpu version and module status (sudo modprobe amdgpu)\n",
    ],
)
def test_no_driver_loaded(text):
    (found,) = of("gpu-driver", text)
    assert (found.outcome, found.subject) == ("failure", ("/dev/kfd",))
    assert "load-driver" in found.remedies


def test_a_module_that_is_said_to_be_missing_and_drives_gpus_all_the_same():
    (found,) = of("gpu-driver", "ERROR:root:Driver not initialized (amdgpu not found in modules)\n", CONCISE)
    assert found.outcome == "unknown"


def test_rocminfo_of_old_without_lsmod():
    """It asked lsmod, which containers lack, and then worked."""
    text = "ROCk module is NOT loaded, possibly no GPU devices\nAble to open /dev/kfd read-write\n"
    agents = (PASTES / "amd-rocminfo-two-w6800-and-apu.txt").read_text().partition("\n")[2]
    assert host_of(text + agents.replace("HSA System Attributes", "System Attributes")).refusals == ()


def test_it_works_for_root_and_not_for_the_user():
    text = "$ rocminfo\nROCk module is loaded\nUnable to open /dev/kfd read-write: {}\n$ sudo rocminfo\n"
    agents = (PASTES / "amd-rocminfo-two-w6800-and-apu.txt").read_text()
    assert {each.outcome for each in of("gpu-access", text.format("Permission denied") + agents)} == {"failure"}
    assert {each.outcome for each in of("gpu-driver", text.format("Cannot allocate memory") + agents)} == {"ok"}


def test_a_runtime_that_does_not_start():
    text = "hsa api call failure at: rocminfo.cc:1142\nCall returned HSA_STATUS_ERROR_OUT_OF_RESOURCES: The runtime failed.\n"
    (found,) = of("gpu-driver", text)
    assert found.outcome == "warning"


# --- rights by listings -----------------------------------------------------------------------------------------------

KFD = "crw-rw---- 1 root render 234, 0 Apr 11 12:15 /dev/kfd\n"
RENDER = "crw-rw---- 1 root render 226, 128 Apr 11 12:15 renderD128\n"


def rights(*texts):
    """Outcome and subject of what is said of rights."""
    return {(each.outcome, each.subject) for each in of("gpu-access", *texts)}


def test_a_desktop_with_access_lists():
    assert bad("amd-acl-desktop-healthy.txt") == set()
    (found,) = of("gpu-access", "amd-acl-desktop-healthy.txt")
    assert found.outcome == "ok"


@pytest.mark.parametrize(
    ("user", "outcome"),
    [
        ("uid=1000(a) gid=1000(a) groups=1000(a),105(render)", "ok"),
        ("uid=1000(a) gid=1000(a) Gruppen=1000(a),105(render)", "ok"),
        ("uid=0(root) gid=0(root) groups=0(root)", "ok"),
        ("uid=1000(a) gid=1000(a) groups=1000(a),44(video) context=unconfined_u:unconfined_r", "failure"),
        ("a : a render video", "ok"),
        ("root : root", "ok"),
        ("a : a video", "failure"),
        # a number without a name may be that very group
        ("uid=1000(a) gid=1000(a) groups=1000(a),105", "unknown"),
    ],
)
def test_the_groups_decide(user, outcome):
    assert {each for each, _ in rights(KFD + RENDER, user)} == {outcome}


@pytest.mark.parametrize("listing", [KFD.replace("crw-rw----", "crw-rw-rw-"), KFD.replace("root render", "a render")])
def test_what_everybody_or_the_owner_may(listing):
    assert {each for each, _ in rights(listing, "uid=1000(a) gid=1000(a) groups=1000(a)")} == {"ok"}


def test_a_group_that_has_no_name_here():
    listing = KFD.replace("render", "109")
    assert {each for each, _ in rights(listing, "uid=1000(a) gid=1000(a) groups=1000(a),109")} == {"ok"}
    (found,) = of("gpu-access", listing, "uid=1000(a) gid=1000(a) groups=1000(a),44(video)")
    assert (found.outcome, "--group-add 109" in found.next) == ("failure", True)


def test_groups_of_which_names_or_numbers_are_missing_are_unknown():
    assert {each for each, _ in rights(KFD, CONCISE, "uid=1000(a) gid=1000(a) groups=1000(a),105")} == {"unknown"}


def test_listings_without_a_user_are_unknown():
    (found,) = of("gpu-access", KFD, CONCISE)
    assert (found.outcome, found.help) == ("unknown", "attach the output of id")


def test_files_that_a_listing_does_not_name_may_be_there():
    assert {each for each, _ in rights(KFD, "a : a render", CONCISE)} == {"ok"}


def test_screens_are_no_compute():
    card = "crw-rw---- 1 root video 226, 0 Apr 11 12:15 /dev/dri/card0\n"
    assert {each for each, _ in rights(KFD + RENDER + card, "a : a render")} == {"ok"}


def test_an_access_list_that_is_not_shown_is_unknown():
    assert ("failure", ("/dev/kfd",)) not in rights(KFD.replace("rw----", "rw----+"), "a : a video")


@pytest.mark.parametrize(
    ("entries", "may"),
    [
        ("user::rw-\nuser:a:rw-\ngroup::rw-\nmask::rw-\nother::---", True),
        ("user::rw-\nuser:a:rw-\ngroup::rw-\nmask::r--\nother::---", False),
        ("user::rw-\nuser:b:rw-\ngroup::rw-\nmask::rw-\nother::---", False),
        ("user::rw-\ngroup::---\ngroup:video:rw-\nmask::rw-\nother::---", True),
        ("user::rw-\ngroup::rw-\nmask::rw-\nother::rw-", True),
    ],
)
def test_access_lists(entries, may):
    acl = f"# file: dev/kfd\n# owner: root\n# group: render\n{entries}\n"
    found = rights(KFD.replace("crw-rw----", "crw-rw----+"), "a : a video", acl)
    assert (("failure", ("/dev/kfd",)) in found) is not may


def test_a_kfd_that_opened_is_not_denied_by_a_listing_of_someone_else():
    text = "Unable to open /dev/kfd read-write: Cannot allocate memory\n"
    assert "failure" not in {each for each, _ in rights(text, KFD, "a : a video")}


def test_amd_smi_without_a_driver():
    text = "ERROR:root:Drivers not loaded (amdgpu, amd_hsmp, or amd_hsmp_acpi drivers not found in modules)\n"
    assert bad(text) == {("gpu-driver", "failure", ("/dev/kfd",))}


HSA_ERROR = """\
HSA Error Found!  In file: /src/rocm_bandwidth_test.cpp;   At line: 496
Error: HSA_STATUS_ERROR_OUT_OF_RESOURCES: The runtime failed to allocate the necessary resources. This error may also occur.
"""


def test_a_runtime_that_does_not_start_in_rocm_bandwidth_test():
    for text in (HSA_ERROR, "....\n          RocmBandwidthTest Version: 2.6.0\n\n" + HSA_ERROR):
        (found,) = (each for each in findings(text) if each.outcome == "warning")
        assert (found.check, found.title) == (
            "gpu-driver",
            "ROCm's runtime does not start: HSA_STATUS_ERROR_OUT_OF_RESOURCES",
        )


@pytest.mark.parametrize("answer", ["", "Perm", "Permission denie", "No such file"])
def test_an_answer_that_the_paste_cuts_tells_nothing(answer):
    assert bad(f"ROCk module is loaded\nUnable to open /dev/kfd read-write: {answer}") == set()

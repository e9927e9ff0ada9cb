"""The known-good rules: that each has a source, that both forms agree, and that lookups never claim more than is known."""

import json
import re
import subprocess
import sys

import pytest

from hostdoctor import knowledge
from hostdoctor.knowledge import compile as compiler
from hostdoctor.knowledge import gpus, pci_names

PCI_ID = re.compile(r"[0-9a-f]{4}:([0-9a-f]{4}|\*)")
TREES = {"5.10", "6.1", "6.12", "7.3"}
TABLES = {path.stem: json.loads(text) for path, text in compiler.compiled().items()}
ENTRIES = [
    pytest.param(entry, id=f"{name}-{kind}-{entry.get('id') or entry.get('name') or number}")
    for name, table in TABLES.items()
    if name != "sources"
    for kind, entries in table.items()
    for number, entry in enumerate(entries)
]


# --- the files --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", compiler.compiled(), ids=lambda path: path.name)
def test_json_is_what_the_toml_says(path):
    assert path.read_text(encoding="utf-8") == compiler.compiled()[path], "run python -m hostdoctor.knowledge.compile"


def test_every_json_has_its_toml():
    assert set(compiler.FOLDER.glob("*.json")) == set(compiler.compiled())


def test_rows_inherit_and_may_differ():
    entry = {"about": "two", "chip": "a", "lanes": 16, "rows": [{"id": "1"}, {"id": "2", "lanes": 8}]}
    assert compiler.flatten([entry, {"id": "3"}]) == [
        {"chip": "a", "lanes": 16, "id": "1"},
        {"chip": "a", "lanes": 8, "id": "2"},
        {"id": "3"},
    ]


@pytest.mark.parametrize("entry", ENTRIES)
def test_every_entry_names_its_sources(entry):
    assert entry["source"], "no source"
    assert set(entry["source"]) <= set(TABLES["sources"])


@pytest.mark.parametrize("key", TABLES["sources"])
def test_sources_can_be_found_by_a_stranger(key):
    source = knowledge.load_sources()[key]
    assert source.title
    assert len(source.where) > 10


@pytest.mark.parametrize("entry", ENTRIES)
def test_ids_are_lower_case_and_ranges_ascend(entry):
    ids = [entry[key] for key in ("first", "last") if key in entry] + entry.get("ids", []) + entry.get("gpu_ids", [])
    if re.match(r"[0-9a-fA-F]{4}:", entry.get("id", "")):
        ids.append(entry["id"])
    assert all(PCI_ID.fullmatch(id_) for id_ in ids)
    if "first" in entry:
        assert entry["first"] <= entry["last"]
        assert entry["first"][:5] == entry["last"][:5]


@pytest.mark.parametrize("entry", ENTRIES)
def test_kernel_trees_are_those_looked_at(entry):
    groups = [entry, *entry.get("values", [])]
    for group in groups:
        for yes, no in (("present_in", "absent_in"), ("true_in", "false_in")):
            named = [*group.get(yes, []), *group.get(no, [])]
            assert len(set(named)) == len(named)
            assert not named or set(named) == TREES


def test_loading_imports_nothing_slow():
    code = (
        "import sys, hostdoctor.knowledge as k\n"
        "[getattr(k, name)() for name in k.__all__ if name.startswith('load_')]\n"
        "k.is_integrated('x'); k.on_board_role('x'); k.nvidia_old_root_port('x')\n"
        "slow = {'tomllib', 'tomli', 'pathlib', 'dataclasses', 'importlib.resources', 'importlib.metadata'}\n"
        "sys.exit(' '.join(slow & set(sys.modules)) or None)"
    )
    result = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, check=False, env=_env())
    assert (result.returncode, result.stderr) == (0, "")


def _env():
    return {"PYTHONPATH": ":".join(path for path in sys.path if path)}


def test_tables_are_read_once():
    assert knowledge.load_gpus() is knowledge.load_gpus()
    assert knowledge.load_kernel_parameters() is knowledge.load_kernel_parameters()


# --- GPUs -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("id_", "name", "chip", "lanes", "dma_bits"),
    [
        ("1002:73a1", "Radeon PRO V620", "navi21", 16, 44),
        ("1002:740f", "Radeon Instinct MI210", "aldebaran", 16, 48),
        ("1002:67df", "Radeon RX 580", "polaris10", 16, 40),
        ("10de:2c33", "RTX PRO 4000 Blackwell SFF", "gb203", 8, 52),
        ("10de:28b0", "RTX 2000 Ada Generation", "ad107", 8, 47),
        ("10de:1b38", "Tesla P40", "gp102", 16, None),
        ("1002:744c", "Radeon RX 7900 XTX / Radeon RX 7900 XT / Radeon RX 7900 GRE", "navi31", 16, 44),
        ("10de:2321", "H100L 94 GB", "gh100", None, 52),
        ("10de:ffff", "", None, None, None),
    ],
)
def test_gpu_lookups(id_, name, chip, lanes, dma_bits):
    assert knowledge.name_of(id_) == name
    assert knowledge.chip_of(id_) == chip
    assert knowledge.lanes_of(id_) == lanes
    assert knowledge.dma_bits_of(id_) == dma_bits


@pytest.mark.parametrize(
    ("name", "ids"),
    [
        ("NVIDIA GeForce RTX 3090", {"10de:2204"}),
        ("GeForce GTX 1080 Ti", {"10de:1b06"}),
        ("NVIDIA RTX A6000", {"10de:2230"}),
        ("AMD Radeon PRO V620", {"1002:73a1"}),
        ("NVIDIA A100-SXM4-80GB", {"10de:20b2"}),
        ("NVIDIA GeForce RTX 3060", {"10de:2487", "10de:2503"}),
        ("NVIDIA GeForce RTX 9999", set()),
        ("NVIDIA GeForce RTX 3090 Something", set()),
        ("AMD Radeon Graphics", set()),
        ("", set()),
    ],
)
def test_gpus_by_the_name_that_tools_print(name, ids):
    assert {gpu.id for gpu in knowledge.gpus_by_name(name)} == ids


@pytest.mark.parametrize(("name", "chip"), [("NVIDIA H100 80GB HBM3", "gh100"), ("Tesla V100-SXM2-16GB", "gv100")])
def test_a_model_alone_tells_the_chip(name, chip):
    assert {gpu.chip for gpu in knowledge.gpus_by_name(name)} == {chip}


def test_bandwidth_rules_are_consistent():
    floors = knowledge.load_copy_floors()
    assert set(floors) == {"host", "switch", "root-complex"}
    assert all(0 < floor.failure < floor.ok < 1 for floor in floors.values())
    signs = knowledge.load_staging_signs()
    assert signs["both_ways"].staged < signs["both_ways"].direct
    assert signs["gain"].staged < signs["gain"].direct
    assert signs["latency_us"].direct < signs["latency_us"].staged
    assert 0 < knowledge.intel_factor() < 1


@pytest.mark.parametrize(
    ("cpu", "own", "between"),
    [
        ("AMD EPYC 7401P 24-Core Processor", 7.0, 16.0),
        ("AMD EPYC 7302 16-Core Processor", None, 16.0),
        ("AMD Ryzen Threadripper 1950X 16-Core Processor", 7.0, 16.0),
        ("AMD Ryzen Threadripper 3970X 32-Core Processor", None, 16.0),
        ("Intel(R) Xeon(R) CPU E5-2690 v4 @ 2.60GHz", 8.1, 6.0),
        ("Intel(R) Xeon(R) Gold 6226R CPU @ 2.90GHz", None, 10.0),
        ("Intel(R) Xeon(R) Platinum 8480+", None, 22.0),
        ("Intel(R) Xeon(R) 6780P", None, 22.0),
        ("", 7.0, 6.0),
    ],
)
def test_what_processors_forward(cpu, own, between):
    limit = knowledge.root_complex_limit(cpu)
    assert (limit.one_way_gbs if limit else None) == own
    assert knowledge.inter_socket_limit(cpu).one_way_gbs == between


def test_products_that_share_an_id_give_a_range_of_memory():
    gib = 1 << 30
    assert knowledge.vram_range_bytes("1002:744c") == (16 * gib, 24 * gib)
    assert knowledge.vram_range_bytes("1002:66a0") == (16 * gib, 32 * gib)
    assert knowledge.vram_range_bytes("1002:66a1") == (16 * gib, 32 * gib)
    assert knowledge.vram_range_bytes("10de:2bb3") == (48 * gib, 72 * gib)
    assert knowledge.vram_range_bytes("1002:73a1") == (32 * gib, 32 * gib)
    assert knowledge.vram_range_bytes("10de:2901") is None
    assert knowledge.vram_range_bytes("10de:ffff") is None


def test_what_products_disagree_on_is_not_answered(monkeypatch):
    one, other = (
        knowledge.Gpu(id="x", name=f"card {lanes}", vendor_class="consumer", source=("IDS",), lanes=lanes, chip="a")
        for lanes in (8, 16)
    )
    monkeypatch.setattr(gpus, "load_gpus", lambda: {"x": (one, other)})
    assert knowledge.lanes_of("x") is None
    assert knowledge.chip_of("x") == "a"


def test_p2p_policy_of_nvidia_cards():
    def policy(id_):
        (gpu,) = knowledge.gpus_by_id(id_)
        return gpu.vendor_class, gpu.pcie_p2p, gpu.by_analogy, gpu.nvlink

    assert policy("10de:2204") == ("consumer", "refused", False, "bridge")
    assert policy("10de:2684") == ("consumer", "refused", False, "none")
    assert policy("10de:2206") == ("consumer", "refused", True, "unknown")
    assert policy("10de:1b06") == ("consumer", "unconfirmed", False, "unknown")
    assert policy("10de:1e02") == ("titan", "unconfirmed", False, "unknown")
    assert policy("10de:1b07") == ("mining", "none", False, "unknown")
    assert policy("10de:2231") == ("professional", "allowed", False, "bridge")
    assert policy("10de:2330") == ("professional", "allowed", False, "sxm")


ALL_GPUS = [gpu for products in knowledge.load_gpus().values() for gpu in products]


@pytest.mark.parametrize("gpu", ALL_GPUS, ids=lambda gpu: f"{gpu.id}-{gpu.name}")
def test_gpus_are_consistent(gpu):
    amd = gpu.id.startswith("1002:")
    assert amd == (gpu.pcie_p2p == "kernel")
    assert amd == bool(gpu.atomics_required)
    assert (gpu.atomics_required == "firmware") == bool(gpu.atomics_min_firmware)
    assert gpu.instinct == ("Instinct" in gpu.name)
    assert gpu.chip
    assert gpu.lanes in (4, 8, 16, None)
    assert gpu.speed_gts is None or knowledge.lane_gbs(gpu.speed_gts)
    assert not gpu.by_analogy or gpu.pcie_p2p == "refused"
    if gpu.vendor_class == "consumer" and not amd:
        assert gpu.name.startswith("GeForce")
        assert gpu.pcie_p2p in ("refused", "unconfirmed")
    if amd:
        generation = knowledge.load_amd_generations()[gpu.chip]
        assert gpu.dma_bits == generation.dma_bits
        assert (gpu.atomics_required, gpu.atomics_min_firmware) == (generation.atomics, generation.atomics_min_firmware)


def test_every_listed_product_is_there():
    assert len(ALL_GPUS) == 124
    assert sum(gpu.lanes is not None for gpu in ALL_GPUS) == 110


@pytest.mark.parametrize(
    ("gpu_id", "parent_id", "integrated"),
    [
        ("1002:1586", None, True),  # Strix Halo
        ("1002:164e", "1022:14dd", True),  # Raphael
        ("1002:9999", "1022:0000", True),  # Richland
        ("1002:fffe", "1022:1484", True),  # newer than the list, below an internal bridge
        ("1002:fffe", "1022:1483", False),  # below a slot's root port
        ("1002:73a1", "1002:1479", False),
        ("1002:74a0", "1022:14a7", False),  # MI300A
        ("10de:2e12", "", True),  # GB10
        ("10de:0863", None, True),  # GeForce 9400M
        ("10de:2204", "1022:1483", False),
        ("8086:56a0", "8086:4fa4", False),
    ],
)
def test_integrated_gpus(gpu_id, parent_id, integrated):
    assert knowledge.is_integrated(gpu_id, parent_id) is integrated


def test_no_card_is_called_integrated():
    assert not [gpu for gpu in ALL_GPUS if knowledge.is_integrated(gpu.id)]


def test_intel_cards():
    assert all(map(knowledge.is_intel_discrete, ("8086:56a0", "8086:e20b", "8086:4905", "8086:0bda")))
    assert not any(map(knowledge.is_intel_discrete, ("8086:a780", "8086:7d55", "8086:4f90", "8086:b080")))


# --- bridges and links ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("id_", "role"),
    [
        ("1002:1478", "upstream"),
        ("1002:1479", "downstream"),
        ("1022:1470", "upstream"),
        ("1022:1471", "downstream"),
        ("1022:14c7", "single"),
        ("8086:4fa0", "upstream"),
        ("8086:4fa4", "downstream"),
        ("1022:43f4", ""),  # a chipset's switch, of the same vendor
        ("10b5:8747", ""),
    ],
)
def test_on_board_switches(id_, role):
    assert knowledge.on_board_role(id_) == role


def test_chipset_ports():
    assert knowledge.chipset_name("1022:43f5") == "AMD 600 series chipset"
    assert all(map(knowledge.is_chipset, ("8086:7a38", "8086:a198", "1022:57a3", "1022:43e9")))
    assert not any(map(knowledge.is_chipset, ("1002:1478", "1022:1483", "8086:2030", "1022:43f6", "8086:43f4")))


def test_no_bridge_has_two_places():
    ranges = [knowledge.chipset_name, knowledge.cpu_port_name, knowledge.external_switch_name, knowledge.on_board_role]
    table = TABLES["bridges"]
    ids = [
        end for kind in ("chipset", "cpu_port", "switch") for entry in table[kind] for end in (entry["first"], entry["last"])
    ]
    ids += [entry["id"] for entry in table["on_board"]]
    for id_ in ids:
        assert sum(bool(name(id_)) for name in ranges) == 1, id_


def test_external_switches():
    assert knowledge.external_switch_name("10b5:8747") == "PLX PEX 87xx (8 GT/s)"
    assert knowledge.external_switch_name("1000:c030") == "Broadcom PEX890xx (32 GT/s)"
    assert knowledge.external_switch_name("11f8:4052") == "Microchip Switchtec Gen4 (16 GT/s)"
    assert knowledge.external_switch_name("1b21:1824") == "ASMedia ASM1824 (5 GT/s x8)"
    assert knowledge.external_switch_name("1002:1478") == ""


@pytest.mark.parametrize(
    ("id_", "kernel", "allowed"),
    [
        ("8086:2030", (5, 10), True),
        ("8086:2030", (4, 19), True),  # older than the oldest tree: as the oldest
        ("8086:09a2", (5, 4), False),
        ("8086:09a2", (5, 15), None),  # between a tree without it and one with it
        ("8086:09a2", (6, 1), True),
        ("8086:09a2", (6, 8), True),  # between two trees with it
        ("8086:0b25", (6, 8), False),
        ("8086:0b25", (6, 18), None),
        ("8086:0b25", (8, 0), True),  # newer than the newest: as the newest
        ("1ae0:1234", (7, 3), True),
        ("10de:2f96", (6, 12), False),
    ],
)
def test_host_bridges(id_, kernel, allowed):
    found = knowledge.host_bridge_allowed(id_, kernel)
    assert found is not None
    assert found[1] is allowed


def test_host_bridges_that_no_kernel_lists():
    assert knowledge.host_bridge_allowed("8086:6f00", (7, 3)) is None
    assert knowledge.host_bridge_allowed("8086:4c43", (7, 3)) is None
    assert knowledge.host_bridge_allowed("10de:2f99", (7, 3)) is None


def test_host_bridges_that_must_be_the_same():
    def same(id_):
        bridge, _ = knowledge.host_bridge_allowed(id_, (6, 1))
        return bridge.same_host_bridge

    assert same("8086:2f00")
    assert not same("8086:2020")


def test_old_root_ports_of_nvidia():
    assert all(map(knowledge.nvidia_old_root_port, ("8086:3408", "8086:340a", "8086:3411", "8086:6f0b", "8086:0e02")))
    assert not any(map(knowledge.nvidia_old_root_port, ("8086:3412", "8086:2030", "8086:2f00", "1022:3408")))


@pytest.mark.parametrize(
    ("speed_gts", "lane", "x16"),
    [(2.5, 0.25, 4.0), (5.0, 0.5, 8.0), (8.0, 0.985, 15.75), (16.0, 1.969, 31.51), (32.0, 3.938, 63.01), (64, 8.0, 128.0)],
)
def test_link_rates(speed_gts, lane, x16):
    assert knowledge.lane_gbs(speed_gts) == pytest.approx(lane, abs=0.001)
    assert knowledge.link_gbs(speed_gts, 16) == pytest.approx(x16, abs=0.01)


def test_unknown_rates_have_no_bandwidth():
    assert knowledge.lane_gbs(12.0) is None
    assert knowledge.link_gbs(0.0, 16) is None
    assert knowledge.link_gbs(8.0, 0) == 0.0


# --- kernel parameters ------------------------------------------------------------------------------------------------

PARAMETERS = knowledge.load_kernel_parameters()
RULES = {rule.id: rule for rule in PARAMETERS.rule}


@pytest.mark.parametrize(
    ("name", "element", "kernel", "known"),
    [
        ("amd_iommu", "on", (6, 12), False),
        ("amd_iommu", "force_isolation", (5, 10), True),
        ("amd_iommu", "pgtbl_v2", (5, 10), False),
        ("amd_iommu", "pgtbl_v2", (5, 15), None),
        ("amd_iommu", "nohugepages", (6, 8), None),
        ("intel_iommu", "on", (6, 8), True),
        ("intel_iommu", "sm_off", (5, 10), False),
        ("intel_iommu", "nobounce", (6, 12), False),
        ("iommu", "pt", (5, 10), True),
        ("iommu", "on", (7, 3), False),
        ("pci", "realloc=off", (6, 1), True),
        ("pci", "disable_acs_redir=0000:66:08.0;0000:66:10.0", (5, 10), True),
        ("pci", "config_acs=xx0x@0000:01:00.0", (6, 1), False),
        ("pci", "noacs", (7, 3), False),
        ("pci", "reallocate", (7, 3), False),
        ("iommu.passthrough", "1", (6, 1), True),
        ("iommu.passthrough", "False", (6, 1), None),
        ("iommu.passthrough", "2", (6, 1), False),
    ],
)
def test_values_the_kernel_knows(name, element, kernel, known):
    assert PARAMETERS.by_name[name].knows(element, kernel) is known


def test_values_are_split_as_the_kernel_does():
    assert PARAMETERS.by_name["pci"].elements("realloc=off,,noaer") == ("realloc=off", "noaer")
    assert PARAMETERS.by_name["pcie_aspm"].elements("off") == ("off",)


@pytest.mark.parametrize(
    ("element", "meaning"),
    [("1", "1"), ("Y", "1"), ("yes", "1"), ("ON", "1"), ("0", "0"), ("n", "0"), ("off", "0"), ("o", "o"), ("2", "2"), ("", "")],
)
def test_switches_mean_yes_or_no(element, meaning):
    assert PARAMETERS.by_name["iommu.strict"].meaning(element) == meaning
    assert PARAMETERS.by_name["pci"].meaning(element) == element


def test_what_is_set_by_several_parameters_is_known():
    ways = {token for setting in PARAMETERS.settings for tokens in setting.ways.values() for token in tokens}
    assert {"iommu=pt", "iommu.passthrough=0", "iommu.strict=1", "amdgpu.pcie_p2p=0"} <= ways
    for token in ways:
        name, _, value = token.partition("=")
        assert PARAMETERS.by_name[name].knows(value, (6, 12))
        assert sum(bool(setting.way(token)) for setting in PARAMETERS.settings) == 1


def test_rules_have_their_own_ids():
    assert len(RULES) == len(PARAMETERS.rule)


@pytest.mark.parametrize("rule", PARAMETERS.rule, ids=lambda rule: rule.id)
def test_rules_are_consistent(rule):
    assert rule.parameter in PARAMETERS.known_names
    assert rule.text.endswith(".")
    assert not (rule.elements and rule.pattern)
    re.compile(rule.pattern)
    assert rule.remedy in ("", "remove-parameter") or rule.remedy.startswith("replace:")
    for token in rule.together_with:
        name, _, value = token.partition("=")
        assert PARAMETERS.by_name[name].knows(value, (6, 12)) is not False
    parameter = PARAMETERS.by_name.get(rule.parameter)
    if parameter and rule.kind in ("inert", "deprecated", "contradiction", "side-effect"):
        assert all(parameter.knows(element, (6, 12)) for element in rule.elements)
    if parameter and rule.kind == "no-such-value" and not rule.true_in:
        assert not any(parameter.knows(element, (6, 12)) for element in rule.elements)
    if rule.kind == "contradiction":
        assert rule.together_with or rule.gpu_ids
    replacement = rule.remedy.partition(":")[2]
    if replacement:
        name, _, value = replacement.partition("=")
        assert PARAMETERS.by_name[name].knows(value, (6, 12)) is not False


def test_rules_match_whole_elements():
    assert RULES["amd-iommu-on"].matches("on")
    assert not RULES["amd-iommu-on"].matches("force_isolation")
    assert RULES["config-acs-too-old"].matches("config_acs=xx0x@0000:01:00.0")
    assert RULES["amd-iommu-on-intel"].matches("anything")


@pytest.mark.parametrize(
    ("element", "is_device"),
    [("0000:66:10.0", True), ("66:10.0", True), ("x0x00xx@0000:66:10.0", True), ("pci:10b5:8747", True), ("noaer", False)],
)
def test_a_device_where_an_option_belongs(element, is_device):
    assert RULES["acs-devices-by-comma"].matches(element) is is_device


def test_rules_bound_to_kernels():
    assert RULES["config-acs-too-old"].holds_in((6, 1)) is True
    assert RULES["config-acs-too-old"].holds_in((6, 8)) is None
    assert RULES["config-acs-too-old"].holds_in((6, 12)) is False
    assert RULES["amd-iommu-on"].holds_in((4, 4)) is True


def test_slips_are_looked_for_only_near_long_names():
    assert PARAMETERS.known_names["amd_iommu"]
    assert not PARAMETERS.known_names["pci"]
    assert all(len(name) > 4 for name, slips in PARAMETERS.known_names.items() if slips)
    assert set(PARAMETERS.by_name) <= set(PARAMETERS.known_names)


def test_what_may_be_given_once_only():
    once = {(entry.parameter, entry.element) for entry in PARAMETERS.last_wins}
    assert once == {("pci", f"{name}=") for name in ("disable_acs_redir", "config_acs", "resource_alignment")}


# --- kernels between trees --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kernel", "found"),
    [((5, 4), False), ((5, 10), False), ((5, 15), None), ((6, 1), True), ((6, 6), True), ((6, 12), True), ((9, 0), True)],
)
def test_presence(kernel, found):
    assert knowledge.presence(kernel, ["6.1", "6.12"], ["5.10"]) is found


def test_presence_compares_numbers_and_takes_silence_for_always():
    assert knowledge.presence((6, 9), ["6.12"], ["6.2"]) is None
    assert knowledge.presence((6, 1), [], []) is True


# --- remedies ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("remedy", knowledge.load_remedies().values(), ids=lambda remedy: remedy.id)
def test_remedies_are_short_and_fit_every_host(remedy):
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", remedy.id)
    assert remedy.title
    assert 1 <= len(remedy.steps) <= 4
    text = " ".join(remedy.steps)
    assert not re.search(r"[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]|\b\d+ ?T\b", text)


def test_remedies_that_findings_may_name():
    assert set(knowledge.load_remedies()) == {
        "reseat-or-move-card",
        "move-card-to-cpu-slot",
        "check-power-and-seating",
        "firmware-mmio-below-dma-limit",
        "firmware-above-4g-decoding",
        "firmware-resizable-bar",
        "firmware-slot-full-speed",
        "firmware-slot-lower-speed",
        "iommu-passthrough",
        "iommu-translate-until-moved",
        "acs-clear-redirect",
        "kernel-with-p2p",
        "nvidia-resizable-bar",
        "amdgpu-enable-pcie-p2p",
        "load-driver",
        "update-gpu-firmware",
        "remove-parameter",
        "keep-one-parameter",
        "replace-parameter",
        "apply-boot-configuration",
        "payload-size-safe",
        "numa-balancing-off",
        "numa-bind",
        "measure-p2p",
        "attach-p2p-evidence",
        "distrust-p2p",
        "measure-host-copies-again",
        "find-what-slows-p2p",
    }


# --- names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("id_", [*knowledge.load_gpus(), *(entry["id"] for entry in TABLES["bridges"]["on_board"])])
def test_names_of_pci_ids_lead_back_to_the_id(id_):
    """Where pci.ids has a name for it at all: some on-board switches have none there, and lspci prints their ids."""
    vendor = next(entry for entry in TABLES["pci_names"]["vendor"] if entry["id"] == id_[:4])
    names = [name for name, devices in vendor["devices"].items() if id_[5:] in devices.split()]
    assert names or knowledge.on_board_role(id_)
    for name in names:
        assert id_ in pci_names.ids_named(id_[:4], name)


def test_vendors_and_classes_by_their_names():
    text = "Advanced Micro Devices, Inc. [AMD/ATI] Navi 31 [Radeon Pro W7900]"
    assert pci_names.vendors_named(text) == (("1002",), "Navi 31 [Radeon Pro W7900]")
    assert pci_names.vendors_named("Red Hat, Inc. QEMU PCIe Root port")[0] == ("1af4", "1b36")
    assert pci_names.vendors_named("Nobody Inc. Thing") == ((), "Nobody Inc. Thing")
    assert pci_names.vendors_named("") == ((), "")
    codes = {"VGA compatible controller": 0x0300, "3D controller": 0x0302, "Display controller": 0x0380, "PCI bridge": 0x0604}
    codes |= {"Processing accelerators": 0x1200, "Infiniband controller": 0x0207, "Non-Volatile memory controller": 0x0108}
    assert {name: pci_names.class_named(name) for name in codes} == codes


def test_one_of_several_ids_stands_for_the_others_only_where_the_tables_agree():
    assert pci_names.tables_agree(("1002:738c", "1002:738e"))
    assert pci_names.tables_agree(("1022:57a3", "1022:57a4")), "both are ports of one chipset"
    assert not pci_names.tables_agree(("1022:1470", "1022:1471")), "the two ports of a switch"
    assert not pci_names.tables_agree(("10de:2501", "10de:2503")), "one is in no table"
    assert not pci_names.tables_agree(("10de:ffff", "10de:fffe")), "nor is either of these"

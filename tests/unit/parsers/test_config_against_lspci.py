"""Our decoder and lspci's, an independent one, over the same trees: random ones, and those of the cases."""

from __future__ import annotations

import itertools
import os
import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from hostdoctor.facts.pci import ConfigFacts, Express
from hostdoctor.facts.unknown import Unknown
from hostdoctor.parsers.config_space import read_config

LSPCI = shutil.which("lspci", path=os.environ.get("PATH", "") + ":/usr/bin:/usr/sbin:/sbin")
CASES = Path(__file__).resolve().parents[2] / "cases"
TREES = sorted({path.parents[5] for path in CASES.glob("*/input/sys/bus/pci/devices/*/config")})

pytestmark = pytest.mark.skipif(LSPCI is None, reason="lspci is not installed")

UNITS = {"MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40, "PB": 1 << 50, "EB": 1 << 60}
ACS_BITS = ("SrcValid", "TransBlk", "ReqRedir", "CmpltRedir", "UpstreamFwd", "EgressCtrl", "DirectTrans")
ASPM = {"Disabled": 0, "L0s Enabled": 1, "L1 Enabled": 2, "L0s L1 Enabled": 3}
# lspci leaves these out where they have no meaning for the type of port, or for functions other than the first.
NOT_ALWAYS_SHOWN = {"target", "Routing", "ReqEn", "EgressBlck", "32bit", "64bit", "128bitCAS"}


def run_lspci(devices):
    # Without -A, lspci silently shows this machine where it does not like the tree.
    command = [LSPCI, "-A", "linux-sysfs", "-O", f"sysfs.path={devices.parent}", "-D", "-n", "-vvv"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60, env={"LC_ALL": "C"})
    blocks = {}
    for block in done.stdout.split("\n\n"):
        if block.strip():
            address, _, body = block.strip().partition(" ")
            blocks[address] = body
    return blocks


def number(pattern, text, found, name, convert=int):
    match = re.search(pattern, text)
    if match:
        found[name] = convert(match.group(1))


def speed(text):
    return None if text == "unknown" else float(text.removesuffix("GT/s"))


def size(text):
    return int(text[:-2]) * UNITS[text[-2:]]


def flags(text):
    return {name: sign == "+" for name, sign in re.findall(r"(\w+)([+-])", text)}


def bits(text):
    return sum(1 << position for position, name in enumerate(ACS_BITS) if flags(text).get(name))


def what_lspci_says(block):
    found = {}
    number(r"DevCap:\tMaxPayload (\d+) bytes", block, found, "mps_supported")
    number(r"\t\t\tMaxPayload (\d+) bytes, MaxReadReq", block, found, "mps")
    number(r"MaxReadReq (\d+) bytes", block, found, "mrrs")
    number(r"LnkCap:\t.*Speed ([^,]+),", block, found, "max_speed", speed)
    number(r"LnkCap:\t.*Width x(\d+)", block, found, "max_width")
    number(r"LnkSta:\tSpeed ([^,( ]+)", block, found, "speed", speed)
    number(r"LnkSta:\t.*Width x(\d+)", block, found, "width")
    number(r"TrErr. Train(.)", block, found, "training", "+".__eq__)
    number(r"LnkCtl:\tASPM ([^;]+);", block, found, "aspm", ASPM.get)
    number(r"LnkCtl2: Target Link Speed: ([^,]+),", block, found, "target", speed)
    number(r"ACSCap:\t(.*)", block, found, "acs_capability", bits)
    number(r"ACSCtl:\t(.*)", block, found, "acs_control", bits)
    number(r"Total VFs: (\d+)", block, found, "total_vfs")
    number(r"Number of VFs: (\d+)", block, found, "num_vfs")
    number(r"DpcSta:\tTrigger(.)", block, found, "dpc", "+".__eq__)
    number(r"DpcSta:\tTrigger. Reason:(\w+)", block, found, "dpc_reason", lambda text: int(text, 16))
    number(r"Bus: primary=\w+, secondary=(\w+)", block, found, "secondary", lambda text: int(text, 16))
    number(r"subordinate=(\w+)", block, found, "subordinate", lambda text: int(text, 16))
    for names in re.findall(r"AtomicOps(?:Cap|Ctl): (.*)", block):
        found |= flags(names)
    physical = re.search(r"Capabilities: \[\w+ v1\] Physical Resizable BAR\n((?:\t\tBAR .*\n?)*)", block)
    if physical:
        found["resizable"] = tuple(
            (int(bar), size(now), tuple(size(word) for word in sizes.split()))
            for bar, now, sizes in re.findall(r"BAR (\d): current size: (\w+), supported: (.*)", physical.group(1))
        )
    return found


def what_we_say(facts):
    assert isinstance(facts, ConfigFacts)
    found = {}
    if facts.secondary_bus is not None:
        found |= {"secondary": facts.secondary_bus, "subordinate": facts.subordinate_bus}
    if isinstance(facts.express, Express):
        found |= of_express(facts.express)
    if facts.acs is not None and not isinstance(facts.acs, Unknown):
        found |= {"acs_capability": facts.acs.capability & 0x7F, "acs_control": facts.acs.control & 0x7F}
    if facts.sriov is not None and not isinstance(facts.sriov, Unknown):
        found |= {"total_vfs": facts.sriov.total_vfs, "num_vfs": facts.sriov.num_vfs}
    if facts.dpc is not None and not isinstance(facts.dpc, Unknown):
        found |= {"dpc": facts.dpc.triggered, "dpc_reason": facts.dpc.reason}
    if facts.resizable_bars and not isinstance(facts.resizable_bars, Unknown):
        found["resizable"] = tuple((bar.bar_index, bar.size_bytes, bar.sizes_bytes) for bar in facts.resizable_bars)
    return found


def of_express(express):
    found = {
        "mps_supported": express.max_payload_supported_bytes,
        "mps": express.max_payload_bytes,
        "mrrs": express.max_read_request_bytes,
        "Routing": express.atomic_routing,
        "32bit": express.atomic_32_completer,
        "64bit": express.atomic_64_completer,
        "128bitCAS": express.atomic_128_completer,
        "ReqEn": express.atomic_requester_enabled,
        "EgressBlck": express.atomic_egress_blocked,
    }
    if express.port_type not in (9, 10):
        found |= {
            "max_speed": known(express.max_speed_gts),
            "max_width": express.max_width,
            "speed": known(express.current_speed_gts),
            "width": express.current_width,
            "training": express.link_training,
            "aspm": express.aspm_control,
            "target": known(express.target_speed_gts),
        }
    return found


def known(value):
    return None if isinstance(value, Unknown) else value


def compare(blocks, spaces):
    assert blocks.keys() == spaces.keys()
    for address, space in spaces.items():
        theirs = what_lspci_says(blocks[address])
        facts = read_config(lambda offset, length, space=space: space[offset : offset + length])
        ours = what_we_say(facts)
        for name in NOT_ALWAYS_SHOWN - theirs.keys():
            ours.pop(name, None)
        assert ours == theirs, f"{address}:\n{blocks[address]}"


def write_tree(root, spaces):
    devices = root / "sys/bus/pci/devices"
    devices.mkdir(parents=True)
    for address, space in spaces.items():
        folder = root / "sys/devices/pci0000:00" / address
        folder.mkdir(parents=True)
        (folder / "config").write_bytes(space)
        for name, offset in (("vendor", 0), ("device", 2)):
            (folder / name).write_text(f"0x{int.from_bytes(space[offset : offset + 2], 'little'):04x}\n")
        (folder / "class").write_text(f"0x{int.from_bytes(space[9:12], 'little'):06x}\n")
        (folder / "resource").write_text(f"{' '.join(['0x' + '0' * 16] * 3)}\n" * 13)
        (folder / "irq").write_text("0\n")
        (devices / address).symlink_to(f"../../../devices/pci0000:00/{address}")
    return devices


def random_space(config_space, chance):
    """A config space with a PCI Express capability and whatever else chance adds."""
    port_type = chance.choice([0, 1, 4, 5, 6, 7, 9, 10])
    bridge = port_type in (4, 5, 6, 7)
    space = config_space(header_type=int(bridge))
    if bridge:
        space.put(0x0A, "H", 0x0604).buses(0, chance.randrange(1, 9), chance.randrange(9, 255))
    else:
        space.put(0x0A, "H", chance.choice([0x0300, 0x0302, 0x0380, 0x1200, 0x0200]))
    places = chance.sample([0x40, 0x50, 0xC8, 0xD8], 3)
    for number_of, place in zip(chance.sample([0x01, 0x0D], chance.randrange(3)), places, strict=False):
        space.capability(number_of, place, bytes(6))
    space.express(
        position=0x60,
        version=chance.choice([1, 2, 2, 2]),
        port_type=port_type,
        slot=int(port_type in (4, 6)),
        mps_supported=chance.randrange(6),
        mps=chance.randrange(6),
        mrrs=chance.randrange(6),
        max_speed=chance.randrange(8),
        max_width=chance.choice([0, 1, 2, 4, 8, 12, 16, 32]),
        speed=chance.randrange(8),
        width=chance.choice([0, 1, 2, 4, 8, 16, 32]),
        target=chance.randrange(1, 7),
        aspm=chance.randrange(4),
        training=chance.randrange(2),
        devcap2=chance.getrandbits(4) << 6,
        devctl2=chance.getrandbits(2) << 6,
    )
    add_extended(space, chance)
    return space.content()


def add_extended(space, chance):
    space.extended(0x0B, 0x100, bytes(12))
    kinds = ["acs", "aer", "sriov", "dpc", "rebar", "dsn", "ltr"]
    places = chance.sample(range(0x140, 0x1000, 0x40), len(kinds))
    for kind, place in zip(chance.sample(kinds, chance.randrange(len(kinds) + 1)), places, strict=False):
        if kind == "acs":
            space.acs(place, chance.getrandbits(7), chance.getrandbits(7))
        elif kind == "aer":
            space.aer(place, chance.getrandbits(26), chance.getrandbits(16))
        elif kind == "sriov":
            space.sriov(place, chance.randrange(256), chance.randrange(256))
        elif kind == "dpc":
            space.dpc(place, chance.getrandbits(3))
        elif kind == "rebar":
            bars = chance.sample(range(6), chance.randrange(1, 7))
            space.resizable_bars(place, *((bar, chance.randrange(44), 1 + chance.getrandbits(43)) for bar in bars))
        else:
            space.extended({"dsn": 0x03, "ltr": 0x18}[kind], place, bytes(8))
    if chance.random() < 0.2:
        space.extended_loop_back(0x100)


@pytest.mark.parametrize("seed", range(8))
def test_random_config_spaces(tmp_path, config_space, seed):
    chance = random.Random(seed)
    addresses = [f"0000:{bus:02x}:{device:02x}.0" for bus, device in itertools.product(range(2), range(32))]
    spaces = {address: random_space(config_space, chance) for address in addresses}
    compare(run_lspci(write_tree(tmp_path, spaces)), spaces)


@pytest.mark.parametrize("tree", TREES, ids=lambda tree: tree.parent.name)
def test_functions_of_the_cases(tree):
    devices = tree / "sys/bus/pci/devices"
    spaces = {path.name: (path / "config").read_bytes() for path in devices.iterdir() if (path / "config").exists()}
    blocks = run_lspci(devices)
    whole = {address: space for address, space in spaces.items() if len(space) > 64}
    if not whole:
        pytest.skip("this host was looked at without root")
    compare({address: block for address, block in blocks.items() if address in whole}, whole)
